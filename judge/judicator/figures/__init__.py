"""The work of the cluster over time, for people: its minutes, and the starts of its executors."""
