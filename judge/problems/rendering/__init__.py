"""Statements made ready for pages: strangers' Markdown and HTML made harmless.

`fragment.main` is run in a sandbox of an executor, once for each content of a problem
(judge.executor.slot.packaged.rendering). The modules import the standard library, judge.common.errors,
judge.common.text and the libraries that the executor puts into the sandbox with them.
"""
