"""The certificate that browsers see: whether its files fit together, and whether nginx serves it.

A handshake inside this process answers what browsers would say of the files, before nginx has them. Runs on hosts:
standard library only.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import time
from pathlib import Path
from typing import Any, NamedTuple

_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_SOON_DAYS = 14
_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME, for which the module ssl has no name
# Codes of OpenSSL's verification (openssl/x509_vfy.h).
_TIMES = {9, 10}
_NAMES = {62, 64}
_VARIABLES = "judge_gateway_certificate and judge_gateway_certificate_key"


class HttpsError(Exception):
    """A certificate that browsers or nginx refuse; the text is one sentence for the operator."""


class Verdict(NamedTuple):
    """What is wrong with a certificate's files (`fault`; empty if nothing is), and what to know about them."""

    fault: str
    warnings: list[str]


def verdict(certificate: str, key: str, name: str) -> Verdict:
    """The verdict on the files of a certificate under which people reach a gateway as `name`."""
    try:
        return Verdict("", _warnings(certificate, _examined(certificate, key, name)))
    except HttpsError as exc:
        return Verdict(str(exc), [])


def ask(certificate: str, name: str, port: int, ca: str = "") -> None:
    """Ask nginx of this host as a browser asks for `name`; HttpsError if it serves something else.

    `ca`: the file with the authorities to trust; without it those that stand in the certificate's own file.
    """
    context = _client(_blocks(certificate), ca)
    context.check_hostname = bool(name)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
            secured = context.wrap_socket(plain, server_hostname=name or None)  # which takes the socket from `plain`
        connection.sock = secured
        served = ssl.DER_cert_to_PEM_cert(secured.getpeercert(binary_form=True) or b"")
        if _plain(served) != _plain(_blocks(certificate)[0]):
            raise HttpsError(f"nginx serves another certificate than {certificate}; run 'systemctl reload nginx'")
        connection.request("GET", "/api/v1/alive", headers={"Host": name} if name else {})
        status = connection.getresponse().status
    except ssl.SSLCertVerificationError as exc:
        served_name = f" for {name}" if name else ""
        raise HttpsError(
            f"nginx serves a certificate that a browser refuses{served_name}: {exc.verify_message}; "
            f"see whether {certificate} is the right one, then run 'systemctl reload nginx'"
        ) from None
    except (OSError, http.client.HTTPException) as exc:
        raise HttpsError(f"nginx does not answer on port {port}: {exc}; see 'journalctl -u nginx'") from None
    finally:
        connection.close()
    if status != 200:
        raise HttpsError(
            f"nginx answers {status} to GET https://{name}/api/v1/alive; see 'journalctl -u judge-gateway'"
        )


def _plain(block: str) -> str:
    return "".join(block.split())


def _text(path: str, kind: str, variable: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as exc:
        raise HttpsError(
            f"{path}: {kind} cannot be read: {exc.strerror}; correct {variable}, or put it there"
        ) from None
    except UnicodeDecodeError:
        raise HttpsError(f"{path}: {kind} is not in PEM, which is text; convert it with openssl") from None


def _blocks(certificate: str) -> list[str]:
    blocks = _BLOCK.findall(_text(certificate, "the certificate", "judge_gateway_certificate"))
    if not blocks:
        raise HttpsError(
            f"{certificate}: there is no certificate in PEM in this file; correct judge_gateway_certificate"
        )
    return blocks


def _client(blocks: list[str], ca: str = "") -> ssl.SSLContext:
    """A client that trusts a file of authorities; or this host's, and the issuers that stand behind a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca:
        context.load_verify_locations(ca)
        return context
    context.load_default_certs()
    # An intermediate authority is enough: whether browsers trust its root cannot be known on this host.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata="\n".join(blocks[1:] or blocks))
    return context


def _server(certificate: str, key: str) -> ssl.SSLContext:
    text = _text(key, "the key", "judge_gateway_certificate_key")
    if "ENCRYPTED" in text:
        raise HttpsError(f"{key}: the key is encrypted, so nginx cannot start by itself; store it without a passphrase")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as exc:
        if exc.reason == "KEY_VALUES_MISMATCH":
            raise HttpsError(
                f"{certificate}: the first certificate does not belong to the key {key}; put the gateway's own "
                f"certificate first and its issuers behind it, or correct {_VARIABLES}"
            ) from None
        file = key if "PRIVATE KEY" not in text else certificate
        raise HttpsError(f"{file}: nginx cannot use this file ({exc.reason or exc}); correct {_VARIABLES}") from None
    return context


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> dict[str, Any]:
    """The certificate that a client gets and verifies; ssl.SSLError if it refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = client.wrap_bio(to_client, to_server, server_hostname=name or None)
    server_side = server.wrap_bio(to_server, to_client, server_side=True)
    done = False
    while not done:
        done = True
        for side in (client_side, server_side):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                done = False
    return dict(client_side.getpeercert() or {})


def _examined(certificate: str, key: str, name: str) -> dict[str, Any]:
    """The certificate as a client sees it; HttpsError says why a browser would refuse it."""
    blocks = _blocks(certificate)
    server = _server(certificate, key)
    try:
        lenient = _client(blocks)
        lenient.check_hostname = False
        lenient.verify_flags |= _NO_CHECK_TIME
        certificate_fields = _handshake(server, lenient, "")
    except ssl.SSLError as exc:
        reason = getattr(exc, "verify_message", "") or exc.reason or str(exc)
        raise HttpsError(
            f"{certificate}: the certificates in this file are no chain that a browser accepts ({reason}); put the "
            "gateway's own certificate first and its intermediate authorities behind it"
        ) from None
    try:
        strict = _client(blocks)
        strict.check_hostname = bool(name)
        _handshake(server, strict, name)
    except ssl.SSLCertVerificationError as exc:
        raise HttpsError(_refusal(certificate, name, certificate_fields, exc)) from None
    return certificate_fields


def _refusal(certificate: str, name: str, fields: dict[str, Any], exc: ssl.SSLCertVerificationError) -> str:
    now = time.time()
    if exc.verify_code in _TIMES and ssl.cert_time_to_seconds(fields["notAfter"]) < now:
        return f"{certificate}: the certificate expired on {fields['notAfter']}; renew it"
    if exc.verify_code in _TIMES and ssl.cert_time_to_seconds(fields["notBefore"]) > now:
        return f"{certificate}: the certificate is not valid before {fields['notBefore']}; correct the clock, or wait"
    if exc.verify_code in _TIMES:
        return f"{certificate}: an issuer's certificate in this file is not valid now ({exc.verify_message}); renew it"
    if exc.verify_code in _NAMES:
        names = ", ".join(str(value) for _, value in fields.get("subjectAltName", ())) or "no names"
        return (
            f"{certificate}: the certificate is for {names}, and people reach the gateway as {name}; set "
            "judge_gateway_public_url to a name that it has, or get another certificate"
        )
    return f"{certificate}: a browser refuses the certificate ({exc.verify_message}); get another one"


def _warnings(certificate: str, fields: dict[str, Any]) -> list[str]:
    sentences = []
    days = int((ssl.cert_time_to_seconds(fields["notAfter"]) - time.time()) // 86400)
    if days < _SOON_DAYS:
        sentences.append(f"{certificate}: the certificate expires in {days} days; renew it")
    if fields.get("issuer") != fields.get("subject") and len(_blocks(certificate)) == 1:
        sentences.append(
            f"{certificate}: there is no issuer in this file; if an intermediate authority signed the certificate, "
            "browsers refuse it until that one stands behind it (certbot's fullchain.pem)"
        )
    return sentences
