"""News of submissions for others: the leader calls webhooks, each judicator tells listeners of changes.

How no call is lost, and in which order they come: docs/events.md.
"""
