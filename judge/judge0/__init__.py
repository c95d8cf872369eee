"""Submissions as Judge0's API has them: fields, languages, statuses and sentences (docs/judge0.md)."""
