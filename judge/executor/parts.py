"""The parts that the objects of the executor's main loop share. `main.make` makes them; tests use the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from judge.config import ExecutorConfig
from judge.executor.machine import Disk
from judge.executor.slot.parallel.shared_queue import Sharing
from judge.executor.slots import Slots
from judge.executor.storage.data import BlobClient
from judge.executor.storage.spool import Spool
from judge.executor.table import TaskTable
from judge.executor.threads import Mailbox, ThreadPool
from judge.model.base import CoreSpeed
from judge.rpc.client import RpcClient


@dataclass
class ExecutorParts:
    config: ExecutorConfig
    table: TaskTable
    slots: Slots
    spool: Spool
    disk: Disk
    blob_client: BlobClient
    mailbox: Mailbox
    pool: ThreadPool
    rpc: RpcClient
    outputs: Path
    slot_memory: int | None = None
    checks: list[str] = field(default_factory=list)
    calibration: list[CoreSpeed] = field(default_factory=list)
    weak: bool = False
    version: str = ""
    sharing: Sharing | None = None
