"""What is removed from a host, and what the host itself has mounted there and keeps."""

from pathlib import Path

from plugins.modules.judge_wipe import emptied, found_paths, left_alone, mounted, remove, tidy_ansible


def host(root: Path) -> dict[Path, bool]:
    """A host with a bundle that is mounted read-only, and a disk of its own for MongoDB."""
    for name in ("opt/judge/releases/1/judge", "opt/judge/bundle/manifest", "var/lib/judge/mongodb/wt/data",
                 "var/lib/judge/packages", "etc/judge/tls/judge.key", "etc/nginx/nginx.conf"):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "opt/judge/current").symlink_to("releases/1")
    return {root / "opt/judge/bundle": True, root / "var/lib/judge/mongodb": False}


def files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir())


def test_disks_of_the_host_are_emptied_and_what_is_read_only_is_left_alone(tmp_path: Path) -> None:
    mounts = host(tmp_path)
    for path in (*found_paths(mounts, tmp_path), tmp_path / "var/lib/judge"):
        remove(path, mounts)
    assert files(tmp_path) == ["etc/nginx/nginx.conf", "opt/judge/bundle/manifest"]
    assert (tmp_path / "var/lib/judge/mongodb").is_dir()
    assert not (tmp_path / "etc/judge").exists()


def test_a_second_run_finds_nothing(tmp_path: Path) -> None:
    mounts = host(tmp_path)
    assert not any(emptied(tmp_path / tree, mounts) for tree in ("opt/judge", "var/lib/judge", "etc/judge"))
    for path in (*found_paths(mounts, tmp_path), tmp_path / "var/lib/judge"):
        remove(path, mounts)
    assert found_paths(mounts, tmp_path) == []
    assert emptied(tmp_path / "var/lib/judge", mounts)


def test_a_link_is_removed_and_not_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    (tmp_path / "link").symlink_to("kept")
    remove(tmp_path / "link", {})
    assert files(tmp_path) == ["kept/file"]


def test_a_disk_with_backups_stays_as_it_is(tmp_path: Path) -> None:
    """docs/playbooks/backup.md says to mount it there; a removed host's backups may be the only ones."""
    for name in ("backup/packs/aa/1", "mongodb/data", "executor/cache"):
        (tmp_path / "var/lib/judge" / name).parent.mkdir(parents=True)
        (tmp_path / "var/lib/judge" / name).write_text("x")
    mounts = {tmp_path / "var/lib/judge/backup": False, tmp_path / "var/lib/judge/mongodb": False}
    remove(tmp_path / "var/lib/judge", left_alone(mounts, tmp_path))
    assert files(tmp_path) == ["var/lib/judge/backup/packs/aa/1"]
    assert (tmp_path / "var/lib/judge/mongodb").is_dir(), "emptied, and still mounted"


def test_mounts_are_read_with_blanks_and_other_letters() -> None:
    lines = (
        "/dev/sda1 / ext4 rw,relatime 0 0",
        "/dev/sdb /mnt/a\\040b\\134c ext4 ro,nosuid 0 0",
        "x /mnt/\u00c3\u00a4 tmpfs rw,ro_x 0 0",  # as latin-1 reads it
    )
    table = "".join(f"{line}\n" for line in lines)
    assert mounted(table) == {Path("/"): False, Path("/mnt/a b\\c"): True, Path("/mnt/\u00e4"): False}


def test_directories_of_ansible_in_a_home_go_when_they_are_empty(tmp_path: Path) -> None:
    tidy_ansible(tmp_path)
    (tmp_path / ".ansible/tmp/ansible-tmp-1").mkdir(parents=True)
    tidy_ansible(tmp_path)
    assert (tmp_path / ".ansible/tmp/ansible-tmp-1").is_dir()
    (tmp_path / ".ansible/tmp/ansible-tmp-1").rmdir()
    (tmp_path / ".ansible/cp").mkdir()
    tidy_ansible(tmp_path)
    assert [path.name for path in (tmp_path / ".ansible").iterdir()] == ["cp"]
    (tmp_path / ".ansible/cp").rmdir()
    tidy_ansible(tmp_path)
    assert not (tmp_path / ".ansible").exists()
