"""The pictures of the README: all of them are there, small, of `make pictures`, and load nothing from elsewhere."""

import importlib.machinery
import importlib.util
import re
from pathlib import Path

from rich.text import Text

from tests.support import clients

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs/pictures"
MOST = 150_000


def expected_files() -> set[str]:
    loader = importlib.machinery.SourceFileLoader("make_pictures", str(ROOT / "scripts/make-pictures"))
    spec = importlib.util.spec_from_loader("make_pictures", loader)
    assert spec is not None
    script = importlib.util.module_from_spec(spec)
    loader.exec_module(script)
    return {"session.svg", *(f"{name}{look}.png" for name in script.SHOWN for look in script.LOOKS)}


def test_every_picture_is_made_and_shown_ones_are_there() -> None:
    assert {path.name for path in PICTURES.iterdir()} == expected_files()
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"docs/pictures/([\w.-]+)", text))
    assert {"session.svg", "overview.png", "overview-dark.png"} <= linked <= expected_files()
    for tag in re.findall(r"<img [^>]*>", text):
        assert re.search(r'alt="[^"]{15,}"', tag), tag


def test_pictures_are_small_and_whole() -> None:
    for path in PICTURES.iterdir():
        data = path.read_bytes()
        assert 5000 < len(data) <= MOST, path.name
        assert data.startswith(b"\x89PNG" if path.suffix == ".png" else b"<svg"), path.name


def test_a_session_is_a_picture_that_loads_nothing(tmp_path: Path) -> None:
    printed = clients.run_in_terminal("printf '\\033[1;32mAC\\033[0m <&>\\n'; echo broken >&2; exit 3", tmp_path, {})
    assert printed.plain == "AC <&>\nbroken"
    drawn = clients.terminal_svg([("judgectl status", printed), ("true", Text(""))], "judgectl")
    for svg in (drawn, (PICTURES / "session.svg").read_text(encoding="utf-8")):
        assert not re.search(r"url\((?!#)|@import|<script|<image|href=", svg)
        assert set(re.findall(r"https?://[^\"]+", svg)) == {"http://www.w3.org/2000/svg"}
    assert "AC" in drawn and "&lt;&amp;&gt;" in drawn and "judgectl&#160;status" in drawn
