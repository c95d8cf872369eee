"""Backups without a database: how things are cut, sealed, kept and refused."""

import contextlib
import dataclasses
import datetime
import io
import json
import os
import subprocess
from pathlib import Path

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from judge.backup import packs, pieces, secrets, sending
from judge.backup.__main__ import main
from judge.backup.keys import ControllerKey, HostKey, OperatorKey
from judge.backup.manifest import Manifest
from judge.backup.packs import PackWriter, name_of
from judge.backup.repository import PieceReader, Repository, writing
from judge.backup.retention import Keep, kept_moments
from judge.common.errors import JudgeError, RefusedError, UnavailableError, UsageError
from judge.mongodb import backup_age
from tests.support import servers

KEY = OperatorKey(bytes(range(32)))
EMPTY = packs.name_of(b"").hex()
NOW = datetime.datetime(2026, 11, 23, 2, 30, tzinfo=datetime.UTC)


def manifest(moment: datetime.datetime = NOW, **fields: object) -> Manifest:
    defaults = {
        "id": f"{moment:%Y%m%dT%H%M%SZ}-00000000",
        "cluster": "judge",
        "host": "j1",
        **dict.fromkeys(("begun", "snapshot", "ended"), moment.isoformat()),
        "versions": {"judge": "0.1.0"},
        "counts": {"tasks": 2},
        **dict.fromkeys(("document_bytes", "blobs", "blob_bytes", "added"), 0),
        "digests": {},
        "damaged": [],
        "packs": {},
        "tree": EMPTY,
    }
    return Manifest(**{**defaults, **fields})  # type: ignore[arg-type]


def stored(root: Path, contents: list[bytes], moment: datetime.datetime = NOW, pack_bytes: int = 4000) -> Manifest:
    with writing(root, KEY.host_key(), pack_bytes) as writer:
        for content in contents:
            writer.put(packs.name_of(content), content)
        writer.flush()
        return writer.publish(manifest(moment, packs=dict(writer.uses), added=writer.added))


def bodies(first: int, last: int) -> list[bytes]:
    return [number.to_bytes(4, "big") * 200 + bytes(range(200)) for number in range(first, last)]


# -- keys ------------------------------------------------------------------------------------------------------


def test_keys_survive_their_text_and_errors_do_not_show_them() -> None:
    key = OperatorKey.new()
    assert OperatorKey.parse(key.text()) == key
    host = key.host_key()
    assert HostKey.parse(host.text()) == host
    assert key.master not in host.recipient + host.seal
    for wrong in ("", "hunter2", key.text()[:-6], host.text()):
        with pytest.raises(UsageError, match="operator's key") as caught:
            OperatorKey.parse(wrong)
        assert not wrong.strip() or wrong.strip() not in str(caught.value)


# -- pieces ----------------------------------------------------------------------------------------------------

documents = st.dictionaries(st.integers(0, 10_000), st.binary(max_size=40), max_size=120)


def cut(documents: dict[int, bytes]) -> list[bytes]:
    rows = ((key, bson.encode({"_id": key, "x": value})) for key, value in sorted(documents.items()))
    return [piece for piece, _ in pieces.of_documents(rows, average=8, largest=500)]


@given(documents)
def test_pieces_hold_all_documents_in_their_order(documents: dict[int, bytes]) -> None:
    decoded = [bson.decode(raw) for piece in cut(documents) for raw in pieces.documents_of(piece)]
    assert decoded == [{"_id": key, "x": documents[key]} for key in sorted(documents)]
    assert all(len(piece) <= 500 for piece in cut(documents))


@given(documents, st.integers(0, 10_000), st.binary(max_size=8))
def test_a_change_touches_few_pieces(documents: dict[int, bytes], key: int, value: bytes) -> None:
    """One document more or another one: what comes before its piece stays, and what comes after the next cut by id."""

    def natural(cuts: dict[int, bytes]) -> list[bytes]:
        rows = ((number, bson.encode({"_id": number, "x": cuts[number]})) for number in sorted(cuts))
        return [piece for piece, _ in pieces.of_documents(rows, average=8, largest=1 << 20)]

    before, after = natural(documents), natural({**documents, key: value})
    assert len(set(after) - set(before)) <= 2


@given(st.binary(max_size=100), st.integers(1, 30))
def test_blobs_are_put_together_again(content: bytes, largest: int) -> None:
    parts = pieces.of_blob(content, largest)
    assert b"".join(parts) == content and all(0 < len(part) <= largest for part in parts)


def test_a_piece_that_is_cut_off_is_found() -> None:
    with pytest.raises(ValueError, match="cut off"):
        pieces.documents_of(bson.encode({"_id": 1})[:-1])


# -- what is kept ----------------------------------------------------------------------------------------------

moments = st.lists(
    st.integers(0, 1000 * 24).map(lambda hours: NOW - datetime.timedelta(hours=hours)),
    max_size=60,
)
keeps = st.builds(Keep, *(st.integers(0, 8) for _ in range(4)))


@given(moments, keeps)
def test_the_newest_stays_and_no_more_than_is_asked_for(dates: list[datetime.datetime], keep: Keep) -> None:
    staying = kept_moments(dates, keep)
    assert staying <= set(dates)
    assert (max(dates) in staying) if dates else not staying
    assert len(staying) <= max(1, keep.last) + keep.daily + keep.weekly + keep.monthly
    assert kept_moments(staying, keep) == staying, "a second look removes nothing more"


def test_of_nightly_backups_days_weeks_and_months_stay() -> None:
    nights = [NOW - datetime.timedelta(days=days) for days in range(200)]
    staying = sorted((NOW - moment).days for moment in kept_moments(nights, Keep(2, 7, 4, 6)))
    assert staying == [0, 1, 2, 3, 4, 5, 6, 8, 15, 23, 54, 84, 115, 146]


# -- packs and the directory -----------------------------------------------------------------------------------


def test_content_is_stored_once(tmp_path: Path) -> None:
    first = stored(tmp_path, bodies(0, 40))
    again = stored(tmp_path, bodies(0, 41), NOW + datetime.timedelta(days=1))
    assert first.added > 3000 and len(first.packs) > 1
    assert 0 < again.added < first.added / 5
    repository = Repository(tmp_path)
    repository.check(again)
    reader = PieceReader(repository, repository.manifest("latest", KEY.host_key()), KEY)
    assert [reader.read(packs.name_of(body)) for body in bodies(0, 41)] == bodies(0, 41)
    assert reader.check() == 41


def test_old_backups_are_pruned_with_their_own_packs(tmp_path: Path) -> None:
    old = stored(tmp_path, bodies(0, 40))
    new = stored(tmp_path, bodies(100, 140), NOW + datetime.timedelta(days=1))
    paths = set(tmp_path.rglob("*"))
    for number, expected in ((3, []), (2, [old.id]), (1, [old.id, new.id])):
        assert Repository(tmp_path).prune(Keep(number, 0, 0, 0), NOW + datetime.timedelta(days=2))[0] == expected
    assert set(tmp_path.rglob("*")) == paths
    removed, count = Repository(tmp_path).prune(Keep(1, 0, 0, 0))
    assert (removed, count) == ([old.id], len(old.packs))
    assert {path.name for path in tmp_path.glob("packs/*/*")} == set(new.packs)
    Repository(tmp_path).check(new)
    # Contents that went are stored anew when they are needed again.
    back = stored(tmp_path, bodies(0, 40), NOW + datetime.timedelta(days=2))
    assert back.added > 3000


def test_a_pack_that_is_hardly_used_is_written_anew(tmp_path: Path) -> None:
    stored(tmp_path, bodies(0, 40), pack_bytes=1 << 20)
    reused = stored(tmp_path, bodies(0, 1), NOW + datetime.timedelta(days=1))
    assert reused.added == 0
    moved = stored(tmp_path, bodies(0, 1), NOW + datetime.timedelta(days=2))
    assert moved.added > 0 and not set(moved.packs) & set(reused.packs)
    Repository(tmp_path).prune(Keep(1, 0, 0, 0))
    assert len(list(tmp_path.glob("packs/*/*"))) == 1


def test_missing_notes_of_the_host_do_no_harm_and_damaged_ones_are_named(tmp_path: Path) -> None:
    backup = stored(tmp_path, bodies(0, 9))
    for path in (tmp_path / "host").iterdir():
        path.unlink()
    assert Repository(tmp_path).manifest("latest", KEY.host_key()) == backup
    stored(tmp_path, bodies(0, 9), NOW + datetime.timedelta(days=1))
    for path in (tmp_path / "host").glob("notes.*"):
        path.write_bytes(b"no database at all" * 400)
    with pytest.raises(UnavailableError, match=r"notes.sqlite: .*; free space there, or remove it"):
        stored(tmp_path, bodies(0, 3))


def test_an_interrupted_write_leaves_no_backup_and_can_be_continued(tmp_path: Path) -> None:
    def cut_off() -> None:
        with writing(tmp_path, KEY.host_key(), 2000) as writer:
            for body in bodies(0, 40):
                writer.put(packs.name_of(body), body)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        cut_off()
    assert Repository(tmp_path).ids() == [] and not (tmp_path / "host/pack.partial").exists()
    backup = stored(tmp_path, bodies(0, 50))
    assert 0 < backup.added < sum(backup.packs.values())


def test_a_piece_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any host may write a pack, so a hostile one can write a few bytes that become gigabytes."""
    backup = stored(tmp_path, [bytes(100_000)])
    path = Repository(tmp_path).pack(next(iter(backup.packs)))
    pack = packs.PackReader(KEY, path)
    monkeypatch.setattr(packs, "_UNPACKED", 50_000)
    with pytest.raises(JudgeError, match="is damaged"):
        pack.read(packs.name_of(bytes(100_000)))
    monkeypatch.setattr(packs, "_UNPACKED", 10)
    with pytest.raises(JudgeError, match="is damaged"):
        packs.PackReader(KEY, path)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with (
        writing(tmp_path, KEY.host_key()),
        pytest.raises(RefusedError, match="another backup is being written"),
        writing(tmp_path, KEY.host_key()),
    ):
        pass


@pytest.mark.parametrize("at", [3, 30, 80, 300, -200, -8, -4, -1])
def test_a_changed_byte_is_detected_with_and_without_the_key(tmp_path: Path, at: int) -> None:
    backup = stored(tmp_path, bodies(0, 3))
    repository = Repository(tmp_path)
    path = repository.pack(next(iter(backup.packs)))
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(JudgeError, match="is damaged; copy it again"):
        repository.check(backup)

    def opened() -> None:
        PieceReader(repository, backup, KEY).check()

    with pytest.raises(JudgeError, match=r"damaged|is no pack|does not open"):
        opened()


def test_another_key_opens_nothing_and_shows_nothing(tmp_path: Path) -> None:
    backup = stored(tmp_path, [b"the secret of the tests" * 20])
    stranger = OperatorKey.new()
    with pytest.raises(JudgeError, match="was not written with this key"):
        Repository(tmp_path).manifest(backup.id, stranger.host_key())
    with pytest.raises(JudgeError, match="does not open with this key"):
        PieceReader(Repository(tmp_path), backup, stranger)
    assert not any(b"secret of the tests" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_manifest_without_its_seal_is_refused(tmp_path: Path) -> None:
    backup = stored(tmp_path, bodies(0, 3))
    path = tmp_path / f"backups/{backup.id}.json"
    for text, sentence in (
        (dataclasses.replace(backup, counts={"tasks": 1}).text(), "has been changed"),
        (dataclasses.replace(backup, format=2).text(), "a newer release"),
        (
            dataclasses.replace(backup, packs={"../../etc/passwd": 1}).signed(KEY.host_key()).text(),
            "is not the manifest",
        ),
        (dataclasses.replace(backup, begun="yesterday").text(), "is not the manifest"),
        ("[]", "is not the manifest"),
        ("{", "is not the manifest"),
    ):
        path.write_text(text)
        with pytest.raises(JudgeError, match=sentence):
            Repository(tmp_path).manifest(backup.id, KEY.host_key())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just(NOW.isoformat()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([field.name for field in dataclasses.fields(Manifest)]), json_values)
def test_any_manifest_is_refused_or_can_be_shown(name: str, value: object) -> None:
    text = json.dumps({**json.loads(manifest().text()), name: value})
    with contextlib.suppress(JudgeError):
        parsed = Manifest.parse(text, "here")
        assert parsed.line() and parsed.room and parsed.sealed_text() and parsed.moment <= NOW
        parsed.needs("0.1.0")


def test_a_backup_of_a_later_release_needs_that_release() -> None:
    for version, release in (("0.1.0", "0.1.0"), ("0.1.0", "0.2.0rc1"), ("0.9.9", "0.10")):
        manifest(versions={"judge": version}).needs(release)
    for version, release in (("0.1.1", "0.1.0"), ("1.0", "0.99.0"), ("0.10.0", "0.9.0")):
        with pytest.raises(RefusedError, match=f"made by Judge {version}, and this is {release}; restore it with"):
            manifest(versions={"judge": version}).needs(release)


def test_a_missing_piece_is_reported_before_reading(tmp_path: Path) -> None:
    backup = stored(tmp_path, bodies(0, 3))
    reader = PieceReader(Repository(tmp_path), backup, KEY)
    reader.require(packs.name_of(body) for body in bodies(0, 3))
    with pytest.raises(JudgeError, match="is in no pack of this backup"):
        reader.require(packs.name_of(body) for body in bodies(0, 4))


# -- how old they are ------------------------------------------------------------------------------------------


def test_old_and_missing_backups_cause_warnings_where_a_timer_is_set(tmp_path: Path) -> None:
    def warnings(hours: float) -> list[str]:
        return backup_age.warnings("j1", tmp_path, 49, NOW + datetime.timedelta(hours=hours))

    assert backup_age.warnings("j1", None, 49, NOW) == backup_age.warnings("j1", tmp_path, 0, NOW) == []
    assert len(warnings(0)) == 1 and "has no backup in" in warnings(0)[0]
    backup_age.measure(tmp_path, 49, {"copied": 25})
    assert REGISTRY.get_sample_value("judge_backup_newest_timestamp_seconds") == 0
    assert REGISTRY.get_sample_value("judge_backup_most_seconds") == 49 * 3600
    stored(tmp_path, bodies(0, 3))
    stored(tmp_path, bodies(0, 3), NOW - datetime.timedelta(days=3))
    (tmp_path / "backups/99990101.json").write_text("")
    assert REGISTRY.get_sample_value("judge_backup_newest_timestamp_seconds") == NOW.timestamp()
    assert (warnings(1), warnings(48.9)) == ([], [])
    assert warnings(50)[0].startswith(
        "the newest backup of judicator 'j1' is 50 hours old, and more than 49 is too old"
    )


def test_the_steps_of_the_controller_are_metrics(tmp_path: Path) -> None:
    backup_age.measure(tmp_path, 0, {"copied": 25})

    def figures(step: str) -> tuple[float | None, ...]:
        names = ("judge_backup_step_timestamp_seconds", "judge_backup_step_most_seconds")
        return tuple(REGISTRY.get_sample_value(name, {"step": step}) for name in names)

    assert (figures("copied"), figures("drilled")) == ((0, 25 * 3600), (0, 0))
    assert backup_age.steps_of(tmp_path) == {}
    (tmp_path / "copied").touch()
    os.utime(tmp_path / "copied", (NOW.timestamp(), NOW.timestamp()))
    assert figures("copied") == (NOW.timestamp(), 25 * 3600)
    assert backup_age.steps_of(tmp_path) == {"copied": NOW}


# -- another place ---------------------------------------------------------------------------------------------


def files_of(directory: Path) -> dict[str, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


@pytest.mark.parametrize(("program", "place"), [("rsync", "{}"), ("rsync", "me@away:{}"), ("rclone", "rclone:away:{}")])
def test_copies_are_mirrored_at_another_place(
    program: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = servers.program(program)
    if path is None:
        pytest.skip(f"{program} is missing; scripts/install-packages test")
    source, away = tmp_path / "copies", tmp_path / "away"
    # As ssh it runs the command on this machine: the words after the host.
    ssh = tmp_path / "bin/ssh"
    ssh.parent.mkdir()
    ssh.write_text('#!/bin/sh\nwhile [ "$1" != away ]; do shift; done\nshift\nexec sh -c "$*"\n')
    ssh.chmod(0o755)
    (tmp_path / "rclone.conf").write_text("[away]\ntype = local\n")
    monkeypatch.setenv("RCLONE_CONFIG", str(tmp_path / "rclone.conf"))
    monkeypatch.setenv("PATH", f"{ssh.parent}:{Path(path).parent}:/usr/bin:/bin")
    arguments = ["send", str(source), place.format(away)]
    assert main(arguments) == 3, "a directory without backups is no source: all would go at the destination"
    stored(source, bodies(0, 30))
    assert main(arguments) == 0, capsys.readouterr().err
    assert files_of(away) == files_of(source)
    stored(source, bodies(20, 50), NOW + datetime.timedelta(days=1))
    assert main(["prune", str(source), "--last", "1", *(f"--{name}=0" for name in ("daily", "weekly", "monthly"))]) == 0
    assert main(arguments) == 0
    assert files_of(away) == files_of(source)
    assert main(["check", str(away), "--data"]) == 0
    (tmp_path / "blocked").write_text("")
    assert main(["send", str(source), place.format(tmp_path / "blocked/x/y")]) != 0
    assert "the backups were not copied to" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(ssh.parent))
    assert main(arguments) == 3
    assert f"{program} is not installed on this machine" in capsys.readouterr().err


@pytest.mark.parametrize(
    "place", ["", "away", "-e", "rclone::s3,secret_access_key=x:bucket", "rsync://host/x", "host::module", "-h:/x"]
)
def test_a_place_with_secrets_or_options_in_it_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match="is no place for copies of backups"):
        sending.commands(Path("/copies"), place)


def test_a_manifest_comes_after_its_packs() -> None:
    for place, leave_out in (("/away", "--exclude=/backups"), ("rclone:away:", "/backups/**")):
        first, second = sending.commands(Path("/copies"), place)
        assert leave_out in first and leave_out not in second


# -- secrets and commands --------------------------------------------------------------------------------------


def test_secrets_are_sealed_and_unsealed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own, root, back = tmp_path / "secrets", tmp_path / "backups", tmp_path / "back"
    (own / "pki").mkdir(parents=True)
    (own / "backups").mkdir()
    (own / "admin.token").write_text("very secret\n")
    (own / "pki/ca.key").write_text("more so\n")
    (own / ".lock").write_text("")
    assert main(["keys", "--secrets", str(own)]) == 0
    key = (own / "backup.key").read_text()
    assert main(["keys", "--secrets", str(own)]) == 0
    assert (own / "backup.key").read_text() == key and (own / "backup.key").stat().st_mode & 0o777 == 0o600
    seal = ["seal", "--secrets", str(own), str(root)]
    assert main([*seal, "--dry-run"]) == 0
    assert "would be stored" in capsys.readouterr().out and not root.exists()
    for _ in range(2):
        assert main(seal) == 0
    assert "stored" in capsys.readouterr().out
    assert main([*seal, "--dry-run"]) == 0
    assert not capsys.readouterr().out
    assert len(list((root / "secrets").iterdir())) == 2
    host = HostKey.parse((own / "backup.hostkey").read_text())
    with writing(root, host) as writer:
        writer.publish(manifest(secrets=writer.current_secrets()))
    arguments = ["unseal", str(root), "--key", str(own / "backup.key"), "--into", str(back)]
    assert main(arguments) == 0
    names = sorted(str(path.relative_to(back)) for path in back.rglob("*") if path.is_file())
    assert names == [".gitignore", "admin.token", "backup.hostkey", "backup.key", "pki/ca.key"]
    assert (back / "pki/ca.key").read_text() == "more so\n"
    assert main(arguments) == 3
    assert b"very secret" not in b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
    output = capsys.readouterr()
    assert "is not empty" in output.err
    assert key.strip() not in output.out + output.err and "very secret" not in output.out + output.err


def attackers_tar(directory: Path) -> bytes:
    directory.mkdir()
    (directory / "admin.token").write_text("the attacker's\n")
    return secrets.archive(directory, {})


@pytest.mark.parametrize("way", ["as before", "no signature", "another key's", "of zeros", "of other secrets"])
def test_a_hosts_key_makes_no_secrets_that_the_operator_accepts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    """An attacker on a judicator has its key file, and every earlier backup."""
    root, into, key = tmp_path / "backups", tmp_path / "into", tmp_path / "key"
    key.write_text(KEY.text())
    host = HostKey.parse(KEY.host_key().text())
    tar = attackers_tar(tmp_path / "own")
    begin = secrets._SIGNED
    content = {
        "as before": tar,
        "no signature": begin + tar,
        "another key's": begin + OperatorKey.new().controller_key().sign(tar) + tar,
        "of zeros": begin + bytes(64) + tar,
        "of other secrets": begin + KEY.controller_key().sign(b"earlier secrets") + tar,
    }[way]
    file = io.BytesIO()
    packed = PackWriter(host, file)
    packed.add(name_of(content), content)
    packed.finish()
    with writing(root, host) as writer:
        writer.put_secrets(host.sign(content), file.getvalue())
        writer.publish(manifest(secrets=host.sign(content)))
    unseal = ["unseal", str(root), "--key", str(key), "--into", str(into)]
    assert main(unseal) != 0
    assert not into.exists()
    error = capsys.readouterr().err
    assert "these secrets have no signature" in error if way == "as before" else "has not signed these secrets" in error
    assert main([*unseal, "--unsigned"]) == (0 if way == "as before" else 1)
    assert into.exists() == (way == "as before")


def test_a_host_key_is_refused_as_the_controller_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own, key = tmp_path / "own", tmp_path / "key"
    attackers_tar(own)
    key.write_text(KEY.host_key().text())
    assert main(["seal", "--key", str(key), "--secrets", str(own), str(tmp_path / "backups")]) == 2
    assert "this is not the controller's key of backups" in capsys.readouterr().err
    assert main(["seal", "--secrets", str(own), str(tmp_path / "backups")]) == 3
    assert "backup.signkey: is missing" in capsys.readouterr().err
    host, controller = KEY.host_key(), KEY.controller_key()
    assert ControllerKey.parse(controller.text()) == controller
    assert controller.seed not in host.recipient + host.seal


@given(st.binary(), st.binary())
def test_a_signature_is_of_these_secrets_only(signed: bytes, unsigned: bytes) -> None:
    signature = KEY.controller_key().sign(signed)
    assert KEY.signed(signed, signature)
    assert KEY.signed(unsigned, signature) == (signed == unsigned)
    assert not OperatorKey.new().signed(signed, signature)


def test_the_fingerprint_of_the_authority_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own, root = tmp_path / "own", tmp_path / "backups"
    (own / "pki").mkdir(parents=True)
    certificate = own / "pki/ca.crt"
    command = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=judge"]
    subprocess.run([*command, "-keyout", tmp_path / "k", "-out", certificate], check=True, capture_output=True)
    show = ["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", certificate]
    fingerprint = subprocess.run(show, check=True, capture_output=True, text=True).stdout.strip().partition("=")[2]
    assert main(["keys", "--secrets", str(own)]) == 0
    assert main(["seal", "--secrets", str(own), str(root)]) == 0
    with writing(root, HostKey.parse((own / "backup.hostkey").read_text())) as writer:
        writer.publish(manifest(secrets=writer.current_secrets()))
    capsys.readouterr()
    assert main(["unseal", str(root), "--key", str(own / "backup.key"), "--into", str(tmp_path / "into")]) == 0
    assert f"fingerprint of {tmp_path}/into/pki/ca.crt: {fingerprint}\n" in capsys.readouterr().out


def test_the_controllers_key_is_made_where_the_operators_is(tmp_path: Path) -> None:
    """A cluster with backups gets it by the next run. A key that only the operator keeps is not made anew."""
    (tmp_path / "backup.hostkey").write_text(KEY.host_key().text())
    assert main(["keys", "--secrets", str(tmp_path)]) == 0
    assert not (tmp_path / "backup.key").exists()
    (tmp_path / "backup.key").write_text(KEY.text())
    assert main(["keys", "--secrets", str(tmp_path)]) == 0
    assert (tmp_path / "backup.signkey").read_text() == KEY.controller_key().text()
    (tmp_path / "backup.signkey").unlink()
    (tmp_path / "backup.key").write_text("$ANSIBLE_VAULT;1.1;AES256\n")
    (tmp_path / "opened").write_text(KEY.text())
    assert main(["keys", "--secrets", str(tmp_path), "--key", str(tmp_path / "opened")]) == 0
    assert (tmp_path / "backup.signkey").read_text() == KEY.controller_key().text()


def test_secrets_of_an_authority_elsewhere_come_along(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "ca").mkdir()
    (tmp_path / "ca/ca.key").write_text("x")
    assert b"pki/ca.key" in secrets.archive(tmp_path / "a", {"pki": tmp_path / "ca"})


def test_commands_and_their_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backup = stored(tmp_path, bodies(0, 3))
    assert main(["list", str(tmp_path)]) == 0
    assert main(["needs", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"backups/{backup.id}.json"
    assert main(["size", str(tmp_path)]) == 0
    assert int(capsys.readouterr().out) == backup.room
    assert main(["check", str(tmp_path), "--id", "20200101T000000Z-00000000"]) == 3
    assert main(["check", str(tmp_path), "--key", "/nowhere"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2 and "there is no backup '20200101T000000Z-00000000'; there is" in errors[0]
