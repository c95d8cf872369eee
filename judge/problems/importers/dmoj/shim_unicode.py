"""The names that checkers for DMOJ's judge import as dmoj.utils.unicode. Goes into converted packages."""


def utf8text(value: bytes | str | None, errors: str = "strict") -> str | None:
    """Text, whatever it was."""
    return value.decode("utf-8", errors) if isinstance(value, bytes) else value


def utf8bytes(value: bytes | str | None) -> bytes | None:
    """Bytes, whatever it was."""
    return value.encode("utf-8") if isinstance(value, str) else value
