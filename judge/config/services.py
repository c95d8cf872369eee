"""The config of each daemon that boot keeps running; kinds.py has their table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from judge.common.webhooks import addresses
from judge.config.allowance import Allowances, Role
from judge.config.sections import (
    CheckSettings,
    Daemon,
    EtcdClient,
    HostName,
    HostPort,
    MemberUrl,
    Model,
    MongodbClient,
    Name,
    PageUrl,
    Port,
    Seconds,
    Tls,
    Traced,
    fault,
    setting,
)

_LOCAL = ("http://localhost:", "http://127.0.0.1:", "http://[::1]:")


class EtcdPeer(Model):
    """One listed member of the cluster."""

    name: Name
    peer: MemberUrl
    client: MemberUrl


class EtcdCluster(Model):
    """The place of the etcd cluster, and the way by which this member came to it (docs/etcd.md).

    `bootstrap` is decided once, when the cluster is created: `initialise` on its first members, `join` on later
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
            raise fault(
                "neither 'members' nor 'dns' is set; list the members or name their DNS record", "members", "dns"
            )
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
    check: CheckSettings = CheckSettings()
    leave_on_stop: bool = False
    heartbeat_ms: int = setting(
        100, "Milliseconds between a leader's heartbeats; about the largest round trip between members.", ge=10, le=5000
    )
    election_ms: int = setting(
        1000,
        "Milliseconds without a heartbeat until an election; at least 10 times the round trip.",
        ge=50,
        le=50000,
    )
    quota_bytes: int = setting(2 * 1024**3, "Size at which the database refuses writes.", ge=16 * 1024**2)
    prefix: str = "/judge/"
    accept_known_bugs: bool = setting(False, "Turns the warning about an etcd version with known bugs into a note.")
    tls: Tls | None = None
    peer_tls: Tls | None = None

    def listening(self) -> list[str]:
        if self.mode == "proxy":
            return [self.proxy_listen, *super().listening()]
        urls = [*(self.listen_client or [self.client]), *(self.listen_peer or [self.peer])]
        return [*(url.partition("://")[2] for url in urls), *super().listening()]

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.mode == "member" and self.data_dir is None:
            raise fault("data_dir is missing; a member needs a directory for its data", "data_dir")
        if self.election_ms < 5 * self.heartbeat_ms:
            msg = f"election_ms ({self.election_ms}) must be at least 5 times heartbeat_ms ({self.heartbeat_ms})"
            raise fault(msg, "election_ms", "heartbeat_ms")
        return self


class MongodbConfig(Daemon):
    """mongodb.yml: one replica-set member."""

    binary: str = "mongod"
    data_dir: Path
    address: HostPort
    listen: list[str] = Field(default_factory=lambda: ["127.0.0.1"])
    replica_set: Name = setting("judge", "Name of the replica set.")
    etcd: EtcdClient
    check: CheckSettings = CheckSettings()
    reconcile_interval: Seconds = 2.0
    leave_on_stop: bool = False
    cache_gib: Annotated[float, Field(ge=0.1)] | Literal["auto"] = setting(
        "auto",
        "GiB of WiredTiger's cache; `auto` is a quarter of the memory beyond the first, or 0.25 beside an executor.",
        template=False,
    )
    oplog_hours: float = setting(
        0,
        "Minimum hours of writes in the oplog, whatever its size; 0 is mongod's default size (docs/mongodb.md).",
        ge=0,
        le=24 * 365,
    )
    election_timeout_ms: int = setting(
        2000, "Milliseconds without the primary until another member stands for election.", ge=500
    )
    heartbeat_ms: int = setting(500, "Milliseconds between two heartbeats of the members.", ge=100)
    database: Name = "judge"
    username: str | None = None
    password_file: Path | None = None
    key_file: Path | None = None
    tls: Tls | None = None

    def listening(self) -> list[str]:
        return [self.address, *super().listening()]

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.election_timeout_ms < 2 * self.heartbeat_ms:
            msg = (
                f"election_timeout_ms ({self.election_timeout_ms}) must be at least "
                f"2 times heartbeat_ms ({self.heartbeat_ms})"
            )
            raise fault(msg, "election_timeout_ms", "heartbeat_ms")
        return self


# Of outputs that are handed in, at least: a task's document may have 16 MiB in all.
OUTPUTS_BYTES: Final = 4 * 1024**2
# Of additional files in Judge0's API, at least: its own editor sends a database of a MiB with each program in SQL.
JUDGE0_BYTES: Final = 2 * 1024**2


class SubmissionLimits(Model):
    """The largest submissions that a person may hand in."""

    source_bytes: int = setting(128 * 1024, "Largest source of a submission.", ge=1)
    files: int = setting(100, "Most files of a submission.", ge=1, le=1000)
    files_bytes: int = setting(256 * 1024, "Most bytes of a submission of several files.", ge=1, le=4 * 1024**2)
    body_bytes: int = Field(default=16 * 1024**2, ge=1024)
    blob_bytes: int = setting(
        256 * 1024**2,
        "Largest file of a problem, and so the largest request that nginx takes.",
        kind="gateway",
        ge=1024,
    )
    tests: int = Field(default=1000, ge=1, le=10_000)

    @property
    def outputs_bytes(self) -> int:
        """Bytes of the outputs that one submission to a submit-answer problem may be, all of them together."""
        return max(self.source_bytes, self.files_bytes, OUTPUTS_BYTES)

    @property
    def judge0_bytes(self) -> int:
        """Bytes of the additional files of a submission of Judge0's API, and of the archive that they come in."""
        return max(self.files_bytes, JUDGE0_BYTES)


class WebhookSettings(Model):
    """Calls to receivers of webhooks, which the leading judicator makes."""

    networks: list[str] = setting(
        list,
        "Private networks that webhooks may call, such as `10.20.0.0/16`.",
        variable="webhook_networks",
        max_length=100,
    )
    callback_networks: list[str] = setting(
        list,
        "Private networks that callbacks of Judge0's API may call; any user may choose such an address.",
        max_length=100,
    )

    @field_validator("networks", "callback_networks")
    @classmethod
    def _networks(cls, networks: list[str]) -> list[str]:
        addresses.networks(networks)
        return networks


class BackupSteps(Model):
    """Hours without a step of the controller that are warned of; 0: no timer does it."""

    copied: float = Field(default=0, ge=0)
    drilled: float = Field(default=0, ge=0)


class JudicatorConfig(Traced):
    """judicator.yml: RPC server, leader election and sweeping."""

    listen: HostPort = "127.0.0.1:7400"
    address: HostPort = "127.0.0.1:7400"
    tls: Tls
    etcd: EtcdClient
    mongodb: MongodbClient
    leader_ttl: int = setting(6, "Seconds after which another judicator replaces a dead leader.", ge=2, le=120)
    register_ttl: int = setting(6, "Seconds after which executors and gateways forget a dead judicator.", ge=2, le=120)
    sweep_interval: Seconds = setting(1.0, "Seconds between two sweeps for lost tasks.")
    task_expiry: Seconds = setting(8.0, "Seconds without a report after which a task goes to another executor.")
    executor_expiry: Seconds = setting(8.0, "Seconds without a report after which an executor counts as dead.")
    executor_forget: Seconds = setting(300.0, "Seconds after which lists no longer show a dead executor.")
    attempts: int = setting(3, "Attempts to judge a task before it ends as JE with the reasons.", ge=1, le=100)
    wait_timeout: Seconds = 20.0
    retention_days: float = setting(0, "Days to keep finished tasks; 0 keeps them for ever.", ge=0)
    audit_days: float = setting(0, "Days to keep the audit trail; 0 keeps it for ever.", ge=0)
    backups: Path | None = Field(default=None, description="where backups of this host are, to warn if there is none")
    backup_hours: float = Field(
        default=0,
        ge=0,
        description="status warns if this host's newest backup is older; 0: no timer makes backups here",
    )
    backup_steps: BackupSteps = BackupSteps()
    disks: list[Path] = Field(
        default_factory=list, description="status warns if the disk of one of these directories fills up"
    )
    etcd_quota_bytes: int = Field(
        default=2 * 1024**3, ge=1, description="quota of etcd's members; status warns before it is used up"
    )
    limits: SubmissionLimits = SubmissionLimits()
    allowances: Allowances = setting(
        Allowances,
        "Limits of one person, by role (`user`, `judge`, `admin`); keys and defaults in docs/judging.md.",
    )
    webhooks: WebhookSettings = WebhookSettings()

    def listening(self) -> list[str]:
        return [self.listen, *super().listening()]

    @model_validator(mode="after")
    def _timings(self) -> Self:
        if self.sweep_interval * 2 > self.task_expiry:
            msg = (
                f"task_expiry ({self.task_expiry:g}) must be at least 2 times "
                f"sweep_interval ({self.sweep_interval:g}), or live tasks would be given back"
            )
            raise fault(msg, "task_expiry", "sweep_interval")
        if self.executor_expiry > self.executor_forget:
            msg = (
                f"executor_forget ({self.executor_forget:g}) must not be below executor_expiry "
                f"({self.executor_expiry:g})"
            )
            raise fault(msg, "executor_forget", "executor_expiry")
        return self


class ExecutorConfig(Traced):
    """executor.yml: report loop, slots and sandbox."""

    work_dir: Path
    tls: Tls
    etcd: EtcdClient
    slots: int | Literal["auto"] = setting(
        "auto",
        "Tasks judged at a time; `auto` is one per physical core, one fewer on machines with more than two.",
    )
    cores: list[int] = setting(list, "The core of each slot; empty takes the last cores.")
    slot_memory: Annotated[int, Field(ge=64 * 1024**2)] | Literal["auto"] = setting(
        "auto", "Memory in bytes for the runs of each slot; `auto` divides seven eighths of the host's memory evenly."
    )
    report_interval: Seconds = setting(
        1.0, "Seconds between two reports; at most a third of judge_judicator_task_expiry."
    )
    rpc_timeout: Seconds = 5.0
    languages: Path | None = setting(
        None,
        "A language table on the controller, whose rows add to the built-in ones or replace them (docs/languages.md).",
        template=False,
    )
    allow_weak_sandbox: bool = setting(
        False, "Judge even if this host cannot enforce all limits; every result says so."
    )
    cgroup: str = "judge"
    blob_cache_bytes: int = setting(2 * 1024**3, "Disk space for test data.", ge=1024**2)
    spool_bytes: int = setting(256 * 1024**2, "Disk space for results that no judicator has taken yet.", ge=1024**2)
    min_free_bytes: int = setting(64 * 1024**2, "Free disk space below which the executor takes no tasks.", ge=0)

    @model_validator(mode="after")
    def _slots(self) -> Self:
        if isinstance(self.slots, int) and self.slots < 1:
            raise fault(f"slots ({self.slots}) must be at least 1, or 'auto'", "slots")
        if self.cores and isinstance(self.slots, int) and len(self.cores) != self.slots:
            msg = f"cores lists {len(self.cores)} cores for {self.slots} slots; list one core per slot, or none"
            raise fault(msg, "cores", "slots")
        return self


class Judge0(Model):
    """Judge0's API beside our own (docs/judge0.md)."""

    prefix: str = Field(
        default="/judge0", pattern=r"^(/[A-Za-z0-9._-]+)+$", description="Path of the API; /judge0 by default."
    )
    enabled: bool = Field(default=True, description="Whether the gateway serves the API; true by default.")
    hosts: list[HostName] = Field(
        default_factory=list,
        description="Names of the gateway that serve only this API, at the root; none by default.",
    )
    origins: list[Annotated[str, Field(pattern=r"^(\*|https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?)$")]] | None = Field(
        default=None,
        description="Web sites whose scripts may call the API; by default all, or none if there is a guest.",
    )
    delete: bool = Field(
        default=False, description="Whether admins may delete finished submissions through the API; false by default."
    )
    # Below the time after which nginx gives an answer up.
    wait: Seconds = 60.0
    guest: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._@+-]{0,62})?$",
        description="The user for callers without a token; none by default.",
    )
    callbacks: bool = Field(
        default=True, description="Whether submissions may name an address for their result; true by default."
    )

    @property
    def let_in(self) -> list[str]:
        """The origins, by default all: a page has what the token that it sends has, and no cookie counts.

        Where there is a guest, a page could do something with no token, by way of any browser that gets here.
        """
        if self.origins is not None:
            return self.origins
        return [] if self.guest else ["*"]

    def for_scripts(self, origin: str) -> dict[str, str]:
        """The headers that let scripts of a page of this origin read an answer; none where they may not."""
        if not origin or not {"*", origin} & set(self.let_in):
            return {}
        return {
            "Access-Control-Allow-Origin": "*" if "*" in self.let_in else origin,
            "Access-Control-Expose-Headers": "*",  # Retry-After and RateLimit-… above all
            "Vary": "Origin",
        }


class OidcProvider(Model):
    """An OpenID Connect provider with which people may log in (docs/people.md)."""

    name: Name
    title: str = Field(default="", max_length=60, description="on the log-in page")
    issuer: PageUrl
    client_id: str = Field(min_length=1, max_length=300)
    client_secret_file: Path | None = None
    client_auth: Literal["client_secret_basic", "client_secret_post"] = "client_secret_basic"
    scopes: list[str] = Field(default_factory=lambda: ["openid", "profile"])
    create: bool = Field(
        default=False, description="makes an account at a first log-in; false: only linked accounts may log in"
    )
    user_claim: str = Field(default="preferred_username", description="the name of a new account")
    groups_claim: str | None = Field(default=None, description="the groups of an account, at each log-in")
    only_groups: list[str] = Field(default_factory=list, description="only members of these groups may log in")
    roles: dict[str, Role] = Field(
        default_factory=dict, description="the role by group; if set, the account's role follows it"
    )
    ca: Path | None = Field(default=None, description="the authority that signed the provider's certificate")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if "openid" not in self.scopes:
            raise fault("scopes has no 'openid', without which there is no ID token; add it", "scopes")
        if (self.roles or self.only_groups) and self.groups_claim is None:
            raise fault("groups_claim is missing; 'roles' and 'only_groups' look at it", "roles", "only_groups")
        if not self.issuer.startswith("https://") and not self.issuer.startswith(_LOCAL):
            raise fault(f"issuer: expected a URL with https, not '{self.issuer}'", "issuer")
        return self


class Public(Model):
    """The addresses at which the gateway's nginx serves other machines itself, with no proxy before it (`judge up`)."""

    listen: list[HostPort] = Field(default_factory=list, max_length=100)
    certificate: Path | None = None
    certificate_key: Path | None = None
    http_port: int = Field(default=0, ge=0, le=65535, description="port that redirects to HTTPS; 0: none")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.certificate is None) != (self.certificate_key is None):
            names = ("certificate", "certificate_key")
            raise fault("certificate and certificate_key belong together; set both, or none", *names)
        if self.http_port and self.certificate is None:
            raise fault("http_port redirects to HTTPS, which needs a certificate; set certificate, too", "http_port")
        addresses = [*self.listen, *self.redirects()]
        if len(set(addresses)) < len(addresses):
            raise fault("listen and http_port have one address twice; keep one", "listen")
        return self

    def redirects(self) -> list[str]:
        hosts = dict.fromkeys(address.rpartition(":")[0] for address in self.listen)
        return [f"{host}:{self.http_port}" for host in hosts] if self.http_port else []


def check_providers(providers: list[OidcProvider], public_url: str | None) -> None:
    """Raise a fault unless providers can send browsers back."""
    if providers and public_url is None:
        raise fault("public_url is missing; providers of 'oidc' send browsers back there", "oidc")
    names = [provider.name for provider in providers]
    if len(set(names)) < len(names):
        raise fault("oidc has two providers of one name; give each its own", "oidc")


class GatewayConfig(Traced):
    """gateway.yml: nginx, uWSGI and the WSGI app."""

    binary: str = "uwsgi"
    nginx: str = "nginx"
    listen: HostPort = "127.0.0.1:8080"
    public: Public = Public()
    run_dir: Path
    tls: Tls
    etcd: EtcdClient
    tokens: Path
    session_key: Path
    processes: int = setting(
        1, "Processes of uWSGI; about one per core on a host that is only a gateway.", ge=1, le=256
    )
    threads: int = setting(64, "Threads per process; three quarters of them may hold a long poll.", ge=2, le=256)
    rpc_timeout: Seconds = 5.0
    check: CheckSettings = CheckSettings()
    secure_cookies: bool = True
    proxied: bool = Field(
        default=False, description="a proxy on this host sends the client's address (X-Forwarded-For)"
    )
    spool_dir: Path = Path("/var/tmp")  # noqa: S108 - its files have no name
    limits: SubmissionLimits = SubmissionLimits()
    judge0: Judge0 = setting(Judge0, "Settings of Judge0's API (docs/judge0.md).")
    public_url: PageUrl | None = setting(
        None, "Address under which browsers reach the gateways; OpenID Connect providers send them back there."
    )
    oidc: list[OidcProvider] = setting(
        list,
        "OpenID Connect providers with which people may log in; keys in docs/people.md. A `client_secret_file` is on "
        "the gateways, readable by group judge.",
    )

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        check_providers(self.oidc, self.public_url)
        page = urlsplit(self.public_url or "").hostname
        if page in self.judge0.hosts:
            msg = (
                f"judge0.hosts: '{page}' is the host of public_url, which serves the pages; give Judge0's API "
                "another name"
            )
            raise fault(msg, "judge0.hosts")
        if self.listen in self.public.listen:
            raise fault(f"public.listen has {self.listen}, which is the address of listen", "public.listen", "listen")
        return self

    def listening(self) -> list[str]:
        return [self.listen, *self.public.listen, *self.public.redirects(), *super().listening()]
