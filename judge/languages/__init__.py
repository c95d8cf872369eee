"""The programming languages: their table, and which of them a machine has."""
