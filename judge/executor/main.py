"""The executor daemon: checks the machine, makes the parts, and runs the loop (seed: Main)."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import judge
from judge.common import clock, files
from judge.common.errors import ConfigError, RefusedError
from judge.common.procfs import machine_memory
from judge.config import ExecutorConfig
from judge.daemon import metrics, tracing
from judge.etcd.client import Etcd
from judge.executor import machine
from judge.executor.calibration import Calibration, calibrate
from judge.executor.channel import Settings
from judge.executor.loop import Loop
from judge.executor.parts import ExecutorParts
from judge.executor.slot import builds
from judge.executor.slot.parallel import shared_queue
from judge.executor.slots import Slots
from judge.executor.storage.blobs import BlobCache
from judge.executor.storage.data import BlobClient
from judge.executor.storage.spool import Spool
from judge.executor.table import TaskTable
from judge.executor.threads import Mailbox, ThreadPool
from judge.languages.table import detect, load_table
from judge.model.problem import DEFAULT_MEMORY
from judge.rpc.client import RpcClient
from judge.rpc.endpoints import EtcdEndpoints
from judge.sandbox import CheckedItem, CheckLevel, check_machine

log = logging.getLogger(__name__)

OUTPUT_SUFFIX = ".out"


def lock_work_dir(work_dir: Path) -> int:
    """Make the work directory and lock it for this process; the descriptor holds the lock.

    RefusedError when another executor has it, ConfigError when it cannot be used.
    """
    try:
        work_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(work_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        msg = f"work_dir {work_dir} cannot be used: {exc.strerror}; name a directory that this user may write"
        raise ConfigError(msg) from exc
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        os.close(fd)
        raise RefusedError(f"work_dir {work_dir} is in use by another executor; give each its own") from exc
    return fd


def clean(outputs: Path, keep: set[str]) -> None:
    """Remove what earlier lives left: outputs whose result is not in the spool. Other files are not touched."""
    outputs.mkdir(exist_ok=True, mode=0o700)
    for path in outputs.glob(f"*{OUTPUT_SUFFIX}"):
        if path.name.removesuffix(OUTPUT_SUFFIX) not in keep:
            path.unlink(missing_ok=True)


def check_sandbox(findings: Sequence[CheckedItem], *, allow_weak: bool) -> bool:
    """Return whether only a weak sandbox is possible here; RefusedError when that is not allowed."""
    failed = next((finding for finding in findings if finding.level is CheckLevel.FAIL), None)
    if failed is None:
        return False
    reason = f"{failed.item}: {failed.text}"
    if not allow_weak:
        msg = f"no full sandbox is possible here: {reason}; fix it, or set allow_weak_sandbox to judge without it"
        raise RefusedError(msg)
    log.warning("judging in a weak sandbox: %s; every result says so", reason)
    return True


def keep_off(cores: list[int]) -> None:
    """Keep this process off its slots' cores, when there are others."""
    remaining = os.sched_getaffinity(0) - set(cores)
    if remaining:
        os.sched_setaffinity(0, remaining)


def _check_files(config: ExecutorConfig) -> None:
    for path in (config.tls.ca, config.tls.cert, config.tls.key):
        if not os.access(path, os.R_OK):
            raise ConfigError(f"tls: {path} cannot be read; name the PEM files of this executor's certificate")


def examine(config: ExecutorConfig, name: str) -> Calibration:
    """The start gate: what the machine can do for a sandbox, and how steady and how fast its cores are.

    For the executor's start and for `judge executor check`, which may run beside it: `name` tells their sandboxes
    apart. Takes about 0.5 s. Called before there are threads: it forks.
    """
    cores = machine.plan_slots(config.slots, config.cores, machine.usable_cores())
    share = machine.memory_finding(
        machine.plan_memory(config.slot_memory, len(cores), machine_memory()), DEFAULT_MEMORY
    )
    machine_findings = check_machine(config.cgroup, name, cores)
    calibration = calibrate(config.work_dir, cores)
    return Calibration([*machine_findings, share, *calibration.findings], calibration.cores)


# Long, since it makes every part once and hands it to the next, without a decision in between.
def make(config: ExecutorConfig, etcd: Etcd, checked: Calibration) -> Loop:
    """All parts of a running executor, wired; the slots are planned, not started. `checked`: what examine() found."""
    weak = check_sandbox(checked.findings, allow_weak=config.allow_weak_sandbox)
    findings = [
        f"{item.level} {item.item}: {item.text}" for item in checked.findings if item.level is not CheckLevel.PASS
    ]
    for finding in findings:
        log.warning("machine check: %s", finding)
    cores = machine.plan_slots(config.slots, config.cores, machine.usable_cores())
    share = machine.plan_memory(config.slot_memory, len(cores), machine_memory())
    outputs = config.work_dir / "outputs"
    build_directory = config.work_dir / "builds"
    builds.clear(build_directory)
    shared = config.work_dir / "sharing"
    shared_queue.clear(shared)
    spool = Spool(config.work_dir / "spool", config.spool_bytes)
    table = TaskTable(config.name, uuid.uuid4().hex)
    for entry in spool.load():
        table.hold(entry.completed, upload=entry.upload, spooled=True)
        log.info("task %s: an earlier life's result is delivered with the first report", entry.completed.id)
    clean(outputs, set(table.completions))
    rpc = RpcClient(EtcdEndpoints(etcd, config.work_dir / "judicators"), config.tls, config.rpc_timeout)
    cache = BlobCache(config.work_dir / "blobs", config.blob_cache_bytes, rpc.get_blob)
    mailbox = Mailbox()
    makers = machine.spare_cores(cores, machine.usable_cores())
    settings = [
        Settings(
            index=index,
            core=core,
            memory=share,
            makers=makers,
            executor=config.name,
            outputs=outputs,
            builds=build_directory,
            run_lock=config.work_dir / "run_lock",
            sharing=shared,
            cgroup=config.cgroup,
            languages=config.languages,
            weak=weak,
            log_level=config.log_level,
            log_format=config.log_format,
        )
        for index, core in enumerate(cores)
    ]
    keep_off(cores)
    log.info(
        "executor %s, incarnation %s: %d slots on cores %s with %d MiB of memory each",
        *(config.name, table.incarnation, len(cores), cores, share // 1024**2),
    )
    return Loop(
        ExecutorParts(
            config=config,
            table=table,
            slots=Slots(settings),
            spool=spool,
            disk=machine.Disk(config.work_dir, config.min_free_bytes),
            blob_client=BlobClient(cache, rpc),
            mailbox=mailbox,
            # No task waits for the data of another one.
            pool=ThreadPool(mailbox, TaskTable.most(len(cores)) + 1),
            rpc=rpc,
            outputs=outputs,
            slot_memory=share,
            checks=findings,
            calibration=checked.cores,
            weak=weak,
            version=judge.__version__,
            sharing=shared_queue.Sharing(shared),
        )
    )


def find_languages(config: ExecutorConfig, loop: Loop) -> None:
    """Find this machine's languages in a thread; until then reports ask for no work."""
    table = load_table(config.languages)

    def work() -> Callable[[], None]:
        begin = clock.monotonic()
        languages = detect(table)

        def finish() -> None:
            log.info("languages, found in %.1f s: %s", clock.monotonic() - begin, ", ".join(languages) or "none")
            loop.know_languages(languages)

        return finish

    loop.parts.pool.do(work)


def _stop(stop: threading.Event, loop: Loop) -> None:
    stop.wait()
    loop.stop()


def _rest_on_signals(loop: Loop) -> None:
    """SIGUSR1 makes it take no more tasks, SIGUSR2 take them again: how playbooks empty a host before they stop it."""
    if threading.current_thread() is threading.main_thread():  # not so in tests
        signal.signal(signal.SIGUSR1, lambda *_: loop.rest(on=True))
        signal.signal(signal.SIGUSR2, lambda *_: loop.rest(on=False))


def run(config: ExecutorConfig, stop: threading.Event) -> int:
    """Run an executor until `stop` is set; returns the exit code.

    Raises RefusedError where it must not run (no sandbox, the work directory is another's) and ConfigError for
    settings that cannot be used.
    """
    _check_files(config)
    load_table(config.languages)
    lock = lock_work_dir(config.work_dir)
    try:
        files.sweep(config.work_dir)
        checked = examine(config, config.name)
        metrics.watch_disk(config.work_dir)
        metrics.serve(config.metrics, config.metrics_tls)
        tracing.setup("executor", config.name, config.otlp)
        with Etcd(config.etcd) as etcd:
            loop = make(config, etcd, checked)
            threading.Thread(target=_stop, args=(stop, loop), name="stop", daemon=True).start()
            _rest_on_signals(loop)
            find_languages(config, loop)
            return loop.run()
    finally:
        tracing.close()
        os.close(lock)
