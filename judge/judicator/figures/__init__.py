"""What the cluster has done over time, for people to look at: minutes of its work, the starts of its executors."""
