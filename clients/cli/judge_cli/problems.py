"""Problems on disk: a folder each, with judge.toml, statement, samples and attachments."""

from __future__ import annotations

import base64
import json
import re
import time
from html import escape
from pathlib import Path
from typing import Any

from judge_cli import project, screen
from judge_cli.errors import UsageError
from judge_cli.gateway import Gateway, address

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_PICTURE = re.compile(r'src="[^"]*/files/([0-9a-f]{64})"')
_SAMPLE = re.compile(r'<div data-sample="([^"]*)"></div>')
_PREPARING_TRIES = 20
_PAGE = """<!doctype html>
<html lang="{language}"><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<style>body {{ max-width: 50em; margin: auto; font-family: sans-serif }} pre {{ background: #8882 }}</style>
<h1>{title}</h1>
<p>Time limit: {seconds:g} s, memory limit: {memory}</p>
{html}
"""


def safe_path(folder: Path, name: str) -> Path:
    """A file below a folder by a name that came from elsewhere; UsageError for one that could lead out."""
    if not _NAME.fullmatch(name) or any(_RESERVED.fullmatch(part) for part in name.split("/")):
        raise UsageError(f"'{screen.visible(name)[:80]}' is no name for a file on this machine")
    return folder / name


def write(path: Path, data: bytes) -> None:
    """Write a file with the folders above it; UsageError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as exc:
        raise UsageError(f"{exc.filename or path}: cannot be written: {exc.strerror}") from None


def write_settings(folder: Path, settings: dict[str, str | float]) -> None:
    """Write judge.toml, unless there is one already."""
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    if not (folder / project.FILE).exists():
        write(folder / project.FILE, text.encode())


def download(gateway: Gateway, name: str, to: Path) -> Path:
    """Write all that people get of a problem into its folder below `to`; what is there already is replaced."""
    problem = gateway.json("GET", address("problems", name))
    folder = safe_path(to, problem["name"])
    write_settings(folder, {"problem": problem["name"], "time_limit": problem["limits"]["cpu"]})
    for sample in problem["samples"]:
        for key, suffix in (("input", ".in"), ("answer", ".ans"), ("interaction", ".interaction")):
            data = _sample_data(gateway, problem["name"], sample, key)
            if data is not None:
                write(safe_path(folder / project.SAMPLES, sample["name"] + suffix), data)
    for attachment in problem["attachments"]:
        data, _ = _file(gateway, problem["name"], attachment["file"])
        write(safe_path(folder / "attachments", attachment["name"]), data)
    if problem["statements"]:
        _write_statement(gateway, problem, folder)
    return folder


def _file(gateway: Gateway, name: str, sha: str) -> tuple[bytes, str]:
    return gateway.content("GET", address("problems", name, "files", sha), headers={"Accept": "*/*"})


def _sample_data(gateway: Gateway, name: str, sample: dict[str, Any], key: str) -> bytes | None:
    """A sample's file, whole if the gateway gives it so; None if it has none."""
    text, sha = sample.get(key), sample.get(f"{key}_file")
    if sha and (text is None or not sample["whole"]):
        return _file(gateway, name, sha)[0]
    return text.encode() if text is not None else None


def _write_statement(gateway: Gateway, problem: dict[str, Any], folder: Path) -> None:
    """Write the statement as one HTML file, or as it is if the gateway has no HTML of it."""
    path = address("problems", problem["name"], "statement")
    statement = gateway.json("GET", path)
    for _ in range(_PREPARING_TRIES):
        if not statement["preparing"]:
            break
        time.sleep(1)
        statement = gateway.json("GET", path)
    if statement["html"] is None:
        data, _ = _file(gateway, problem["name"], statement["file"])
        write(safe_path(folder, f"statement.{statement['kind']}"), data)
        return

    def picture(match: re.Match[str]) -> str:
        data, media = _file(gateway, problem["name"], match[1])
        return f'src="data:{media};base64,{base64.b64encode(data).decode()}"'

    text = _PICTURE.sub(picture, statement["html"])
    samples = {sample["name"]: sample_html(sample) for sample in problem["samples"]}
    html = _SAMPLE.sub(lambda match: samples.pop(match[1], ""), text)
    page = _PAGE.format(
        language=escape(statement["language"]),
        title=escape(problem["title"] or problem["name"]),
        seconds=problem["limits"]["cpu"],
        memory=screen.size(problem["limits"]["memory"]),
        html=html + "".join(samples.values()),
    )
    write(folder / "statement.html", page.encode())


def sample_html(sample: dict[str, Any]) -> str:
    """A sample as it stands in a statement."""
    texts = [(key, sample[key]) for key in ("input", "answer", "interaction") if sample.get(key) is not None]
    blocks = "".join(f"<h4>{key.capitalize()}</h4>\n<pre>{escape(text)}</pre>\n" for key, text in texts)
    return f"<h3>Sample {escape(sample['name'])}</h3>\n{blocks}"
