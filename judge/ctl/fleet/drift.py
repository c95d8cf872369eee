"""`judgectl drift`: what on the hosts is not as the inventory says, of files, services, and what the kernel has.

Files and services are told by site.yml itself in check mode, so that nothing is described twice; what the kernel has in
force is compared with the files that set it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judge.common.errors import UnavailableError, UsageError
from judge.common.text import one_line
from judge.ctl import show
from judge.ctl.fleet import ansible
from judge.ctl.fleet.ansible import Sources
from judge.ctl.fleet.machines import FleetHost, Reply, output_of

# Of what our files set, what the kernel has now; a value that cannot be set here (a container) is nobody's drift.
SCRIPT = r"""
LC_ALL=C; export LC_ALL
for file in /etc/sysctl.d/9*-judge*.conf; do
  [ -r "$file" ] || continue
  sed -n 's/^ *-\{0,1\}\([a-z][^=; ]*\) *= *\(.*[^ ]\) *$/\1 \2/p' "$file" | while read -r key wanted; do
    path=/proc/sys/$(echo "$key" | tr . /)
    [ -w "$path" ] && echo "kernel	$key	$wanted	$(cat "$path")	$file"
  done
done
for file in "${JUDGE_TMPFILES:-/etc/tmpfiles.d}"/judge*.conf; do
  [ -r "$file" ] || continue
  sed -n 's/^w[^ ]* *\(\/[^ ]*\) .* \([^ ]*\) *$/\1 \2/p' "$file" | while read -r path wanted; do
    for each in $path; do  # a pattern, as of the governors
      [ -w "$each" ] && echo "kernel	$each	$wanted	$(cat "$each")	$file"
    done
  done
done
exit 0
"""
RECORD = "JUDGE_CHANGES"


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it should be. `kind`: file, service, task or kernel."""

    host: str
    kind: str
    what: str
    wanted: str = ""
    found: str = ""
    task: str = ""
    diff: list[Any] = field(default_factory=list)


def of_kernel(member: FleetHost, reply: Reply) -> list[Difference]:
    try:
        return parse(output_of(reply, "its kernel"), member.name)
    except UnavailableError as exc:
        raise UnavailableError(f"{member.name}: {exc}") from exc


def parse(text: str, host: str) -> list[Difference]:
    rows = []
    for line in text.split("\n"):
        words = line.split("\t")
        if len(words) == 5 and words[0] == "kernel" and not same_scheduler(words[2], words[3]):
            rows.append(Difference(host, "kernel", words[1], words[2], one_line(words[3]), words[4]))
    return rows


def same_scheduler(expected: str, actual: str) -> bool:
    """Whether the kernel has a value: spaces between numbers count as one, and of choices the one in brackets."""
    if "[" in actual:
        return f"[{expected.strip()}]" in actual
    return expected.split() == actual.split()


def of_playbook(sources: Sources, hosts: Sequence[str] = ()) -> list[Difference]:
    """Ask site.yml what it would change; UsageError without a checkout, UnavailableError when a host did not answer."""
    checkout = next((place for place in (Path.cwd(), ansible.CHECKOUT) if (place / "site.yml").is_file()), None)
    if checkout is None:
        raise UsageError("there is no site.yml here, with which hosts are compared; run it in a checkout of Judge")
    with tempfile.TemporaryDirectory(prefix="judge-drift-") as room:
        record = Path(room) / "changes.jsonl"
        limit = ["--limit", ",".join(hosts)] if hosts else []
        settings = {
            RECORD: str(record),
            "ANSIBLE_CALLBACK_PLUGINS": str(checkout / "plugins/callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "judge_changes",
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
        }
        result = ansible.run(
            "ansible-playbook", sources, str(checkout / "site.yml"), "--check", "--diff", *limit,
            settings=settings, playbook_directory=False,
        )  # fmt: skip
        entries = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    failed = [entry for entry in entries if entry["event"] == "failed"]
    if failed or result.returncode != 0:
        message = (
            f"{failed[0]['host']}: {failed[0]['message']}" if failed else result.stderr.strip() or result.stdout[-500:]
        )
        raise UnavailableError(f"site.yml could not look at all hosts: {one_line(message)}")
    return [difference for entry in entries for difference in differences(entry)]


def differences(entry: dict[str, Any]) -> list[Difference]:
    """The changes that one task would make on one host, by file and service where it names them."""
    host, task = entry["host"], entry["task"]
    diff = {part.get("after_header") or part.get("before_header"): part for part in entry.get("diff", [])}
    objects = [("file", path) for path in entry.get("paths", [])]
    objects += [("service", unit) for unit in entry.get("restarted", [])]
    if not objects:
        return [Difference(host, "task", task, task=task, diff=entry.get("diff", []))]
    return [
        Difference(host, kind, name, task=task, diff=[diff[name]] if name in diff else []) for kind, name in objects
    ]


def together(files: Iterable[Difference], kernel: Sequence[Difference]) -> list[Difference]:
    """All differences; a file that is unchanged, and whose values the kernel has otherwise, is not one more."""
    kernel_files = {(row.host, row.task) for row in kernel}
    return [*(row for row in files if row.diff or (row.host, row.what) not in kernel_files), *kernel]


def table(rows: Iterable[Difference]) -> show.Grid:
    grid = show.grid("host", "kind", "what!", "wanted…", "found…", "by…")
    for row in rows:
        grid.add_row(row.host, row.kind, row.what, row.wanted, row.found, row.task)
    return grid
