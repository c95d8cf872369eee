"""Backups of a cluster: encrypted, content-addressed, incremental; and restores (docs/playbooks/backup.md).

Nothing here needs a daemon of Judge: a backup is read from the database, restored into it, and checked without it.
"""
