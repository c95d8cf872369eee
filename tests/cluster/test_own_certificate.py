"""One bare host that is all of a cluster, whose gateway has a certificate of another authority. Not in `make test`."""

import concurrent.futures
import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.support.certificates import DAY, Issuer, Public, issue, public
from tests.support.lab import ROOT, Figure, Site, bare_hosts, bundle, lab_marks

NAME = "judge.example.org"
PLACE = "/etc/ssl/judge"
BOUND = 100_000  # bytes

pytestmark = lab_marks(3600)


@pytest.fixture(scope="module")
def authority() -> Public:
    return public(NAME)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One bare host in all three groups. What is the gateways' stands in their group's variables."""
    work = tmp_path_factory.mktemp("site")
    with bare_hosts(["j1"], work, software=bundle()) as hosts:
        path = hosts.inventory / "hosts.yml"
        inventory = yaml.safe_load(path.read_text())
        groups = {"executors": {"hosts": {"j1": None}}, "gateways": {"hosts": {"j1": None}}}
        path.write_text(yaml.safe_dump({**inventory, **groups}))
        (hosts.inventory / "group_vars").mkdir()
        settings = {
            "judge_gateway_public_url": f"https://{NAME}",
            "judge_gateway_certificate": f"{PLACE}/fullchain.pem",
            "judge_gateway_certificate_key": f"{PLACE}/privkey.pem",
        }
        (hosts.inventory / "group_vars/gateways.yml").write_text(yaml.safe_dump(settings))
        yield Site(hosts.lab, work)


def install(site: Site, chain: bytes, key: bytes) -> None:
    site.lab.ssh("j1", f"mkdir -p {PLACE} && cat >{PLACE}/fullchain.pem", text=chain.decode())
    site.lab.ssh("j1", f"umask 077 && cat >{PLACE}/privkey.pem", text=key.decode())


def pair_of(server: Issuer, authority: Public) -> tuple[bytes, bytes]:
    return server.pem + authority.middle.pem, server.key_pem


def test_a_wrong_certificate_is_a_sentence_before_anything_is_changed(site: Site, authority: Public) -> None:
    before = site.everything("j1")
    missing = site.site()
    assert f"FAULT: j1: {PLACE}/fullchain.pem: the certificate cannot be read: No such file" in missing.text
    expired = issue(NAME, authority.middle, sans=(NAME,), begins=-3 * DAY, ends=-DAY)
    install(site, *pair_of(expired, authority))
    run = site.site()
    assert f"FAULT: j1: {PLACE}/fullchain.pem: the certificate expired on " in run.text
    install(site, authority.server.pem + authority.middle.pem, issue("x").key_pem)
    mixed = site.site()
    assert f"FAULT: j1: {PLACE}/fullchain.pem: the first certificate does not belong to the key" in mixed.text
    assert {missing.code, run.code, mixed.code} != {0}
    assert missing.changed | run.changed | mixed.changed == set()
    assert {path for path in site.everything("j1") if path.startswith("/etc/judge")} <= set(before)


def test_the_cluster_is_deployed_and_verified(
    site: Site, authority: Public, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: Figure
) -> None:
    install(site, *pair_of(authority.server, authority))
    first = site.site().check()
    figure(f"site.yml on one bare host: {first.seconds:.0f} s")
    assert site.site().check().changed == set()
    site.play("playbooks/verify.yml").check()
    site.play("playbooks/renew.yml").check()
    client = yaml.safe_load((site.secrets / "client.yml").read_text())
    assert (client["server"], client.get("ca")) == (f"https://{NAME}", None)
    refused = site.judgectl("whoami")
    assert refused.returncode != 0 and "CERTIFICATE_VERIFY_FAILED" in refused.stderr
    authority.write(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "root.crt"))
    result = site.judgectl("whoami", "--output", "json")
    assert result.returncode == 0 and json.loads(result.stdout)["user"] == "admin", result
    judged = site.judgectl(
        "submit", "--output", "json", str(ROOT / "examples/problems/hello/submissions/accepted/hello.c")
    )
    assert json.loads(judged.stdout)["verdict"] == "AC", judged


def test_nginx_that_serves_a_former_certificate_is_told(site: Site, authority: Public) -> None:
    """As after a renewal whose hook did not reload it; site.yml does."""
    renewed = issue(NAME, authority.middle, sans=(NAME,))
    install(site, *pair_of(renewed, authority))
    check = site.play("playbooks/verify.yml")
    assert check.code != 0
    assert f"nginx serves another certificate than {PLACE}/fullchain.pem; run 'systemctl reload nginx'" in check.text
    run = site.play("playbooks/renew.yml").check()
    assert run.changed_on("j1") == {"judge_gateway : Nginx follows its configuration"}
    site.play("playbooks/verify.yml").check()


def test_http_leads_to_https(site: Site) -> None:
    address = site.lab.record.address("j1")
    answer = site.within(lambda: httpx.get(f"http://{address}/", trust_env=False, headers={"Host": NAME}))
    assert (answer.status_code, answer.headers["Location"]) == (301, f"https://{NAME}/")


def logged(site: Site) -> int:
    output = site.lab.ssh(
        "j1", "journalctl --sync; journalctl --quiet --output=cat | wc -c; cat /var/log/nginx/* | wc -c"
    )
    return sum(map(int, output.split()))


@pytest.mark.parametrize("port", [443, 80, 2379, 2380, 7400, 27017])
@pytest.mark.parametrize("kind", ["TLS that is broken", "no TLS", "nothing"])
def test_strangers_fill_no_log_of_a_host(site: Site, port: int, kind: str, figure: Figure) -> None:
    data = {"TLS that is broken": b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"x" * 600, "nothing": b""}
    address = (site.lab.record.address("j1"), port)
    before = logged(site)

    def run() -> int:
        site.enter()
        count, end = 0, time.monotonic() + 4
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(address, 5) as connection:
                connection.sendall(data.get(kind, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
                if kind != "nothing":
                    connection.settimeout(5)
                    connection.recv(1000)
            count += 1
        return count

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        total = sum(future.result() for future in [pool.submit(run) for _ in range(4)])
    grown = logged(site) - before
    figure(f"port {port}, {kind}: {total} connections, {grown} bytes of log")
    assert grown < BOUND


def test_what_nginx_logs_is_limited(site: Site) -> None:
    """Here a command of its unit writes 3000 lines; journald takes more than the burst if the disk has much room."""
    line = "x" * 500
    extra = "/run/systemd/system/nginx.service.d"
    site.lab.ssh("j1", "cat >/run/flood", text=f"for n in $(seq 3000); do echo {line}; done; sleep 1\n")
    site.lab.ssh(
        "j1", f"mkdir -p {extra} && cat >{extra}/flood.conf", text="[Service]\nExecReload=/bin/sh /run/flood\n"
    )
    try:
        site.lab.ssh("j1", "systemctl daemon-reload && systemctl reload nginx")
        output = site.lab.ssh("j1", "journalctl --sync; journalctl --quiet --output=cat --unit=nginx")
        assert 0 < output.count(line) <= 1000
    finally:
        site.lab.ssh("j1", f"rm -r {extra} /run/flood && systemctl daemon-reload")
