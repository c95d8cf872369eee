"""The watchdog of one host: starts services in order, restarts what fails, stops them in reverse."""
