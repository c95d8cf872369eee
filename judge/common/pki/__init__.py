"""The certificate authority: the cluster's on the controller, and the embedded cluster's own."""
