"""Callers that watch a task."""

from bson import ObjectId

from judge.judicator.hub import Hub


def test_a_version_that_was_read_wakes_nobody_and_a_newer_one_does() -> None:
    hub, task = Hub(), ObjectId()
    with hub.watching(task) as watch:
        watch.version = 3
        hub.changed(task, 3)
        assert not watch.changed.is_set()
        hub.changed(task, 4)
        assert watch.changed.is_set()
        watch.changed.clear()
        hub.changed(task)
        assert watch.changed.is_set() and watch.done is None
        hub.changed(task, 5, done=True)
        assert watch.done == 5
