"""A submission of ours out of what a caller of Judge0's API asked for. Pure but for storing what is no text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any, Final

from judge.common.errors import FieldError
from judge.judge0 import languages
from judge.judge0.fields import NUMBERS, PROJECT, Fields
from judge.languages import handed
from judge.model import messages as m

# Characters that Judge0 takes out of options and arguments before a shell reads them.
_SHELL: Final = re.compile(r"[$&;<>|`]")
_KB: Final = 1024
_LEAST_MEMORY: Final = 4 * 1024**2
_LEAST_STACK: Final = 64 * 1024
_LEAST_CPU: Final = 0.01
RUN, ARCHIVE = "run", "additional_files.zip"

# A project's own scripts, in the order in which Judge0 looks for them. They name Judge0's own compilers:
# /usr/local/gcc-9.2.0/bin/g++ is what is found as g++ here.
_OWN_SCRIPT: Final = (
    'for script in compile.sh compile run.sh run; do if [ -f "$script" ]; then '
    """sed -E -i 's#/usr/local/[A-Za-z]+-?[0-9][^/[:space:]]*/bin/##g' "$script"; fi; done; """
)
# Judge0 compiles and runs in one directory; here each run has its own. A file that the run could write is a copy, a
# larger one is a link: its copy would exceed the run's file size limit, and count as the run's memory.
_OWN_DIRECTORY: Final = (
    "cp -Rs /box/. /scratch/ && find . ! -type d ! -size +%dk "
    "-exec cp -d --parents --remove-destination -t /scratch {} + && cd /scratch || exit 1; "
)
_COPIED_KB: Final = 1024
_RUN: Final = (
    _OWN_DIRECTORY
    + _OWN_SCRIPT
    + 'for script in run.sh run; do if [ -f "$script" ]; then exec /bin/bash "$script"; fi; done; '
    "echo 'bash: run: No such file or directory' >&2; exit 127"
)
_COMMANDS: Final = {
    "text": "exec /bin/cat text.txt",
    "executable": "cd /scratch && ln -s /box/a.out . && exec ./a.out",
    PROJECT: _RUN,
}
_COMPILE: Final = {
    "executable": "chmod +x a.out",
    PROJECT: _OWN_SCRIPT
    + 'for script in compile.sh compile; do if [ -f "$script" ]; then exec /bin/bash "$script"; fi; done',
}


def words(text: str) -> list[str]:
    """Options or arguments as a shell would part them, without what Judge0 takes out."""
    plain = _SHELL.sub("", text).strip()
    try:
        return shlex.split(plain)
    except ValueError:  # a quote that does not end
        return plain.split()


def submission(submission_fields: Fields, bounds: handed.Bounds, store: Callable[[bytes], str]) -> m.Submission:
    """The submission that faultless `submission_fields` are; `store` keeps content as a blob and returns its name.

    Raises FieldError and TooLargeError for an archive that cannot be taken, pydantic's ValidationError for what cannot
    be a submission.
    """
    fields = _program(submission_fields, bounds)
    if submission_fields.problem is not None:
        fields["problem"] = submission_fields.problem
    else:
        fields |= {
            "limits": _limits(submission_fields),
            "tests": _tests(submission_fields, store),
            "options": _options(submission_fields),
        }
        if submission_fields.tests:
            fields["mode"] = "full"
    fields["told"] = dict(submission_fields.values)
    return m.Submission.model_validate(fields)


def _program(fields: Fields, bounds: handed.Bounds) -> dict[str, Any]:
    """Its language or command, and its source and files."""
    row = fields.row
    assert row is not None  # noqa: S101 - without one it has faults
    source = fields.contents.get("source_code", b"")
    files: dict[str, bytes] = {}
    if fields.archive is not None:
        if not handed.is_archive(ARCHIVE, fields.archive):
            raise FieldError("files", "are no ZIP archive; send one as Base64")
        files = handed.gather([(ARCHIVE, fields.archive)], bounds, whole=True)
    if row.kind is not None or (row.command is not None and fields.problem is None):
        arguments = shlex.join(words(str(fields.values.get("command_line_arguments", ""))))
        command = _COMMANDS[row.kind] if row.kind is not None else f"cd /scratch && {row.command}"
        if row.kind == PROJECT:
            command %= min(int(fields.values["max_file_size"]) or _COPIED_KB, _COPIED_KB)
        command += f" {arguments}" if arguments and row.kind in {None, "executable"} else ""
        own_files = {} if row.kind == PROJECT else {row.file: source}
        sources = [m.SourceFile.of(name, data) for name, data in {**files, **own_files}.items()]
        return {"language": row.row, "command": command, "compile": _COMPILE.get(row.kind or ""), "files": sources}
    if not files:
        # The source that is started keeps its name, which its messages say; a problem's graders may know it by another.
        own_name = {} if fields.problem is not None else {"entry": row.file}
        try:
            return {"language": row.row, "source": source.decode("utf-8"), "filename": row.file, **own_name}
        except UnicodeDecodeError:
            pass
    # Nothing takes the place of the source itself.
    sources = [m.SourceFile.of(name, data) for name, data in {**files, row.file: source}.items()]
    return {"language": row.row, "files": sources, "entry": row.file}


def _limits(fields: Fields) -> dict[str, Any]:
    # To Judge0's sandbox 0 is no limit; here it is the most that anybody may have.
    values = {name: float(fields.values[name]) or float(rule.most) for name, rule in NUMBERS.items()}
    return {
        "cpu": max(values["cpu_time_limit"], _LEAST_CPU),
        "wall": values["wall_time_limit"],
        "memory": max(int(values["memory_limit"]) * _KB, _LEAST_MEMORY),
        "stack": max(int(values["stack_limit"]) * _KB, _LEAST_STACK),
        "processes": int(values["max_processes_and_or_threads"]),
        "output": int(values["max_file_size"]) * _KB,
    }


def _options(fields: Fields) -> dict[str, Any]:
    values, row = fields.values, fields.row
    language = row is not None and row.row is not None and row.command is None
    compiler = words(str(values.get("compiler_options", "")))
    return {
        "compiler": languages.without_output(row, compiler) if row is not None and language else [],
        "arguments": words(str(values.get("command_line_arguments", ""))) if language else [],
        "merged": bool(values["redirect_stderr_to_stdout"]),
        "alone": row is not None and row.row is not None and (not language or fields.archive is not None),
        "unchecked": True,
        "lines": True,
        "outputs": True,
    }


def _tests(fields: Fields, store: Callable[[bytes], str]) -> list[dict[str, str]]:
    """One test for each run, or the caller's own."""
    runs = int(fields.values["number_of_runs"])
    once = (fields.contents.get("stdin"), fields.contents.get("expected_output"))
    pairs = fields.tests or [once] * runs
    width = len(str(len(pairs)))
    tests = []
    for number, (input_data, answer) in enumerate(pairs, 1):
        name = RUN if len(pairs) == 1 else f"{RUN}{number:0{width}}"
        tests.append({"name": name, **_content("input", input_data, store), **_content("answer", answer, store)})
    return tests


def _content(name: str, data: bytes | None, store: Callable[[bytes], str]) -> dict[str, str]:
    if data is None:
        return {}
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_blob": store(data)}
