"""judge_place and judge_release on this machine: what a run changes, foretells, and leaves to the next one."""

import base64
import getpass
import grp
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.ansible import module_utils, plugin, run_module

kernel = module_utils("judge_kernel")
lock = module_utils("judge_lock")
release = plugin("modules", "judge_release")
MINE = {"owner": getpass.getuser(), "group": grp.getgrgid(os.getgid()).gr_name}


def item(path: Path, text: str | None = None, **fields: Any) -> dict[str, Any]:
    content = {} if text is None else {"state": "file", "content": base64.b64encode(text.encode()).decode()}
    return {"dest": str(path), **MINE, **content, **fields}


def place(*items: dict[str, Any], check: bool = False, diff: bool = False) -> dict[str, Any]:
    return run_module("judge_place", {"items": list(items), "diff": diff}, check=check)


def test_a_kernel_setting_is_handed_back(tmp_path: Path) -> None:
    """The kernel's files are stood in for by files; a choice has brackets."""
    record, knobs = tmp_path / "record/former.json", tmp_path / "knobs"
    knobs.mkdir()
    for name, text in (("cpu0", "powersave"), ("cpu1", "powersave"), ("thp", "[always] madvise never"), ("both", "9")):
        (knobs / name).write_text(f"{text}\n")
    governors = f"w- {knobs}/cpu* - - - - performance\n"
    full = f"# ours\n{governors}w- {knobs}/thp - - - - madvise\nw- {knobs}/both - - - - 1\nw- {knobs}/none - - - - 1\n"

    def place_with(dest: str, text: str) -> None:
        kernel.remember(dest, text, record)
        for path, value in kernel.set_by(text).items():
            if Path(path).exists():
                Path(path).write_text(value)
        kernel.hand_back(dest, text, record)

    place_with("a.conf", full)
    place_with("b.conf", f"w- {knobs}/both - - - - 1\n")
    place_with("a.conf", full)
    assert (knobs / "cpu1").read_text() == "performance"
    place_with("a.conf", governors)
    assert (knobs / "thp").read_text() == "always"
    assert (knobs / "both").read_text() == "1", "b.conf sets it"
    assert (knobs / "cpu0").read_text() == "performance"
    place_with("a.conf", "")
    assert {(knobs / name).read_text() for name in ("cpu0", "cpu1")} == {"powersave"}
    assert not (knobs / "none").exists()
    assert kernel.set_by("-net.core.somaxconn = 4096\n") == {"/proc/sys/net/core/somaxconn": "4096"}


def test_placing_settings_notes_the_values_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the module does it: the note comes before the command that sets, the way back after it."""
    module = plugin("modules", "judge_place")
    monkeypatch.setattr(module, "FORMER", tmp_path / "former.json")
    monkeypatch.setattr(module, "REFUSED", tmp_path / "refused.json")
    knob = tmp_path / "knob"
    knob.write_text("0")
    runs = SimpleNamespace(run_command=lambda command: (knob.write_text("1") and 0, "", ""))
    placer = module.Placer(runs, write=True, show=False)
    for text, value in ((f"w- {knob} - - - - 1\n", "1"), ("# nothing\n", "0")):
        entry = {**item(tmp_path / "a.conf", text), "mode": "0644", "validate": "", "apply": "set", "keep": ""}
        placer._replace(tmp_path / "a.conf", text.encode(), entry)
        assert knob.read_text() == value


def test_a_setting_that_somebody_else_changed_is_set_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Foretold and done by the module; what the kernel did not take at first, and what a later file sets, is not."""
    module = plugin("modules", "judge_place")
    monkeypatch.setattr(module, "FORMER", tmp_path / "former.json")
    monkeypatch.setattr(module, "REFUSED", tmp_path / "refused.json")
    names = ("ours", "refused", "shared")
    knobs = {name: tmp_path / name for name in names}
    for knob in knobs.values():
        knob.write_text("0")
    text = "".join(f"w- {knob} - - - - 1\n" for knob in knobs.values())
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/b.conf").write_text(f"w- {knobs['shared']} - - - - 2\n")
    apply = lambda _: (knobs["ours"].write_text("1") and 0, "", "")  # noqa: E731 - the kernel refuses the other
    entry = {**item(tmp_path / "etc/a.conf", text), "mode": "0644", "validate": "", "apply": "set", "keep": ""}
    entry |= {"secret": False, "then": ""}

    def placed(*, write: bool = True) -> list[str]:
        placer = module.Placer(SimpleNamespace(run_command=apply), write=write, show=False)
        placer.place(entry)
        return list(placer.changed)

    assert placed() == [entry["dest"]] and placed() == []
    knobs["ours"].write_text("7\n")
    assert placed(write=False) == [entry["dest"]] and knobs["ours"].read_text() == "7\n"
    assert placed() == [entry["dest"]] and placed() == []
    assert [knobs[name].read_text() for name in names] == ["1", "0", "0"]


def test_the_file_before_is_kept_once(tmp_path: Path) -> None:
    target, backup = tmp_path / "nginx.conf", tmp_path / "nginx.conf.before-judge"
    for before in ("# somebody's", "# somebody's newer", "# Written by Ansible: the next"):
        target.write_text(before)
        assert place(item(target, "# Written by Ansible: new", keep=str(backup)))["changed"]
        assert backup.read_text() == "# somebody's"
    backup.unlink()
    assert place(item(target, "# Written by Ansible: newer", keep=str(backup)))["changed"]
    assert not backup.exists(), "it was ours"


def test_items_in_place_are_not_touched(tmp_path: Path) -> None:
    target = tmp_path / "etc"
    items = [
        item(target, state="directory"),
        item(target / "a.yml", "text", mode="0640"),
        item(target / "gone", state="absent"),
        item(target / "link", state="link", src="/dev/null"),
    ]
    paths = [str(target), str(target / "a.yml"), str(target / "link")]
    assert place(*items, check=True)["paths"] == paths
    assert not target.exists()
    assert place(*items)["paths"] == paths
    assert (target / "a.yml").read_text() == "text"
    assert (target / "a.yml").stat().st_mode & 0o777 == 0o640
    before = (target / "a.yml").stat()
    assert place(*items)["changed"] is False
    assert (target / "a.yml").stat() == before
    assert place(*items, check=True)["changed"] is False


@pytest.mark.parametrize("damage", ["mode", "text", "link", "leftover"])
def test_a_changed_file_is_corrected(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "a"
    place(item(file, "text"))
    if damage == "mode":
        file.chmod(0o666)
    elif damage == "text":
        file.write_text("other")
    elif damage == "link":
        file.rename(tmp_path / "b")
        file.symlink_to(tmp_path / "b")
    else:
        file.unlink()
        (tmp_path / ".a.new").write_text("of a run that was cut off")
    assert place(item(file, "text"))["paths"] == [str(file)]
    assert (file.read_text(), file.is_symlink(), file.stat().st_mode & 0o777) == ("text", False, 0o644)
    assert not (tmp_path / ".a.new").exists()


def test_a_file_that_fails_its_check_leaves_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "a"
    place(item(file, "good"))
    result = place(item(file, "bad", validate="grep -q good %s"))
    assert result["failed"] and "failed to validate, the old one is still in place" in result["msg"]
    assert file.read_text() == "good"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_settings_that_cannot_be_put_into_force_are_not_in_place(tmp_path: Path) -> None:
    file = tmp_path / "a"
    result = place(item(file, "text", validate="true", apply="false %s"))
    assert result["failed"] and "could not be applied, the old one is still in place" in result["msg"]
    assert not file.exists()


@pytest.mark.parametrize("key", ["validate", "apply"])
def test_a_command_runs_only_for_what_changes(tmp_path: Path, key: str) -> None:
    file, copy = tmp_path / "a", tmp_path / "seen"
    checked = item(file, "text", **{key: f"cp %s {copy}"})
    place(checked, check=True)
    assert not copy.exists()
    place(checked)
    assert copy.read_text() == "text"
    copy.unlink()
    place(checked)
    assert not copy.exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="what is due is noted in /run, as root")
def test_a_command_that_failed_is_left_to_the_next_run(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    follow = item(tmp_path / "a", "text", then=f"cp {ready} {tmp_path}/followed")
    assert "failed" in place(follow)["msg"]
    assert (tmp_path / "a").read_text() == "text"
    assert place(follow, check=True)["changed"] is True
    ready.write_text("now")
    assert place(follow)["changed"] is True
    assert (tmp_path / "followed").read_text() == "now"
    assert place(follow)["changed"] is False


def test_a_secret_is_in_no_difference(tmp_path: Path) -> None:
    file = tmp_path / "a"
    place(item(file, "first secret"))
    result = place(item(file, "second secret", secret=True), diff=True, check=True)
    assert result["changed"] and result["diff"]
    assert "first secret" not in str(result) and "second secret" not in str(result)
    assert "second text" in str(place(item(file, "second text"), diff=True, check=True)["diff"])


def test_an_owner_who_is_still_to_come_is_foretold(tmp_path: Path) -> None:
    late = item(tmp_path / "a", "text") | {"owner": "judge-nobody-here"}
    assert place(late, check=True)["changed"] is True
    result = place(late)
    assert result["failed"] and "judge-nobody-here" in result["msg"] and "run site.yml" in result["msg"]
    assert list(tmp_path.iterdir()) == []


def test_a_release_is_named_by_its_content(tmp_path: Path) -> None:
    wheel = tmp_path / "judge-1.0-cp311-abi3-linux_x86_64.whl"
    wheel.write_bytes(b"one")
    assert release.the_wheel(tmp_path, "1.0") == wheel
    first = release.name_of("1.0", wheel)
    wheel.write_bytes(b"two")
    assert first.startswith("1.0-") and release.name_of("1.0", wheel) != first
    (tmp_path / "judge-1.0-cp311-abi3-linux_aarch64.whl").touch()
    with pytest.raises(release.ReleaseError, match=r"2 wheels of judge 1\.0"):
        release.the_wheel(tmp_path, "1.0")
    assert release.the_wheel(tmp_path, "2.0") is None


def test_a_release_whose_wheel_has_gone_is_taken_as_it_is_installed(tmp_path: Path) -> None:
    """The bundle has the next release only, and `rollback.yml` goes back to the one before."""
    for number, name in enumerate(("1.0-aaaa", "1.0-bbbb", "1.0-unfinished", "1.0.1-cccc", "1.0-2-dddd")):
        (tmp_path / name).mkdir()
        if name != "1.0-unfinished":
            (tmp_path / name / ".complete").touch()
            os.utime(tmp_path / name / ".complete", (number, number))
    current = tmp_path / "current"
    assert release.installed_of(tmp_path, "1.0", current).name == "1.0-bbbb"
    current.symlink_to(tmp_path / "1.0-aaaa")
    assert release.installed_of(tmp_path, "1.0", current).name == "1.0-aaaa"
    assert release.version_of(current) == "1.0" and release.version_of(tmp_path / "none") == ""
    with pytest.raises(release.ReleaseError, match=r"0 wheels of judge 2\.0"):
        release.installed_of(tmp_path, "2.0", current)


def test_an_installed_release_waits_for_its_hosts_turn(tmp_path: Path) -> None:
    """A host that crashes between the installation and its turn starts what it had."""
    releases, source, current = tmp_path / "releases", tmp_path / "wheels", tmp_path / "current"
    source.mkdir()
    wheel = source / "judge-2.0-py3-none-any.whl"
    wheel.write_bytes(b"two")
    old, new = releases / "1.0-aaaa", releases / release.name_of("2.0", wheel)
    for place in (old, new):
        place.mkdir(parents=True)
        (place / ".complete").touch()
    current.symlink_to(old)

    def brought_about(state: str, *, check: bool = False) -> dict[str, Any]:
        params = {"source": str(source), "version": "2.0", "releases": str(releases), "current": str(current)}
        module = SimpleNamespace(params={**params, "state": state, "coming": []}, check_mode=check)
        result: dict[str, Any] = release.bring_about(module)
        return result

    for check in (True, False):
        outcome = brought_about("installed", check=check)
        assert (outcome["changed"], outcome["switched"], outcome["before"]) == (False, False, "1.0")
        assert current.readlink() == old
    assert brought_about("current", check=True)["switched"]
    assert current.readlink() == old
    assert brought_about("current") == {"changed": True, "release": str(new), "switched": True, "before": "1.0"}
    assert current.readlink() == new and old.is_dir(), "the one before stays"
    assert not brought_about("current")["changed"]
    current.unlink()
    assert brought_about("installed")["switched"], "where nothing was in use there is no turn to wait for"
    assert current.readlink() == new


def test_a_release_in_use_is_never_removed(tmp_path: Path) -> None:
    for name in ("1-a", "1-b", "1-c"):
        (tmp_path / name).mkdir()
    assert release.outlived(tmp_path, {tmp_path / "1-b", tmp_path / "1-c"}) == [tmp_path / "1-a"]


def test_a_release_that_a_daemon_still_runs_from_is_never_removed(tmp_path: Path) -> None:
    """A run that was cut off before its restarts has switched the link twice."""
    releases, current = tmp_path / "releases", tmp_path / "current"
    (releases / "1-a/bin").mkdir(parents=True)
    (releases / "1-a/bin/python").symlink_to(sys.executable)
    (releases / "1-a/bin/judge").write_text(f"#!{releases}/1-a/bin/python\nprint('up', flush=True)\ninput()\n")
    (releases / "1-a/bin/judge").chmod(0o755)
    current.symlink_to(releases / "1-a")
    with subprocess.Popen([current / "bin/judge"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"up\n"
        for name in ("2-b", "3-c"):
            (releases / name).mkdir()
            release.switch(current, releases / name, releases)
        assert sorted(path.name for path in releases.iterdir()) == ["1-a", "2-b", "3-c"]
        daemon.communicate(b"\n")
    (releases / "4-d").mkdir()
    release.switch(current, releases / "4-d", releases)
    assert sorted(path.name for path in releases.iterdir()) == ["3-c", "4-d"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes a host")
def test_the_lock_names_its_holder(tmp_path: Path) -> None:
    with lock.one_at_a_time(tmp_path):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
        with pytest.raises(lock.LockedError, match=f"process {os.getpid()} holds"), lock.one_at_a_time(tmp_path, 0.3):
            pass
    with lock.one_at_a_time(tmp_path, 0.0):
        pass


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes a host")
def test_a_removed_lock_file_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset removes its directory: who waited takes the file that is there now, as those who come later do."""
    notes = tmp_path / "notes"
    before = lock.one_at_a_time(notes)
    before.__enter__()

    def while_it_waits(_seconds: float) -> None:
        shutil.rmtree(notes)
        before.__exit__(None, None, None)

    monkeypatch.setattr(lock.time, "sleep", while_it_waits)
    with lock.one_at_a_time(notes):
        assert (notes / "lock").read_text() == str(os.getpid())
        monkeypatch.undo()
        with pytest.raises(lock.LockedError), lock.one_at_a_time(notes, 0.3):
            pass
