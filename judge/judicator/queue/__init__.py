"""The queue: waiting tasks, their order, and the share of each user."""
