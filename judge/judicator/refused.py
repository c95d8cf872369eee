"""The hosts whose certificates this judicator refuses: those that were removed (judge/common/pki/refused.py).

The list is in the database and not only in etcd because judicators serve without etcd, and not without a database.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from pymongo.errors import PyMongoError

from judge.common.errors import ForbiddenError
from judge.common.pki.refused import DOCUMENT, reason
from judge.judicator.database import Database
from judge.judicator.documents import MetaDocument
from judge.rpc.server import Peer

_LOOK: Final = 1.0  # seconds between two looks


class Refused:
    """The list, at most a second or so old while the database answers; without one the last list holds."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._names: Mapping[str, float] = {}
        self._whole = False

    async def read(self) -> None:
        """Look once; PyMongoError."""
        names = _names(await self._db.meta.find_one({"_id": DOCUMENT}))
        if not self._whole or not self._names.items() <= names.items():
            # A primary that has just been elected may answer with an older list, which would admit a removed host.
            names = _names(await self._db.latest(self._db.meta, {"_id": DOCUMENT}))
        self._names, self._whole = names, True

    async def run(self) -> None:
        """Keep the list up to date until cancelled."""
        while True:
            with contextlib.suppress(PyMongoError):
                await self.read()
            await asyncio.sleep(_LOOK)

    def welcome(self, peer: Peer) -> None:
        """ForbiddenError for a certificate that was issued to a host before it was removed; the server asks this."""
        if why := reason(self._names, peer.name, peer.issued):
            raise ForbiddenError(why)


def _names(doc: MetaDocument | None) -> dict[str, float]:
    return {} if doc is None else {refusal["name"]: refusal["before"] for refusal in doc["names"]}
