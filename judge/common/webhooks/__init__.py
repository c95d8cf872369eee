"""Calls to addresses that people name: how they are signed, where they may go, when they are tried again."""
