"""One pydantic model per config file; unknown keys, wrong types, impossible timings are errors with file and line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from judge import endpoint, yamltext
from judge.allowance import Allowances
from judge.errors import ConfigError

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62})$")]
Seconds = Annotated[float, Field(gt=0, le=86400)]
Port = Annotated[int, Field(ge=1, le=65535)]


def _endpoint(fault: Callable[[str], str | None]) -> AfterValidator:
    """A text in which `fault` finds nothing wrong."""

    def check(text: str) -> str:
        if wrong := fault(text):
            # Its own kind of error, so that the sentence names the key.
            raise PydanticCustomError("endpoint", "{wrong}", {"wrong": wrong})
        return text

    return AfterValidator(check)


HostPort = Annotated[str, _endpoint(endpoint.host_port)]
Url = Annotated[str, _endpoint(endpoint.url)]
MemberUrl = Annotated[str, _endpoint(endpoint.member_url)]
PageUrl = Annotated[str, _endpoint(endpoint.page_url)]
T = TypeVar("T", bound=BaseModel)
D = TypeVar("D", bound="Daemon")
LogLevel = Literal["debug", "info", "warning", "error"]


class Model(BaseModel):
    """Base of every config section: strict about keys, immutable once loaded."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class Tls(Model):
    """Certificates of this process (PEM files); with it every connection is mutually authenticated."""

    ca: Path
    cert: Path
    key: Path


class EtcdClient(Model):
    """How to reach etcd: usually the one local proxy or member, else all members."""

    endpoints: list[HostPort] = Field(min_length=1)
    tls: Tls | None = None
    timeout: Seconds = 3.0
    prefix: str = "/judge/"


class MongodbClient(Model):
    """How to reach the replica set; the driver finds the other members from any seed."""

    seeds: list[HostPort] = Field(min_length=1)
    replica_set: Name = "judge"
    database: Name = "judge"
    username: str | None = None
    password_file: Path | None = None
    tls: Tls | None = None
    timeout: Seconds = 10.0


class Check(Model):
    """The check thread of a server daemon: not serving `tries` times, `interval` seconds apart, means kill it."""

    interval: Seconds = 1.0
    tries: int = Field(default=30, ge=1, le=10000)


class Daemon(Model):
    """What every daemon's config has."""

    name: Name
    log_level: LogLevel = "info"
    stop_grace: Seconds = 10.0
    metrics: HostPort | None = None


class BootService(Model):
    """One service that boot keeps running, in the order of the list."""

    name: Name
    kind: Literal["etcd", "mongodb", "judicator", "executor", "gateway"]
    config: Path
    serving: HostPort | PageUrl | None = None
    serving_timeout: Seconds = 2.0
    serving_failures: int = Field(default=10, ge=1)
    start_timeout: Seconds = 60.0
    restart_min: Seconds = 0.5
    restart_max: Seconds = 10.0
    start_retries: int = Field(default=20, ge=0)
    healthy_after: Seconds = 10.0
    stop_grace: Seconds = 15.0

    @model_validator(mode="after")
    def _timings(self) -> Self:
        if self.restart_min > self.restart_max:
            msg = f"restart_min ({self.restart_min:g}) must not be above restart_max ({self.restart_max:g})"
            raise ValueError(msg)
        return self


class BootConfig(Daemon):
    """boot.yml: which services this host runs. `services[].config` may be a Jinja2 template over `variables`."""

    backend: Literal["process", "systemd"] = "process"
    run_dir: Path = Path("/run/judge")
    log_dir: Path | None = None
    interval: Seconds = 1.0
    variables: dict[str, Any] = Field(default_factory=dict)
    services: list[BootService] = Field(min_length=1)

    @model_validator(mode="after")
    def _unique(self) -> Self:
        names = [service.name for service in self.services]
        if "boot" in names:
            msg = "services: name 'boot' is boot's own in the run directory; choose another name"
            raise ValueError(msg)
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"services: name '{twice[0]}' is used twice; give each service its own name"
            raise ValueError(msg)
        return self


class EtcdPeer(Model):
    """One listed member of the cluster."""

    name: Name
    peer: MemberUrl
    client: MemberUrl


class EtcdCluster(Model):
    """Where the cluster is and how this member came to it (docs/etcd.md).

    `bootstrap` is decided once by whoever creates the cluster: `initialise` on its first members, `join` on later
    ones, `when-alone` is the seed's rule "nobody found: initialise" for elastic fleets with a name service.
    """

    token: str = Field(min_length=8)
    bootstrap: Literal["initialise", "join", "when-alone"] = "join"
    members: list[EtcdPeer] = Field(default_factory=list)
    dns: str | None = None
    dns_client_port: Port = 2379

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if not self.members and not self.dns:
            msg = "neither 'members' nor 'dns' is set; list the members or name their DNS record"
            raise ValueError(msg)
        return self


class EtcdConfig(Daemon):
    """etcd.yml: a member with its data, or the local TCP proxy."""

    mode: Literal["member", "proxy"] = "member"
    binary: str = "etcd"
    data_dir: Path | None = None
    client: MemberUrl = "http://127.0.0.1:2379"
    peer: MemberUrl = "http://127.0.0.1:2380"
    listen_client: list[MemberUrl] = Field(default_factory=list)
    listen_peer: list[MemberUrl] = Field(default_factory=list)
    proxy_listen: HostPort = "127.0.0.1:2379"
    cluster: EtcdCluster
    check: Check = Check()
    leave_on_stop: bool = False
    heartbeat_ms: int = Field(default=100, ge=10, le=5000)
    election_ms: int = Field(default=1000, ge=50, le=50000)
    quota_bytes: int = Field(default=2 * 1024**3, ge=16 * 1024**2)
    prefix: str = "/judge/"
    accept_known_bugs: bool = False
    tls: Tls | None = None
    peer_tls: Tls | None = None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.mode == "member" and self.data_dir is None:
            msg = "data_dir is missing; a member needs a directory for its data"
            raise ValueError(msg)
        if self.election_ms < 5 * self.heartbeat_ms:
            msg = f"election_ms ({self.election_ms}) must be at least 5 times heartbeat_ms ({self.heartbeat_ms})"
            raise ValueError(msg)
        return self


class MongodbConfig(Daemon):
    """mongodb.yml: one replica-set member."""

    binary: str = "mongod"
    data_dir: Path
    address: HostPort
    listen: list[str] = Field(default_factory=lambda: ["127.0.0.1"])
    replica_set: Name = "judge"
    etcd: EtcdClient
    check: Check = Check()
    reconcile_interval: Seconds = 2.0
    leave_on_stop: bool = False
    cache_gib: float = Field(default=0.25, ge=0.25)
    election_timeout_ms: int = Field(default=2000, ge=500)
    heartbeat_ms: int = Field(default=500, ge=100)
    database: Name = "judge"
    username: str | None = None
    password_file: Path | None = None
    key_file: Path | None = None
    tls: Tls | None = None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.election_timeout_ms < 2 * self.heartbeat_ms:
            msg = (
                f"election_timeout_ms ({self.election_timeout_ms}) must be at least "
                f"2 times heartbeat_ms ({self.heartbeat_ms})"
            )
            raise ValueError(msg)
        return self


class SubmissionLimits(Model):
    """What a person may hand in."""

    source_bytes: int = Field(default=128 * 1024, ge=1)
    body_bytes: int = Field(default=16 * 1024**2, ge=1024)
    blob_bytes: int = Field(default=256 * 1024**2, ge=1024)
    tests: int = Field(default=1000, ge=1, le=10_000)


class JudicatorConfig(Daemon):
    """judicator.yml: RPC server, leader election and sweeping."""

    listen: HostPort = "127.0.0.1:7400"
    address: HostPort = "127.0.0.1:7400"
    tls: Tls
    etcd: EtcdClient
    mongodb: MongodbClient
    leader_ttl: int = Field(default=6, ge=2, le=120, description="seconds")
    register_ttl: int = Field(default=6, ge=2, le=120, description="seconds")
    sweep_interval: Seconds = 1.0
    task_expiry: Seconds = 8.0
    executor_expiry: Seconds = 8.0
    executor_forget: Seconds = 300.0
    attempts: int = Field(default=3, ge=1, le=100)
    wait_timeout: Seconds = 20.0
    retention_days: float = Field(default=0, ge=0, description="0 keeps everything")
    audit_days: float = Field(default=0, ge=0, description="age at which the audit trail's entries go; 0 keeps all")
    limits: SubmissionLimits = SubmissionLimits()
    allowances: Allowances = Allowances()

    @model_validator(mode="after")
    def _timings(self) -> Self:
        if self.sweep_interval * 2 > self.task_expiry:
            msg = (
                f"task_expiry ({self.task_expiry:g}) must be at least 2 times "
                f"sweep_interval ({self.sweep_interval:g}), or live tasks would be given back"
            )
            raise ValueError(msg)
        if self.executor_expiry > self.executor_forget:
            msg = f"executor_forget ({self.executor_forget:g}) is below executor_expiry ({self.executor_expiry:g})"
            raise ValueError(msg)
        return self


class ExecutorConfig(Daemon):
    """executor.yml: report loop, slots and sandbox."""

    work_dir: Path
    tls: Tls
    etcd: EtcdClient
    slots: int | Literal["auto"] = "auto"
    cores: list[int] = Field(default_factory=list, description="one pinned core per slot; empty: the last cores")
    slot_memory: Annotated[int, Field(ge=64 * 1024**2)] | Literal["auto"] = Field(
        default="auto", description="bytes that a run may be given; auto: seven eighths of the machine's, shared out"
    )
    report_interval: Seconds = 1.0
    rpc_timeout: Seconds = 5.0
    languages: Path | None = None
    allow_weak_sandbox: bool = False
    cgroup: str = "judge"
    blob_cache_bytes: int = Field(default=2 * 1024**3, ge=1024**2)
    spool_bytes: int = Field(default=256 * 1024**2, ge=1024**2)
    min_free_bytes: int = Field(default=64 * 1024**2, ge=0)

    @model_validator(mode="after")
    def _slots(self) -> Self:
        if isinstance(self.slots, int) and self.slots < 1:
            msg = f"slots ({self.slots}) must be at least 1, or 'auto'"
            raise ValueError(msg)
        if self.cores and isinstance(self.slots, int) and len(self.cores) != self.slots:
            msg = f"cores lists {len(self.cores)} cores for {self.slots} slots; list one core per slot, or none"
            raise ValueError(msg)
        return self


class GatewayConfig(Daemon):
    """gateway.yml: the uWSGI daemon and the WSGI app under it."""

    binary: str = "uwsgi"
    listen: HostPort = "127.0.0.1:8080"
    run_dir: Path
    tls: Tls
    etcd: EtcdClient
    tokens: Path
    session_key: Path
    processes: int = Field(default=1, ge=1, le=256)
    threads: int = Field(default=32, ge=2, le=256, description="per process; three of four may hold a long poll")
    rpc_timeout: Seconds = 5.0
    check: Check = Check()
    secure_cookies: bool = True
    proxied: bool = Field(default=False, description="a proxy on this host says whom it speaks for (X-Forwarded-For)")
    spool_dir: Path = Path("/var/tmp")  # noqa: S108 - its files have no name
    limits: SubmissionLimits = SubmissionLimits()


MODELS: dict[str, type[Daemon]] = {
    "boot": BootConfig,
    "etcd": EtcdConfig,
    "mongodb": MongodbConfig,
    "judicator": JudicatorConfig,
    "executor": ExecutorConfig,
    "gateway": GatewayConfig,
}


def _lines(node: yaml.Node | None, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], int]:
    """The line (from 1) of every key and item of a parsed YAML document, by its path."""
    found: dict[tuple[Any, ...], int] = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, key.value)
            found[here] = key.start_mark.line + 1
            found.update(_lines(value, here))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            here = (*path, index)
            found[here] = value.start_mark.line + 1
            found.update(_lines(value, here))
    return found


# What the patterns above mean to a person.
_MEANINGS = {
    r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62})$": "expected a name of letters, digits, '.', '_' and '-'",
}


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that a field's annotation names, inside lists, unions and the like."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _known_keys(model: type[BaseModel], path: Sequence[Any]) -> list[str]:
    """The keys that may stand where `path` ends."""
    models = [model]
    for part in path[:-1]:
        if isinstance(part, str):
            fields = [one.model_fields[part] for one in models if part in one.model_fields]
            models = [found for field in fields for found in _models_in(field.annotation)]
    return sorted({key for one in models for key in one.model_fields})


def _sentence(error: Any, model: type[BaseModel], path: tuple[Any, ...]) -> str:
    """One pydantic error as a sentence for an operator; `path` is where its value is in the file."""
    if error["type"] == "extra_forbidden":
        path = path or tuple(error["loc"])
        near = difflib.get_close_matches(str(path[-1]), _known_keys(model, path), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        return f"unknown key '{'.'.join(map(str, path))}'{hint}"
    if error["type"] == "missing":
        return f"key '{'.'.join(map(str, error['loc']))}' is missing"
    text = error["msg"].removeprefix("Value error, ")
    text = _MEANINGS.get(error.get("ctx", {}).get("pattern"), text)
    if error["type"] != "value_error":
        text = f"{text}, got {yamltext.quoted(error['input'])}"
    return f"{'.'.join(map(str, path))}: {text}" if path else text


Override = tuple[tuple[str, ...], Any]


def override(data: dict[Any, Any], path: tuple[str, ...], value: Any, source: str) -> None:
    """Set the key at `path` of parsed YAML, making sections on the way; ConfigError when a part is no section."""
    here: Any = data
    for depth, part in enumerate(path[:-1]):
        if here.get(part) is None:
            here[part] = {}
        here = here[part]
        if not isinstance(here, dict):
            msg = f"{source}: '{'.'.join(path[: depth + 1])}' is not a section, so '{'.'.join(path)}' cannot be set"
            raise ConfigError(msg)
    here[path[-1]] = value


def _path(error: Any, lines: dict[tuple[Any, ...], int], overrides: Sequence[Override]) -> tuple[Any, ...]:
    """The key that an error is about: for timings that contradict each other the first one that is named and set."""
    path = tuple(error["loc"])
    known = lines.keys() | {key[:depth] for key, _ in overrides for depth in range(1, len(key) + 1)}
    while path and path not in known:
        path = path[:-1]
    if error["type"] == "value_error":
        words = re.findall(r"[a-z_]+", error["msg"])
        return next(((*path, word) for word in words if (*path, word) in known), path)
    return path


def _place(source: str, path: tuple[Any, ...], lines: dict[tuple[Any, ...], int], overrides: Sequence[Override]) -> str:
    """Where the value at `path` came from: an override, or a line of the file."""
    for key, _ in overrides:
        if path[: len(key)] == key:
            return f"{source}: --set {'.'.join(key)}"
    return f"{source}:{lines.get(path, 1)}"


def parse_text(model: type[T], text: str, source: str, overrides: Sequence[Override] = ()) -> T:
    """Check YAML text against a model; ConfigError says `source:line: sentence` for the first fault.

    `overrides` are (key path, value) pairs from the command line that win over the text (seed: `load_args`).
    """
    node, data = yamltext.read(text, source)
    if not isinstance(data, dict):
        msg = f"{source}:1: expected a mapping of settings, found {type(data).__name__}"
        raise ConfigError(msg)
    for key, value in overrides:
        override(data, key, value, source)
    try:
        return model.model_validate(data)
    except ValidationError as exc:
        lines = _lines(node)
        faults = []
        for error in exc.errors(include_url=False):
            path = _path(error, lines, overrides)
            place = _place(source, path, lines, overrides)
            line = place.rpartition(":")[2]
            # A key that is there and wrong says more than one that is missing: it is often the same one, misspelt.
            rank = (error["type"] == "missing", int(line) if line.isdigit() else 0)
            faults.append((rank, place, _sentence(error, model, path if error["type"] != "value_error" else ())))
        _, place, sentence = min(faults)
        others = len({place for _, place, _ in faults}) - 1
        more = f" (and {others} more)" if others else ""
        msg = f"{place}: {sentence}{more}"
        raise ConfigError(msg) from None


def read(path: Path) -> str:
    """The text of a config file; ConfigError says why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as exc:
        msg = f"{path}: cannot be read: {exc.strerror}; name an existing file that this user may read"
        raise ConfigError(msg) from None
    except UnicodeDecodeError:
        msg = f"{path}: is not UTF-8 text; expected a YAML file"
        raise ConfigError(msg) from None


def load(model: type[D], path: Path, overrides: Sequence[Override] = ()) -> D:
    """Read and check one daemon's config file; raises ConfigError."""
    return load_model(model, path, overrides)


def load_model(model: type[T], path: Path, overrides: Sequence[Override] = ()) -> T:
    """Read and check any YAML file against its model; raises ConfigError."""
    return parse_text(model, read(path), str(path), overrides)


def dump(config: BaseModel) -> str:
    """A config as YAML, with every default filled in; what `judge config print` shows."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
