"""The gateway: HTTP API and web pages, served by uWSGI."""
