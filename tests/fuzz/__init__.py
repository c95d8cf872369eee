"""Fuzzing of everything that reads what strangers write: `python -m tests.fuzz --minutes N` (docs/fuzzing.md)."""
