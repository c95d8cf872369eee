"""The status of any judicator has the warnings of all judicators' hosts."""

import datetime
from pathlib import Path

import pytest

from judge.judicator import hosts
from judge.model import messages as m
from judge.model.overview import StatusReply
from tests.support.judicators import World
from tests.support.servers import wait_for


def test_any_judicator_tells_of_the_disks_and_backups_of_all(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "_LOOK", 0.1)
    monkeypatch.setattr(hosts, "_LEAST_ROOM", 10**18)
    judicator = world.judicator("j1")
    world.judicator("j2", backups=tmp_path, backup_hours=1, disks=[tmp_path])

    def warnings() -> list[str]:
        return world.client(at=judicator).call("status", m.Empty(), StatusReply).warnings

    wait_for(lambda: any("'j2'" in text for text in warnings()), what="what j2 notes")
    sentences = [text for text in warnings() if "backup" in text or "disk" in text]
    assert len(sentences) == 3
    assert sentences[0].startswith(f"judicator 'j2' has no backup in {tmp_path} yet")
    assert sentences[1].startswith("the disk of judicator 'j2' has")
    assert sentences[2].startswith("no judicator has a backup of the last 8 days")
    (tmp_path / "backups").mkdir()
    (tmp_path / f"backups/{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}-01234567.json").write_text("{}")
    wait_for(lambda: not any("backup" in text for text in warnings()), what="the backup")
