"""judgectl, the command line for people."""
