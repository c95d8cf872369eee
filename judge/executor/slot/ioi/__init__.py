"""IOI tasks in a slot: files for input and output, managers, several processes (docs/problems-programs.md)."""
