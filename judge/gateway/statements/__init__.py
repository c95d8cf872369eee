"""Statements of problems as pages show them: strangers' Markdown, HTML and images, made harmless."""
