"""What stands before uWSGI: it has patience with strangers, and gives each a turn."""
