"""A slot: the process that judges one submission at a time. judge.executor.channel is its border."""
