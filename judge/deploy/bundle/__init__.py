"""The offline bundle: everything that hosts need, fetched once into one directory (docs/bundle.md)."""
