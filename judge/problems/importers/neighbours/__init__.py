"""Settings and layouts of other systems beside a directory of tests, each read as far as it says what is meant.

Such a package stays a directory of tests (directory.py); these modules say which of its files are tests, what limits
hold, and which points there are.
"""
