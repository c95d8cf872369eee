"""Admission of requests: shares of threads, failed log-ins, paths of APIs, and nginx's configuration."""

import html
import io
import json
import threading

import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st

from judge.config import EtcdClient, GatewayConfig, Tls
from judge.gateway import nginx
from judge.gateway.admission import PATH, AddressThrottle, Admission, BusyError, Routing, Shares
from judge.gateway.auth import FileTokens, Principal
from tests.support.gateway import make_config


@pytest.fixture
def config(work) -> GatewayConfig:
    (work / "run").mkdir(parents=True)
    tls = Tls(ca=work / "ca", cert=work / "cert", key=work / "key")
    return make_config(work, EtcdClient(endpoints=["127.0.0.1:1"]), tls, spool_dir=work)


def test_a_client_has_its_share():
    shares = Shares(4, 16)
    with shares.share("ada"), shares.share("ada"), shares.share("ada"), shares.share("ada"):
        with pytest.raises(BusyError, match="you have too many requests"), shares.share("ada", patience=0.01):
            pass
        with shares.share("bob"):
            pass
    with shares.share("ada", patience=0):
        pass


def test_a_request_waits_for_the_end_of_another_of_its_client():
    shares, begun = Shares(1, 1), threading.Event()
    order = []

    def wait():
        begun.set()
        with shares.share("ada", patience=20):
            order.append("second")

    thread = threading.Thread(target=wait)
    with shares.share("ada"):
        thread.start()
        begun.wait(20)
        while not shares._waiting:
            pass
        with pytest.raises(BusyError), shares.share("ada", patience=20):
            pass  # half of the threads wait already
        order.append("first")
    thread.join(20)
    assert order == ["first", "second"]
    assert not shares._held and not shares._waiting


def test_a_lent_share_counts_again_afterwards():
    shares = Shares(1, 4)
    with shares.share("ada"):
        with shares.lent("ada"), shares.share("ada", patience=0):
            pass
        with pytest.raises(BusyError), shares.share("ada", patience=0.01):
            pass
    assert not shares._held


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60))
def test_shares_hold_in_any_order(steps):
    shares = Shares(3, 12)
    open_shares = {client: [] for client in "abc"}
    for client, comes in steps:
        if comes:
            share = shares.share(client, patience=0)
            try:
                share.__enter__()
            except BusyError:
                assert len(open_shares[client]) == 3
            else:
                open_shares[client].append(share)
                assert len(open_shares[client]) <= 3
        elif open_shares[client]:
            open_shares[client].pop().__exit__(None, None, None)
    assert shares._held == {client: len(shares_of) for client, shares_of in open_shares.items() if shares_of}


@given(st.lists(st.tuples(st.floats(0, 10), st.booleans()), max_size=80))
def test_a_throttle_allows_a_burst_and_then_a_rate(steps):
    throttle, now, through = AddressThrottle(5, 3.0), 0.0, 0
    for pause, _ in steps:
        now += pause
        if throttle.wait("a", now) <= 0:
            throttle.failed("a", now)
            through += 1
        assert 0 <= throttle.wait("a", now) <= 3.0 + 1e-6
        assert throttle.wait("b", now) == 0
    assert through <= 5 + now / 3.0 + 1


def test_a_repeated_wrong_token_is_one_failure():
    throttle = AddressThrottle(2, 3.0)
    for _ in range(100):
        throttle.wrong_token("a", "revoked", 0.0)
    assert throttle.wait("a", 0.0) == 0
    throttle.wrong_token("b", "revoked", 0.0)
    assert throttle.wait("b", 0.0) == 0, "each address counts for itself"
    throttle.wrong_token("a", "guess", 0.0)
    assert throttle.wait("a", 0.0) == 3.0


def routed(config, host, path):
    paths = []
    environ = {
        "HTTP_HOST": host,
        "PATH_INFO": path,
        "wsgi.input": io.BytesIO(b"a body that nobody reads"),
        "uwsgi.version": b"2",
    }
    Routing(lambda environ, _: paths.append(environ["PATH_INFO"]) or [], config)(environ, lambda *_: None)
    assert environ["wsgi.input"].read() == b""
    return paths[0]


def test_several_slashes_of_an_api_are_one(config):
    """The application would answer with a redirection, which no client follows that sends a body."""
    for path, target in (
        ("/api//v1///submissions", "/api/v1/submissions"),
        ("/judge0//submissions", "/judge0/submissions"),
        ("//judge0///submissions//batch", "/judge0/submissions/batch"),
        *((unchanged, unchanged) for unchanged in ("/judge0x//y", "/apix//v1", "//login", "/", "/judge0")),
    ):
        assert routed(config, "x", path) == target
    off = config.model_copy(update={"judge0": config.judge0.model_copy(update={"enabled": False})})
    assert routed(off, "x", "/judge0//x") == "/judge0//x"
    assert routed(off, "x", "/api//x") == "/api/x"


def test_under_a_host_of_its_own_judge0_is_at_the_root(config):
    judge0 = config.judge0.model_copy(update={"hosts": ["judge0.example.org"]})
    own = config.model_copy(update={"judge0": judge0})
    for host in ("judge0.example.org", "JUDGE0.example.org.:443", "judge0.example.org:8080"):
        assert routed(own, host, "/submissions") == "/judge0/submissions"
        assert routed(own, host, "/judge0/about") == "/judge0/judge0/about"
    for host in ("example.org", "x.judge0.example.org", ""):
        assert routed(own, host, "/submissions") == "/submissions"


def test_errors_of_nginx_have_the_shapes_of_the_application(config):
    files = nginx.errors(config)
    for status, code in (
        (400, "usage"),
        (401, "unauthorized"),
        (413, "too_large"),
        (429, "limit"),
        (503, "unavailable"),
    ):
        api = json.loads(files[f"{status}.api"])
        assert api["code"] == code
        assert json.loads(files[f"{status}.judge0"]) == {"error": api["error"]}
        page = files[f"{status}.page"].decode()
        assert html.escape(api["error"][1:]) in page and '<a href="/">To the problems</a>' in page


def test_lines_of_nginx_keep_their_levels():
    line = "2026/11/28 23:43:28 [%s] 28014#28014: *1 open() failed"
    levels = {level: nginx.parse_line(line % level)[0] for level in ("notice", "warn", "error", "crit", "emerg")}
    assert levels == {"notice": 20, "warn": 30, "error": 40, "crit": 40, "emerg": 40}


@pytest.mark.parametrize("host", ["gateway.example", "judge0.example"])
@pytest.mark.parametrize("length", ["", str(200 * 1024**2)])
def test_no_name_of_the_gateway_opens_the_bodies_of_blobs_to_users(config, host, length):
    """nginx chooses its location by the path that was sent, before a name of Judge0's API leads elsewhere."""

    class Everybody:
        def by_token(self, *_: object) -> Principal:
            return Principal("eve", "user", "tokens.yml")

        def by_session(self) -> None:
            return None

    app = Flask("gateway")
    own_host = config.model_copy(update={"judge0": config.judge0.model_copy(update={"hosts": ["judge0.example"]})})
    Admission(own_host, FileTokens(config.tokens), Everybody()).register(app)
    environ = {"JUDGE_METHOD": "POST", "JUDGE_PATH": "/api/v1/blobs/x", "JUDGE_LENGTH": length, "HTTP_HOST": host}
    headers = {"Authorization": "Bearer t", "X-Auth-Token": "t"}
    assert app.test_client().get(PATH, headers=headers, environ_overrides=environ).status_code == 403
