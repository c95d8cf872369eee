"""Reads programs in Python without running them, as importers do with those of strangers."""

from __future__ import annotations

import ast
import warnings


def program(text: str) -> ast.Module | None:
    """The tree of a program; None for what is no program of Python 3."""
    tree = _tree(text, "exec")
    return tree if isinstance(tree, ast.Module) else None


def expression(text: str) -> ast.expr | None:
    tree = _tree(text.strip(), "eval")
    return tree.body if isinstance(tree, ast.Expression) else None


def _tree(text: str, mode: str) -> ast.AST | None:
    """The tree without the compiler's warnings, which are the author's business; None for what does not parse."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text, mode=mode)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
