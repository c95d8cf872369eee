"""The process in front of uWSGI: it waits for slow clients, and gives each client a turn."""
