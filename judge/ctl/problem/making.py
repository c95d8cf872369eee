"""Tests that a package's own programs make, made in the sandbox of an executor: the plan of an importer, carried out.

Some tests at a time are one plain command: its input is an archive of programs and inputs with a script of what to do,
its output an archive of what was made. Those that take too much together are made again one by one.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from judge.common.errors import PackageError, UnavailableError
from judge.common.text import decimal
from judge.ctl import show
from judge.ctl.api import Api
from judge.ctl.problem.trial import Present, Trial, present
from judge.languages.table import BOX
from judge.model import messages as m
from judge.problems.importers.draft import Content, MadeFiles, read
from judge.problems.importers.making import MOST, MakingStep, PackageProgram, Plan
from judge.problems.tree import CHUNK, MAX_FILE_BYTES, MAX_TOTAL_BYTES, clean

# So many tests are made by one command, of inputs of so many bytes; and so many commands wait at once.
_BATCH_TESTS, _INPUT_BYTES, _AT_ONCE = 16, 32 * 1024**2, 8
_LIMITS = m.LimitsOverride(cpu=60, wall=120, memory=2 * 1024**3, output=64 * 1024**2, processes=256)
_COMMAND = "mkdir /tmp/make && cd /tmp/make && tar --no-same-owner -xf - && HOME=/tmp exec /bin/sh make.sh"
_TOO_MUCH = frozenset({m.Verdict.TLE, m.Verdict.MLE, m.Verdict.OLE})
# A shell's exit code for a program that was ended for a file longer than the output limit.
_FILE_TOO_LONG = 153
# Endings of a generator's files of a test: those that are taken, and those by which nothing is judged or shown.
_KNOWN_LEFT = ("in", "ans", "hint", "desc", "png", "jpg", "jpeg", "svg", "pdf")
_HEAD = """root=$PWD
mkdir out
fail() {
  printf '%s\\n' "$1" >&2
  [ ! -s "$root/log" ] || head -c 1500 "$root/log" >&2
  exit 9
}
"""
_TAIL = 'cd "$root/out" && exec tar -czf - .\n'


@contextlib.contextmanager
def made_files(api: Api, plan: Plan, *, quiet: bool = True) -> Iterator[MadeFiles]:
    """All that is to be made, for as long as this is open; the plan is closed. Errors as `make`."""
    with tempfile.TemporaryDirectory(prefix="judge-made-") as folder:
        with contextlib.closing(plan):
            paths = make(api, plan, Path(folder), quiet=quiet)
        yield paths


def make(api: Api, plan: Plan, folder: Path, *, quiet: bool = True) -> MadeFiles:
    """All that is to be made, in files of this folder.

    PackageError when a program of the package does not compile, fails, or takes too much, or is in a language that no
    executor has.
    """
    refuse_absent(plan, present(api))
    paths: dict[str, Path] = {}
    room = MAX_TOTAL_BYTES
    waiting = batches(plan)
    with Trial(api, "", "") as trial:
        while waiting:
            together, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            rows = trial.follow([_hand_in(trial, plan, batch) for batch in together], _table, quiet=quiet)
            if trial.left_out:
                raise UnavailableError(f"{plan.tree.label}: its tests were to be made, and no executor takes work now")
            retries: list[PlanBatch] = []
            for row in rows:
                batch = row.batch
                if row.task.verdict is m.Verdict.AC:
                    room = _take(api, row.task, batch, folder, paths, room)
                elif row.task.verdict in _TOO_MUCH and len(batch.tests) > 1:
                    retries += [
                        PlanBatch(batch.first + number, [test_steps]) for number, test_steps in enumerate(batch.tests)
                    ]
                else:
                    raise PackageError(f"{plan.tree.label}: {fault(row.task, batch)}")
            waiting = retries + waiting
    return plan.products(paths)


def refuse_absent(plan: Plan, available: Present) -> None:
    """PackageError for the first program in a language that no executor has; UnavailableError without any executor."""
    if not available.any:
        raise UnavailableError(f"{plan.tree.label}: its tests are to be made, and no executor takes work; start one")
    for program in plan.programs.values():
        if not available.takes(program.language):
            why = f"{available.why(program.language)}, in which {clean(program.name, 100)} is"
            raise PackageError(f"{plan.tree.label}: its tests are to be made, and {why}; make them first")


@dataclass
class PlanBatch:
    first: int
    tests: Sequence[tuple[MakingStep, ...]]
    outputs: list[str] = field(default_factory=list)

    @property
    def words(self) -> str:
        last = self.first + len(self.tests) - 1
        return f"making test {self.first}" if last == self.first else f"making tests {self.first} to {last}"


@dataclass
class _BatchRow:
    label: str
    task: m.Task
    batch: PlanBatch


def batches(plan: Plan) -> list[PlanBatch]:
    plan_batches: list[PlanBatch] = []
    room = 0
    for number, steps in enumerate(plan.tests[:MOST], 1):
        size = sum(plan.size(path) for step in steps for path in (step.input, step.before, step.after))
        if not plan_batches or len(plan_batches[-1].tests) >= _BATCH_TESTS or size > room:
            plan_batches.append(PlanBatch(number, []))
            room = _INPUT_BYTES
        plan_batches[-1].tests = [*plan_batches[-1].tests, steps]
        room -= size
    return plan_batches


def _hand_in(trial: Trial, plan: Plan, batch: PlanBatch) -> _BatchRow:
    with tempfile.TemporaryFile() as file:
        pack(plan, batch, file)
        file.seek(0)
        sha = trial.api.put_content(file.read())
    tests = [m.Test(name="make", input_blob=sha)]
    submission = m.Submission(command=_COMMAND, tests=tests, limits=_LIMITS)
    task = trial.hand_in(submission, problem=None, problem_hash=None, priority="normal")
    return _BatchRow(batch.words, task, batch)


def _table(rows: Sequence[_BatchRow]) -> show.Grid:
    grid = show.grid("tests", "verdict")
    for row in rows:
        grid.add_row(row.label, show.verdict_text(row.task))
    return grid


# --- what an executor gets -------------------------------------------------------------------------------------------


def pack(plan: Plan, batch: PlanBatch, into: IO[bytes]) -> None:
    """The archive for a batch: programs, inputs, and the script; the outputs' names are noted in the batch."""
    batch.outputs = list(dict.fromkeys(path for steps in batch.tests for step in steps for path in step.products))
    steps = [step for test_steps in batch.tests for step in test_steps]
    keys = list(dict.fromkeys(key for step in steps for key in (step.program, step.talks_to) if key))
    needed_paths = [path for step in steps for path in (step.input, step.before, step.after) if path]
    inputs = list(dict.fromkeys(path for path in needed_paths if path not in batch.outputs))
    places = {path: f"f/{number}" for number, path in enumerate(inputs)}
    places |= {path: f"out/{number}" for number, path in enumerate(batch.outputs)}
    folders = {key: f"p/{number}" for number, key in enumerate(keys)}
    with tarfile.open(fileobj=into, mode="w") as archive:
        for key, folder in folders.items():
            for name, content in plan.programs[key].files.items():
                _put(archive, f"{folder}/{name}", content)
        for path in inputs:
            _put(archive, places[path], plan.read(path))
        _put(archive, "make.sh", script(plan.programs, steps, folders, places).encode())


def _put(archive: tarfile.TarFile, name: str, content: Content) -> None:
    data = read(content)
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    archive.addfile(entry, io.BytesIO(data))


def script(
    programs: dict[str, PackageProgram], steps: Sequence[MakingStep], folders: dict[str, str], places: dict[str, str]
) -> str:
    """The shell script that builds the programs (by key, in these folders), takes the steps, and packs what they make.

    `places` are where the package's files lie. Everything of the package in it is quoted.
    """
    lines = [_HEAD]
    for key, folder in folders.items():
        program = programs[key]
        # A command goes to any executor, and only some may have the language.
        for path in program.needs:
            absent = (
                f"{clean(program.name, 100)}: is in {program.language}, which the executor that was asked does not have"
            )
            lines.append(f"[ -e {shlex.quote(path)} ] || fail {shlex.quote(absent)}")
        build = program.build or " ".join(_word(word, folder) for word in program.compile)
        if build:
            failure = shlex.quote(f"{clean(program.name, 100)}: does not compile")
            lines.append(f'cd "$root/{folder}" && {{ {build}; }} >"$root/log" 2>&1 </dev/null || fail {failure}')
    for step in steps:
        step_lines = _step(programs, step, folders, places)
        if step.spare:
            step_lines = [f'if [ ! -e "$root/{places[step.output]}" ]; then', *step_lines, "fi"]
        lines += step_lines
    return "\n".join([*lines, _TAIL])


def _step(
    programs: dict[str, PackageProgram], step: MakingStep, folders: dict[str, str], places: dict[str, str]
) -> list[str]:
    output, input_path = (
        f'"$root/{places[step.output]}"',
        f'"$root/{places[step.input]}"' if step.input else "/dev/null",
    )
    call = _call(programs[step.program], folders[step.program], step.args)
    failure = shlex.quote(f"{_label_of(programs, step)} ended with exit code ")
    lines = ['cd "$root" && rm -rf w a b && mkdir w && cd w && : >"$root/log"']
    if step.talks_to:
        second_call = _call(programs[step.talks_to], folders[step.talks_to], ())
        lines.append("mkfifo ../a ../b")
        lines.append(f'{second_call} {input_path} {output} /dev/null <../a >../b 2>"$root/log" & other=$!')
        lines.append(f"{call} >../a <../b 2>/dev/null || fail {failure}$?")
        second_failure = shlex.quote(
            f"{clean(step.output, 60)}: {clean(programs[step.talks_to].name, 60)} ended with exit code "
        )
        return [*lines, f"wait $other || fail {second_failure}$?"]
    if step.two_steps:
        return [*lines, *_two_runs(programs[step.program], folders[step.program], input_path, output, failure)]
    source = input_path
    if step.input_name:
        lines.append(f"cp {input_path} ./{shlex.quote(step.input_name)}")
        source = "/dev/null"
    target = '"$root/printed"' if step.output_name else output
    errors = f'"$root/{places[step.errors]}"' if step.errors else '"$root/log"'
    lines.append(f"{call} <{source} >{target} 2>{errors} || fail {failure}$?")
    if step.output_name:
        name = shlex.quote(step.output_name)
        no_output = shlex.quote(f"{_label_of(programs, step)} left no file {clean(step.output_name, 60)}")
        lines.append(f"{{ [ -f ./{name} ] && cat ./{name} >{output}; }} || fail {no_output}")
    for place, path in (("before", step.before), ("after", step.after)):
        if path:
            parts = f'"$root/{places[path]}" {output}' if place == "before" else f'{output} "$root/{places[path]}"'
            lines.append(f'cat {parts} >"$root/joined" && mv "$root/joined" {output}')
    if step.unix:
        lines.append(f'LC_ALL=C sed \'s/\r$//\' {output} >"$root/joined" && mv "$root/joined" {output}')
    if step.stem:
        lines += _check_files(
            _label_of(programs, step), step, output, f'"$root/{places[step.answer]}"' if step.answer else ""
        )
    return lines


def _two_runs(program: PackageProgram, folder: str, input_path: str, output: str, failure: str) -> list[str]:
    """Run a program twice side by side; the second is ended when the first fails, as it may wait for ever."""
    first, second = (_call(program, folder, (str(number),)) + ' "$root/a"' for number in (0, 1))
    return [
        "mkfifo ../a",
        f'{second} </dev/null >{output} 2>>"$root/log" & other=$!',
        f'{first} <{input_path} >/dev/null 2>>"$root/log" || {{ code=$?; kill $other; fail {failure}$code; }}',
        f"wait $other || fail {failure}$?",
    ]


def _check_files(label: str, step: MakingStep, output: str, answer: str) -> list[str]:
    """The lines that take files which a generator may have written itself, and refuse those that would be lost."""
    input_name, answer_name = shlex.quote(f"{step.stem}.in"), shlex.quote(f"{step.stem}.ans")
    no_input = shlex.quote(f"{label} printed nothing, and left no {step.stem}.in")
    lines = [
        f"if [ -f ./{input_name} ]; then cat ./{input_name} >{output}; elif [ ! -s {output} ]; then fail {no_input}; fi"
    ]
    if answer:
        no_answer = {
            "later": ":",
            "empty": f": >{answer}",
            "refused": "fail " + shlex.quote(f"{label} left no {step.stem}.ans, and nothing else makes the answer"),
        }[step.unmade_reason]
        lines.append(f"if [ -f ./{answer_name} ]; then cat ./{answer_name} >{answer}; else {no_answer}; fi")
    suffix_pattern = "|".join(f"*.{ending}" for ending in _KNOWN_LEFT)
    unknown_file = shlex.quote(f"{label} left a file that is not taken from it; give it by hand:")
    lines += [
        f"for left in ./{shlex.quote(step.stem)}.*; do",
        f'  case $left in {suffix_pattern}) ;; *) [ ! -e "$left" ] || fail {unknown_file}" $left" ;; esac',
        "done",
    ]
    return lines


def _label_of(programs: dict[str, PackageProgram], step: MakingStep) -> str:
    command = " ".join([programs[step.program].name, *step.args])
    return f"{clean(step.output, 60)}: is made by '{clean(command, 100)}', which"


def _word(word: str, folder: str) -> str:
    """A word of a command, quoted, with the program's folder in its place."""
    if word.startswith("{}/"):
        return f'"$root/{folder}"/{shlex.quote(word.removeprefix("{}/"))}'
    if BOX not in word:
        return shlex.quote(word)
    return "'" + word.replace("'", "'\"'\"'").replace(BOX, f"'\"$root/{folder}\"'") + "'"


def _call(program: PackageProgram, folder: str, args: Sequence[str]) -> str:
    start = [_word(word, folder) for word in program.run]
    return " ".join([*start, *map(shlex.quote, args)])


# --- what comes back -------------------------------------------------------------------------------------------------


def _take(api: Api, task: m.Task, batch: PlanBatch, folder: Path, paths: dict[str, Path], room: int) -> int:
    """Keep what a batch has made; returns how many bytes more may be made. PackageError."""
    blob = task.result.stdout_blob if task.result is not None else None
    if blob is None:
        raise PackageError(f"{batch.words}: the executor gave nothing back; import it again")
    unread_paths = {f"./{number}": path for number, path in enumerate(batch.outputs)}
    with tempfile.TemporaryFile() as file:
        api.get_blob(blob, file)
        try:
            with tarfile.open(fileobj=file, mode="r|gz") as archive:
                for entry in archive:
                    path = unread_paths.pop(entry.name, None)
                    content = archive.extractfile(entry) if path is not None and entry.isreg() else None
                    if path is None or content is None:
                        continue
                    room -= entry.size
                    if entry.size > MAX_FILE_BYTES or room < 0:
                        raise PackageError(f"{path}: is made longer than a package may be; make it shorter")
                    paths[path] = folder / str(len(paths))
                    with paths[path].open("wb") as target:
                        while chunk := content.read(CHUNK):
                            target.write(chunk)
        except (tarfile.TarError, EOFError, OSError) as exc:
            raise PackageError(f"{batch.words}: what was made cannot be read: {clean(str(exc), 100)}") from exc
    if unread_paths:
        raise PackageError(f"{batch.words}: {clean(next(iter(unread_paths.values())), 60)} was not made")
    return room


def _most(verdict: m.Verdict | None, run: m.TestResult | None) -> str:
    if verdict is m.Verdict.TLE:
        waited = run is not None and run.wall >= (_LIMITS.wall or 0)
        return (
            f"{decimal(_LIMITS.wall or 0)} s, most of it waiting"
            if waited
            else f"{decimal(_LIMITS.cpu or 0)} s of CPU time"
        )
    return "2 GiB of memory" if verdict is m.Verdict.MLE else "64 MiB of output"


def fault(task: m.Task, batch: PlanBatch) -> str:
    result = task.result or m.Result()
    run = result.tests[0] if result.tests else None
    if task.verdict in _TOO_MUCH:
        return f"{clean(batch.outputs[0], 60)}: takes more than {_most(task.verdict, run)}; make it beforehand"
    message = " ".join((run.error if run is not None else "").split())
    if f"exit code {_FILE_TOO_LONG}" in message:
        message += " (a file may have 64 MiB)"
    return f"its tests are not made: {clean(message or result.reason or str(task.verdict or task.status), 400)}"
