"""Replacing files: a reader and a kill at any moment meet the old content or the new one."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from judge import failpoint, files


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("content", ["two", b"two"])
def test_a_file_is_replaced_with_its_mode(work, content, durable):
    path = work / "file"
    files.replace(path, "a longer one", durable=durable)
    assert path.stat().st_mode & 0o777 == 0o600
    files.replace(path, content, 0o644, durable=durable)
    assert path.read_text() == "two" and path.stat().st_mode & 0o777 == 0o644
    assert names(work) == ["file"]


def test_private_whatever_was_there_before_and_whatever_the_umask(work):
    path = work / "file"
    path.write_text("old")
    path.chmod(0o666)
    before = os.umask(0)
    try:
        files.replace(path, "new", durable=False)
        assert path.stat().st_mode & 0o777 == 0o600
        os.umask(0o077)
        files.replace(path, "new", 0o644, durable=False)
        assert path.stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


def test_what_fails_leaves_the_old_file_and_nothing_else(work, monkeypatch):
    path = work / "file"
    files.replace(path, "old", durable=True)

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            files.replace(path, "new", durable=True)
    with pytest.raises(TypeError), files.replacing(path, durable=False) as file:
        file.writelines([b"half", None])
    (work / "directory").mkdir()
    with pytest.raises(IsADirectoryError):
        files.replace(work / "directory", "new", durable=False)
    assert path.read_text() == "old" and names(work) == ["directory", "file"]


def test_a_link_is_replaced_and_not_followed(work):
    (work / "target").write_text("kept")
    (work / "link").symlink_to("target")
    files.replace(work / "link", "new", durable=False)
    assert (work / "target").read_text() == "kept" and not (work / "link").is_symlink()


def test_only_what_lasts_waits_for_the_disk(work, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").resolve()))
    files.replace(work / "file", "one", durable=False)
    assert synced == []
    files.replace(work / "file", "one", durable=True)
    assert len(synced) == 2 and synced[1] == work.resolve(), "the content, and then its name"


@pytest.mark.parametrize(("name", "content"), [("file.written", "old"), ("file.renamed", "new")])
def test_a_kill_leaves_one_of_both_and_what_a_sweep_removes(work, name, content):
    path = work / "file"
    path.write_text("old")
    program = (
        "import pathlib, sys; from judge import files; files.replace(pathlib.Path(sys.argv[1]), 'new', durable=True)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, path], env={**os.environ, failpoint.VARIABLE: name}, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    assert path.read_text() == content
    left = [one for one in names(work) if one != "file"]
    assert len(left) == (content == "old") and all(files.is_leftover(one) for one in left)
    (work / ".mine").touch()
    (work / "notes.1.tmp").touch()
    files.sweep(work)
    assert names(work) == [".mine", "file", "notes.1.tmp"]


def test_sweeping_what_is_not_there(work):
    files.sweep(work / "none")


def test_threads_that_replace_one_file_do_not_mix(work):
    path = work / "file"
    texts = [letter * 20_000 for letter in "abcd"]
    files.replace(path, texts[0], durable=False)
    threads = [
        threading.Thread(target=lambda text=text: [files.replace(path, text, durable=False) for _ in range(50)])
        for text in texts
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert path.read_text() in texts
    for thread in threads:
        thread.join()
    assert names(work) == ["file"]
