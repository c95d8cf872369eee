"""The problems collection: each name's current manifest; older manifests stay while tasks refer to them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pydantic import ValidationError
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from judge.common import clock, failpoint
from judge.common.errors import FieldError, ForbiddenError, JudgeError, NotFoundError, PackageError, TooLargeError
from judge.common.text import suggestion
from judge.judicator.batching import Batcher
from judge.judicator.blobs import Blobs, unmark
from judge.judicator.database import Database
from judge.judicator.documents import ManifestDocument, ProblemDocument, iso
from judge.model.base import first_fault
from judge.model.deleting import ProblemName
from judge.model.messages import Empty
from judge.model.problem import (
    FileIndex,
    ProblemImport,
    ProblemInfo,
    ProblemManifest,
    ProblemsReply,
    Verification,
    VerificationReply,
)
from judge.model.statements import PagesRequest
from judge.model.visibility import EVERYONE, ProblemChange, Visibility
from judge.mongodb.store import Bson
from judge.problems.statements import text_of
from judge.rpc.faults import check_values
from judge.rpc.server import Peer

log = logging.getLogger(__name__)

_MANIFEST_BYTES = 8 * 1024**2
# Everybody reads the list of all problems, and each page to submit on has it.
_LISTED_BYTES = 16 * 1024
# Each submission to a problem reads these names.
_INCLUDE_CHARACTERS = 64 * 1024
# Values in the JSON of a manifest; 10,000 tests with files, arguments and subtasks have some 200,000.
_MANIFEST_VALUES = 500_000
# Contents that are remembered while submissions name them: a package is verified with some dozens of them.
_UPLOADED = 64
# A hint looks at so many problems, of which it reads who sees them.
_HINTS = 500
_SEEN: Bson = {"visibility": 1, "owners": 1}
# Problems that are read by one command.
_READS = 100


class Problems:
    def __init__(self, database: Database, blobs: Blobs, groups: Callable[[str], Awaitable[frozenset[str]]]) -> None:
        """`groups` has those that a user is in."""
        self.render: Callable[[PagesRequest], Awaitable[object]]
        self._groups = groups
        self._db = database
        self._blobs = blobs
        self._uploaded: OrderedDict[str, ProblemDocument] = OrderedDict()
        self._reads: Batcher[str, ProblemDocument | None] = Batcher(self._read, _READS)

    async def get(self, name: str) -> ProblemDocument:
        """The document of a problem: hash, title, source_bytes …; NotFoundError."""
        doc = await self._reads.ask(name)
        if doc is None:
            raise _unknown(name)
        return doc

    async def get_visible(self, name: str, user: str, role: str) -> ProblemDocument:
        """The same for a user of this role; a problem that is hidden from the user is answered as one that is not."""
        caller = await self._caller(user, role)
        doc = await self._reads.ask(name)
        if doc is None or not visible_to(doc, caller, clock.wall()):
            raise _unknown(name, await self._visible_names(caller))
        return doc

    async def _visible_names(self, caller: Caller) -> list[str]:
        """The names of the problems that a caller sees, for a hint: of some hundred problems at most."""
        docs, now = self._db.problems.find({}, _SEEN, sort=[("_id", 1)], limit=_HINTS), clock.wall()
        return [doc["_id"] async for doc in docs if visible_to(doc, caller, now)]

    async def _caller(self, user: str, role: str) -> Caller:
        return Caller(user, role in {"judge", "admin"}, await self._groups(user))

    async def _read(self, names: Sequence[str]) -> list[ProblemDocument | None]:
        return await self._db.find_all(self._db.problems, names)

    async def all(self, _: Empty, peer: Peer) -> ProblemsReply:
        caller, now = await self._caller(peer.by.actor, peer.by.role), clock.wall()
        docs = self._db.problems.find({}, {"verification": 0, "include": 0})
        infos = [_info(doc, caller) async for doc in docs if visible_to(doc, caller, now)]
        return ProblemsReply(problems=sorted(infos, key=lambda info: (info.order, info.name)))

    async def change(self, request: ProblemChange, peer: Peer) -> ProblemInfo:
        """Change who sees a problem, its owners, tags, difficulty and order; NotFoundError, ForbiddenError."""
        caller = await self._caller(peer.by.actor, peer.by.role)
        doc = await self.get_visible(request.name, peer.by.actor, peer.by.role)
        if not may_change(doc, caller):
            raise ForbiddenError(f"problem '{request.name}' is not yours; its owners and judges change who sees it")
        if request.owners is not None and not caller.judges:
            raise ForbiddenError("owners: are set by judges; leave the field out")
        fields: Bson = request.model_dump(mode="json", exclude_none=True, exclude={"name"})
        if fields:
            same = {"_id": request.name} if caller.judges else {"_id": request.name, "owners": caller.user}
            changed = await self._db.problems.find_one_and_update(
                same, {"$set": fields}, return_document=ReturnDocument.AFTER
            )
            if changed is None:
                raise _unknown(request.name)
            doc = changed
        log.info("problem '%s' changed by %s: %s", request.name, caller.user, ", ".join(fields) or "nothing")
        return _info(doc, caller)

    async def verified(self, verification: Verification) -> Empty:
        """Store the outcome of verifying a problem's present content; NotFoundError when it has another by now."""
        document = verification.model_copy(update={"verified": iso(clock.wall())}).model_dump(mode="json")
        result = await self._db.problems.update_one(
            {"_id": verification.problem, "hash": verification.hash}, {"$set": {"verification": document}}
        )
        if not result.matched_count:
            raise NotFoundError(f"problem '{verification.problem}' has another content by now; verify it again")
        return Empty()

    async def verification(self, request: ProblemName) -> VerificationReply:
        """The verification of a problem's present content, if there was one; NotFoundError: no such problem."""
        stored = (await self.get(request.name)).get("verification")
        return VerificationReply(verification=None if stored is None else Verification.stored(stored))

    async def at(self, sha: str) -> ProblemDocument:
        """The document of a problem at an uploaded content, whatever its name stands for now; errors as `register`.

        The manifest and its blobs stay from then on while a task refers to them, and for retention's grace before.
        """
        problem = self._uploaded.get(sha)
        if problem is not None and await self._db.find(self._db.manifests, {"_id": sha}, {"_id": 1}) is not None:
            await unmark(self._db.manifests, {"_id": sha})
            # Retention may have been about to remove it; what it removed is checked and written again.
            if await self._db.find(self._db.manifests, {"_id": sha}, {"_id": 1}) is not None:
                return problem
        problem = self._uploaded[sha] = (await self._store_manifest(sha))[0]
        self._uploaded.move_to_end(sha)
        while len(self._uploaded) > _UPLOADED:
            self._uploaded.popitem(last=False)
        return problem

    async def register(self, request: ProblemImport) -> ProblemInfo:
        """Make an uploaded manifest the current one of its name. Repeating it changes nothing.

        NotFoundError: no such manifest; PackageError: it cannot be judged; FieldError: blobs it names are missing.
        """
        doc, manifest = await self._store_manifest(request.manifest)
        name = doc.pop("_id")
        if request.labels is not None:
            doc["labels"] = request.labels.model_dump()
        doc = await self._make_current(name, doc, request.visible)
        if any(text_of(statement) is not None for statement in manifest.statements):
            # Else they are rendered on their first view.
            with contextlib.suppress(JudgeError):
                await self.render(PagesRequest(problem=name, hash=doc["hash"]))
        log.info("problem '%s' imported: %d tests, manifest %s", name, doc["tests"], request.manifest)
        return _info(doc, Caller("", judges=True))

    async def _store_manifest(self, sha: str) -> tuple[ProblemDocument, ProblemManifest]:
        """Check an uploaded manifest and write down what it refers to; the document of its problem, and itself."""
        size = await self._blobs.size(sha)
        if size is None:
            raise NotFoundError(f"there is no blob {sha}; upload the manifest first")
        if size > _MANIFEST_BYTES:
            raise TooLargeError(f"the manifest has {size} bytes; the limit is {_MANIFEST_BYTES}")
        manifest, needed = await asyncio.to_thread(_parse, await self._blobs.get(sha))
        await self._check_stored(manifest, needed)
        needed |= await self._files(manifest)
        now = clock.wall()
        doc = _document(manifest, sha, now)
        if len(_info(doc, Caller("")).model_dump_json()) > _LISTED_BYTES:
            raise PackageError(
                f"what lists show of problem '{manifest.name}' has more than {_LISTED_BYTES} bytes; shorten its title, "
                "types and languages"
            )
        document: ManifestDocument = {"name": manifest.name, "blobs": sorted({sha, *needed}), "imported": now}
        before = await self._db.manifests.find_one({"_id": sha}, {"pages": 1, "rendering": 1})
        if before is not None and "pages" in before and not await self._blobs.missing({before["pages"]}):
            document |= {"pages": before["pages"], "rendering": before["rendering"]}
            document["blobs"].append(before["pages"])
        failpoint.hit("import-checked")
        await self._db.manifests.replace_one({"_id": sha}, document, upsert=True)
        # Retention may have removed a blob since the first look; from here on it sees that this manifest refers to it.
        await self._check_stored(manifest, {sha, *needed})
        return doc, manifest

    async def _check_stored(self, manifest: ProblemManifest, needed: set[str]) -> None:
        """FieldError unless these blobs are stored."""
        missing = await self._blobs.missing(needed)
        if missing:
            tests = (test.name for test in manifest.tests if test.input in missing or test.answer in missing)
            first = next((f"of test '{name}'" for name in tests), "of a program or statement")
            raise FieldError("manifest", f"{len(missing)} of {len(needed)} blobs are not uploaded, first {first}")

    async def _make_current(self, name: str, doc: ProblemDocument, visible: bool | None) -> ProblemDocument:
        """Make `doc` what the name stands for. The manifest before it gets its whole grace, for adds under way."""
        if visible is not None:
            doc = {**doc, "visibility": Visibility(everyone=visible).model_dump(mode="json")}
        while True:
            before = await self._db.latest(self._db.problems, {"_id": name}, {"hash": 1})
            if before is not None:
                await unmark(self._db.manifests, {"_id": before["hash"]})
                same = {"_id": name, "hash": before["hash"]}
                # The same content again is as verified as it was.
                update: Bson = {"$set": doc}
                if before["hash"] != doc["hash"]:
                    update["$unset"] = {"verification": ""}
                after = await self._db.problems.find_one_and_update(same, update, return_document=ReturnDocument.AFTER)
                if after is not None:
                    return after
            else:
                new: ProblemDocument = {"_id": name, "visibility": Visibility().model_dump(mode="json"), **doc}
                with contextlib.suppress(DuplicateKeyError):
                    await self._db.problems.insert_one(new)
                    return new

    async def _files(self, manifest: ProblemManifest) -> set[str]:
        """The blobs of the whole package, which export needs: the index and what it lists, all uploaded."""
        if manifest.package is None:
            return set()
        size = await self._blobs.size(manifest.package)
        if size is None or size > _MANIFEST_BYTES:
            raise FieldError("manifest", "the index of the package's files is not uploaded, or too large")
        try:
            files = await asyncio.to_thread(_indexed, await self._blobs.get(manifest.package))
        except ValidationError:
            raise PackageError("the index of the package's files is none; import the package again") from None
        missing = await self._blobs.missing(files)
        if missing:
            raise FieldError("manifest", f"{len(missing)} of the package's {len(files)} files are not uploaded")
        return {manifest.package, *files}


def _parse(data: bytes) -> tuple[ProblemManifest, set[str]]:
    """A manifest, and every blob that it names. In a thread: it may have thousands of tests."""
    check_values(data, _MANIFEST_VALUES, "the manifest")
    try:
        manifest = ProblemManifest.model_validate_json(data)
    except ValidationError as exc:
        fault = first_fault(exc)
        raise PackageError(
            f"{fault.field or 'the manifest'}: {fault.text}; import the package again with `judgectl problem import`"
        ) from None
    if not manifest.tests:
        raise PackageError(f"problem '{manifest.name}' has no tests; put some under data/sample or data/secret")
    name, times = Counter(test.name for test in manifest.tests).most_common(1)[0]
    if times > 1:
        raise PackageError(f"problem '{manifest.name}' has two tests named '{name[:200]}'; give each its own name")
    return manifest, manifest.blobs() | manifest.shown()


def _document(manifest: ProblemManifest, sha: str, now: datetime.datetime) -> ProblemDocument:
    return {
        "_id": manifest.name,
        "hash": sha,
        "title": manifest.title,
        "tests": len(manifest.tests),
        "limits": manifest.limits.model_dump(),
        "source_bytes": manifest.source_bytes,
        "kind": manifest.kind,
        "languages": manifest.languages,
        "include": _include(manifest),
        "imported": now,
    }


def _include(manifest: ProblemManifest) -> list[Bson]:
    """The names of the files in include/ by folder. If they are too long, executors alone look at them."""
    folders: list[Bson] = [{"folder": folder, "names": sorted(files)} for folder, files in manifest.include.items()]
    return folders if len(str(folders)) <= _INCLUDE_CHARACTERS else []


def included_names(doc: ProblemDocument) -> dict[str, list[str]]:
    """The names of the package's files that go with submissions, by folder of include/; pure."""
    return {entry["folder"]: entry["names"] for entry in doc.get("include", [])}


def _indexed(data: bytes) -> set[str]:
    check_values(data, _MANIFEST_VALUES, "the index of the package's files")
    return set(FileIndex.model_validate_json(data).files.values())


@dataclass(frozen=True)
class Caller:
    """Somebody who asks for problems; `judges`: a judge or admin."""

    user: str
    judges: bool = False
    groups: frozenset[str] = frozenset()


def visibility_of(doc: ProblemDocument) -> Visibility:
    stored = doc.get("visibility")
    return EVERYONE if stored is None else Visibility.stored(stored)


def may_change(doc: ProblemDocument, caller: Caller) -> bool:
    return caller.judges or caller.user in doc.get("owners", [])


def visible_to(doc: ProblemDocument, caller: Caller, now: datetime.datetime) -> bool:
    """Return whether a caller sees a problem. All lists, submissions and changes use this function; pure."""
    if may_change(doc, caller):
        return True
    visibility = visibility_of(doc)
    begun = visibility.since is None or visibility.since <= now
    return begun and (visibility.everyone or not caller.groups.isdisjoint(visibility.groups))


def _unknown(name: str, names: Sequence[str] = ()) -> NotFoundError:
    return NotFoundError(
        f"there is no problem '{name}'; {suggestion(name, names, '`judgectl problem list` lists them')}"
    )


def _info(doc: ProblemDocument, caller: Caller) -> ProblemInfo:
    changes = may_change(doc, caller)
    return ProblemInfo.stored(
        {
            **doc.get("labels", {}),
            **doc,
            "name": doc["_id"],
            "visibility": visibility_of(doc) if changes else None,
            "owners": doc.get("owners", []) if changes else [],
            "imported": doc["imported"].isoformat(timespec="seconds").replace("+00:00", "Z"),
        }
    )
