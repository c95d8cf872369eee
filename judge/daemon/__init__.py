"""What every daemon has: its start and end, log, metrics, spans, child processes and messages to systemd."""
