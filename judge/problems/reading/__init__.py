"""Reading a package: versions and dialects of the format, its settings files, and what is wrong with it."""
