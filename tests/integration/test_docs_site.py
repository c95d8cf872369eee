"""The documentation as a site: every page is there, every link leads somewhere, and no other host is asked."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from judge.gateway.api import handlers, routes
from tests.support.lab import ROOT

# Addresses that a browser would ask another host for.
FETCHED = re.compile(
    r"""<(?:script|link|img|iframe)[^>]*(?:src|href)="((?:https?:)?//[^"]+)"""
    r"""|url\(["']?(https?:[^)]+)|@import ["'](http[^"']+)"""
)


def test_the_site_is_whole_and_asks_no_other_host(tmp_path: Path) -> None:
    """Sphinx takes a warning for an error; a link that leads nowhere is one."""
    pytest.importorskip("sphinx", reason="sphinx is not installed; make setup-test installs it")
    site = tmp_path / "site"
    result = subprocess.run(
        [sys.executable, str(ROOT / "scripts/make-docs"), str(site)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    built = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")}
    assert {
        page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in (ROOT / "docs").rglob("*.md")
    } <= built
    assert {f"roles/{path.name}" for path in (ROOT / "roles").iterdir() if (path / "README.md").is_file()} <= built
    for route in handlers.ROUTES:
        page = (site / f"reference/api/{route.name}.html").read_text()
        assert f"{route.method} {routes.PREFIX}{route.path.replace('<', '{').replace('>', '}')}" in page, route.name
    assert f"{routes.PREFIX}/submissions/batch" in (site / "reference/api/index.html").read_text()
    pictures = re.findall(r'(?:src|srcset)="(docs/[^"]+)"', (site / "index.html").read_text())
    assert pictures and all((site / name).is_file() for name in pictures)
    commands = re.sub("<[^>]+>", "", (site / "reference/judgectl.html").read_text())
    assert "judgectl problem verify" in commands and "judgectl audit" in commands
    for path in [*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.js")]:
        assert FETCHED.findall(path.read_text(errors="replace")) == [], path.name
