"""The executor: one slot process per core compiles, runs and checks submissions."""
