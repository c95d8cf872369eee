"""A gateway's certificate from another authority: what is wrong with its files is one sentence."""

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from tests.support.ansible import module_utils
from tests.support.certificates import DAY, Issuer, Public, issue, public

https = module_utils("judge_https")
NAME = "judge.example.org"
Files = tuple[bytes, bytes]


def verdict_of(tmp_path: Path, files: Files, name: str = NAME) -> tuple[str, list[str]]:
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(files[0])
    key.write_bytes(files[1])
    fault, warnings = https.verdict(str(chain), str(key), name)
    return fault.replace(f"{tmp_path}/", ""), [text.replace(f"{tmp_path}/", "") for text in warnings]


@pytest.fixture(scope="module")
def good() -> Public:
    return public(NAME, "*.judge.example.org", "192.0.2.7")


@pytest.mark.parametrize("name", [NAME, "a.judge.example.org", "192.0.2.7"])
def test_a_chain_with_its_intermediate_authority_is_right(tmp_path: Path, good: Public, name: str) -> None:
    chain = good.server.pem + good.middle.pem
    assert verdict_of(tmp_path, (chain, good.server.key_pem), name) == ("", [])
    # With the root, and with text that openssl writes around certificates.
    chain_with_root = b"Certificate:\n" + chain + b"\nthe root:\n" + good.root.pem
    assert verdict_of(tmp_path, (chain_with_root, good.server.key_pem), name) == ("", [])


def test_a_certificate_that_signed_itself_is_right(tmp_path: Path) -> None:
    own = issue(NAME, sans=(NAME,))
    assert verdict_of(tmp_path, (own.pem, own.key_pem)) == ("", [])


def test_a_missing_intermediate_authority_is_a_warning(tmp_path: Path, good: Public) -> None:
    """A root that signs servers' certificates itself is possible, so it is no fault."""
    fault, warnings = verdict_of(tmp_path, (good.server.pem, good.server.key_pem))
    assert fault == ""
    assert [text.partition(";")[0] for text in warnings] == ["chain.pem: there is no issuer in this file"]


def test_an_end_that_is_near_is_a_warning(tmp_path: Path, good: Public) -> None:
    assert verdict_of(tmp_path, served(good.middle, ends=3.5 * DAY)) == (
        "",
        ["chain.pem: the certificate expires in 3 days; renew it"],
    )


def served(issuer: Issuer, begins: datetime.timedelta = -DAY, ends: datetime.timedelta = 90 * DAY) -> Files:
    server = issue(NAME, issuer, sans=(NAME,), begins=begins, ends=ends)
    return server.pem + issuer.pem, server.key_pem


def encrypted(issuer: Issuer) -> bytes:
    return issuer.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"passphrase"),
    )


FAULTS: dict[str, tuple[Callable[[Public], Files], str]] = {
    "expired": (lambda good: served(good.middle, -3 * DAY, -DAY), "chain.pem: the certificate expired on "),
    "not valid yet": (
        lambda good: served(good.middle, DAY, 3 * DAY),
        "chain.pem: the certificate is not valid before ",
    ),
    "an expired authority": (
        lambda good: served(issue("Old", good.root, begins=-3 * DAY, ends=-DAY)),
        "chain.pem: an issuer's certificate in this file is",
    ),
    "another's key": (
        lambda good: (good.server.pem + good.middle.pem, served(good.middle)[1]),
        "chain.pem: the first certificate does not belong to the key key.pem; put the gateway's own",
    ),
    "the wrong order": (
        lambda good: (good.middle.pem + good.server.pem, good.server.key_pem),
        "chain.pem: the first certificate does not belong to the key key.pem; put the gateway's own",
    ),
    "another's issuer": (
        lambda good: (good.server.pem + public(NAME).middle.pem, good.server.key_pem),
        "chain.pem: the certificates in this file are no chain",
    ),
    "no certificate": (lambda good: (b"", good.server.key_pem), "chain.pem: there is no certificate in PEM"),
    "DER": (
        lambda good: (good.server.certificate.public_bytes(serialization.Encoding.DER), good.server.key_pem),
        "chain.pem: the certificate is not in PEM",
    ),
    "no key": (lambda good: (good.server.pem + good.middle.pem, b"\n"), "key.pem: nginx cannot use this file"),
    "a certificate for a key": (
        lambda good: (good.server.pem + good.middle.pem, good.server.pem),
        "key.pem: nginx cannot use this file",
    ),
    "a broken certificate": (
        lambda good: (good.server.pem[:80] + good.server.pem[144:], good.server.key_pem),
        "chain.pem: ",
    ),
    "an encrypted key": (
        lambda good: (good.server.pem + good.middle.pem, encrypted(good.server)),
        "key.pem: the key is encrypted",
    ),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_certificate_that_browsers_refuse_is_one_sentence(tmp_path: Path, good: Public, kind: str) -> None:
    make, sentence = FAULTS[kind]
    fault, _ = verdict_of(tmp_path, make(good))
    assert fault.startswith(sentence), fault
    assert "\n" not in fault and "Traceback" not in fault


def test_a_certificate_for_other_names_is_a_fault(tmp_path: Path, good: Public) -> None:
    server = issue("x", good.middle, sans=("www.example.org", "192.0.2.9"))
    fault, _ = verdict_of(tmp_path, (server.pem + good.middle.pem, server.key_pem))
    assert fault.startswith(
        "chain.pem: the certificate is for www.example.org, 192.0.2.9, and people reach the gateway as judge.example.o"
    )


def test_missing_files_are_a_fault(tmp_path: Path, good: Public) -> None:
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    assert "the certificate cannot be read: No such file" in https.verdict(str(chain), str(key), NAME).fault
    chain.write_bytes(good.server.pem)
    assert "the key cannot be read: No such file" in https.verdict(str(chain), str(key), NAME).fault
    key.mkdir()
    assert "the key cannot be read: Is a directory" in https.verdict(str(chain), str(key), NAME).fault
