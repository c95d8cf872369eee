"""Judge: an online-judge cluster for bare metal."""

__version__ = "1.0.0"
