"""An executor's disk: the test data of problems, and results that no judicator has taken yet."""
