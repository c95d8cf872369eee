"""Knock at a TLS port without a certificate, with a stranger's, and with one of the cluster's; print what came of it.

Arguments: address, then `PORT:CERTIFICATE` for each port, with the name of the certificate that a member would show.
Prints one JSON object: by port, which of the three ways got an answer.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path

TLS = Path("/etc/judge/tls")
PATIENCE = 30.0  # seconds for a loaded host to answer
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def answered(address: str, port: int, pair: tuple[Path, Path] | None) -> bool:
    """Whether a server answers a request of ours. A closed or reset connection and a TLS alert are a refusal."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # our own trust in the server is not the question here
    context.set_alpn_protocols(["h2"])  # gRPC hears nobody who does not offer it; the others do not look
    if pair:
        context.load_cert_chain(*pair)
    # With TLS 1.3 the client's handshake ends before the server has looked at its certificate.
    with (
        socket.create_connection((address, port), timeout=PATIENCE) as plain,
        contextlib.suppress(ssl.SSLError, ConnectionError),
        context.wrap_socket(plain) as tls,
    ):
        tls.sendall(REQUEST)
        return bool(tls.recv(1))
    return False


def stranger(directory: Path) -> tuple[Path, Path]:
    """A certificate of nobody's authority."""
    certificate, key = directory / "stranger.crt", directory / "stranger.key"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    files = ["-subj", "/CN=j1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *files], check=True, capture_output=True)
    return certificate, key


def main() -> None:
    """Knock three times at every port."""
    address, *doors = sys.argv[1:]
    told = {}
    with tempfile.TemporaryDirectory() as directory:
        foreign = stranger(Path(directory))
        for door in doors:
            port, _, name = door.partition(":")
            member = (TLS / f"{name}.crt", TLS / f"{name}.key")
            ways = {"nobody": None, "stranger": foreign, "member": member}
            told[port] = [way for way, pair in ways.items() if answered(address, int(port), pair)]
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
