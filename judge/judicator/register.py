"""Registration of this judicator's address (seed: Register; docs/protocol.md, rule 9)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import judge
from judge.config import JudicatorConfig
from judge.etcd.client import Etcd
from judge.etcd.registry import SERVICES, Registration, entry_value


class Registrar:
    """Keeps `judicator/service/NAME` in etcd under a lease while this judicator serves."""

    def __init__(self, config: JudicatorConfig, etcd: Etcd) -> None:
        self._ttl = config.register_ttl
        value = entry_value(config.address, judge.__version__)
        self._registration = Registration(etcd, f"{SERVICES}{config.name}", value, config.register_ttl)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="register")
        self.registered = False

    async def run(self) -> None:
        """Refresh the registration until cancelled; a failed try is repeated sooner."""
        while True:
            loop = asyncio.get_running_loop()
            self.registered = await loop.run_in_executor(self._thread, self._registration.step)
            await asyncio.sleep(self._ttl / 3 if self.registered else min(0.5, self._ttl / 3))

    async def withdraw(self) -> None:
        """End the registration, so that clients go elsewhere at once; called when `run` has ended."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._registration.withdraw)
        self._thread.shutdown(wait=False)
        self.registered = False
