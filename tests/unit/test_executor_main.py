"""The executor's start: its sandbox, its work directory, what earlier lives left."""

import os
from pathlib import Path

import pytest

from judge.common.errors import ConfigError, RefusedError
from judge.executor import main
from judge.sandbox import CheckedItem, CheckLevel


def test_a_weak_sandbox_is_refused_unless_allowed(caplog):
    good = [CheckedItem(CheckLevel.PASS, "kernel", "6"), CheckedItem(CheckLevel.WARN, "swap", "on")]
    assert main.check_sandbox(good, allow_weak=False) is False
    bad = [*good, CheckedItem(CheckLevel.FAIL, "cgroups", "none")]
    with pytest.raises(RefusedError, match="no full sandbox is possible here: cgroups: none"):
        main.check_sandbox(bad, allow_weak=False)
    assert main.check_sandbox(bad, allow_weak=True)
    assert "weak sandbox" in caplog.text


def test_the_work_directory_is_locked(work):
    fd = main.lock_work_dir(work / "new")
    with pytest.raises(RefusedError, match="in use by another executor"):
        main.lock_work_dir(work / "new")
    os.close(fd)
    os.close(main.lock_work_dir(work / "new"))
    with pytest.raises(ConfigError, match="cannot be used"):
        main.lock_work_dir(Path("/proc/nowhere"))


def test_cleaning_touches_only_strays(work):
    for name in ("keep.out", "stray.out", "foreign.txt"):
        (work / name).write_text("x")
    main.clean(work, {"keep"})
    assert sorted(path.name for path in work.iterdir()) == ["foreign.txt", "keep.out"]
