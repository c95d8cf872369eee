"""The leader: elected among the judicators, it looks for silent executors and removes what is old."""
