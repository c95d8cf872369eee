"""What Judge0's API says of submissions: its fields, languages, statuses and sentences (docs/judge0.md)."""
