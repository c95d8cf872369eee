"""What judgectl makes of hosts' answers: entries, units, machines, the order of lines; safe text, safe quoting."""

import csv
import io
import json
import os
import pwd
import shlex
import subprocess
import unicodedata
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from judge.common.errors import ConfigError, UnavailableError, UsageError
from judge.common.text import lines, one_line
from judge.ctl import show
from judge.ctl.fleet import commands, hosts, logs, ssh_target, units
from judge.ctl.fleet.inventory import Host
from judge.ctl.fleet.logs import JournalEntry
from judge.ctl.fleet.machines import FleetHost
from judge.ctl.fleet.ssh import CommandResult
from judge.ctl.text import age, duration


def host(name: str = "e1", groups: tuple[str, ...] = ("executors",), **variables: str) -> Host:
    return Host(name, groups, variables)


def member(*groups: str, name: str = "e1") -> FleetHost:
    machine = host(name, groups, ansible_host="10.0.0.1", ansible_user="root", ansible_ssh_common_args="-F none")
    return FleetHost(machine, ssh_target.target(machine))


def drawn(table: object) -> str:
    screen = io.StringIO()
    Console(width=200, file=screen).print(table)
    return screen.getvalue()


# --- text -------------------------------------------------------------------------------------------------------------


@given(st.text())
def test_escaped_text_is_printable(text: str) -> None:
    assert one_line(text).isprintable()
    assert one_line(one_line(text)) == one_line(text)


def test_escaped_text_stays_readable() -> None:
    assert one_line("\x1b[31mred\x07 \u202eevil ü\t.") == "\\x1b[31mred\\x07 \\u202eevil ü    ."
    assert lines("a\tü\u3000\r\n\u2066b\u200b\n\ufe0f") == "a\tü\u3000\n⟨U+2066⟩b⟨U+200B⟩\n⟨U+FE0F⟩"


# Python calls these printable, or they are the format characters of all kinds: none shows, or all turn the writing.
HIDDEN = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u200c\u200d\u200e\u200f\u061c\u2060\ufeff\u00ad"
HIDDEN += "\u034f\u115f\u1160\u17b4\u180e\u2800\u3164\ufe0f\uffa0\U000e0020\U000e0100\u2028\u2029\x85\x00\x1b\x7f\x9b"


@given(st.text(st.sampled_from(HIDDEN + "ab \n\t") | st.characters()))
def test_invisible_characters_are_escaped(text: str) -> None:
    for cleaned in (one_line(text), lines(text)):
        assert not set(cleaned) & set(HIDDEN)
    assert all(
        character.isprintable() or character in "\n\t" or unicodedata.category(character) == "Zs"
        for character in lines(text)
    )
    assert lines(lines(text)) == lines(text)


@given(st.integers(0, 10**8))
def test_ages_have_two_units_at_most(seconds: int) -> None:
    parts = age(seconds).split()
    assert 1 <= len(parts) <= 2
    total = sum(duration(part, "x") for part in parts if not part.startswith("0"))
    assert total <= seconds < total + max(duration(f"1{parts[0][-1]}", "x"), 1)
    assert age(None) == ""


# --- the order of lines -----------------------------------------------------------------------------------------------


def streams(clocks_jump: bool) -> st.SearchStrategy[list[list[JournalEntry]]]:
    times = st.lists(st.integers(0, 50), max_size=12)
    return st.lists(times if clocks_jump else times.map(sorted), max_size=5).map(
        lambda all_times: [
            [JournalEntry(time, f"h{index}", "u", str(number)) for number, time in enumerate(times_of_host)]
            for index, times_of_host in enumerate(all_times)
        ]
    )


@given(streams(clocks_jump=False))
def test_merged_lines_are_complete_and_in_order(hosts_entries: list[list[JournalEntry]]) -> None:
    merged = list(logs.merge(hosts_entries))
    assert sorted(merged, key=repr) == sorted((entry for entries in hosts_entries for entry in entries), key=repr)
    assert [entry.time for entry in merged] == sorted(entry.time for entry in merged)


@given(streams(clocks_jump=True))
def test_a_hosts_own_order_is_kept_even_if_its_clock_jumps(hosts_entries: list[list[JournalEntry]]) -> None:
    mixed = [entry for entries in hosts_entries for entry in entries]
    for merged in (list(logs.merge(hosts_entries)), logs.batch(mixed)):
        for entries in hosts_entries:
            assert [entry for entry in merged if entries and entry.host == entries[0].host] == entries


def test_merging_reads_lazily() -> None:
    def endless(name: str):
        yield from (JournalEntry(time, name, "u", "m") for time in range(10**9))

    merged = logs.merge([endless("a"), endless("b")])
    assert [next(merged).time for _ in range(4)] == [0, 0, 1, 1]


# --- what is run there ------------------------------------------------------------------------------------------------

words = st.text(st.characters(blacklist_characters="\0\n", blacklist_categories=("Cs",)), min_size=1, max_size=30)


@given(words, st.none() | st.integers(1, 999), st.none() | words)
def test_no_option_becomes_a_command(grep: str, lines: int | None, cursor: str | None) -> None:
    """The shell that gets the script sees each value as one word: it is asked, with a journalctl that prints them."""
    query = logs.query(["executor"], "10m", lines, grep, "err")
    for script in (query.history(), query.follow(cursor, 7)):
        command = next(part for part in script.split("journalctl ", 1)[1:])
        assert f"--grep={grep}" in shlex.split(command.split(" & journal=$!\n")[0])
    if cursor:
        assert f"--after-cursor={cursor}" in shlex.split(query.follow(cursor, 7).split("journalctl ", 1)[1])


@pytest.mark.parametrize("evil", ["$(touch HERE)", "'; touch HERE; '", "`touch HERE`", "a & touch HERE", '--x" touch'])
def test_a_real_shell_runs_nothing_of_a_pattern(tmp_path: Path, evil: str) -> None:
    journalctl = tmp_path / "journalctl"
    journalctl.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    journalctl.chmod(0o755)
    query = logs.query(["etcd"], None, 5, evil.replace("HERE", str(tmp_path / "here")), None)
    for script in (query.history(), query.follow(evil.replace("HERE", str(tmp_path / "here")), 1, 0.02)):
        run = subprocess.run(
            ["/bin/sh", "-c", script], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, cwd=tmp_path,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert f"--grep={query.grep}" in run.stdout.splitlines()
    assert not (tmp_path / "here").exists()


def test_units_are_named_shortly_or_in_full() -> None:
    assert logs.unit_names(["executor", "judge-etcd", "nginx.service"]) == [
        "judge-executor.service", "judge-etcd.service", "nginx.service",
    ]  # fmt: skip
    assert logs.unit_names([])[-1] == "judge-*"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((["-x"], None, None, None, None), "--unit: '-x' is not a unit's name; expected one of boot"),
        ((["a b"], None, None, None, None), "--unit: 'a b'"),
        (([], "soon", None, None, None), "--since: 'soon' is not understood; expected a duration such as 10m"),
        (([], "2026-13-40", None, None, None), "--since: '2026-13-40' is no moment"),
        (([], "0m", None, None, None), "--since: '0m'"),
        (([], None, None, "a\nb", None), "--grep: expected a regular expression of one line"),
        (([], None, None, "", None), "--grep"),
        (([], None, None, None, "bad"), "--priority: 'bad' is not known; choose one of emerg, alert"),
        (([], None, None, None, "err.."), "--priority"),
        (([], None, None, None, "12"), "--priority"),
    ],
)
def test_bad_options_are_one_sentence(arguments: tuple, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        logs.query(*arguments)
    assert sentence in str(caught.value)


def test_moments_are_utc_and_durations_are_the_hosts() -> None:
    assert logs.moment("2026-05-01 12:00") == "2026-05-01 12:00 UTC"
    assert logs.moment("10m") == "-600s"
    assert "--priority=err..3" in logs.query([], None, None, None, "err..3").history()


# --- journal entries --------------------------------------------------------------------------------------------------


def line(**fields: object) -> bytes:
    defaults = {
        "__REALTIME_TIMESTAMP": "1767225600123456",
        "__CURSOR": "s=1;i=2",
        "_SYSTEMD_UNIT": "judge-executor.service",
    }
    return json.dumps(defaults | {"PRIORITY": "6", "MESSAGE": "hello"} | fields).encode()


def test_an_entry_is_shown_with_time_host_and_unit() -> None:
    entry = logs.parse_entry(line(MESSAGE="a\nb\x1b[2J\n", PRIORITY="3"), "e1")
    assert entry is not None
    assert [text.plain for text in logs.render(entry)] == [
        "2026-01-01 00:00:00.123 e1/executor a",
        "2026-01-01 00:00:00.123 e1/executor b\\x1b[2J",
    ]
    assert entry.as_json() == {
        "time": "2026-01-01T00:00:00.123456+00:00", "host": "e1", "unit": "judge-executor.service", "priority": "err",
        "message": "a\nb\\x1b[2J",
    }  # fmt: skip


def test_a_message_of_systemd_about_a_unit_belongs_to_that_unit() -> None:
    raw = line(UNIT="judge-etcd.service", _SYSTEMD_UNIT="init.scope", SYSLOG_IDENTIFIER="systemd", MESSAGE="Started.")
    entry = logs.parse_entry(raw, "j1")
    assert entry is not None and (entry.unit, entry.message) == ("judge-etcd.service", "systemd: Started.")


@pytest.mark.parametrize(
    ("message", "text"),
    [([104, 105, 255], "hi\ufffd"), (None, ""), (["a", "b"], "b"), ({"a": 1}, "(not text)"), ([999], "(not text)"),
     (7, "(not text)")],
)  # fmt: skip
def test_messages_that_are_not_text(message: object, text: str) -> None:
    entry = logs.parse_entry(line(MESSAGE=message), "e1")
    assert entry is not None and entry.message == text


@pytest.mark.parametrize(
    "bad",
    [b"", b"{", b"[]", b"3", b"\xff\xfe", b"[" * 99999, line(__REALTIME_TIMESTAMP=5), line(__REALTIME_TIMESTAMP="-1"),
     line(__REALTIME_TIMESTAMP="9" * 40)],
)  # fmt: skip
def test_a_malformed_entry_is_skipped(bad: bytes) -> None:
    assert logs.parse_entry(bad, "e1") is None


FIELDS = ("MESSAGE", "PRIORITY", "UNIT", "__CURSOR", "SYSLOG_IDENTIFIER", "__REALTIME_TIMESTAMP")


@given(
    st.dictionaries(
        st.sampled_from(FIELDS), st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=4)
    )
)
def test_a_host_may_send_anything(fields: dict) -> None:
    entry = logs.parse_entry(line(**fields), "e1")
    if entry is not None:
        json.dumps(entry.as_json())
        for text in logs.render(entry):
            assert text.plain == one_line(text.plain)
        assert "\0" not in entry.cursor and "\n" not in entry.cursor


# --- units ------------------------------------------------------------------------------------------------------------

BLOCKS = """uptime=1000.50 20.0

MemoryCurrent=1048576
Id=judge-boot.service
LoadState=loaded
ActiveState=active
SubState=running
Result=success
NRestarts=2
StatusText=watching 3 services\x1b[2J
MainPID=77
StateChangeTimestampMonotonic=940500000

Id=judge-etcd-proxy.service
LoadState=loaded
ActiveState=failed
SubState=failed
Result=exit-code
MemoryCurrent=18446744073709551615

Id=judge-backup.timer
LoadState=loaded
ActiveState=active
SubState=waiting

Id=judge-boot.service
ActiveState=failed
"""


def test_units_are_told_with_faults_first() -> None:
    rows = units.units(member("executors"), CommandResult(0, BLOCKS, ""))
    assert [(row.unit, row.fault) for row in rows] == [
        ("judge-etcd-proxy.service", "failed"), ("judge-executor.service", "missing"),
        ("judge-boot.service", ""), ("judge-backup.timer", ""),
    ]  # fmt: skip
    boot = rows[2]
    assert (boot.since, boot.restarts, boot.pid, boot.memory) == (60.0, 2, 77, 1 << 20)
    assert boot.status == "watching 3 services\\x1b[2J"
    assert rows[0].memory is None and rows[0].status == "(exit-code)"
    assert units.summary(rows) == ("1 failed, 1 missing (1 hosts)", False)
    text = drawn(units.table(rows))
    assert "✗ failed" in text and "✗ missing" in text and " 1m " in text and "1 MiB" in text
    assert units.summary(rows[2:]) == ("2 units on 1 hosts: all are well", True)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"LoadState": "loaded", "ActiveState": "active"}, ""),
        ({"LoadState": "loaded", "ActiveState": "activating", "SubState": "start"}, ""),
        ({"LoadState": "loaded", "ActiveState": "activating", "SubState": "auto-restart"}, "restarting"),
        ({"LoadState": "loaded", "ActiveState": "inactive", "SubState": "dead"}, "stopped"),
        ({"LoadState": "bad-setting", "ActiveState": "inactive"}, "failed"),
        ({"LoadState": "not-found", "ActiveState": "inactive"}, "missing"),
        ({"LoadState": "not-found", "ActiveState": "active"}, ""),
    ],
)
def test_faults_of_units(fields: dict, fault: str) -> None:
    assert units.fault(fields, expected=True) == fault
    assert units.fault(fields, expected=False) in {"", fault}


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        (("judicators",), "boot etcd mongodb judicator"),
        (("executors",), "boot etcd-proxy executor"),
        (("gateways", "judicators"), "boot etcd mongodb judicator gateway"),
        (("executors", "gateways", "judicators"), "boot etcd mongodb judicator executor gateway"),
        (("desks",), ""),
    ],
)
def test_every_kind_of_host_has_its_units(groups: tuple[str, ...], names: str) -> None:
    assert units.expected(host(groups=groups)) == [f"judge-{name}.service" for name in names.split()]


def test_a_host_that_cannot_be_asked_is_a_row_with_the_reason() -> None:
    silent = units.units(member("executors"), UnavailableError("10.0.0.1 port 22 does not answer: timed out"))
    broken = units.units(member("executors"), CommandResult(127, "", "sh: systemctl: not found\n"))
    assert [row.fault for row in silent + broken] == ["unreachable", "unreachable"]
    assert broken[0].status == "systemd cannot be asked: sh: systemctl: not found"
    assert units.summary(silent)[1] is False
    assert "does not answer: timed out" in drawn(units.table(silent))


@given(st.text())
def test_any_answer_gives_a_row_for_every_expected_unit(text: str) -> None:
    rows = units.parse(text, "e1", units.expected(host()))
    assert {row.unit for row in rows} >= set(units.expected(host()))
    for row in rows:
        assert one_line(row.status) == row.status
        json.dumps(asdict(row))


@pytest.mark.parametrize("uptime", ["9" * 400, "1" * 20 + ".0", "٣.0", "inf", "-1", "1e9"])
def test_an_absurd_uptime_ends_no_table(uptime: str) -> None:
    rows = units.parse(BLOCKS.replace("1000.50", uptime), "e1", [])
    assert all(row.since is None for row in rows)
    drawn(units.table(rows))


# --- machines ---------------------------------------------------------------------------------------------------------

ANSWER = """os="Debian GNU/Linux 13 (trixie)"
kernel=6.12.1
uptime=183845.12 1.0
load=0.42 0.3 0.2 1/99 4
cpus=4
disk=/dev/sda1 1000000 250000 40000 86% /
release=/opt/judge/releases/0.1.0
LoadState=loaded
ActiveState=active
SubState=running
StatusText=watching
"""


def test_a_machine_is_parsed_and_shown() -> None:
    machine = hosts.machine(member("executors"), CommandResult(0, ANSWER, ""))
    assert (machine.os, machine.uptime, machine.load, machine.cpus) == (
        "Debian GNU/Linux 13 (trixie)",
        183845.12,
        (0.42, 0.3, 0.2),
        4,
    )
    assert (machine.disk_size, machine.disk_free, machine.release, machine.boot) == (
        1024000000,
        40960000,
        "0.1.0",
        "active",
    )
    text = drawn(hosts.table([machine]))
    for part in ("2d 3h", "0.42/4", "39.1 MiB  4%", "0.1.0", "executors", "10.0.0.1"):
        assert part in text


def test_bare_and_silent_machines() -> None:
    bare = hosts.machine(member("executors"), CommandResult(0, "os=x\nrelease=\nLoadState=not-found\n", ""))
    assert (bare.reachable, bare.release, bare.boot, bare.disk_free) == (True, "", "not installed", None)
    silent = hosts.machine(member("executors"), UnavailableError("no route"))
    odd = hosts.machine(member("executors"), CommandResult(1, "", "boom\n"))
    assert list(hosts.reasons([bare, silent, odd])) == ["e1: no route", "e1: it cannot be asked: boom"]
    assert "unreachable" in drawn(hosts.table([bare, silent]))


@given(st.text())
def test_any_answer_is_a_row(text: str) -> None:
    machine = hosts.parse(text, "e1", (), "a")
    json.dumps(asdict(machine))
    drawn(hosts.table([machine]))


def test_a_shell_understands_the_script() -> None:
    subprocess.run(["/bin/sh", "-n", "-c", hosts.SCRIPT], check=True)


# --- logins -----------------------------------------------------------------------------------------------------------


def test_a_login_is_found_as_ssh_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = tmp_path / "config"
    config.write_text(
        "Host 10.0.0.1\n  Port 2200\n  User deploy\n  HostName 10.0.0.99\n"
        "Host *\n  IdentityFile ~/key\n  IdentitiesOnly yes\n  UserKnownHostsFile /a /b\n  GlobalKnownHostsFile /c\n"
    )
    target = ssh_target.target(host(ansible_host="10.0.0.1", ansible_ssh_common_args=f"-F {config}"))
    assert (target.address, target.port, target.user) == ("10.0.0.99", 2200, "deploy")
    assert target.keys == (tmp_path / "key",) and target.only_keys
    assert target.known_hosts == (Path("/a"), Path("/b"), Path("/c"))
    assert target.known_as == "[10.0.0.99]:2200"
    assert target.command == "ssh -p 2200 deploy@10.0.0.99"
    strong = ssh_target.target(
        host(ansible_host="10.0.0.1", ansible_user="root", ansible_port="22", ansible_ssh_private_key_file="/k",
             ansible_ssh_common_args=f"-4 -F{config} -o UserKnownHostsFile=/d -o 'HostKeyAlias j1' -oControlMaster=no")
    )  # fmt: skip
    assert (strong.port, strong.user, strong.keys, strong.known_as) == (22, "root", (Path("/k"),), "j1")
    assert strong.known_hosts[0] == Path("/d")
    assert strong.command == "ssh root@10.0.0.99"


def test_the_default_login(monkeypatch: pytest.MonkeyPatch) -> None:
    me = pwd.getpwuid(os.getuid())
    monkeypatch.setenv("HOME", me.pw_dir)
    monkeypatch.setenv("ANSIBLE_CONFIG", "/nowhere")
    target = ssh_target.target(host("plain.example.org", ansible_ssh_common_args="-F none"))
    assert (target.address, target.port, target.user) == ("plain.example.org", 22, me.pw_name)
    assert target.known_as == "plain.example.org" and target.jump is None and not target.proxy
    assert Path(me.pw_dir, ".ssh/id_ed25519") in target.keys and not target.only_keys
    assert target.known_hosts[0] == Path(me.pw_dir, ".ssh/known_hosts")


def test_settings_of_ansible_hold_where_the_inventory_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ansible.cfg").write_text(
        "[defaults]\nremote_user = deploy  ; a comment\nprivate_key_file = /k\n"
        "[ssh_connection]\nssh_common_args = -F none -o ProxyJump=jump\n"
    )
    monkeypatch.setenv("ANSIBLE_CONFIG", str(tmp_path / "ansible.cfg"))
    target = ssh_target.target(host(ansible_host="10.0.0.1"))
    assert (target.user, target.keys, target.command) == ("deploy", (Path("/k"),), "ssh -J root@jump deploy@10.0.0.1")
    monkeypatch.setenv("ANSIBLE_REMOTE_USER", "other")
    own = ssh_target.target(host(ansible_host="10.0.0.1", ansible_ssh_common_args="-F none"))
    assert (own.user, own.jump) == ("other", None)
    monkeypatch.delenv("ANSIBLE_REMOTE_USER")
    monkeypatch.delenv("ANSIBLE_CONFIG")
    monkeypatch.chdir(tmp_path)
    assert ssh_target.target(host(ansible_host="10.0.0.1")).jump is not None
    tmp_path.chmod(0o777)  # anybody could have written an ansible.cfg with a ProxyCommand there
    assert ssh_target.target(host(ansible_host="10.0.0.1", ansible_ssh_extra_args="-F none")).jump is None


@pytest.mark.parametrize(
    ("arguments", "way"),
    [
        ("-o ProxyJump=jump", "u@jump"),
        ("-J me@jump:2200,you@[::1]:99", "me@jump:2200 you@[::1]:99"),
        ("-o ProxyCommand='ssh -W %h:%p -q me@jump'", "me@jump"),
        ("-o ProxyCommand=\"ssh -o StrictHostKeyChecking=no -qW '[%h]:%p' jump -p 2200 -l %r\"", "u@jump:2200"),
        ("-o ProxyCommand='ssh -vv me@jump -p 23 -A nc -w 1 %h %p'", "me@jump:23"),
        ("-o ProxyCommand='exec /usr/bin/ssh -J first me@jump -W %h:%p'", "u@first me@jump"),
        ("-o ProxyCommand='nc -X 5 -x proxy:1080 %h %p'", "nc -X 5 -x proxy:1080 10.0.0.1 22"),
        ("-o ProxyCommand='ssh -W other:22 jump'", "ssh -W other:22 jump"),
        ("-o ProxyCommand='ssh -W %h:%p jump 2>/dev/null'", "ssh -W 10.0.0.1:22 jump 2>/dev/null"),
        ("-o ProxyJump=none", ""),
    ],
)
def test_ways_to_a_host_are_understood_as_ssh_does(arguments: str, way: str, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("User u\n")
    target = ssh_target.target(host(ansible_host="10.0.0.1", ansible_ssh_common_args=f"-F {config} {arguments}"))
    jumps = [hop.place.replace(f"{pwd.getpwuid(os.getuid()).pw_name}@", "u@") for hop in target.way[:-1]]
    assert (target.proxy or " ".join(jumps)) == way


def test_host_keys_that_ssh_is_told_to_forget_are_looked_up_all_the_same() -> None:
    forget = "-F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    target = ssh_target.target(host(ansible_host="10.0.0.1", ansible_ssh_common_args=forget))
    assert Path("~/.ssh/known_hosts").expanduser() in target.known_hosts


def test_jump_hosts_in_a_circle_are_told(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host a\n  ProxyJump b\nHost b\n  ProxyJump c\nHost c\n  ProxyJump b\n")
    with pytest.raises(ConfigError, match=r"e1: its jump hosts lead in a circle through .*@b; correct ProxyJump"):
        ssh_target.target(host(ansible_host="a", ansible_ssh_common_args=f"-F {config}"))


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"ansible_connection": "docker"}, "e1: ansible_connection: judgectl reaches hosts by SSH only"),
        ({"ansible_ssh_common_args": "-F /nowhere/config"}, "Can't open user config file /nowhere/config"),
        ({"ansible_ssh_common_args": "-o Nonsense=1"}, "Bad configuration option: nonsense; correct ansible_ssh"),
        ({"ansible_ssh_extra_args": "-o 'x"}, "e1: ansible_ssh_extra_args: ssh's arguments cannot be split"),
        ({"ansible_host": "-oProxyCommand=x"}, "e1: '-oProxyCommand=x' is no host's name; correct ansible_host"),
        ({"ansible_host": "a$(x)", "ansible_ssh_common_args": "-F none -o ProxyCommand='nc %h'"}, "e1: "),
        ({"ansible_user": "a;x", "ansible_ssh_common_args": "-F none -o ProxyCommand='nc %r'"}, "e1: "),
    ],
)  # fmt: skip
def test_logins_that_cannot_be_made_are_told(variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ssh_target.target(host(**variables))
    assert sentence in str(caught.value)


def test_journals_for_spreadsheets(capsys: pytest.CaptureFixture[str]) -> None:
    show_entry = commands._printer(show.OutputFormat.CSV)
    show_entry(JournalEntry(0, "e1", "judge-executor.service", 'a "word", and\nmore', priority=4))
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row == {
        "time": "1970-01-01T00:00:00+00:00", "host": "e1", "unit": "judge-executor.service", "priority": "warning",
        "message": 'a "word", and\nmore',
    }  # fmt: skip
