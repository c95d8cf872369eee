"""The calls of Judge0's API, beside those of our own (docs/judge0.md)."""
