"""settings.yml of an embedded cluster, the addresses that follow from it, and nginx's configuration."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from judge import config
from judge.boot.embedded import cluster as embedded
from judge.boot.embedded import settings
from judge.common.errors import ConfigError, UsageError
from judge.gateway import nginx
from judge.gateway.daemon import find_nginx
from judge.rpc import pki

LOOPBACK = "127.0.0.1:8080"


@pytest.fixture
def certificate(work):
    pki.make_ca(work / "pki")
    return pki.issue(work / "pki", "page", "gateway", ["127.0.0.2"])


def load(work: Path, text: str, listen: str | None = None) -> settings.SettingsFile:
    path = work / "settings.yml"
    path.write_text(text)
    try:
        return settings.load(path, listen, LOOPBACK)
    finally:
        assert path.read_text() == text


def test_a_missing_file_is_written_once_with_the_defaults(work):
    path = work / "settings.yml"
    assert settings.load(path, None, LOOPBACK) == settings.SettingsFile()
    assert path.read_text() == settings.TEXT
    uncommented = re.sub(r"(?m)^#(?=[a-z_]+:)", "", settings.TEXT)
    assert load(work, uncommented) == settings.SettingsFile()
    assert set(yaml.safe_load(uncommented)) == set(settings.SettingsFile.model_fields)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("oidc: []\nlisten: 3\n", r"settings\.yml:2: listen: expected a list, got 3"),
        ("listen: [0.0.0.0]\n", r"settings\.yml:1: listen\.0: expected HOST:PORT, as in .*, got '0\.0\.0\.0'"),
        ("port: 3\nlisten: []\n", r"settings\.yml:1: unknown key 'port'; did you mean 'http_port'\?"),
        ("colour: red\n", r"settings\.yml:1: unknown key 'colour'; expected allowances, certificate, .*, public_url"),
        (
            "limits: {source_bytes: 0}\n",
            r"settings\.yml:1: limits\.source_bytes: expected at least 1, got 0",
        ),
        (
            "\n\ncertificate: /a\n",
            r"settings\.yml:3: certificate and certificate_key belong together; set both, or none",
        ),
        ("http_port: 80\n", r"settings\.yml:1: http_port redirects to HTTPS, which needs a certificate"),
        ("certificate: a\ncertificate_key: b\n", r"settings\.yml:1: certificate: 'a' is no whole path"),
        ("certificate: /no\ncertificate_key: /no\n", r"settings\.yml:1: certificate: /no cannot be read: No such file"),
        ("languages: /no\n", r"settings\.yml:1: languages: /no cannot be read: No such file"),
        (
            "certificate: /dev/null\ncertificate_key: /dev/null\n",
            r"settings\.yml:1: certificate .*: expected PEM files",
        ),
        ("oidc: [{name: a, issuer: 'https://a', client_id: b}]\n", r"settings\.yml:1: public_url is missing"),
        ("listen: ['h:80', 'h:80']\n", r"settings\.yml:1: listen and http_port have one address twice"),
        ("- listen\n", r"settings\.yml:1: expected a mapping of settings, found list"),
        ("listen: [\n", r"settings\.yml:2: not YAML: "),
    ],
)
def test_a_fault_is_one_sentence_with_its_line(work, text, sentence):
    with pytest.raises(ConfigError, match=sentence) as refusal:
        load(work, text)
    assert "\n" not in str(refusal.value) and refusal.value.exit_code == 2


def test_the_address_of_the_command_line_wins(work):
    assert load(work, "listen: ['10.0.0.1:80']\n", "10.0.0.2").listen == ["10.0.0.2:8080"]
    assert load(work, "", "0.0.0.0:80").listen == ["0.0.0.0:80"]
    for wrong in ("::1", "a b", "10.0.0.1:x", ":80", ""):
        with pytest.raises(UsageError, match=r"^--listen .*: expected HOST:PORT"):
            load(work, "", wrong)
    with pytest.raises(UsageError, match=r"^listen: 127\.0\.0\.1:8080 is for this machine only"):
        load(work, "", "127.0.0.1")


def test_people_are_told_the_address_that_other_machines_use(work, certificate, monkeypatch):
    secure = f"certificate: {certificate.cert}\ncertificate_key: {certificate.key}\n"
    for text, address in (
        ("", "http://127.0.0.1:8080"),
        (secure, "http://127.0.0.1:8080"),
        ("listen: ['127.0.0.2:80']\n", "http://127.0.0.2"),
        (f"{secure}listen: ['127.0.0.2:443', 'b:80']\n", "https://127.0.0.2"),
        (f"{secure}listen: ['127.0.0.2:80']\n", "https://127.0.0.2:80"),
        ("public_url: https://judge.example.org\nlisten: ['127.0.0.2:80']\n", "https://judge.example.org"),
    ):
        assert load(work, text).address(LOOPBACK) == address
    monkeypatch.setattr(settings, "_own_address", lambda: "192.0.2.7")
    assert load(work, "", "0.0.0.0:8081").address(LOOPBACK) == "http://192.0.2.7:8081"


def test_the_gateway_alone_is_opened(work, certificate):
    directory = embedded.ClusterDirectory(work / "c")
    try:
        cluster = directory.open_cluster(0)
        directory.secrets()
        choices = load(
            work,
            f"listen: ['0.0.0.0:{cluster.ports.gateway}']\n"
            f"certificate: {certificate.cert}\ncertificate_key: {certificate.key}\n"
            "limits: {source_bytes: 1000}\nallowances: {user: {waiting: 7}}\n",
        )
        services = embedded.configs(directory, cluster, slots=1, cores=[], weak=True, choices=choices)
    finally:
        directory.close()
    hosts = {name: {text.rpartition(":")[0] for text in item.listening()} for name, item in services.items()}
    assert hosts.pop("gateway") == {"127.0.0.1", "0.0.0.0"}
    assert set().union(*hosts.values()) == {"127.0.0.1"}
    gateway, judicator = services["gateway"], services["judicator"]
    assert isinstance(gateway, config.GatewayConfig) and isinstance(judicator, config.JudicatorConfig)
    assert gateway.secure_cookies and gateway.limits.source_bytes == judicator.limits.source_bytes == 1000
    assert judicator.allowances.user.waiting == 7


@pytest.mark.parametrize("host", ["127.0.0.2", "0.0.0.0"])
@pytest.mark.parametrize("secure", [False, True])
def test_nginx_takes_the_configuration(work, certificate, host, secure):
    port = embedded.free_port(set())
    public = {"listen": [f"{host}:{port}"]}
    if secure:
        files = {"certificate": certificate.cert, "certificate_key": certificate.key}
        public |= {**files, "http_port": embedded.free_port({port})}
    gateway = config.GatewayConfig.model_validate(
        {
            "name": "gateway", "listen": f"127.0.0.1:{port}", "run_dir": work, "spool_dir": work, "tls": certificate,
            "etcd": {"endpoints": ["127.0.0.1:1"]}, "tokens": work, "session_key": work, "public": public,
        }
    )  # fmt: skip
    path = nginx.prepare(gateway, 100)
    command = [*nginx.command(find_nginx("nginx"), path), "-t"]
    result = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
