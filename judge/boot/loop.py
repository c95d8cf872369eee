"""boot's loop: look at every service, take one planned step for each, say so, wait; until it is told to stop.

Seeds: `LOOP UNTIL SIGINT: FOR s IN services: lock(s.pid_file) … unlock(s.pid_file); sleep(interval)`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import Counter

import judge
from judge.boot import holds, pidfile, plan, serving, status
from judge.boot.backend import Backend, ObservedService, Unit, write_config
from judge.boot.plan import Action, Phase, Process, ServiceFacts, ServiceState
from judge.common import clock
from judge.common.errors import ConfigError
from judge.config import BootConfig
from judge.config.reading import Override
from judge.config.rendering import Overrides, Rendered, render
from judge.daemon.notify import notify

log = logging.getLogger(__name__)

# The label is no `service`, as that is boot itself to Prometheus.
STARTS = Counter("judge_boot_starts_total", "Starts of this host's services by boot", ["unit"])

QUICK = 0.1  # seconds between two looks while a service is starting or stopping

Observer = Callable[[status.BootStatus], bool]


@dataclass
class _WatchedService:
    unit: Unit
    overrides: Sequence[Override]
    signature: tuple[int, ...]
    state: ServiceState = field(default_factory=ServiceState)
    since: str = ""
    probe: asyncio.Task[str] | None = None
    next_probe: float = 0.0
    gate: float | None = None
    seen: ObservedService = field(default_factory=ObservedService)
    renewed: bool = False
    incarnation: str = ""


def signature(path: Path) -> tuple[int, ...]:
    """A text that changes when a config's source is edited; empty when the source cannot be looked at."""
    try:
        file_status = path.stat()
    except OSError:
        return ()
    return (file_status.st_mtime_ns, file_status.st_size, file_status.st_ino)


class BootLoop:
    """The services of one host. Made with checked configs that lie in the run directory already."""

    def __init__(
        self,
        config: BootConfig,
        rendered: Sequence[Rendered],
        backend: Backend,
        *,
        overrides: Overrides | None = None,
        listener: serving.NotifyListener | None = None,
        observer: Observer | None = None,
    ) -> None:
        """`observer` hears of changes and says whether to go on."""
        self._config = config
        self._run_dir = config.run_dir
        self._backend = backend
        self._listener = listener
        self._observer = observer
        self._services: list[_WatchedService] = []
        self._stopping = False
        self._hurry = False
        self._since = clock.wall().isoformat(timespec="seconds")
        self._written: status.BootStatus | None = None
        self._wake = asyncio.Event()
        for service in rendered:
            unit = Unit(service.service, self._run_dir / f"{service.service.name}.yml")
            backend.prepare(unit)
            STARTS.labels(unit.name)  # there before the first start, which counts
            own_overrides = (overrides or {}).get(service.service.name, ())
            self._services.append(
                _WatchedService(unit, own_overrides, signature(service.service.config), since=self._since)
            )

    def stop(self) -> None:
        """Begin the orderly stop; a second call kills what has not ended yet. Called by the signal handlers."""
        if self._stopping:
            self._hurry = True
            log.warning("told to stop again: killing what still runs")
        else:
            log.info("stopping %d services in reverse order", len(self._services))
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Until stopped and every service that is not held has ended."""
        for service in self._services:
            await asyncio.to_thread(self._backend.adopt, service.unit)
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._hear)
        notify("READY=1")
        try:
            while True:
                await self._tick()
                if self._stopping and all(self._finished(service) for service in self._services):
                    break
                await self._wait()
        finally:
            for service in self._services:
                if service.probe is not None:
                    service.probe.cancel()
            if self._listener is not None:
                asyncio.get_running_loop().remove_reader(self._listener.fileno())
        for service in self._services:
            if service.state.phase is Phase.HELD:
                log.warning("%s: left as it is, %s", service.unit.name, service.state.reason)
        self._publish("stopped")

    def _hear(self) -> None:
        """A service spoke; only the news that it is ready is worth a look before its time."""
        if self._listener is not None and self._listener.receive():
            self._wake.set()

    async def _wait(self) -> None:
        """Until the next look is due, a service ends, says something, or a signal comes."""
        moving = any(service.state.phase in {Phase.STARTING, Phase.STOPPING} for service in self._services)
        hasty = moving or self._stopping
        due = [service.state.until for service in self._services if service.state.phase is Phase.BACKOFF]
        longest = min([QUICK if hasty else self._config.interval, *(until - clock.monotonic() for until in due)])
        loop = asyncio.get_running_loop()
        descriptors = self._backend.descriptors()
        for descriptor in descriptors:
            loop.add_reader(descriptor, self._wake.set)
        try:
            async with asyncio.timeout(max(0.01, longest)):
                await self._wake.wait()
        except TimeoutError:
            pass
        finally:
            for descriptor in descriptors:
                loop.remove_reader(descriptor)
        self._wake.clear()

    async def _tick(self) -> None:
        now = clock.monotonic()
        if self._listener is not None:
            self._listener.receive()
        await asyncio.to_thread(self._look)
        if self._listener is not None:
            self._listener.forget_others({service.seen.pid for service in self._services})
        gates, sentences = plan.open_gates(
            [service.unit.spec for service in self._services],
            [service.state for service in self._services],
            [service.gate for service in self._services],
            now,
        )
        for sentence in sentences:
            log.warning("%s", sentence)
        for service, gate in zip(self._services, gates, strict=True):
            service.gate = gate
        # A stop goes in reverse order, so that the end of one is the turn of the one before in the same look.
        order = range(len(self._services))
        for index in reversed(order) if self._stopping else order:
            service = self._services[index]
            self._reread(service)
            with pidfile.locked(self._run_dir / f"{service.unit.name}.pid") as free:
                facts = self._facts(index, free=free, now=now)
                await self._step(service, facts, now)
            self._probe(service, now)
        self._publish("stopping" if self._stopping else "running")
        running = sum(service.state.phase is Phase.RUNNING for service in self._services)
        notify("WATCHDOG=1", f"STATUS={running} of {len(self._services)} services run")

    def _look(self) -> None:
        """Ask the backend about all services; in a thread, as all that the backend does."""
        self._backend.refresh()
        for service in self._services:
            service.seen = self._backend.poll(service.unit)

    def _facts(self, index: int, *, free: bool, now: float) -> ServiceFacts:
        service = self._services[index]
        name, observed = service.unit.name, service.seen
        if free:
            holds.forget_expired(self._run_dir, name)
            hold = holds.read_one(self._run_dir, name)
            holder = hold.sentence if hold is not None else ""
        else:
            holder = f"its pid file is locked by {pidfile.holder(self._run_dir / f'{name}.pid')}"
        if holds.take_release(self._run_dir, name):
            service.renewed = True
        renewed, service.renewed = service.renewed, False
        is_serving, trouble = self._checked(service, now)
        before, service.incarnation = service.incarnation, observed.incarnation or service.incarnation
        return ServiceFacts(
            process=observed.process,
            code=observed.code,
            detail=observed.detail,
            outdated=observed.outdated,
            another=before not in {"", service.incarnation},
            serving=is_serving,
            trouble=trouble,
            held=holder,
            may_start=service.gate is not None,
            renewed=renewed,
            ending=self._stopping,
            turn=all(self._finished(later) for later in self._services[index + 1 :]),
        )

    def _checked(self, service: _WatchedService, now: float) -> tuple[bool | None, str]:
        """The result of a check that has ended since the last look."""
        if service.seen.leaving:  # it need not serve, whatever stops it
            if service.probe is not None and service.probe.done():
                service.probe = None
            return None, ""
        if service.unit.spec.serving is None:
            return self._own_word(service, now)
        if service.probe is None or not service.probe.done():
            return None, ""
        trouble = service.probe.result()
        service.probe = None
        return (None if service.seen.pid is None else trouble == ""), trouble

    def _own_word(self, service: _WatchedService, now: float) -> tuple[bool | None, str]:
        """The word of a service without an address about itself, to boot or to the backend."""
        observed, state = service.seen, service.state
        if now < service.next_probe:
            return None, ""
        if observed.ready is not None:
            if state.phase is Phase.RUNNING or now - state.since >= service.unit.spec.start_timeout:
                service.next_probe = now + self._config.interval
            return observed.ready, "" if observed.ready else "it has not said yet that it is ready"
        if observed.pid is None:
            return None, ""
        if self._listener is None:
            return True, ""
        if observed.found:
            self._listener.vouch(observed.pid)
        if state.phase is Phase.RUNNING:
            service.next_probe = now + self._config.interval
        return self._listener.serving(observed.pid)

    def _probe(self, service: _WatchedService, now: float) -> None:
        """Begin the next check when it is due."""
        target = service.unit.spec.serving
        if target is None or service.probe is not None or now < service.next_probe:
            return
        state = service.state
        if state.phase not in {Phase.STARTING, Phase.RUNNING}:
            return
        patient = state.phase is Phase.RUNNING or now - state.since >= service.unit.spec.start_timeout
        service.next_probe = now + (self._config.interval if patient else QUICK)
        service.probe = asyncio.create_task(serving.probe(target, service.unit.spec.serving_timeout))
        service.probe.add_done_callback(lambda _: self._wake.set())

    async def _step(self, service: _WatchedService, facts: ServiceFacts, now: float) -> None:
        """One planned step (the seeds' body between lock and unlock)."""
        unit = service.unit
        if self._hurry and service.state.phase is Phase.STOPPING:
            service.state = dataclasses.replace(service.state, until=min(service.state.until, now))
        decision = plan.decide(unit.spec, service.state, facts, now)
        if decision.state.phase is not service.state.phase:
            self._wake.set()  # services that wait for this one need not wait for the next look
            service.since = clock.wall().isoformat(timespec="seconds")
        service.state = decision.state
        if decision.sentence:
            level = logging.INFO
            if decision.state.phase in {Phase.BACKOFF, Phase.FATAL, Phase.HELD} or decision.state.missed:
                level = logging.WARNING
            log.log(level, "%s: %s", unit.name, decision.sentence)
        if decision.action is Action.START:
            if service.probe is not None:  # of the former process: its answer says nothing about the next one
                service.probe.cancel()
                service.probe = None
            service.next_probe = 0.0
            STARTS.labels(unit.name).inc()
            await asyncio.to_thread(self._backend.start, unit)
            service.seen = await asyncio.to_thread(self._backend.poll, unit)
            log.info("%s: %s", unit.name, self._backend.describe(unit))
        elif decision.action in {Action.TERMINATE, Action.KILL}:
            await asyncio.to_thread(self._backend.stop, unit, force=decision.action is Action.KILL)
        elif decision.action is Action.CLEAR:
            await asyncio.to_thread(self._backend.clear, unit)

    def _finished(self, service: _WatchedService) -> bool:
        return service.state.phase in {Phase.STOPPED, Phase.HELD} and not (
            service.state.phase is Phase.STOPPED
            and service.seen.process is Process.RUNNING
            and service.state.kills < plan.KILLS
        )

    def _reread(self, service: _WatchedService) -> None:
        """Notice an edited config; a good one is written for the next start and ends FATAL, a bad one is told."""
        new_signature = signature(service.unit.spec.config)
        if new_signature == service.signature or self._stopping:
            return
        service.signature = new_signature
        try:
            rendered = render(service.unit.spec, self._config.variables, service.overrides)
        except ConfigError as exc:
            log.warning("%s: the changed config is not used: %s", service.unit.name, exc)
            return
        try:
            if service.unit.config.read_text(encoding="utf-8") == rendered.text:
                return
            write_config(rendered, self._run_dir)
        except OSError as exc:
            log.warning("%s: the changed config cannot be written: %s", service.unit.name, exc)
            return
        self._backend.prepare(service.unit)
        service.renewed = True
        effect = "takes effect at its next start" if service.seen.process is Process.RUNNING else "is used from now on"
        log.info("%s: its config has changed, which %s", service.unit.name, effect)

    def _publish(self, state: status.BootState) -> None:
        """Write boot.json when something in it has changed; a full disk must not stop the loop."""
        entries = []
        for service in self._services:
            word = serving.Word()
            if self._listener is not None and service.seen.pid is not None:
                word = self._listener.word(service.seen.pid)
            entries.append(
                status.ServiceStatus(
                    name=service.unit.name,
                    kind=service.unit.spec.kind,
                    state=service.state.phase,
                    pid=service.seen.pid,
                    restarts=service.state.restarts,
                    reason=service.state.reason,
                    since=service.since,
                    status=service.seen.status or word.status,
                )
            )
        current = status.BootStatus(
            name=self._config.name,
            version=judge.__version__,
            backend=self._config.backend,
            pid=os.getpid(),
            state=state,
            since=self._since,
            services=entries,
        )
        if current == self._written:
            return
        try:
            status.write(self._run_dir, current)
        except OSError as exc:
            log.warning("%s cannot be written: %s", self._run_dir / "boot.json", exc.strerror)
        else:
            self._written = current
        if self._observer is not None and not self._observer(current) and not self._stopping:
            self.stop()
