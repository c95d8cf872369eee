"""People: their accounts, tokens and passwords, how they come in, and how often they may do what."""
