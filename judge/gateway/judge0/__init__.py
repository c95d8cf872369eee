"""Judge0's REST API beside our own, for the clients that speak it (docs/judge0.md)."""
