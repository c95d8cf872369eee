"""The `judge` command: one sentence and an exit code for everything that a person can get wrong."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import judge
from judge import cli, config
from judge.common.errors import RefusedError
from judge.common.kinds import KINDS

ETCD = """name: one
data_dir: /var/lib/judge/etcd
cluster:
  token: token-of-tests
  members:
    - name: one
      peer: http://10.0.0.1:2380
      client: http://10.0.0.1:2379
"""
JUDICATOR = """name: one
tls: {ca: a, cert: b, key: c}
etcd:
  endpoints: ["127.0.0.1:2379"]
mongodb:
  seeds: ["127.0.0.1:27017"]
task_expiry: 3
"""
EXECUTOR = """name: one
work_dir: /var/lib/judge/executor
tls: {ca: a, cert: b, key: c}
etcd:
  endpoints: ["127.0.0.1:2379"]
report_interval: 2
"""


@pytest.fixture(autouse=True)
def _keep_logging():
    """The command sets the root logger up for its process; give it back to the other tests."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = before, level


@pytest.fixture
def run(capsys):
    """Run `judge ARGUMENTS`; returns (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = cli.guarded(lambda **options: cli.app([str(argument) for argument in arguments], **options))
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def write(work):
    def call(name: str, text: str) -> Path:
        path = work / name
        path.write_text(text)
        return path

    return call


def test_check_says_good(run, write):
    etcd, judicator = write("etcd.yml", ETCD), write("judicator.yml", JUDICATOR)
    assert run("config", "check", etcd, judicator) == (0, f"{etcd}: good (etcd)\n{judicator}: good (judicator)\n", "")
    odd = write("odd.yml", ETCD)
    assert run("config", "check", "--kind", "etcd", odd)[0] == 0


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("etcd.yml", ETCD + "heartbeat: 3\n", "etcd.yml:9: unknown key 'heartbeat'; did you mean 'heartbeat_ms'?"),
        ("etcd.yml", ETCD + "zzz: 3\n", "etcd.yml:9: unknown key 'zzz'\n"),
        (
            "etcd.yml",
            ETCD.replace("http://10.0.0.1:2380", "10.0.0.1"),
            "etcd.yml:7: cluster.members.0.peer: expected a URL ",
        ),
        ("etcd.yml", ETCD.replace("token:", "tokn:"), "unknown key 'cluster.tokn'; did you mean 'token'? (and 1 more)"),
        ("judicator.yml", JUDICATOR.replace(":2379", ""), "4: etcd.endpoints.0: expected HOST:PORT, as in 127.0.0.1:2"),
        ("etcd.yml", ETCD + "heartbeat_ms: fast\n", "etcd.yml:9: heartbeat_ms: expected an integer, got 'fast'"),
        ("etcd.yml", ETCD.replace("name: one\ndata", "data", 1), "etcd.yml:1: key 'name' is missing"),
        ("etcd.yml", ETCD + "heartbeat_ms: 900\n", "etcd.yml:9: election_ms (1000) must be at least 5 times heartbeat"),
        ("etcd.yml", "name: [\n", "etcd.yml:2: not YAML: "),
        ("etcd.yml", "- name\n", "etcd.yml:1: expected a mapping of settings, found list"),
        ("etcd.yml", "", "etcd.yml:1: expected a mapping of settings, found NoneType"),
        (
            "judicator.yml",
            JUDICATOR.replace("expiry: 3", "expiry: 1.5"),
            "judicator.yml:7: task_expiry (1.5) must be at least 2 times sweep_interval",
        ),
        ("executor.yml", EXECUTOR + "slots: 0\n", "executor.yml:7: slots (0) must be at least 1, or 'auto'"),
        ("mystery.yml", ETCD, "its name does not tell its kind; use --kind with one of boot, etcd,"),
        ("etcd.yml.j2", ETCD, "is a template; check the boot.yml that names it"),
    ],
)
def test_check_finds_faults(run, write, name, text, sentence):
    code, out, err = run("config", "check", write(name, text))
    assert code == 2 and out == "" and err.startswith("judge: ") and err.count("\n") == 1
    assert sentence in err


def test_check_of_missing_and_odd_files(run, work, write):
    code, _, err = run("config", "check", work / "etcd.yml")
    assert code == 2 and "etcd.yml: cannot be read: No such file or directory; name an existing file" in err
    (work / "etcd.yml").write_bytes(b"name: \xff\xfe\n")
    assert "is not UTF-8 text" in run("config", "check", work / "etcd.yml")[2]
    code, _, err = run("config", "check", "--kind", "nginx", write("etcd.yml", ETCD))
    assert code == 2 and "--kind nginx: expected one of boot, etcd" in err


def test_impossible_timings_between_two_files(run, write):
    files = [write("judicator.yml", JUDICATOR), write("executor.yml", EXECUTOR)]
    code, _, err = run("config", "check", *files)
    assert code == 2
    assert "executor.yml:1: report_interval (2) times 3 must not be above the expiries of" in err


def boot_yml(work: Path, text: str = ETCD, **service) -> str:
    (work / "etcd.yml").write_text(text)
    entry = {"name": "etcd", "kind": "etcd", "config": str(work / "etcd.yml"), **service}
    return yaml.safe_dump({"name": "host", "run_dir": str(work / "run"), "services": [entry]})


def test_check_of_boot_covers_its_services(run, write, work):
    path = write("boot.yml", boot_yml(work))
    assert run("config", "check", path)[1] == f"{work / 'etcd.yml'}: good (etcd)\n{path}: good (boot)\n"


@pytest.mark.parametrize(
    ("service", "sentence"),
    [
        ({"text": ETCD + "x: 1\n"}, "/etcd.yml:9: unknown key 'x'"),
        ({"restart_min": 20}, "restart_min (20) must not be above restart_max (10)"),
        ({"name": "boot"}, "name 'boot' is boot's own"),
        ({"kind": "nginx"}, "services.0.kind: "),
        ({"serving": "nowhere"}, "services.0.serving: expected HOST:PORT, as in 127.0.0.1:2379, got 'nowhere'\n"),
        ({"config": "/nowhere/etcd.yml"}, "/nowhere/etcd.yml: cannot be read"),
    ],
)
def test_faults_in_boot(run, write, work, service, sentence):
    code, _, err = run("config", "check", write("boot.yml", boot_yml(work, **service)))
    assert code == 2 and sentence in err


def test_same_name_twice(run, write, work):
    text = yaml.safe_load(boot_yml(work))
    text["services"] *= 2
    code, _, err = run("config", "check", write("boot.yml", yaml.safe_dump(text)))
    assert code == 2 and "name 'etcd' is used twice" in err


def test_print_fills_in_defaults_and_can_be_read_again(run, write):
    code, out, _ = run("config", "print", write("etcd.yml", ETCD))
    assert code == 0
    printed = yaml.safe_load(out)
    assert printed["heartbeat_ms"] == 100 and printed["mode"] == "member"
    again = config.load(config.EtcdConfig, write("etcd.yml", out))
    assert yaml.safe_load(config.dump(again)) == printed
    assert run("config", "print", write("etcd.yml.j2", ETCD))[0] == 2


def test_config_print_shows_where_each_value_comes_from(run, write):
    path = write("etcd.yml", ETCD)
    code, out, _ = run("config", "print", "--origin", path)
    assert code == 0
    lines = dict(line.split(": ", 1) for line in out.splitlines())
    place = next(number for number, line in enumerate(ETCD.splitlines(), 1) if line.startswith("name:"))
    assert lines["name"].endswith(f"  # {path}:{place}")
    assert lines["heartbeat_ms"] == "100  # default"
    assert lines["check.tries"] == "30  # default"


def test_version_and_help(run):
    assert run("--version") == (0, f"judge {judge.__version__}\n", "")
    assert "judicator" in run("--help")[1]
    code, _, err = run("nonsense")
    assert code == 2 and err == "judge: No such command 'nonsense'.\n"
    code, _, err = run("up", "--port", "99999")
    assert code == 2 and "--port" in err and err.count("\n") == 1


def test_boot_refuses_the_systemd_backend_and_bad_settings(run, write, work):
    path = write("boot.yml", boot_yml(work) + "backend: systemd\n")
    if not Path("/run/systemd/system").is_dir():  # boot would run on a host that has it
        code, _, err = run("boot", "--config", path)
        assert code == 3 and "backend 'systemd' needs a host that systemd runs" in err
    code, _, err = run("boot", "--config", path, "--set", "mongodb.x=1")
    assert code == 2 and "no service 'mongodb'; there are boot, etcd" in err
    code, _, err = run("boot", "--config", path, "--set", "boot.interval=0")
    assert code == 2 and "boot.yml: --set interval: interval: " in err
    code, _, err = run("boot", "--config", path, "--set", "boot.backend=process", "--set", "etcd.x=1")
    assert code == 2 and "etcd.yml: --set x: unknown key 'x'" in err
    assert not (work / "run").exists()


@pytest.mark.parametrize("kind", ["etcd", "mongodb", "judicator", "executor", "gateway"])
def test_daemons_need_their_config(run, work, kind):
    code, _, err = run(kind, "--config", work / "none.yml")
    assert code == 2 and err == (
        f"judge: {work / 'none.yml'}: cannot be read: No such file or directory; "
        "name an existing file that this user may read\n"
    )


def raises(error: BaseException):
    def command(**_: object) -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (RefusedError("another cluster's data"), 3, "judge: another cluster's data\n"),
        (KeyboardInterrupt(), 130, ""),
        (ZeroDivisionError("x"), 1, "judge: unexpected error: ZeroDivisionError: x; log_level debug shows where\n"),
    ],
)
def test_every_exception_has_a_sentence_and_its_traceback_in_the_debug_log(capsys, caplog, error, code, text):
    with caplog.at_level(logging.DEBUG, logger="judge"):
        assert cli.guarded(raises(error)) == code
    assert capsys.readouterr().err == text
    assert ("Traceback" in caplog.text) == isinstance(error, Exception)


def test_the_cause_of_an_error_is_in_the_debug_log_alone(capsys, caplog):
    error = RefusedError("the file is damaged")
    error.__cause__ = EOFError("at byte 12")
    with caplog.at_level(logging.DEBUG, logger="judge"):
        cli.guarded(raises(error))
    assert "EOFError: at byte 12" in caplog.text
    assert capsys.readouterr().err == "judge: the file is damaged\n"


def test_journal_priority(capsys, monkeypatch):
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    cli.guarded(raises(RefusedError("no")))
    assert capsys.readouterr().err == "<3>judge: no\n"


def test_exit_codes_return(monkeypatch):
    assert cli.guarded(lambda **_: 7) == 7
    assert cli.guarded(lambda **_: None) == 0
    monkeypatch.setattr(sys, "argv", ["judge", "--version"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0


# Modules that each start must not load: nobody is served meanwhile, and a verb restarts every daemon of a cluster.
_LIGHT = {
    "judge.cli": {"flask", "pymongo", "grpc", "aiohttp", "httpx", "jinja2", "pydantic", "cryptography"},
    "judge.boot.main": {"flask", "pymongo", "aiohttp", "httpx", "judge.problems.importers"},
    "judge.gateway.app": {"pymongo", "aiohttp", "judge.problems.importers"},
    "judge.executor.slot.main": {"judge.problems.importers"},
    **{kind.program: {"judge.problems.importers"} for kind in KINDS.values()},
}


@pytest.mark.parametrize(("module", "heavy"), _LIGHT.items())
def test_a_start_is_light(module, heavy):
    code = f"import sys, {module}; print(' '.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(run.stdout.split()) & heavy
