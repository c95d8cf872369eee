"""Benchmarks: every figure is a ratio to the bare commands, measured in the same run."""
