"""Secrets that take each other's place: what hosts have in each stage, and files that are whole wherever it ends."""

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from judge import config
from judge.common import clock
from judge.common.errors import RefusedError
from judge.common.pki.authority import Authority, CaError, WantedCertificate, load_request
from judge.common.pki.rotation import Successor
from judge.gateway import auth
from judge.mongodb import replica, store, users
from judge.rpc import pki
from plugins.action.judge_rotation import GROUPS, STAGES, digests, left_out, on_hosts, plan
from tests.support.ansible import ansible
from tests.support.lab import files_below

# As operators make them: spaces, colons and dashes inside, none at the ends.
SECRET = st.text(st.sampled_from("aZ09 :.-_#'\"$"), min_size=1, max_size=40).map(str.strip).filter(bool)


@given(
    SECRET.filter(lambda text: not text.startswith("judge.")),
    st.from_regex(r"judge\.[0-9a-f]{6} [\w-]{43}", fullmatch=True),
)
def test_the_password_in_use_is_always_known(tmp_path_factory: pytest.TempPathFactory, old: str, new: str) -> None:
    """In every stage the password in use is known, and was already known in the stage before; the old one ends last."""
    path = tmp_path_factory.mktemp("passwords") / "p"

    def logins(text: str) -> list[tuple[str, str]]:
        path.write_text(text)
        return [(login["username"], login["password"]) for login in store.logins("judge", path)]

    accepted = logins(f"{old}\n")
    for stage in STAGES:
        files = on_hosts("mongodb.password", stage, old, new)
        now, used = logins(files["mongodb.password"]), logins(files["judicator.password"])
        assert len(used) == 1 and used[0] in accepted and used[0] in now
        assert len({user for user, _ in now}) == len(now), "a user of MongoDB has one password"
        accepted = now
    assert accepted == logins(f"{new}\n")


def test_a_password_file_without_a_password_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"\n \n", b"\xff\xfe"):
        (tmp_path / "p").write_bytes(content)
        with pytest.raises(RefusedError, match="holds no password"):
            store.logins("judge", tmp_path / "p")
    assert store.logins(None, None) == []


@pytest.mark.parametrize("stage", STAGES)
def test_a_member_always_logs_in_with_a_key_that_all_others_have(stage: int) -> None:
    (text,) = on_hosts("mongodb.keyfile", stage, "b2xk", "bmV3").values()
    assert replica.first_key(text) == {1: "b2xk", 2: "bmV3", 3: "bmV3"}[stage]
    assert replica.first_key("b2\nxk\n") == "b2xk", "white space is nothing to mongod"


def test_users_of_others_stay() -> None:
    listed = ["judge", "judge.aa", "judge.bb", "judger", "exporter"]
    assert users.left_over("judge", listed, ["judge.bb"]) == ["judge", "judge.aa"]


def test_two_keys_of_sessions(tmp_path: Path) -> None:
    """What one gateway signs in a stage is read by those that are a stage behind."""
    from flask import Flask
    from flask.sessions import SecureCookieSessionInterface
    from itsdangerous import BadSignature, URLSafeTimedSerializer

    def signer(text: bytes) -> URLSafeTimedSerializer:
        app = Flask("test")
        auth.sign_with(app, text)
        return SecureCookieSessionInterface().get_signing_serializer(app)

    old, new = "o" * 43, "n" * 43
    texts = [f"{old}\n", *(on_hosts("session.key", stage, old, new)["session.key"] for stage in STAGES)]
    (tmp_path / "key").write_text(texts[1])
    assert auth.read_session_key(tmp_path / "key") == f"{old}\n{new}".encode()
    gateways = [signer(text.strip().encode()) for text in texts]
    for behind, ahead in itertools.pairwise(gateways):
        assert ahead.loads(behind.dumps({"csrf": "x"})) == behind.loads(ahead.dumps({"csrf": "x"})) == {"csrf": "x"}
    with pytest.raises(BadSignature):
        gateways[-1].loads(gateways[0].dumps({"csrf": "x"}))


def test_random_bytes_with_a_line_break_are_one_key() -> None:
    from flask import Flask

    app = Flask("test")
    key = b"r" * 40 + b"\n" + b"s" * 3
    auth.sign_with(app, key)
    assert app.secret_key == key and not app.config["SECRET_KEY_FALLBACKS"]


def test_tokens_of_both_people_are_known_until_the_end() -> None:
    assert [len(digests(stage, "old", "new")) for stage in STAGES] == [2, 2, 1]
    assert digests(3, "old", "new")[0] in digests(1, "old", "new")


def test_a_rotation_under_way_is_finished_first() -> None:
    record = {"stage": 2, "secrets": ["ca"]}
    assert plan(record, []) == plan(record, ["ca"]) == record
    assert plan(None, ["session.key", "ca"]) == {"stage": 1, "secrets": ["ca", "session.key"]}
    with pytest.raises(ValueError, match=r"rotation of ca is under way \(stage 2 of 3\)"):
        plan(record, ["admin.token"])
    with pytest.raises(ValueError, match=r"choose ca, mongodb\.password"):
        plan(None, ["everything"])
    with pytest.raises(ValueError, match="what is to be replaced"):
        plan(None, [])


def test_no_host_is_left_behind() -> None:
    groups = {"judicators": ["j1", "j2"], "executors": ["e1"], "gateways": ["g1"]}
    assert left_out(["mongodb.keyfile"], groups, ["j1"]) == ["j2"]
    assert left_out(["session.key"], groups, ["g1"]) == []
    assert left_out(["ca"], groups, ["j1", "j2", "g1"]) == ["e1"]
    assert set(GROUPS) == {"ca", "mongodb.password", "mongodb.keyfile", "session.key", "admin.token"}


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_trusted_authority_signs_at_every_step(tmp_path: Path, cut: int) -> None:
    """Each step is cut off and done again; in between there is always an authority, and it is trusted."""
    authority = Authority(tmp_path / "pki")
    authority.make("judge", 10)
    before = authority.certificate()
    tls = pki.issue(authority.directory, "j1", "judicator", ["localhost"])
    (tmp_path / "rotation").mkdir()
    successor = Successor(authority, tmp_path / "rotation")
    successor.prepare("judge", 3650)
    new = successor.certificate()
    steps = [successor.trust_both, successor.sign, successor.trust_new_only]
    stages = []
    for number, step in enumerate(steps):
        for _ in range(1 + (number == cut)):
            step()
            assert authority.problem(clock.wall()) == ""
        stages.append((authority.certificate() == new, len(authority.trusted())))
        assert authority.certificate() in authority.trusted()
    assert stages == [(False, 2), (True, 2), (True, 1)]
    assert before not in authority.trusted()
    request = load_request(request_of(tls), certificate := WantedCertificate("j1", "judicator", ("localhost",), 30, 5))
    assert (
        authority.reason_to_issue(tls.cert.read_text(), request, certificate) == "it was not issued by this authority"
    )


def test_the_old_authority_is_not_forgotten_before_the_new_one_signs(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.make("judge", 10)
    successor = Successor(authority, tmp_path)
    successor.prepare("judge", 10)
    successor.trust_both()
    with pytest.raises(CaError, match="not yet the new authority's"):
        successor.trust_new_only()
    assert len(authority.trusted()) == 2


STAGED = """
- hosts: localhost
  gather_facts: false
  tasks:
    - judge_cluster:
        {{directory: "{directory}", name: test, judicators: [j1], targeted: [j1], formed: "{{{{ formed }}}}"}}
    - judge_pki_ca: {{path: "{directory}/pki", name: test}}
    - judge_rotation:
        directory: "{directory}"
        authority: "{directory}/pki"
        given: "{{{{ judge_secrets | default({{}}) | length > 0 }}}}"
        state: "{{{{ item.state }}}}"
        stage: "{{{{ item.stage | default(1) }}}}"
        secrets: "{{{{ wanted }}}}"
        groups: {{judicators: [j1], executors: [j1], gateways: [j1]}}
        targeted: [j1]
      loop: "{{{{ states }}}}"
      when: states is defined
"""
STATES = [{"state": "begin"}, *({"state": "enter", "stage": stage} for stage in STAGES), {"state": "end"}]


def staged(directory: Path, variables: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    playbook = directory.with_name("play.yml")
    playbook.write_text(STAGED.format(directory=directory))
    words = ["-vvv", "-e", json.dumps({"wanted": sorted(GROUPS), "formed": True, **variables}), *options]
    return ansible("playbook", "-i", "localhost,", "-c", "local", playbook, *words)


def test_encrypted_secrets_are_replaced_by_encrypted_ones(tmp_path: Path) -> None:
    """Cut off between two stages, and with two passwords, of which each file has one."""
    directory, vault = tmp_path / "mine.secrets", []
    for label in "ab":
        (tmp_path / label).write_text(f"{label}{label}\n")
        vault.append(f"--vault-id={label}@{tmp_path / label}")
    assert staged(directory, {"formed": False}).returncode == 0
    paths = [path for path in directory.rglob("*") if path.is_file() and path.name != ".gitignore"]
    plain = {path.relative_to(directory): path.read_text() for path in paths}
    locked = [directory / name for name, text in plain.items() if text]
    ansible("vault", "encrypt", *vault, "--encrypt-vault-id=b", *locked).check_returncode()
    first = staged(directory, {"states": STATES[:3]}, *vault)
    assert first.returncode == 0, first.stdout + first.stderr
    waiting = {path.name for path in (directory / "rotation").iterdir() if not encrypted_by(path, "b")}
    assert waiting == {"rotation.yml"}
    second = staged(directory, {"states": STATES}, *vault)
    assert second.returncode == 0, second.stdout + second.stderr
    assert not (directory / "rotation").exists()
    assert all(encrypted_by(path, "b") for path in locked)
    ansible("vault", "decrypt", *vault, *locked).check_returncode()
    after = {name: (directory / name).read_text() for name in plain if plain[name]}
    unchanged = {str(name) for name, text in after.items() if text == plain[name]}
    assert unchanged == {"pki/ca.passphrase"}, "and the record says now that the cluster has formed"
    authority = Authority(directory / "pki")
    assert authority.problem(clock.wall()) == "" and len(authority.trusted()) == 1
    output = first.stdout + first.stderr + second.stdout + second.stderr
    for name, text in [*plain.items(), *((name, after[name]) for name in after)]:
        if str(name) not in {"cluster.yml", "pki/ca.crt", ".lock"}:
            assert max(text.split(), key=len) not in output, name


def encrypted_by(path: Path, label: str) -> bool:
    return path.read_text().startswith(f"$ANSIBLE_VAULT;1.2;AES256;{label}\n")


@pytest.mark.parametrize("options", [(), ("--check",)])
def test_secrets_that_come_as_variables_are_not_replaced(tmp_path: Path, options: tuple[str, ...]) -> None:
    directory = tmp_path / "secrets"
    assert staged(directory, {"formed": False}).returncode == 0
    before = files_below(directory)
    run = staged(directory, {"formed": False, "states": STATES[:1], "judge_secrets": {"admin.token": "hush"}}, *options)
    assert run.returncode != 0
    assert "secrets come from judge_secrets, and nothing would keep the new ones" in run.stdout
    assert "hush" not in run.stdout + run.stderr
    assert files_below(directory) == before


def request_of(tls: config.Tls) -> str:
    from cryptography.hazmat.primitives import hashes, serialization

    key = serialization.load_pem_private_key(tls.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM).decode()
