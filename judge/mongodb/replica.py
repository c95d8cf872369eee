"""The mongod of this host as a member of its replica set: what it says of itself, and the acts that a step asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pymongo
from bson import Timestamp
from pymongo import errors

from judge.common import clock
from judge.common.errors import OutcomeUnknownError, RefusedError
from judge.config import MongodbConfig
from judge.mongodb import store
from judge.mongodb.planner import TAG, ElectionTimings, Observed, Registered, SetMember, Step, StepKind, next_config
from judge.mongodb.store import Bson, Client, translated

PRIMARY, SECONDARY = 1, 2
_NOT_INITIALISED = 94
_ALREADY_INITIALISED = 23
_NOT_A_MEMBER = 93
# Seconds of the primary's oplog that a member may lack and still count as in sync.
_IN_SYNC = 10
_CALL = 5.0
_CATCH_UP = 3
# Seconds for which a member that has stepped down does not stand for election again.
_BARRED = 60
_POLL = 0.05
_CLOSE = 0.1


def credentials(config: MongodbConfig) -> Bson:
    """The driver's options with which the daemon itself logs in: as a member, by the key file.

    The members' own user exists on each of them at all times, also before the first sync has brought any other.
    """
    if config.key_file is None:
        if config.username is not None:
            raise RefusedError(
                f"username '{config.username}' is set without 'key_file'; members of a replica set with users need one"
            )
        return {}
    key = first_key(store.read_file(config.key_file, "key_file").decode(errors="replace"))
    return {"username": "__system", "password": key, "authSource": "local", "authMechanism": "SCRAM-SHA-256"}


def first_key(text: str) -> str:
    """The key of a key file with which its members log in at others: the first, where it is a list of two in YAML."""
    if text.lstrip().startswith("- "):
        text = text.lstrip()[2:].partition("\n- ")[0]
    return "".join(text.split())


def of_the_primary(config: MongodbConfig, timeout: float = _CALL) -> Client:
    """A client of the replica set's primary, found through the own member, logged in as a member is.

    Called where users are looked after from outside of the daemon. `timeout` seconds bound each call.
    """
    return _client(config, [config.address], timeout, replicaSet=config.replica_set, readPreference="primary")


def _client(config: MongodbConfig, hosts: list[str], timeout: float, **options: Any) -> Client:
    milliseconds = int(timeout * 1000)
    with store.tls_options(config.tls) as tls:
        return pymongo.MongoClient(
            hosts,
            appname=f"judge-mongodb-{config.name}",
            serverSelectionTimeoutMS=milliseconds,
            connectTimeoutMS=milliseconds,
            timeoutMS=milliseconds,
            **options,
            **credentials(config),
            **tls,
        )


def _close(client: Client) -> None:
    """Close a client whose server may be gone: the driver would look for it to end its sessions there."""
    with pymongo.timeout(_CLOSE):
        client.close()


def incarnation_of(entry: Bson) -> str:
    """The incarnation that a member of a configuration document was added with; empty when somebody else added it."""
    return str(entry.get("tags", {}).get(TAG, ""))


def lag_of(status: Bson) -> float:
    """Seconds by which this member's last write is older than the newest of any, from replSetGetStatus."""
    writes = [member["optimeDate"] for member in status["members"] if "optimeDate" in member]
    own_writes = [member["optimeDate"] for member in status["members"] if member.get("self") and "optimeDate" in member]
    return float((max(writes) - own_writes[0]).total_seconds()) if own_writes else 0.0


@dataclass(frozen=True)
class Oplog:
    """The seconds of writes that an oplog holds, its bytes, and the bytes from which on mongod drops old entries."""

    seconds: float
    bytes: int
    most_bytes: int


class Replica:
    """The local mongod, spoken to directly whatever its state; used by one thread at a time."""

    def __init__(self, config: MongodbConfig, timeout: float = _CALL) -> None:
        """Nothing is sent yet; `timeout` seconds bound each call."""
        self._config = config
        self.client = _client(config, [config.address], timeout, directConnection=True)

    def close(self) -> None:
        _close(self.client)

    def _command(self, command: Bson) -> Bson:
        with translated():
            return self.client.admin.command(command)

    def _command_unless(self, codes: set[int], command: Bson) -> Bson | None:
        """The answer to a command, or None when it is refused with one of these codes."""
        with translated():
            try:
                return self.client.admin.command(command)
            except errors.OperationFailure as exc:
                if exc.code in codes:
                    return None
                raise

    def hello(self, timeout: float) -> Bson | None:
        """The answer to `hello`, or None when it does not serve within `timeout` seconds."""
        try:
            with pymongo.timeout(timeout):
                return self.client.admin.command("hello")
        except errors.PyMongoError:
            return None

    def configuration(self) -> Bson | None:
        """The replica set's configuration as this member has it, None before it has any."""
        answer = self._command_unless({_NOT_INITIALISED}, {"replSetGetConfig": 1})
        return None if answer is None else dict(answer["config"])

    def oplog(self) -> Oplog:
        """The oplog of this member, which has one as soon as it is in a replica set."""
        with translated():
            local = self.client.local
            ends = [local["oplog.rs"].find_one({}, {"ts": 1}, sort=[("$natural", way)]) for way in (1, -1)]
            sizes = local.command({"collStats": "oplog.rs"})
        times = [entry["ts"].time for entry in ends if entry is not None]
        return Oplog(float(times[-1] - times[0]) if times else 0.0, sizes["size"], sizes["maxSize"])

    def lag(self) -> float:
        """Seconds by which this member is behind the others."""
        return lag_of(self._command({"replSetGetStatus": 1}))

    def rsid(self) -> str | None:
        """The id of the replica set that this data belongs to, None before it has joined one."""
        document = self.configuration()
        return None if document is None else str(document["settings"]["replicaSetId"])

    def only_member(self) -> tuple[str, str] | None:
        """Address and incarnation of the only member of the configuration; None when there are others or none."""
        members = (self.configuration() or {}).get("members", [])
        return (str(members[0]["host"]), incarnation_of(members[0])) if len(members) == 1 else None

    def wait_primary(self, timeout: float = _CALL) -> bool:
        """Wait up to `timeout` seconds to become the primary; a set of one elects itself at once."""
        deadline = clock.Deadline(timeout)
        while True:
            hello = self.hello(timeout)
            if hello and hello.get("isWritablePrimary"):
                return True
            if deadline.over:
                return False
            clock.sleep(_POLL)

    def initiate(self, incarnation: str) -> None:
        """Make a replica set of this member alone; doing it again changes nothing (seed: init_replica_set)."""
        config = self._config
        document = {
            "_id": config.replica_set,
            "members": [{"_id": 0, "host": config.address, "tags": {TAG: incarnation}}],
            "writeConcernMajorityJournalDefault": True,
            "settings": {
                "electionTimeoutMillis": config.election_timeout_ms,
                "heartbeatIntervalMillis": config.heartbeat_ms,
            },
        }
        self._command_unless({_ALREADY_INITIALISED}, {"replSetInitiate": document})

    def observe(self, registered: Iterable[Registered]) -> tuple[Bson, Observed]:
        """The configuration document and the planner's view of it; asked of a primary only.

        The configuration is read before the states: a member that left in between is merely seen as unhealthy.
        """
        answer = self._command({"replSetGetConfig": 1, "commitmentStatus": True})
        status = self._command({"replSetGetStatus": 1})
        document = dict(answer["config"])
        states = {state["_id"]: state for state in status["members"]}
        primary = next((state for state in status["members"] if state["state"] == PRIMARY and state.get("self")), None)
        newest = _seconds(primary)
        settings = document["settings"]
        config = self._config
        observed = Observed(
            me=config.address,
            primary=config.address if primary else None,
            registered=tuple(registered),
            members=tuple(_member(entry, states.get(entry["_id"]), newest) for entry in document["members"]),
            version=document["version"],
            committed=bool(answer["commitmentStatus"]),
            settings=ElectionTimings(settings["electionTimeoutMillis"], settings["heartbeatIntervalMillis"]),
            wanted=ElectionTimings(config.election_timeout_ms, config.heartbeat_ms),
        )
        return document, observed

    def carry_out(self, step: Step, document: Bson, timings: ElectionTimings) -> None:
        """Do one step of the planner; an error says nothing of the outcome, so the next pass observes afresh."""
        if step.kind is StepKind.STEP_DOWN:
            self.step_down()
        elif step.kind is not StepKind.NOTHING:
            new = next_config(document, step, timings)
            # The client's timeout travels along as maxTimeMS, so the server gives up when this caller does.
            self._command({"replSetReconfig": new})

    def force(self, configuration: Bson) -> None:
        """Set a configuration without a majority, for judge.deploy.recovery; what only others have is lost."""
        self._command({"replSetReconfig": configuration, "force": True})

    def step_down(self) -> None:
        """Hand over to the most advanced voter and do not stand again for a while (a restart forgets that)."""
        try:
            self._command({"replSetStepDown": _BARRED, "secondaryCatchUpPeriodSecs": _CATCH_UP})
        except OutcomeUnknownError:
            # A primary that steps down may close this very connection; the next question shows what became of it.
            return

    def is_member(self) -> bool:
        """Return whether the configuration that this mongod has still lists it; False also before it has any."""
        return self._command_unless({_NOT_A_MEMBER, _NOT_INITIALISED}, {"replSetGetStatus": 1}) is not None


def _seconds(state: Bson | None) -> int:
    """The primary's clock at the last operation that a member has applied; one clock for all, so comparable."""
    stamp = (state or {}).get("optime", {}).get("ts", Timestamp(0, 0))
    return int(stamp.time)


def _member(entry: Bson, state: Bson | None, newest: int) -> SetMember:
    """One member of the configuration with its state joined in; unknown to the status means not healthy."""
    state = state or {"state": 8, "stateStr": "unknown", "health": 0}
    serving = state["health"] == 1 and state["state"] in {PRIMARY, SECONDARY}
    return SetMember(
        id=entry["_id"],
        address=entry["host"],
        votes=entry["votes"],
        incarnation=incarnation_of(entry),
        healthy=serving,
        in_sync=serving and newest - _seconds(state) <= _IN_SYNC,
        state=state["stateStr"],
    )


def blocking_entry(config: MongodbConfig, addresses: list[str], incarnation: str) -> str | None:
    """The reason why an empty data directory must not start mongod yet, or None when it may.

    Asks the primary, found through the `addresses`: while its configuration lists my address for another incarnation, a
    mongod with an empty disk would vote under an identity that has acknowledged writes. The configuration is proven
    to be the newest one by a linearizable read after it: a primary that was deposed cannot answer that.
    UnavailableError when no primary answers.
    """
    client = _client(config, addresses, _CALL, replicaSet=config.replica_set, readPreference="primary")
    try:
        with translated():
            document = client.admin.command("replSetGetConfig")["config"]
            client.admin.command({"find": "system.version", "limit": 1, "readConcern": {"level": "linearizable"}})
    finally:
        _close(client)
    for entry in document["members"]:
        if entry["host"] == config.address and incarnation_of(entry) != incarnation:
            return (
                f"the replica set still lists {config.address} with its former data directory (member {entry['_id']})"
            )
    return None
