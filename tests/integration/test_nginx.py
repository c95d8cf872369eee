"""A real nginx with the configuration of the role judge_gateway: log, limits, proxies, and the port for HTTP."""

import collections
import concurrent.futures
import contextlib
import functools
import http.server
import itertools
import json
import re
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from judge.common.errors import UnavailableError
from judge.ctl.api import Api
from judge.ctl.context import Context
from judge.model import people as p
from judge.model.audit import By
from judge.rpc.client import RpcClient
from tests.support.ansible import module_utils
from tests.support.certificates import issue, public
from tests.support.gateway import TLS, Nginx, gateway_config, needs_nginx, running_gateway, serving
from tests.support.judicators import World
from tests.support.servers import Acceptor, free_port

pytestmark = needs_nginx

BOUND = 100_000  # bytes of log
SECONDS = 4.0
CHALLENGES = "/.well-known/acme-challenge"
LOOPBACK = ["127.0.0.0/8", "::1"]


class _Echo(http.server.BaseHTTPRequestHandler):
    """Answers with the headers that have come."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = json.dumps(dict(self.headers.items())).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the base class looks for this name

    def log_message(self, *_: Any) -> None:
        pass


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512


@pytest.fixture(scope="module")
def behind() -> Iterator[int]:
    """A port that answers everything at once."""
    with _Server(("127.0.0.1", 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


Start = Callable[..., Nginx]


@pytest.fixture
def start(tmp_path: Path, behind: int) -> Iterator[Start]:
    chain, key = public("127.0.0.1").write(tmp_path / "tls")
    with contextlib.ExitStack() as stack:
        number = itertools.count()

        def run(gateway: int = behind, **settings: Any) -> Nginx:
            place = tmp_path / str(next(number))
            return stack.enter_context(serving(place, gateway, chain, key, **settings))

        yield run


def client(server: Nginx, **headers: str) -> httpx.Client:
    return httpx.Client(base_url=server.url, verify=False, trust_env=False, headers=headers, timeout=30)


def flood(attack: Callable[[], object], threads: int = 4) -> int:
    """Do something over and over for some seconds, several at once; returns how often."""
    end = time.monotonic() + SECONDS

    def run() -> int:
        count = 0
        while time.monotonic() < end:
            with contextlib.suppress(OSError, httpx.TransportError):
                attack()
            count += 1
        return count

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return sum(call.result() for call in [pool.submit(run) for _ in range(threads)])


def send(server: Nginx, data: bytes) -> None:
    """Send bytes over a connection of its own and wait for the first of the answer."""
    with socket.create_connection(("127.0.0.1", server.https), 5) as plain, TLS.wrap_socket(plain) as connection:
        connection.sendall(data)
        connection.recv(65536)


def plain(server: Nginx, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.https), 5) as connection:
        connection.sendall(data)
        connection.recv(65536)


LONG = b"x" * 6000
# What one of a flood does, by a browser or a connection of its own.
FLOODS: dict[str, Callable[[Nginx, httpx.Client], object]] = {
    "too many log-ins": lambda _, browser: browser.post("/login", params={"q": LONG.decode()}),
    "too many connections": lambda _, browser: browser.get(f"/{LONG.decode()}"),
    "no TLS": lambda server, _: plain(server, b"GET / HTTP/1.0\r\n\r\n"),
    "broken TLS": lambda server, _: plain(server, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + LONG),
    "no HTTP": lambda server, _: send(server, b"\0\x01 / HTTP/1.1\r\n\r\n"),
    "too large a body": lambda server, _: send(
        server, b"POST /" + LONG + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n"
    ),
    "too large a head": lambda server, _: send(server, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + LONG * 8 + b"\r\n\r\n"),
    "no such ACME challenge": lambda server, browser: browser.get(f"{server.plain_url}{CHALLENGES}/none"),
    "a directory of ACME challenges": lambda server, browser: browser.get(f"{server.plain_url}{CHALLENGES}/"),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_no_flood_of_requests_fills_a_log(start: Start, kind: str) -> None:
    server = start(judge_gateway_logins_each={"rate": 1, "burst": 1}, judge_gateway_connections_each=1)
    with client(server) as browser:
        requests = flood(functools.partial(FLOODS[kind], server, browser))
    assert requests > 100
    assert (server.journal.size < BOUND, server.files) == (True, 0), server.journal.lines[-3:]


@pytest.mark.parametrize("way", ["down", "reset"])
def test_no_flood_fills_a_log_while_the_gateway_behind_fails(start: Start, way: str) -> None:
    def hang_up(connection: socket.socket) -> None:
        connection.recv(10)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    acceptor = Acceptor(hang_up)
    if way == "down":
        acceptor.close()
    server = start(acceptor.port)
    with client(server) as browser:
        assert flood(functools.partial(browser.get, f"/{LONG.decode()}")) > 100
    acceptor.close()
    assert (server.journal.size < BOUND, server.files) == (True, 0), server.journal.lines[-3:]


# --- log-ins -----------------------------------------------------------------------------------------------------

PASSWORD = "correct horse battery"


@dataclass
class Judge:
    port: int
    rpc: RpcClient

    def add(self, count: int) -> None:
        """Make the accounts p0, p1, …"""
        root = By(actor="root", role="admin", origin="192.0.2.1")
        for number in range(count):
            self.rpc.call("user_add", p.UserAdd(name=f"p{number}", password=PASSWORD), p.User, by=root)


@pytest.fixture
def judge(world: World, tmp_path: Path) -> Iterator[Judge]:
    world.judicator()
    settings = gateway_config(world, tmp_path / "gw", proxied=True, secure_cookies=True)
    with running_gateway(settings, tmp_path / "gw") as url:
        yield Judge(httpx.URL(url).port or 0, world.client(timeout=20.0))


def log_in(server: Nginx, name: str, **headers: str) -> int:
    """The status of a browser's log-in: it loads the page, then hands in the form."""
    with client(server, **headers) as browser:
        page = browser.get("/login")
        field = re.search(r'name="csrf" value="([^"]+)"', page.text)
        if field is None:
            return page.status_code
        return browser.post("/login", data={"csrf": field[1], "user": name, "password": PASSWORD}).status_code


@pytest.mark.parametrize(("people", "spread"), [(120, 0.0), (60, 12.0)])
def test_a_class_behind_one_address_logs_in_within_half_a_minute(
    start: Start, judge: Judge, people: int, spread: float
) -> None:
    """All at once, or one after another."""
    judge.add(people)
    server = start(judge.port)
    began = time.monotonic()

    def client_requests(number: int) -> int:
        time.sleep(max(0.0, began + number * spread / people - time.monotonic()))
        return log_in(server, f"p{number}")

    with concurrent.futures.ThreadPoolExecutor(people) as pool:
        codes = collections.Counter(pool.map(client_requests, range(people)))
    assert codes == {303: people}
    assert time.monotonic() - began < 30 + spread


def test_log_ins_of_an_address_are_as_many_as_the_variable_says(start: Start) -> None:
    """Looking at the page is none."""
    server = start(judge_gateway_logins_each={"rate": 1, "burst": 5})
    with client(server) as browser:
        assert {browser.get("/login").status_code for _ in range(50)} == {200}
        began = time.monotonic()
        codes = [browser.post("/login").status_code for _ in range(30)]
        took = time.monotonic() - began
        assert 6 <= codes.count(200) <= 7 + took
        assert set(codes) == {200, 429}
        assert browser.post("/").status_code == 200


# --- who is believed about addresses -----------------------------------------------------------------------------


def address(server: Nginx, header: str) -> str:
    """The address that the gateway gets for a client whose request has this X-Forwarded-For."""
    headers = {"X-Forwarded-For": header, "X-Forwarded-Proto": "http"}
    with client(server, **headers) as http:
        headers_seen = http.get("/").json()
    assert headers_seen["X-Forwarded-Proto"] == "https"
    address_: str = headers_seen["X-Forwarded-For"]
    return address_


@pytest.mark.parametrize("proxies", [[], ["192.0.2.0/24"]])
def test_only_configured_proxies_set_the_clients_address(start: Start, proxies: list[str]) -> None:
    server = start(judge_gateway_proxies=proxies)
    assert address(server, "198.51.100.7") == "127.0.0.1"
    assert address(server, "198.51.100.7, 192.0.2.9") == "127.0.0.1"


@pytest.mark.parametrize(
    ("header", "client_address"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("2001:db8::7", "2001:db8::7"),
        # What the client itself claimed stands before what the proxy saw.
        ("10.9.9.9, 198.51.100.7", "198.51.100.7"),
        # Two proxies, one behind the other.
        ("10.9.9.9, 198.51.100.7, 192.0.2.4", "198.51.100.7"),
        ("no address", "127.0.0.1"),
    ],
)
def test_the_client_of_a_proxy_has_its_own_address(start: Start, header: str, client_address: str) -> None:
    server = start(judge_gateway_proxies=[*LOOPBACK, "192.0.2.0/24"])
    assert address(server, header) == client_address


def test_limits_behind_a_proxy_are_per_client(start: Start) -> None:
    """An IPv6 customer has a whole /64 network and counts as one client."""
    server = start(judge_gateway_proxies=LOOPBACK, judge_gateway_logins_each={"rate": 1, "burst": 3})

    def codes(*clients: str) -> list[int]:
        with client(server) as http:
            return [http.post("/login", headers={"X-Forwarded-For": address_}).status_code for address_ in clients]

    assert codes(*(f"198.51.100.{number}" for number in range(30))) == [200] * 30
    assert 429 in codes(*["198.51.100.200"] * 30)
    assert codes(*(f"2001:db8:0:{number:x}::1" for number in range(10, 40))) == [200] * 30
    assert 429 in codes(*(f"2001:db8:0:9::{number:x}" for number in range(10, 40)))
    # Bytes of an address that are special in text.
    assert 429 in codes(*(f"2001:db8:a0a:d00::{number:x}" for number in range(10, 40)))


def test_failures_behind_a_proxy_count_for_the_client_that_made_them(start: Start, judge: Judge) -> None:
    """The gateway slows an address down after failures: that of the client, as the proxy says, and nobody else's."""
    judge.add(1)
    server = start(judge.port, judge_gateway_proxies=LOOPBACK)
    with client(server) as http:
        codes = [
            http.get(
                "/api/v1/whoami",
                headers={
                    "Authorization": f"Bearer guess-{number}",
                    "X-Forwarded-For": f"10.0.0.{number}, 198.51.100.7",
                },
            ).status_code
            for number in range(60)
        ]
    assert 429 in codes
    assert log_in(server, "p0", **{"X-Forwarded-For": "198.51.100.7"}) == 429
    assert log_in(server, "p0", **{"X-Forwarded-For": "198.51.100.8"}) == 303


# --- HTTP --------------------------------------------------------------------------------------------------------


def test_answers_over_https_say_once_that_browsers_come_by_nothing_else(start: Start, judge: Judge) -> None:
    """Those of the gateway behind, those of nginx itself, and none over HTTP."""
    expected = ["max-age=31536000"]
    server = start(judge.port)
    with client(server) as browser:
        for path in ("/login", "/api/v1/health", "/none"):
            assert browser.get(path).headers.get_list("Strict-Transport-Security") == expected
        with httpx.Client(base_url=server.plain_url, trust_env=False) as plain:
            assert "Strict-Transport-Security" not in plain.get("/login").headers
    with client(start(1)) as browser:
        answer = browser.get("/login")
        assert answer.status_code == 502 and answer.headers.get_list("Strict-Transport-Security") == expected


def test_http_leads_to_https(start: Start) -> None:
    server = start()
    with httpx.Client(base_url=server.plain_url, trust_env=False) as browser:
        answer = browser.get("/problems/hello?page=2", headers={"Host": "judge.example.org"})
        assert (answer.status_code, answer.headers["Location"]) == (
            301, f"https://judge.example.org:{server.https}/problems/hello?page=2",
        )  # fmt: skip
        challenge = server.root / "var/www/.well-known/acme-challenge"
        challenge.mkdir(parents=True)
        (challenge / "token").write_text("token.thumbprint")
        served = browser.get("/.well-known/acme-challenge/token")
        assert (served.status_code, served.text) == (200, "token.thumbprint")
        assert browser.get("/.well-known/acme-challenge/other").status_code == 404
        assert browser.get("/.well-known/acme-challenge/..%2f..%2fsecret").status_code in {301, 400, 404}


def test_http_may_be_off(start: Start) -> None:
    server = start(judge_gateway_http_port=0)
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", server.http), 2):
        pass


# --- a certificate of another authority --------------------------------------------------------------------------

NAME = "judge.example.org"
https = module_utils("judge_https")


@pytest.fixture
def own(tmp_path: Path, behind: int) -> Iterator[tuple[Nginx, Path]]:
    """An nginx with a certificate of another authority for NAME, and the directory of its files."""
    directory = tmp_path / "own"
    chain, key = public(NAME).write(directory)
    with serving(tmp_path / "nginx", behind, chain, key) as server:
        yield server, directory


def test_nginx_is_asked_by_the_name_that_people_use(own: tuple[Nginx, Path]) -> None:
    server, directory = own
    chain = str(directory / "fullchain.pem")
    https.ask(chain, NAME, server.https)
    with pytest.raises(https.HttpsError, match=r"a browser refuses for www.example.org: Hostname mismatch"):
        https.ask(chain, "www.example.org", server.https)
    with pytest.raises(https.HttpsError, match=r"refuses for judge.example.org: unable to get local issuer"):
        https.ask(chain, NAME, server.https, str(public(NAME).write(directory / "other")[0]))
    with pytest.raises(https.HttpsError, match=r"nginx does not answer on port \d+: .*refused"):
        https.ask(chain, NAME, free_port())


def test_a_renewed_certificate_that_nginx_does_not_serve_yet_is_told(own: tuple[Nginx, Path]) -> None:
    server, directory = own
    chain = directory / "fullchain.pem"
    authority = public(NAME)
    before = chain.read_bytes()
    for path, text in zip((chain, directory / "privkey.pem"), authority.write(directory / "new"), strict=True):
        path.write_bytes(text.read_bytes())
    with pytest.raises(https.HttpsError, match=r"refuses for judge\.example\.org"):
        https.ask(str(chain), NAME, server.https)
    chain.write_bytes(issue(NAME, sans=(NAME,)).pem + before)  # the former issuer stands in it, too
    with pytest.raises(https.HttpsError, match=r"nginx serves another certificate .*systemctl reload nginx"):
        https.ask(str(chain), NAME, server.https)


def test_a_look_at_nginx_names_a_502_of_the_gateway(start: Start) -> None:
    def broken(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.close()

    acceptor = Acceptor(broken)
    server = start(acceptor.port)
    with pytest.raises(https.HttpsError, match=r"nginx answers 502 to GET https://127\.0\.0\.1/api/v1/alive"):
        https.ask(server.settings["judge_gateway_certificate"], "127.0.0.1", server.https)
    acceptor.close()


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_judgectl_trusts_the_authorities_of_the_system(
    own: tuple[Nginx, Path], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """The name leads nowhere from here, so gateways are asked at their addresses, by that name."""
    server, directory = own
    context = Context(f"https://{NAME}.invalid", "t", alternatives=(server.url,), name=NAME, source="mine")
    with Api(context, timeout=3) as api, pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        api.request("GET", "/alive")
    (directory / "trusted").mkdir()
    hashed = subprocess.run(
        ["openssl", "x509", "-hash", "-noout", "-in", str(directory / "root.crt")],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    (directory / "trusted" / f"{hashed}.0").write_bytes((directory / "root.crt").read_bytes())
    monkeypatch.setenv(variable, str(directory / ("root.crt" if variable == "SSL_CERT_FILE" else "trusted")))
    with Api(context, timeout=5) as api:
        assert api.request("GET", "/alive").status_code == 200
    nameless = Context(server.url, "t", source="mine")
    with Api(nameless, timeout=1) as api, pytest.raises(UnavailableError, match="IP address mismatch"):
        api.request("GET", "/alive")
