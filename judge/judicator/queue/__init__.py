"""What waits, in which order, and what each user has of it."""
