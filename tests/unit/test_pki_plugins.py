"""The certificate authority on the controller and the keys on hosts, with the real openssl."""

import getpass
import json
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from judge.common.pki import authority as ca
from judge.common.pki.authority import CaError
from judge.common.pki.removed import FILE, Removed, RemovedName
from judge.rpc.pki import peer_identity
from tests.support.ansible import module_utils, plugin, run_module

judge_pki_ca = plugin("action", "judge_pki_ca")
keys = module_utils("judge_keys")

SANS = ("j1", "10.77.0.11", "localhost", "127.0.0.1")
FILES = [{"name": "judicator", "owner": getpass.getuser()}]


def spec(**changes: Any) -> Any:
    return ca.WantedCertificate(
        **{"name": "j1", "role": "judicator", "sans": SANS, "days": 730, "renew_days": 60, **changes}
    )


def bring_about(path: Path, *, make: bool = True, write: bool = True) -> dict[str, Any]:
    result: dict[str, Any] = judge_pki_ca.brought_about(
        judge_pki_ca.Authority(path), "test", 3650, make=make, write=write
    )
    return result


@pytest.fixture
def authority(tmp_path: Path) -> Any:
    result = bring_about(tmp_path / "pki")
    assert result["changed"] and result["days_left"] in {3649, 3650}
    return ca.Authority(tmp_path / "pki")


def on_host(tls: Path, authority: Any, *, check: bool = False, **options: Any) -> dict[str, Any]:
    trusted = authority.cert_file.read_text()
    return run_module(
        "judge_pki_certificates", {"path": str(tls), "ca": trusted, "certificates": FILES, **options}, check=check
    )


def issue(tls: Path, authority: Any, want: Any, **options: Any) -> str:
    """One pass of controller and host; why a certificate was issued, if it was."""
    entries = on_host(tls, authority, **options)["held"]
    ((pem, reason),) = ca.sign_all(authority, entries, [want], force=False)
    if pem:
        run_module("judge_pki_certificates", {"path": str(tls), "certificates": [{**FILES[0], "certificate": pem}]})
    return reason


def test_the_authority_is_made_once_and_its_secrets_are_its_owners(authority: Any) -> None:
    for path in (authority.key_file, authority.passphrase_file):
        assert path.stat().st_mode & 0o777 == 0o600
    assert authority.directory.stat().st_mode & 0o777 == 0o700
    assert "BEGIN ENCRYPTED PRIVATE KEY" in authority.key_file.read_text()
    before = authority.cert_file.read_bytes()
    again = bring_about(authority.directory)
    assert again["changed"] is False and authority.cert_file.read_bytes() == before
    assert authority.passphrase_file.read_text().strip() not in json.dumps(again)


def test_check_mode_makes_no_authority(tmp_path: Path) -> None:
    assert bring_about(tmp_path / "pki", write=False)["changed"] is True
    assert list(tmp_path.iterdir()) == []


def test_a_host_gets_a_certificate_once(authority: Any, tmp_path: Path) -> None:
    tls = tmp_path / "tls"
    assert issue(tls, authority, spec()) == "there is none"
    assert issue(tls, authority, spec()) == ""
    assert on_host(tls, authority)["changed"] is False
    assert (tls / "judicator.key").stat().st_mode & 0o777 == 0o600
    verified = subprocess.run(
        ["openssl", "verify", "-x509_strict", "-CAfile", str(tls / "ca.crt"), str(tls / "judicator.crt")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert verified.returncode == 0, verified.stderr
    decoded = ssl._ssl._test_decode_cert(str(tls / "judicator.crt"))  # type: ignore[attr-defined]
    assert peer_identity(decoded) == ("j1", "judicator")
    names = {name for _, name in decoded["subjectAltName"]}
    assert names == set(SANS)
    ssl.create_default_context(cafile=str(tls / "ca.crt")).load_cert_chain(tls / "judicator.crt", tls / "judicator.key")


def test_no_key_and_no_passphrase_is_in_a_result(authority: Any, tmp_path: Path) -> None:
    tls = tmp_path / "tls"
    output = json.dumps(on_host(tls, authority))
    body = keys.coming(tls / "judicator.key").read_text().splitlines()[1]
    assert "PRIVATE KEY" not in output and body not in output


def test_check_mode_makes_no_key(authority: Any, tmp_path: Path) -> None:
    result = on_host(tmp_path / "tls", authority, check=True)
    assert result["changed"] is True and result["held"][0]["csr"] == ""
    assert not (tmp_path / "tls").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sans": (*SANS, "more.example.org")}, "its names are others"),
        ({"role": "executor"}, "its subject is another"),
        ({"name": "j2"}, "its subject is another"),
        ({"renew_days": 800}, "it expires in 729 days"),
    ],
)
def test_a_certificate_that_is_not_right_is_replaced(
    authority: Any, tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    tls = tmp_path / "tls"
    issue(tls, authority, spec())
    assert issue(tls, authority, spec(**change)) == reason


def test_a_new_or_damaged_key_gets_a_new_certificate(authority: Any, tmp_path: Path) -> None:
    tls = tmp_path / "tls"
    issue(tls, authority, spec())
    before = (tls / "judicator.key").read_bytes()
    assert issue(tls, authority, spec(), new_keys=True) == "its key is another"
    assert (tls / "judicator.key").read_bytes() != before
    assert issue(tls, authority, spec()) == ""
    (tls / "judicator.key").write_text("damaged")
    assert issue(tls, authority, spec()) == "its key is another"
    (tls / "judicator.crt").write_text("damaged")
    assert issue(tls, authority, spec()) == "it was not issued by this authority"


def test_a_new_key_takes_its_place_with_its_certificate_only(authority: Any, tmp_path: Path) -> None:
    """Whatever cuts a renewal off: what serves finds two files that belong together."""
    tls = tmp_path / "tls"
    issue(tls, authority, spec())
    pair = [(tls / name).read_bytes() for name in ("judicator.key", "judicator.crt")]
    on_host(tls, authority, new_keys=True)
    assert [(tls / name).read_bytes() for name in ("judicator.key", "judicator.crt")] == pair
    assert keys.coming(tls / "judicator.key").stat().st_mode & 0o777 == 0o600
    assert issue(tls, authority, spec()) == ""  # the run that was cut off has left nothing that counts
    assert {path.name for path in tls.iterdir()} == {"ca.crt", "judicator.key", "judicator.crt"}


def test_another_authority_s_certificate_is_replaced(authority: Any, tmp_path: Path) -> None:
    foreign = ca.Authority(tmp_path / "other")
    foreign.make("test", 10)
    issue(tmp_path / "tls", foreign, spec(days=5, renew_days=1))
    assert issue(tmp_path / "tls", authority, spec()) == "it was not issued by this authority"
    assert (tmp_path / "tls/ca.crt").read_bytes() == authority.cert_file.read_bytes()


def test_a_certificate_does_not_outlive_its_authority(tmp_path: Path) -> None:
    short = ca.Authority(tmp_path / "pki")
    short.make("test", 10)
    request = ca.load_request(_request(tmp_path), spec())
    issued = ca.x509.load_pem_x509_certificate(short.issue(request, spec()).encode())
    assert issued.not_valid_after_utc == short.certificate().not_valid_after_utc


def _request(directory: Path) -> str:
    keys.make(directory / "some.key")
    text: str = keys.request_for(directory / "some.key")
    return text


def test_the_authority_ignores_the_subject_of_a_request(authority: Any, tmp_path: Path) -> None:
    request = ca.load_request(_request(tmp_path), spec())
    issued = ca.x509.load_pem_x509_certificate(authority.issue(request, spec()).encode())
    assert issued.subject == ca.subject("j1", "judicator")


@pytest.mark.parametrize(
    "name",
    ["etcd-member.judge.internal", "ETCD-member.judge.internal.", "*.judge.internal", "*.JUDGE.internal."],
)
def test_no_other_role_gets_a_name_that_stands_for_a_member_of_etcd(authority: Any, tmp_path: Path, name: str) -> None:
    """Go takes a name with a star for all names that fit."""
    request = ca.load_request(_request(tmp_path), spec())
    with pytest.raises(ca.CaError, match="take it out of the inventory"):
        authority.issue(request, spec(role="https", sans=(*SANS, name)))
    assert authority.issue(request, spec(role="etcd", sans=(*SANS, "etcd-member.judge.internal")))
    assert authority.issue(request, spec(role="https", sans=(*SANS, "*.example.org")))


def test_a_broken_request_is_refused(authority: Any) -> None:
    with pytest.raises(ca.CaError, match="sent no certificate request"):
        ca.load_request("nonsense", spec())


def test_no_other_authority_can_stand_below_the_cluster_s(authority: Any) -> None:
    bounds = authority.certificate().extensions.get_extension_for_class(ca.x509.BasicConstraints).value
    assert (bounds.ca, bounds.path_length) == (True, 0)


def test_an_expired_authority_is_a_problem(tmp_path: Path) -> None:
    old = ca.Authority(tmp_path / "pki")
    old.make("test", 0)
    assert "expired on" in old.problem(ca.now())
    assert "expired on" in bring_about(old.directory, make=False)["problem"]
    with pytest.raises(ca.CaError, match="expired on"):
        bring_about(old.directory)


def test_problems_of_an_authority(authority: Any) -> None:
    path = authority.passphrase_file
    good = path.read_text()
    path.write_text("wrong\n")
    assert "does not open" in authority.problem(ca.now())
    path.write_text(good)
    path.chmod(0o644)
    assert "chmod 600" in authority.problem(ca.now())
    path.chmod(0o600)
    assert authority.problem(ca.now()) == ""
    cert = authority.cert_file.read_text()
    authority.cert_file.write_text("nonsense")
    assert "not a certificate" in authority.problem(ca.now())
    authority.cert_file.write_text(cert)
    path.unlink()
    assert "is missing" in authority.problem(ca.now())
    authority.key_file.unlink()
    assert "is missing beside ca.crt" in authority.problem(ca.now())
    authority.cert_file.unlink()
    assert authority.problem(ca.now()) == ""


def test_a_missing_user_is_a_sentence(authority: Any, tmp_path: Path) -> None:
    trusted = authority.cert_file.read_text()
    result = run_module(
        "judge_pki_certificates",
        {"path": str(tmp_path / "tls"), "ca": trusted, "certificates": [{"name": "x", "owner": "no-such-user"}]},
    )
    assert result["failed"] and "the role judge_common makes them" in result["msg"]


def test_a_replacement_is_under_way_until_it_is_settled(tmp_path: Path) -> None:
    record = Removed(tmp_path)
    before = record.note("e1", replacing=True)
    record.returned("e1")
    assert record.read() == {"e1": RemovedName(before, back=True, replacing=True)}
    assert record.settled("e1")
    assert record.read() == {"e1": RemovedName(before, back=True, replaced=True)}
    assert not record.settled("e1")
    assert not record.settled("e2")


def test_a_removal_ends_a_replacement(tmp_path: Path) -> None:
    record = Removed(tmp_path)
    record.note("e1", replacing=True)
    before = record.note("e1")
    assert record.read() == {"e1": RemovedName(before)}
    record.note("e1", replacing=True)
    assert record.settled("e1")
    before = record.note("e1")
    assert record.read() == {"e1": RemovedName(before)}, "and what is known of one that has ended"


def test_a_record_of_before_replacements_is_read(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("e1: {before: 1.5, back: true}\n")
    assert Removed(tmp_path).read() == {"e1": RemovedName(1.5, back=True)}


@pytest.mark.parametrize("text", ["e1: 3", "- e1", "e1: {back: true}", "e1: {before: x, back: true}", "{"])
def test_a_broken_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(CaError, match="is no record of removed hosts; restore it from a backup"):
        Removed(tmp_path).read()
