"""`judgectl support`: one archive with what somebody needs to help, and without a secret.

Every text is cleaned twice: on its host of what is secret there, and here of what the secrets directory holds. The
archive is looked through once more before it is written; one that shows a secret is not.
"""

from __future__ import annotations

import io
import json
import shlex
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from judge.common import clock, files
from judge.common.errors import ConfigError, JudgeError
from judge.ctl.fleet import redaction

MOST = 3 * 1024**2  # characters of one text: of a longer one its end
ANSWER_BYTES = 16 * 1024**2  # of all texts of a host: of longer ones their ends
# Commands that are run on each host; each command's output is one file of the archive.
COMMANDS: Mapping[str, str] = {
    "system.txt": "cat /etc/os-release; uname -a; uptime; free -m; df -h; nproc; timedatectl 2>/dev/null",
    "units.txt": "systemctl --no-pager --full status 'judge*' nginx.service; systemctl --failed --no-pager",
    "journal.txt": "journalctl --no-pager --unit='judge*' --unit=nginx --since=-1d --lines=20000 --output=short-iso",
    "kernel.txt": "journalctl --no-pager --dmesg --priority=warning --lines=500",
    "configs.txt": "for f in /etc/judge/*.yml /run/judge/boot.json /etc/sysctl.d/*judge* /etc/nginx/conf.d/judge.conf; "
    'do case $f in */tokens.yml) continue;; esac; [ -r "$f" ] && echo "== $f" && cat "$f"; done',
    "files.txt": "ls -la /etc/judge /etc/judge/tls /opt/judge /opt/judge/releases /var/lib/judge",
    "network.txt": "ip -brief address; ss --no-header -tlnp",
    "processes.txt": "ps -eo pid,user,stat,rss,etime,comm --sort=-rss | head -n 60",
    "packages.txt": "dpkg-query -W -f='${Package} ${Version} ${db:Status-Abbrev}\\n' | head -n 3000",
}
_RUN = r"""
import json, subprocess, sys
commands, most = json.loads(COMMANDS), MOST
needles = in_directories(["/etc/judge"])
found = {}
for name, command in commands.items():
    try:
        done = subprocess.run(["/bin/sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        text = done.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        text = "(it did not end within 60 s)"
    found[name] = masked(text, needles)[-most:]  # in this order: half a secret would not be known
answer = json.dumps(found)
while len(answer) > ANSWER_BYTES:
    most //= 2
    answer = json.dumps({name: text[-most:] for name, text in found.items()})
sys.stdout.write(answer)
"""


def script() -> str:
    """The script for each host, run as root: it asks, and removes the host's own secrets from the answers."""
    source = Path(redaction.__file__).read_text(encoding="utf-8")
    program = (
        f"{source}\nCOMMANDS = {json.dumps(dict(COMMANDS))!r}\nMOST = {MOST}\nANSWER_BYTES = {ANSWER_BYTES}\n{_RUN}"
    )
    return f"LC_ALL=C.UTF-8 exec /usr/bin/python3 -c {shlex.quote(program)}"


def of_host(name: str, out: str) -> dict[str, str]:
    try:
        texts = json.loads(out)
    except (ValueError, RecursionError):
        texts = None
    if not isinstance(texts, dict):
        raise ConfigError(f"{name}: its answer is no JSON of its files: {out[:200]!r}")
    return {f"{name}/{file}": str(text) for file, text in texts.items() if file in COMMANDS}


def clean(texts: Mapping[str, str], secrets_directory: Path | None, more: Iterable[str] = ()) -> dict[str, str]:
    """The texts without what the controller's secrets directory holds, nor these secrets."""
    needles = redaction.in_directories([str(secrets_directory)] if secrets_directory else [])
    needles |= {form for text in more for line in redaction.lines(text) for form in redaction.forms(line)}
    cleaned = {name: redaction.masked(text, needles) for name, text in texts.items()}
    for name, text in cleaned.items():
        if any(needle in text for needle in needles):
            raise JudgeError(f"{name} still shows a secret, so no archive was written; report this as a fault of Judge")
    return cleaned


def write(path: Path, texts: Mapping[str, str], silent: Mapping[str, str]) -> None:
    """The archive of texts by their names there, and of the hosts that said nothing; 0600, in place only when whole."""
    folder = path.name.removesuffix(".tar.gz")
    buffer = io.BytesIO()
    texts = {**texts, "silent.txt": "".join(f"{name}: {why}\n" for name, why in silent.items())}
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in sorted(texts.items()):
            data = text.encode()
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(clock.wall().timestamp())
            archive.addfile(entry, io.BytesIO(data))
    files.replace(path, buffer.getvalue(), durable=False)
