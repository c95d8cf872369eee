"""The judicator: hands out tasks, takes in results, and sweeps what dead executors left."""
