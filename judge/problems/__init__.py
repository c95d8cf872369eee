"""Problem packages, validators and content-addressed data."""
