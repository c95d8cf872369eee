#!/usr/bin/python
"""Put files, directories and links into their places on a host, all of them in one call."""

from __future__ import annotations

import base64
import contextlib
import grp
import hashlib
import os
import pwd
import shlex
import stat
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_kernel import FORMER, REFUSED, drifted, hand_back, note_refused, put_back, remember
from ..module_utils.judge_lock import RECORDS, LockedError, one_at_a_time
from ..module_utils.judge_writing import keep_names, put, written

DOCUMENTATION = r"""
module: judge_place
short_description: Put a role's files into their places
description:
  - Compares and writes any number of files in one call, which is what makes a run that changes nothing fast.
  - In check mode on a bare host, directories, owners and controller files that are still to come are predicted changes.
  - A file is replaced at once and as a whole; a file whose check fails leaves the old one in place.
options:
  items:
    description:
      - What to have, in this order, in the words of the builtin modules. Each has C(dest), and C(owner), C(group) and
        C(mode) where they are not root's 0644 (directories 0755).
      - C(state) is C(file) (the default, a copy of C(src), which is rendered first when it ends in C(.j2)), C(link) (to
        C(src)), C(directory) or C(absent).
      - C(validate) is a command, with C(%s) for the new file, that must succeed before the file takes its place.
      - C(apply) is one that puts the new file's settings into force, also before it takes its place. What is in place
        was so in force, and a run that was cut off forgets nothing. What a file of sysctl.d or tmpfiles.d no longer
        sets gets the value back that the kernel had before. A value that somebody else has changed since is set again.
      - C(then) is a command that runs once after all items when one of those that name it has changed. Until it has
        succeeded it is noted on the host, so that a run that is cut off leaves it to the next one.
      - C(keep) is where a file that was there before ours stays; what Ansible has written is not kept.
      - C(secret) keeps a content out of the diff.
    type: list
    elements: dict
    required: true
  users:
    description: System users, each with a group of its name, that are made before anything else.
    type: list
    elements: str
    default: []
author: [judge]
"""

EXAMPLES = r"""
- name: The executor's files are in their places
  judge_place:
    items:
      - {dest: /etc/judge/executor.yml, src: executor.yml.j2, mode: "0640", validate: judge config check %s}
"""

RETURN = r"""
paths: {description: "What was (or, in check mode, would be) changed.", type: list, returned: success}
"""

_DIRECTORY_MODE = "0755"
_FILE_MODE = "0644"
OURS = b"Written by Ansible"


class PlaceError(Exception):
    """An item that cannot be put into its place; the text is one sentence for who runs the playbook."""


def owner_ids(item: dict[str, Any]) -> tuple[int, int]:
    """(uid, gid) of an item; PlaceError when the host has no such user or group."""
    try:
        return pwd.getpwnam(item["owner"]).pw_uid, grp.getgrnam(item["group"]).gr_gid
    except KeyError:
        raise PlaceError(
            f"{item['dest']} is to belong to {item['owner']}:{item['group']}, which this host does not have; "
            "run site.yml, whose role judge_common makes the users"
        ) from None


def attributes_differ(status: os.stat_result, item: dict[str, Any]) -> bool:
    return (status.st_uid, status.st_gid) != owner_ids(item) or stat.S_IMODE(status.st_mode) != int(item["mode"], 8)


def looked_at(path: Path) -> os.stat_result | None:
    """The path itself, links not followed; None when there is nothing."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def note_path(command: str) -> Path:
    return RECORDS / f"then-{hashlib.sha256(command.encode()).hexdigest()[:16]}"


class Placer:
    def __init__(self, module: AnsibleModule, *, write: bool, show: bool) -> None:
        """`show`: collect differences of files that are no secrets."""
        self.module, self.write, self.show = module, write, show
        self.changed: list[str] = []
        self.due: list[str] = []
        self.diffs: list[dict[str, str]] = []

    def users(self, names: list[str]) -> None:
        for name in names:
            try:
                pwd.getpwnam(name)
            except KeyError:
                self.changed.append(f"user {name}")
                if self.write:
                    self._make_user(name)

    def _make_user(self, name: str) -> None:
        home = ["--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
        with contextlib.suppress(KeyError):
            grp.getgrnam(name)
            home += ["--gid", name]  # a run that was cut off, or the administrator, has made the group
        if "--gid" not in home:
            home.append("--user-group")
        self._run(["useradd", "--system", *home, name], f"user {name} could not be made")

    def _run(self, command: list[str], sentence: str) -> None:
        code, out, err = self.module.run_command(command)
        if code != 0:
            reason = " | ".join((err.strip() or out.strip() or f"exit code {code}").splitlines()[-3:])
            raise PlaceError(f"{sentence}: {reason}")

    def place(self, item: dict[str, Any]) -> None:
        path, follow_up = Path(item["dest"]), item["then"]
        note = note_path(follow_up)
        if follow_up and follow_up not in self.due and note.exists():
            self.changed.append(item["dest"])
            self.due.append(follow_up)
        status = looked_at(path)
        if not getattr(self, f"_{item['state']}")(path, status, item, write=False):
            return
        if item["dest"] not in self.changed:
            self.changed.append(item["dest"])
        if follow_up and follow_up not in self.due:
            self.due.append(follow_up)
        if self.write:
            if follow_up:
                RECORDS.mkdir(mode=0o755, exist_ok=True)
                note.write_text(f"{follow_up}\n", encoding="utf-8")
            getattr(self, f"_{item['state']}")(path, status, item, write=True)

    def finish(self) -> None:
        for command in self.due if self.write else []:
            self._run(shlex.split(command), f"`{command}` failed")
            note_path(command).unlink(missing_ok=True)

    def _absent(self, path: Path, status: os.stat_result | None, _item: dict[str, Any], *, write: bool) -> bool:
        if status and write:
            path.unlink()
        return status is not None

    def _link(self, path: Path, status: os.stat_result | None, item: dict[str, Any], *, write: bool) -> bool:
        if status and stat.S_ISLNK(status.st_mode) and str(path.readlink()) == item["src"]:
            return False
        if write:
            fresh = path.with_name(f".{path.name}.judge-new")
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(item["src"])
            fresh.replace(path)
            keep_names(path.parent)
        return True

    def _directory(self, path: Path, status: os.stat_result | None, item: dict[str, Any], *, write: bool) -> bool:
        if status and not path.is_dir():
            raise PlaceError(f"{path} is a file and has to be a directory; move it away")
        if status and not self._attributes(path.stat(), item):
            return False
        if write:
            path.mkdir(parents=True, exist_ok=True)
            self._settle(path, item)
        return True

    def _attributes(self, status: os.stat_result, item: dict[str, Any]) -> bool:
        """As attributes_differ; an owner that is still to be made is one that differs."""
        try:
            return attributes_differ(status, item)
        except PlaceError:
            if self.write:
                raise
            return True

    @staticmethod
    def _settle(path: Path, item: dict[str, Any]) -> None:
        os.chown(path, *owner_ids(item))
        path.chmod(int(item["mode"], 8))

    def _file(self, path: Path, status: os.stat_result | None, item: dict[str, Any], *, write: bool) -> bool:
        data = base64.b64decode(item["content"])
        old = path.read_bytes() if status and stat.S_ISREG(status.st_mode) else None
        if status and old == data:
            differs = self._attributes(status, item)
            if differs and write:
                self._settle(path, item)
            text = data.decode(errors="replace")
            drift = bool(item["apply"] and drifted(item["dest"], text, REFUSED))
            if drift and write:
                put_back(item["dest"], text, REFUSED)
            return differs or drift
        if write:
            self._replace(path, data, item)
        elif self.show:
            self._note(path, old, data, secret=item["secret"])
        return True

    def _replace(self, path: Path, data: bytes, item: dict[str, Any]) -> None:
        fresh = written(path, data, 0o600)
        try:
            self._settle(fresh, item)
            for key, fault in (("validate", "failed to validate"), ("apply", "could not be applied")):
                command = [word.replace("%s", str(fresh)) for word in shlex.split(item[key])]
                if not command:
                    continue
                if key == "apply":
                    remember(item["dest"], data.decode(errors="replace"), FORMER)
                self._run(command, f"{path} {fault}, the old one is still in place")
                if key == "apply":
                    hand_back(item["dest"], data.decode(errors="replace"), FORMER)
                    note_refused(item["dest"], data.decode(errors="replace"), REFUSED)
            self._keep(path, item["keep"])
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
        keep_names(path.parent)

    @staticmethod
    def _keep(path: Path, copy: str) -> None:
        """Keep what was there before the first file of ours."""
        if copy and path.is_file() and not Path(copy).exists() and OURS not in path.read_bytes():
            put(Path(copy), path.read_bytes(), stat.S_IMODE(path.stat().st_mode))

    def _note(self, path: Path, old: bytes | None, new: bytes, *, secret: bool) -> None:
        before = "" if old is None else "(secret)\n" if secret else old.decode(errors="replace")
        after = "(another secret)\n" if secret else new.decode(errors="replace")
        self.diffs.append({"before": before, "after": after, "before_header": str(path), "after_header": str(path)})


def main() -> None:
    text = {"type": "str", "default": ""}
    module = AnsibleModule(
        {
            "items": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "dest": {"type": "str", "required": True},
                    "state": {"type": "str", "required": True, "choices": ["file", "directory", "link", "absent"]},
                    "content": {"type": "str", "default": "", "no_log": True},
                    "src": text,
                    "owner": {"type": "str", "default": "root"},
                    "group": {"type": "str", "default": "root"},
                    "mode": text,
                    "validate": text,
                    "apply": text,
                    "then": text,
                    "keep": text,
                    "secret": {"type": "bool", "default": False},
                },
            },
            "users": {"type": "list", "elements": "str", "default": []},
            "diff": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    placer = Placer(module, write=not module.check_mode, show=module.params["diff"])
    try:
        with one_at_a_time() if placer.write else contextlib.nullcontext():
            placer.users(module.params["users"])
            for item in module.params["items"]:
                item["mode"] = item["mode"] or (_DIRECTORY_MODE if item["state"] == "directory" else _FILE_MODE)
                placer.place(item)
            placer.finish()
    except (PlaceError, LockedError) as exc:
        module.fail_json(msg=str(exc))
    except OSError as exc:
        module.fail_json(msg=f"{exc.filename}: {exc.strerror}; a host must have a writable system")
    module.exit_json(changed=bool(placer.changed), paths=placer.changed, diff=placer.diffs)


if __name__ == "__main__":
    main()
