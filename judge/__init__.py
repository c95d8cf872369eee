"""Judge: an online-judge cluster for bare metal."""

__version__ = "0.1.0"
