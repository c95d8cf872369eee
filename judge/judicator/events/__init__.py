"""What happens to submissions, told to others: calls of webhooks by the leader, changes for who listens.

How no call is lost, and in which order they come: docs/events.md.
"""
