"""The process before uWSGI: it has patience with strangers, and gives each a turn."""
