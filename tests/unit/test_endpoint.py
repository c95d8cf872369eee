"""Addresses and URLs as people write them: taken and usable, or refused in one right sentence."""

from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common import endpoint
from judge.common.errors import ConfigError, UsageError
from judge.config import MODELS, EtcdConfig, JudicatorConfig, parse_text
from judge.ctl import context

GOOD = ["127.0.0.1:2379", "etcd-1:2379", "etcd-1.example.org:0", "_x:65535"]
BAD = [
    "",
    ":1",
    "x",
    "x:",
    "x:y",
    "x:65536",
    "x:²",
    "a b:1",
    "x/y:1",
    "u@x:1",
    "x:1:2",
    "-x:1",
    "x\n:1",
    "x:1\n",
]
SIX = ["[::1]:2379", "::1:2379", "[2001:db8::1]:1", "[::ffff:1.2.3.4]:1"]
WORDS = ["http", "https", "://", "[", "]", "::1", "x", "127.0.0.1", ":", "2379", "/", "?", "#", "@", "%25eth0", "é"]
PIECES = st.lists(
    st.sampled_from(WORDS) | st.text(max_size=3),
    max_size=9,
).map("".join)


@pytest.mark.parametrize("text", GOOD)
def test_good_addresses(text):
    assert endpoint.host_port(text) is None
    for scheme in ("http", "https"):
        for check in (endpoint.url, endpoint.member_url, endpoint.page_url):
            assert check(f"{scheme}://{text}") is None
    assert endpoint.page_url(f"http://{text}/a?b") is None
    assert "without a path" in endpoint.url(f"http://{text}/a")


@pytest.mark.parametrize("text", BAD)
def test_bad_addresses(text):
    assert endpoint.host_port(text) == "expected HOST:PORT, as in 127.0.0.1:2379"


@pytest.mark.parametrize("text", SIX)
def test_an_ipv6_address_is_a_gateways_only(text):
    for wrong in (endpoint.host_port(text), endpoint.member_url(f"https://{text}") if text[0] == "[" else "IPv6"):
        assert "IPv6" in wrong
    if text[0] == "[":
        assert endpoint.url(f"https://{text}") is None
        assert httpx.URL(f"https://{text}/x").host


@given(PIECES)
def test_every_library_reads_an_accepted_address_alike(text):
    for check in (endpoint.url, endpoint.member_url, endpoint.page_url):
        if check(text) is None:
            parts, parsed = urlsplit(text), httpx.URL(text)
            assert (parts.hostname, parts.port) == (parsed.host.lower(), parsed.port) or parts.port in {80, 443}
            assert not parsed.userinfo
            assert check is not endpoint.member_url or ":" not in parts.hostname
    if endpoint.host_port(text) is None:
        host, port = text.split(":")
        assert host and 0 <= int(port) <= 65535


ETCD = "name: e\ndata_dir: /x\ncluster: {token: cluster-1, dns: etcd.example.org}\n"
JUDICATOR = "name: j\ntls: {ca: a, cert: b, key: c}\netcd: {endpoints: ['h:1']}\nmongodb: {seeds: ['h:1']}\n"


@pytest.mark.parametrize(
    ("model", "text", "key"),
    [
        (EtcdConfig, ETCD + "client: https://[::1]:2379\n", "client"),
        (EtcdConfig, ETCD + "peer: https://[::1]:2380\n", "peer"),
        (EtcdConfig, ETCD + "listen_client: ['https://[::]:2379']\n", "listen_client.0"),
        (EtcdConfig, ETCD + "proxy_listen: '[::1]:2379'\n", "proxy_listen"),
        (JudicatorConfig, JUDICATOR + "listen: '[::]:7400'\n", "listen"),
        (JudicatorConfig, JUDICATOR + "address: '::1:7400'\n", "address"),
        (JudicatorConfig, JUDICATOR.replace("['h:1']", "['[::1]:2379']", 1), "etcd.endpoints.0"),
        (JudicatorConfig, JUDICATOR.replace("seeds: ['h:1']", "seeds: ['[::1]:27017']"), "mongodb.seeds.0"),
    ],
)
def test_an_ipv6_address_in_a_config_is_refused_with_its_line(model, text, key):
    with pytest.raises(ConfigError, match=rf"^x\.yml:\d+: {key}: expected .*IPv6 address cannot stand here; .*, got '"):
        parse_text(model, text, "x.yml")
    assert model in MODELS.values()


@pytest.mark.parametrize("server", ["https://[::1", "ftp://x", "x", "http://u@x", "http://x:99999", "http://[zz]:1"])
def test_a_bad_server_of_judgectl_is_a_sentence(server, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("JUDGE_TOKEN", "t")
    with pytest.raises(UsageError, match="--server: expected a URL"):
        context.find(None, server)
    monkeypatch.setenv("JUDGE_SERVER", server)
    with pytest.raises(UsageError, match="JUDGE_SERVER: expected a URL"):
        context.find(None, None)
    monkeypatch.delenv("JUDGE_SERVER")
    assert context.find(None, "https://[::1]:8443/").server == "https://[::1]:8443"
    (tmp_path / "client.yml").write_text(f"server: '{server}'\ntoken_file: token\n")
    with pytest.raises(ConfigError, match="server: expected a URL"):
        context.from_file(tmp_path / "client.yml")


@given(st.sampled_from(["127.0.0.1", "localhost", "h-1.example", "::1"]), st.integers(0, 65535))
def test_an_address_is_taken_apart(host, port):
    quoted = f"[{host}]" if ":" in host else host
    assert endpoint.split(f"{quoted}:{port}") == (host, port)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_listening_at_an_address_that_is_taken_is_an_error(host):
    with endpoint.listen(f"{host}:0") as first, pytest.raises(OSError, match="in use"):
        endpoint.listen(f"{host}:{first.getsockname()[1]}")
