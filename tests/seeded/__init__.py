"""Bugs of one line each, which the tests must notice."""
