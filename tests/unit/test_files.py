"""Replacing files: a reader and a kill at any moment meet the old content or the new one."""

import ast
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.common import failpoint, files


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


def test_a_new_file_has_its_mode_despite_the_old_file_and_the_umask(work):
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


def test_a_failed_replacement_leaves_the_old_file_only(work, monkeypatch):
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


def test_only_durable_files_wait_for_the_disk(work, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").resolve()))
    files.replace(work / "file", "one", durable=False)
    assert synced == []
    files.replace(work / "file", "one", durable=True)
    assert len(synced) == 2 and synced[1] == work.resolve(), "the content, and then its name"


@pytest.mark.parametrize(("name", "content"), [("file.written", "old"), ("file.renamed", "new")])
def test_a_killed_replacement_leaves_either_content_and_a_sweep_removes_leftovers(work, name, content):
    path = work / "file"
    path.write_text("old")
    replace = "files.replace(pathlib.Path(sys.argv[1]), 'new', durable=True)"
    program = f"import pathlib, sys; from judge.common import files; {replace}"
    ended = subprocess.run(
        [sys.executable, "-c", program, path], env={**os.environ, failpoint.VARIABLE: name}, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    assert path.read_text() == content
    leftovers = [file for file in names(work) if file != "file"]
    assert len(leftovers) == (content == "old") and all(files._LEFTOVER.fullmatch(file) for file in leftovers)
    (work / ".mine").touch()
    (work / "notes.1.tmp").touch()
    files.sweep(work)
    assert names(work) == [".mine", "file", "notes.1.tmp"]
    files.sweep(work / "no directory")


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


ROOT = Path(__file__).resolve().parents[2]
ONE_WAY = {"judge/common/files.py", "plugins/module_utils/judge_writing.py"}
# Functions that rename, or wait for the disk, without them, and the reason.
BY_HAND = {
    "judge/backup/repository.py:flush": "a pack is named by its content, so at its end",
    "judge/boot/backend_process.py:rotate": "a log that goes on under another name",
    "judge/deploy/bundle/debs.py:fetch": "a package that was fetched, and can be again",
    "judge/deploy/bundle/wheels.py:build_project": "a directory of what was built, and can be again",
    "judge/deploy/bundle/wheels.py:build_source": "moves a wheel that pip has built",
    "judge/deploy/bundle/wheels.py:settle": "moves wheels that are there whole",
    "judge/etcd/datadir.py:discard": "a directory, put aside",
    "judge/executor/storage/blobs.py:_add": "a blob that was fetched whole, and can be again; its hash tells",
    "judge/executor/storage/spool.py:load": "a file that cannot be read, put aside",
    "judge/common/pki/authority.py:make": "two files, durable both before the first gets its name",
    "judge/deploy/recovery/alone.py:_copy_aside": "a directory, which has its name once it is whole",
    "plugins/module_utils/judge_apt.py:no_service_starts": "a file of Debian's, put aside for the length of a block",
    "plugins/module_utils/judge_apt.py:remove_leftover_policy": "a file of Debian's, put back",
    "plugins/module_utils/judge_former.py:keep": "a directory, which has its name once it is whole",
    "plugins/module_utils/judge_keys.py:install": "two files at once, written by `written`",
    "plugins/module_utils/judge_systemd.py:remember": "a note in /run, which a power cut takes anyway",
    "plugins/module_utils/judge_former.py:settle": "files of a staging directory, whose digests each run compares",
    "plugins/modules/judge_place.py:_link": "a link, made durable by `keep_names`",
    "plugins/modules/judge_place.py:_replace": "a file by `written`, which is checked before it gets its name",
    "plugins/modules/judge_release.py:switch": "a link to a release",
}


def by_hand(path: Path) -> Iterator[str]:
    """The functions of a module that rename a file or wait for the disk; text has a `replace` with two arguments."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    for function in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, functions)):
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                name, arguments = call.func.attr, len(call.args) + len(call.keywords)
                of_os = isinstance(call.func.value, ast.Name) and call.func.value.id == "os"
                of_path = name == "replace" and len(call.args) == arguments == 1
                if of_path or name in {"fsync", "fdatasync", "rename", "renames"} or (of_os and name == "replace"):
                    yield function.name


def test_files_are_replaced_in_one_way_or_there_is_a_reason():
    functions = {
        f"{path.relative_to(ROOT)}:{name}"
        for room in ("judge", "plugins")
        for path in (ROOT / room).rglob("*.py")
        if str(path.relative_to(ROOT)) not in ONE_WAY
        for name in by_hand(path)
    }
    assert functions == set(BY_HAND)
