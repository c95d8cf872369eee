"""Judging finished submissions again."""
