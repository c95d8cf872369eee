"""A whole cluster on one machine (`judge up`)."""
