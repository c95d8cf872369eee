"""Statements made ready for pages: strangers' Markdown and HTML made harmless.

`fragment.render` is run by `program.py` in a sandbox of an executor, once for each content of a problem
(judge.executor.slot.packaged.rendering). The modules import nothing but the standard library, judge.errors, judge.text
and what `rendering` brings into the sandbox with them.
"""
