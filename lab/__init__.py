"""Bare Debian hosts on one machine, for tests and for trying the deployment: docs/lab.md."""
