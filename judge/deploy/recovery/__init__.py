"""The way back from one judicator when the majority's disks are gone (docs/playbooks/recover.md).

No daemon does any of this by itself: what only the lost members had is given up here, and a person decides that.
"""
