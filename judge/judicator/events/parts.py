"""The parts of one judicator that tell others of what happens, wired."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping

from judge.common.webhooks import addresses
from judge.common.webhooks.sender import Sender
from judge.config import JudicatorConfig
from judge.judicator.blobs import Blobs
from judge.judicator.database import Database
from judge.judicator.events.callbacks import Callbacks
from judge.judicator.events.calls import WebhookCalls
from judge.judicator.events.outbox import Outbox
from judge.judicator.events.post import Post
from judge.judicator.events.streaming import Changes
from judge.judicator.tasks.reading import TaskReader


class Events:
    """Webhooks, callbacks and changes of one judicator."""

    def __init__(self, config: JudicatorConfig, database: Database, reader: TaskReader, blobs: Blobs) -> None:
        allowed = addresses.networks(config.webhooks.networks)
        self.post = Post(database, Sender(allowed))
        self.outbox = Outbox(database, reader, self.post.wake)
        self.changes = Changes(database)
        callback_networks = addresses.networks(config.webhooks.callback_networks)
        self._callbacks = Callbacks(database, blobs, Sender(callback_networks, setting="webhooks.callback_networks"))
        self.calls = WebhookCalls(database, allowed, self.post.wake)

    def loops(self, leading: Callable[[], bool]) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """The endless loops, by name; those of webhooks work while this judicator leads."""
        return {
            "the webhooks": functools.partial(self.outbox.run, leading),
            "the calls of webhooks": functools.partial(self.post.run, leading),
            "the callbacks": functools.partial(self._callbacks.run, leading),
            "the changes": self.changes.run,
        }
