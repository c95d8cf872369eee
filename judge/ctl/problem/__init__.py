"""`judgectl problem`: packages imported, checked, verified and exported."""
