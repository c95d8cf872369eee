"""The controller's record of removed hosts, beside its authority: whose old certificates must never count as good.

`removed.yml`: by name, the moment before which its certificates were issued, whether it has got new ones since, and
whether a replacement of its machine has begun and not ended, or has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import yaml
from cryptography import x509

from judge.common import clock, files
from judge.common.pki.authority import CaError
from judge.common.pki.refused import reason

FILE = "removed.yml"
_SLACK = 3600.0  # the authority dates certificates an hour back, for hosts whose clocks are behind


@dataclass(frozen=True)
class RemovedName:
    """One name: seconds since 1970, and whether a host of this name was let in again."""

    before: float
    back: bool = False
    replacing: bool = False
    replaced: bool = False


class Removed:
    """The record in one directory; missing means that nobody was removed."""

    def __init__(
        self,
        directory: Path,
        read: Callable[[Path], bytes] = Path.read_bytes,
        seal: Callable[[Path, str], bytes] = lambda _, text: text.encode(),
    ) -> None:
        """`read` and `seal`: how a file is read, and what takes its place; for what ansible-vault has encrypted."""
        self._path = directory / FILE
        self._bytes, self._seal = read, seal

    def read(self) -> dict[str, RemovedName]:
        """Every entry by name; CaError when the file cannot be understood."""
        try:
            document = yaml.safe_load(self._bytes(self._path).decode()) if self._path.exists() else {}
            return {
                str(name): RemovedName(
                    float(entry["before"]),
                    bool(entry["back"]),
                    bool(entry.get("replacing")),
                    bool(entry.get("replaced")),
                )
                for name, entry in (document or {}).items()
            }
        except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError):
            msg = f"{self._path} is no record of removed hosts; restore it from a backup of the secrets directory"
            raise CaError(msg) from None

    def note(self, name: str, *, replacing: bool = False) -> float:
        """Record that everything issued to this name until now is refused; returns the moment to tell the cluster.

        `replacing`: another machine is to take its place, until settled() says that it has.
        """
        before = clock.wall().timestamp() - _SLACK
        self._write({**self.read(), name: RemovedName(before, replacing=replacing)})
        return before

    def settled(self, name: str) -> bool:
        """Record that a replacement has ended: the machine of this name is the new one. Whether one had begun."""
        entries = self.read()
        if name not in entries or not entries[name].replacing:
            return False
        self._write({**entries, name: replace(entries[name], replacing=False, replaced=True)})
        return True

    def returned(self, name: str) -> None:
        """Record that the name has got new certificates, if it was removed."""
        entries = self.read()
        if name in entries and not entries[name].back:
            self._write({**entries, name: replace(entries[name], back=True)})

    def is_old(self, name: str, pem: str) -> bool:
        """Return whether this certificate (PEM) was issued to its host before that was removed."""
        entries = self.read()
        if not pem or name not in entries:
            return False
        try:
            issued = x509.load_pem_x509_certificate(pem.encode()).not_valid_before_utc.timestamp()
        except ValueError:
            return False
        return bool(reason({name: entries[name].before}, name, issued))

    def _write(self, entries: dict[str, RemovedName]) -> None:
        plain = {name: asdict(entry) for name, entry in sorted(entries.items())}
        text = "# Hosts that were removed; what was issued to them before is refused. Keep it with the authority.\n"
        content = self._seal(self._path, text + yaml.safe_dump(plain, sort_keys=False))
        files.replace(self._path, content, durable=True)
