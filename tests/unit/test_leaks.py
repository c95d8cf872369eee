"""The search for secrets finds them: whole, in part, in hex, in base64; and never says what they are."""

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from tests.support import lab

SECRET = "correct-horse-battery-staple-0123456789"


def pem(*, passphrase: bytes = b"") -> tuple[str, str]:
    """A fresh key, as a file, and its public half as it is in a certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    lock = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock).decode()
    public = key.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    return text, "\n".join(base64.b64encode(b"\0" * before + public).decode() for before in range(3))


def test_a_secret_directory_is_read_whole_but_for_what_is_public(tmp_path: Path) -> None:
    (tmp_path / "pki").mkdir()
    for name in ("admin.token", "cluster.yml", "pki/ca.crt", "pki/ca.passphrase"):
        (tmp_path / name).write_text(f"{name}-{SECRET}\n")
    names = set(lab.of_controller(tmp_path).values())
    assert names == {"the controller's admin.token", "the controller's pki/ca.passphrase"}


@given(st.text(alphabet="{} \n'\"", max_size=9), st.text(alphabet="ab\n ", max_size=9))
def test_a_secret_in_any_form_is_found_and_not_repeated(before: str, after: str) -> None:
    secrets = lab.needles("it", SECRET + "\n")
    around = (before + SECRET + after).encode()
    for output in (before + SECRET + after, json.dumps({"a": before + SECRET}), around.hex()):
        (sentence,) = lab.leaks(secrets, {"output": output})
        assert sentence.startswith("output, line ") and sentence.endswith(", shows it") and SECRET not in sentence
    assert lab.leaks(secrets, {"output": base64.b64encode(around).decode()}) == ["output, line 1, shows it"]
    assert lab.leaks(secrets, {"output": before + after}) == []


@pytest.mark.parametrize("passphrase", [b"", b"xyzzy"])
def test_of_a_key_only_the_private_half_is_secret(passphrase: bytes) -> None:
    (text, public), (second, _) = pem(passphrase=passphrase), pem(passphrase=passphrase)
    secrets = lab.needles("the key", text)
    assert secrets and lab.leaks(secrets, {"public": public, "other": second}) == []
    for form in (
        text,
        json.dumps(text),
        text.splitlines()[2],
        text.encode().hex(),
        base64.b64encode(b"x" + text.encode()).decode(),
    ):
        assert lab.leaks(secrets, {"output": form}), form


@pytest.mark.parametrize("text", ["", "\n", "short\n"])
def test_short_texts_are_no_secrets(text: str) -> None:
    assert lab.needles("it", text) == {}


def test_the_search_on_a_host_finds_a_copy(tmp_path: Path) -> None:
    """The program that hosts run, here: in a file, and not in a public name's own place."""
    (tmp_path / "copy").write_text(f"password: {SECRET}\n")
    (tmp_path / "other").write_text("nothing\n")
    script = lab._SEARCH.replace(
        '["/etc", "/home", "/opt/judge", "/root", "/run", "/tmp", "/var"]', repr([str(tmp_path)])
    )
    assert str(tmp_path) in script
    program = f"PUBLIC = {lab.PUBLIC!r}\nHOMES = ()\nNEEDLES = {lab.needles('it', SECRET)!r}\n{script}"
    process = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, check=True)
    assert json.loads(process.stdout) == [[str(tmp_path / "copy"), "it"]]
