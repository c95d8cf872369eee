"""A problem's package out of the cluster: what is left if the cluster or the disk fails meanwhile."""

from pathlib import Path
from typing import IO, cast

import pytest

from judge.common.errors import UnavailableError
from judge.ctl.api import Api
from judge.ctl.problem import exporting


class LosingGateway:
    """Sends the first file, and is lost."""

    def get_blob(self, sha: str, file: IO[bytes]) -> None:
        if sha == "b":
            raise UnavailableError("the gateway does not answer")
        file.write(b"content")
        file.seek(0)


@pytest.mark.parametrize("name", ["package.zip", "package"])
def test_a_failed_export_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(exporting, "_files", lambda *_: {"problem.yaml": "a", "secret/1.in": "b"})
    with pytest.raises(UnavailableError):
        exporting.export(cast("Api", LosingGateway()), "sums", tmp_path / name)
    assert list(tmp_path.iterdir()) == []
