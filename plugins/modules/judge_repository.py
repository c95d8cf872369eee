#!/usr/bin/python
"""A package repository that apt trusts for the packages that are wanted from it, and for nothing else."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_repository
short_description: Make a signed package repository known to apt, pinned to one version
description:
  - Writes V(/etc/apt/keyrings/NAME.asc), V(/etc/apt/sources.list.d/NAME.sources) and V(/etc/apt/preferences.d/NAME).
  - The key is fetched when it is not there yet, and refused unless it has the fingerprint that is asked for.
  - Of the repository only the pinned packages can be installed, in the pinned version.
  - In check mode nothing is fetched.
options:
  name:
    description: Of the files.
    type: str
    required: true
  url:
    description: The repository's URL.
    type: str
    required: true
  suite:
    description: The suite, as in V(dists/SUITE).
    type: str
    required: true
  component:
    description: The component.
    type: str
    required: true
  key_url:
    description: Where the armored key is.
    type: str
    required: true
  fingerprint:
    description: The key's, 40 hexadecimal digits.
    type: str
    required: true
  packages:
    description: Names or patterns of the packages that may come from there.
    type: list
    elements: str
    required: true
  version:
    description: Their version, or a pattern for it.
    type: str
    required: true
  root:
    description: In which root directory the files are.
    type: path
    default: /
author: [judge]
"""

EXAMPLES = r"""
- name: MongoDB's repository is known
  judge_repository:
    name: judge-mongodb
    url: https://repo.mongodb.org/apt/debian
    suite: bookworm/mongodb-org/8.0
    component: main
    key_url: https://pgp.mongodb.com/server-8.0.asc
    fingerprint: 4B0752C1BCA238C0B4EE14DC41DE058A4E7DCA05
    packages: [mongodb-org-server]
    version: 8.0.*
"""

RETURN = r"""
written:
  description: The files that were not as they should be.
  type: list
  elements: str
  returned: success
"""

import pathlib

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.judge_openpgp import KeyFormatError, fingerprint
from ansible.module_utils.urls import fetch_url

_TIMEOUT = 30  # seconds
_LARGEST = 1 << 20  # bytes of a key


def sources(wanted: dict[str, object], key: str) -> str:
    """The repository as apt's deb822 format has it; `key` is the key's path on the host."""
    fields = {
        "Types": "deb",
        "URIs": wanted["url"],
        "Suites": wanted["suite"],
        "Components": wanted["component"],
        "Signed-By": key,
    }
    return "# Written by site.yml.\n" + "".join(f"{name}: {value}\n" for name, value in fields.items())


def preferences(packages: list[str], version: str, origin: str) -> str:
    """Nothing from that host name, apart from these packages in that version, which come from nowhere else."""
    return (
        "# Written by site.yml.\n"
        f'Package: *\nPin: origin "{origin}"\nPin-Priority: -1\n\n'
        f"Package: {' '.join(packages)}\nPin: version {version}\nPin-Priority: 1001\n"
    )


def right(path: pathlib.Path, wanted: str) -> bool:
    """Whether the key that is there is the one with this fingerprint."""
    try:
        return fingerprint(path.read_text(encoding="ascii")) == wanted
    except (OSError, ValueError):
        return False


def fetch(module: AnsibleModule, url: str, wanted: str) -> str:
    """The key at a URL; the module fails unless it has the fingerprint."""
    answer, info = fetch_url(module, url, timeout=_TIMEOUT)
    if answer is None or info["status"] != 200:
        module.fail_json(
            msg=f"{url} cannot be fetched: {info['msg']}; hosts with judge_source 'online' need a route there, "
            "or set the variables of the repository to a mirror's"
        )
    try:
        text = answer.read(_LARGEST).decode("ascii")
        found = fingerprint(text)
    except (KeyFormatError, UnicodeDecodeError) as exc:
        module.fail_json(msg=f"{url} is no key: {exc}")
    if found != wanted:
        module.fail_json(msg=f"{url} has the fingerprint {found} instead of {wanted}; nothing was written")
    return text


def main() -> None:
    """Module entry point."""
    text = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            **dict.fromkeys(("name", "url", "suite", "component", "key_url", "fingerprint", "version"), text),
            "packages": {"type": "list", "elements": "str", "required": True},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    name, root = wanted["name"], pathlib.Path(wanted["root"])
    mark = wanted["fingerprint"].replace(" ", "").upper()
    key = f"/etc/apt/keyrings/{name}.asc"
    origin = wanted["url"].partition("://")[2].partition("/")[0].partition(":")[0]
    files = {
        f"/etc/apt/preferences.d/{name}": preferences(wanted["packages"], wanted["version"], origin),
        f"/etc/apt/sources.list.d/{name}.sources": sources(wanted, key),
    }
    written = [path for path, content in files.items() if not same(root / path.lstrip("/"), content)]
    if not right(root / key.lstrip("/"), mark):
        written.insert(0, key)
    if not module.check_mode:
        if key in written:
            files[key] = fetch(module, wanted["key_url"], mark)
        for path in written:
            put(root / path.lstrip("/"), files[path])
    module.exit_json(changed=bool(written), written=written)


def same(path: pathlib.Path, content: str) -> bool:
    """Whether a file says this already."""
    return path.is_file() and path.read_text(encoding="utf-8", errors="replace") == content


def put(path: pathlib.Path, content: str) -> None:
    """Write a file whole, readable by all (apt reads it as another user)."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(content, encoding="utf-8")
    fresh.chmod(0o644)
    fresh.replace(path)


if __name__ == "__main__":
    main()
