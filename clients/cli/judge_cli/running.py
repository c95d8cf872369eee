"""Samples on this machine: a program is compiled and run with the tools that are installed here, without a sandbox."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from judge_cli import comparing, screen
from judge_cli.errors import UsageError
from judge_cli.project import SAMPLES, Project

_OUTPUT_BYTES = 64 * 1024**2
_SECONDS = 10.0  # of wall time, for a problem whose limit is not known


class Language(NamedTuple):
    """How a language is compiled and run here. `{sources}` stands for several arguments."""

    suffixes: tuple[str, ...]
    compile: tuple[str, ...]
    run: tuple[str, ...]


_RUN = ("{program}",)
LANGUAGES = {
    "c": Language((".c",), ("gcc", "-O2", "-std=gnu17", "-o", "{program}", "{sources}", "-lm"), _RUN),
    "cpp": Language(
        (".cpp", ".cc", ".cxx", ".c++"), ("g++", "-O2", "-std=gnu++20", "-o", "{program}", "{sources}"), _RUN
    ),
    "python3": Language((".py", ".py3"), (), (sys.executable, "{source}")),
    "java": Language(
        (".java",),
        ("javac", "-encoding", "UTF-8", "-d", "{folder}", "{sources}"),
        ("java", "-cp", "{folder}", "{class}"),
    ),
    "kotlin": Language(
        (".kt",), ("kotlinc", "{sources}", "-include-runtime", "-d", "{program}.jar"), ("java", "-jar", "{program}.jar")
    ),
    "rust": Language((".rs",), ("rustc", "-O", "-o", "{program}", "{source}"), _RUN),
    "go": Language((".go",), ("go", "build", "-o", "{program}", "{sources}"), _RUN),
    "haskell": Language((".hs",), ("ghc", "-O2", "-outputdir", "{folder}", "-o", "{program}", "{source}"), _RUN),
    "pascal": Language((".pas", ".pp"), ("fpc", "-O2", "-FU{folder}", "-o{program}", "{source}"), _RUN),
    "javascript": Language((".js",), (), ("node", "{source}")),
    "ruby": Language((".rb",), (), ("ruby", "{source}")),
}


class Outcome(NamedTuple):
    verdict: str
    seconds: float
    output: str = ""
    error: str = ""


def guess_language(files: Sequence[Path], language: str = "") -> Language:
    """The row for the files of a program, or for a language of the cluster (`cpp17` is run as `cpp`); UsageError."""
    family = language.rstrip("0123456789")
    for name, row in LANGUAGES.items():
        if name.rstrip("0123456789") == family if family else sources_of(files, row):
            return row
    subject = f"language '{language}'" if language else str(files[0])
    raise UsageError(f"{subject}: cannot be run here; this client runs {', '.join(LANGUAGES)}")


def sources_of(files: Sequence[Path], language: Language) -> list[Path]:
    return [path for path in files if path.suffix.lower() in language.suffixes]


def samples_of(folder: Path) -> list[tuple[str, Path, Path]]:
    """(name, input, answer) of the samples in a problem's folder that are no conversations; UsageError for none."""
    inputs = [
        path for path in sorted((folder / SAMPLES).rglob("*.in")) if not path.with_suffix(".interaction").exists()
    ]
    samples = [(path.stem, path, path.with_suffix(".ans")) for path in inputs if path.with_suffix(".ans").is_file()]
    if not samples:
        raise UsageError(
            f"{folder / SAMPLES}: has no samples that can be run; 'judge-cli download PROBLEM' writes them"
        )
    return samples


def test(files: Sequence[Path], language: Language, project: Project) -> int:
    """Compile a program, run its problem's samples, print what differs; the exit code is that of the first failure."""
    sources = sources_of(files, language) or files
    source = next((path for path in sources if path.name == project.entry), sources[0])
    samples = samples_of(project.folder)
    limit = 2 * project.time_limit + 1 if project.time_limit else _SECONDS
    with tempfile.TemporaryDirectory(prefix="judge-cli-", ignore_cleanup_errors=True) as folder:
        placeholders = {"program": str(Path(folder) / "program"), "folder": folder, "source": str(source)}
        placeholders["class"] = project.entry or source.stem
        if language.compile and not _compiles(_command(language.compile, placeholders, sources)):
            screen.say("CE  compilation failed", screen.colour_codes("CE"))
            return screen.exit_code("CE")
        command = _command(language.run, placeholders, sources)
        outcomes = [_sample(command, *sample, limit) for sample in samples]
    failed = [outcome for outcome in outcomes if outcome.verdict != "AC"]
    screen.say(f"{len(outcomes) - len(failed)} of {len(outcomes)} samples passed")
    return screen.exit_code(failed[0].verdict) if failed else 0


def _command(pattern: Sequence[str], placeholders: dict[str, str], sources: Sequence[Path]) -> list[str]:
    command: list[str] = []
    for part in pattern:
        command += [str(path) for path in sources] if part == "{sources}" else [part.format_map(placeholders)]
    tool = shutil.which(command[0])
    if tool is None and not Path(command[0]).is_absolute():
        raise UsageError(f"{command[0]} is not installed here, or not in PATH")
    return [tool or command[0], *command[1:]]


def _compiles(command: Sequence[str]) -> bool:
    result = subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if result.stdout.strip():
        screen.say(result.stdout.decode("utf-8", "replace").rstrip())
    return result.returncode == 0


def _sample(command: Sequence[str], name: str, stdin: Path, answer_file: Path, limit: float) -> Outcome:
    """Run one sample and print its line, and what differs."""
    answer = answer_file.read_text(encoding="utf-8", errors="replace")
    outcome = run(command, stdin, limit)
    if outcome.verdict == "AC" and not comparing.agrees(outcome.output, answer):
        outcome = outcome._replace(verdict="WA")
    screen.say(f"{outcome.verdict}  {name}  {screen.seconds(outcome.seconds)}", screen.colour_codes(outcome.verdict))
    if outcome.verdict == "WA":
        for line in comparing.difference(outcome.output, answer):
            screen.say(f"    {line}")
    if outcome.verdict != "AC" and outcome.error:
        screen.say("\n".join(f"    {line}" for line in outcome.error.rstrip().split("\n")[-20:]))
    return outcome


def run(command: Sequence[str], input_file: Path, limit: float) -> Outcome:
    """Run a program on a file for `limit` seconds at most; its output is bounded."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error, input_file.open("rb") as stdin:
        begin = time.monotonic()
        process = subprocess.Popen(command, stdin=stdin, stdout=output, stderr=error)
        verdict = ""
        try:
            while not verdict and process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.01)
                if time.monotonic() - begin > limit:
                    verdict = "TLE"
                elif max(_length(output), _length(error)) > _OUTPUT_BYTES:
                    verdict = "OLE"
        finally:
            process.kill()
            process.wait()
        taken = time.monotonic() - begin
        return Outcome(verdict or ("RTE" if process.returncode else "AC"), taken, _text(output), _text(error))


def _length(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_OUTPUT_BYTES).decode("utf-8", "replace")
