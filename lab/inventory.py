"""The Ansible inventory and the SSH files of a lab."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import yaml

from lab.state import GROUPS, Record, own_kernel

ROOT = Path(__file__).resolve().parents[1]
HEADER = "# Written by `lab up`, removed by `lab down`. Reach the hosts with `lab run -- COMMAND`.\n"


def default_directory(name: str) -> Path:
    """inventory/lab of the repository for the lab called lab, inventory/lab-NAME for others; git ignores both."""
    return ROOT / "inventory" / ("lab" if name == "lab" else f"lab-{name}")


def ssh_config(record: Record) -> str:
    """The configuration by which ssh, scp and Ansible trust exactly this lab's hosts, whatever the user's own says."""
    return (
        f"IdentityFile {record.directory / 'id_ed25519'}\nIdentitiesOnly yes\n"
        f"UserKnownHostsFile {record.directory / 'known_hosts'}\nGlobalKnownHostsFile /dev/null\n"
        "StrictHostKeyChecking yes\nLogLevel ERROR\n"
    )


def ssh(record: Record, host: str) -> list[str]:
    """The ssh command that reaches a host from inside the lab's namespace."""
    patience = 30 if own_kernel(host) else 5
    options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={patience}"]
    return ["ssh", "-F", str(record.directory / "ssh_config"), *options, f"root@{record.address(host)}"]


def tree(record: Record) -> dict[str, Any]:
    """The inventory as it goes into hosts.yml."""
    hosts = {
        group: {host: {"ansible_host": record.address(host)} for host in record.hosts if host[0] == letter}
        for letter, group in GROUPS.items()
    }
    children = {group: {"hosts": found} for group, found in hosts.items() if found or group != "monitors"}
    bundle = {"judge_bundle": record.bundle} if record.bundle else {}
    return {
        "all": {
            "vars": {
                **bundle,
                "judge_secrets_dir": "{{ inventory_dir }}/secrets",  # so that they go with the lab
                "ansible_user": "root",
                "ansible_ssh_private_key_file": str(record.directory / "id_ed25519"),
                "ansible_ssh_common_args": f"-F {record.directory / 'ssh_config'}",
                "ansible_python_interpreter": "/usr/bin/python3",
            },
            "children": children,
        }
    }


def write(record: Record) -> None:
    """Write hosts.yml and the SSH files of all hosts that exist; each whole, each only when it changes."""
    known = "".join(
        f"{record.address(host)} {' '.join(key.read_text().split()[:2])}\n"
        for host in record.hosts
        if (key := record.host_directory(host) / "host_key.pub").is_file()
    )
    replace(record.directory / "known_hosts", known)
    replace(record.directory / "ssh_config", ssh_config(record))
    replace(Path(record.inventory) / "hosts.yml", HEADER + yaml.safe_dump(tree(record), sort_keys=False, width=1000))


def replace(path: Path, text: str) -> None:
    """Write a file whole, or leave it where it says the same."""
    if path.is_file() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    fresh.replace(path)


def remove(directory: Path) -> None:
    """Remove what belongs to a lab that is gone: hosts.yml, and the secrets of the cluster that was deployed there."""
    for name in ("hosts.yml", ".hosts.yml.new"):
        (directory / name).unlink(missing_ok=True)
    shutil.rmtree(directory / "secrets", ignore_errors=True)
    with contextlib.suppress(OSError):
        directory.rmdir()  # unless somebody keeps more in it


def environment(record: Record) -> dict[str, str]:
    """The variables that `lab run` adds to a command's environment."""
    return {
        "JUDGE_LAB_NAME": record.name,
        "ANSIBLE_INVENTORY": record.inventory,
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        # Short: a master connection to a host that lost its power would be used, and waited for, until it ends.
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=30s "
        "-o ServerAliveInterval=10 -o ServerAliveCountMax=3",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(record.directory / "ssh"),
        # One socket per address, so that `lab kill` finds and closes it.
        "ANSIBLE_SSH_CONTROL_PATH": "%(directory)s/%%h",
    }
