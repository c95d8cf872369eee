"""Shows things in judgectl: rich tables for people, JSON for programs."""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from judge.common.text import decimal, one_line, several, size
from judge.ctl import sheets
from judge.ctl.grids import Grid as Grid  # noqa: PLC0414 - all commands have it from here
from judge.ctl.grids import grid as grid  # noqa: PLC0414
from judge.languages import handed
from judge.model.messages import Result, Status, Task, TestResult, Verdict, Waits
from judge.model.overview import ExecutorState, StatusReply, Whoami

# Tables may be this wide where there is no terminal to ask; in characters.
_PIPE_WIDTH = 160


class Screen(Console):
    """Shows text as it is: nothing that people handed in is markup, and no character of it steers a terminal."""

    def __init__(self, **options: Any) -> None:
        """`options` are those of rich's Console."""
        super().__init__(highlight=False, markup=False, emoji=False, **options)
        if not self.is_terminal:
            self.width = _PIPE_WIDTH

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Make text fit for a terminal, by `one_line`. All that is printed passes through here."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment("\n".join(map(one_line, segment.text.split("\n"))), segment.style)

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich does it; a pipe gets all of a table, however wide it is."""
        super().print(*objects, **{"crop": self.is_terminal, **options})

    def say(self, text: str | Text, style: str = "") -> None:
        """A sentence: a terminal gets it wrapped, a pipe on one line."""
        self.print(Text(text, style) if isinstance(text, str) else text, soft_wrap=not self.is_terminal)

    def verbatim(self, text: str, style: str = "") -> None:
        """Lines that somebody or some program wrote, each as one line however long it is."""
        self.print(Text(text, style), soft_wrap=True)


out = Screen()
err = Screen(stderr=True)


class OutputFormat(enum.StrEnum):
    """`--output`: a table for people, JSON for programs, or CSV for spreadsheets."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"

    @property
    def for_people(self) -> bool:
        """True if a person reads the output, and not a program."""
        return self is OutputFormat.TABLE


def print_data(output: OutputFormat, value: BaseModel | dict[str, Any] | Iterable[Any]) -> None:
    """Data for programs: one JSON document, or CSV where that is asked for."""
    data: Any = value
    if isinstance(value, BaseModel):
        data = value.model_dump(mode="json")
    elif not isinstance(value, dict):
        data = [item.model_dump(mode="json") if isinstance(item, BaseModel) else item for item in value]
    if output is OutputFormat.CSV:
        sheets.write(data, sys.stdout)
    else:
        json.dump(data, sys.stdout, indent=2)
        sys.stdout.write("\n")


def tell(
    output: OutputFormat,
    data: BaseModel | dict[str, Any] | Iterable[Any],
    for_people: str | Grid | Callable[[], None],
    *,
    next_page: str | None = None,
) -> None:
    """The result of a command: data for programs; for people a sentence, a table, or what a function prints."""
    if not output.for_people:
        print_data(output, data)
        return
    if isinstance(for_people, str):
        out.say(for_people)
    elif isinstance(for_people, Grid):
        out.print(for_people)
    else:
        for_people()
    if next_page:
        err.say(f"more with --before {next_page}", "dim")


def seconds(value: float | None) -> str:
    """A duration: `12 ms`, `1.25 s`."""
    if value is None:
        return ""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def points(value: float | None) -> str:
    return "" if value is None else decimal(value)


def utc(time: str) -> str:
    """A stored time for people: `2026-01-31 12:00:05`."""
    return time[:19].replace("T", " ")


def verdict_text(task: Task) -> Text:
    if task.verdict is not None:
        return Text(task.verdict.value, style=task.verdict.about.colour)
    if task.status == Status.CANCELLED:
        return Text("cancelled", style="dim")
    where = f" {task.progress}" if task.progress else ""
    return Text(f"{task.status.value}{where}", style="cyan")


def outcome_text(task: Task) -> Text:
    """As `verdict_text`, but a program that ran to its end and was compared with nothing has `ran`."""
    ran = task.verdict is Verdict.AC and task.submission.is_free_run
    return Text("ran", style=Verdict.AC.about.colour) if ran else verdict_text(task)


def waits_words(waits: Waits) -> str:
    return f"waited for {waits.seconds:.0f} s: {waits.reason}"


def subject(task: Task) -> str:
    """A few words about the program that was handed in."""
    sub = task.submission
    if sub.problem:
        return sub.problem
    if sub.command:
        return sub.command if len(sub.command) <= 32 else sub.command[:31] + "…"
    return sub.filename or sub.entry or (f"{sub.files[0].name} …" if sub.files else "-")


def tasks_table(tasks: Sequence[Task]) -> Grid:
    table = grid(
        "id", "user…", "what…", "language", "verdict!", "cpu>", "memory>", "latency>", "executor", "created (UTC)"
    )
    for task in tasks:
        result = task.result
        ran = result is not None and bool(result.cpu or result.memory)
        table.add_row(
            task.id,
            task.submission.user,
            subject(task),
            task.submission.language or "",
            outcome_text(task),
            seconds(result.cpu) if result and ran else "",
            size(result.memory) if result and ran else "",
            seconds(task.latency),
            task.judged_by or task.executor or "",
            utc(task.created),
        )
    return table


def _headline(task: Task) -> Text:
    head = Text.assemble(outcome_text(task), "  ", (task.id, "dim"), f"  {subject(task)}")
    result = task.result
    ran = result is not None and bool(result.cpu or result.memory)
    parts = [
        task.submission.language,
        task.judged_by,
        f"score {points(result.score)}" if result and result.score is not None else None,
        f"cpu {seconds(result.cpu)}" if result and ran else None,
        f"memory {size(result.memory)}" if result and ran else None,
        f"judged in {seconds(task.latency)}" if task.latency is not None else None,
    ]
    head.append("".join(f" · {part}" for part in parts if part))
    return head


def repeated(test: TestResult) -> str:
    """That the test was run twice, in words; empty when it was not."""
    first = test.repeated
    if first is None:
        return ""
    where = "alone" if first.exclusive else "beside others"
    return f"near the limit, repeated {where}: the first run had cpu {seconds(first.cpu)}, wall {seconds(first.wall)}"


def _tests_table(result: Result) -> Grid:
    scored = ["score>"] if any(test.score is not None for test in result.tests) else []
    table = grid("test", "verdict!", *scored, "cpu>", "wall>", "memory>", "exit>", "message¶")
    for test in result.tests:
        end = f"signal {test.signal}" if test.signal else ("" if test.exit_code is None else str(test.exit_code))
        message_lines = (test.message or test.feedback or test.reason).splitlines()
        remark = "; ".join(filter(None, [message_lines[0] if message_lines else "", repeated(test)]))
        table.add_row(
            test.name,
            Text(test.verdict.value, style=test.verdict.about.colour),
            *([points(test.score)] if scored else []),
            seconds(test.cpu),
            "" if test.withheld else seconds(test.wall),
            size(test.memory),
            end,
            Text(remark),
        )
    return table


def _groups_table(result: Result) -> Grid:
    table = grid("group", "verdict!", "score>", "of>")
    for group in result.groups:
        table.add_row(group.name, group.verdict, points(group.score), points(group.max_score))
    return table


def _quoted(title: str, text: str) -> None:
    if text:
        out.say(f"  {title}", "bold")
        out.verbatim("\n".join(f"    {line}" for line in text.rstrip("\n").split("\n")))


def _print_excerpts(result: Result) -> None:
    for test in result.tests:
        message = test.message if "\n" in test.message or test.reason else ""
        if not (test.output or test.error or message):
            continue
        out.say(f"test {test.name}", test.verdict.about.colour)
        _quoted("reason", test.reason if test.reason != test.message else "")
        _quoted("validator", message)
        _quoted(f"output ({test.output_bytes} bytes)", test.output)
        _quoted("error output", test.error)


def _facts(task: Task, result: Result) -> Iterable[str]:
    """Versions, limits and names that a dispute needs, one line each."""
    if result.language_version:
        yield f"language: {result.language_version}"
    if task.judged_by:
        version = f", version {result.judge_version}" if result.judge_version else ""
        yield f"executor: {task.judged_by}{version}" + (f", {result.sandbox}" if result.sandbox else "")
    if result.compile is not None:
        compilation = result.compile
        end = f"signal {compilation.signal}" if compilation.signal else f"exit code {compilation.exit_code}"
        usage = f"cpu {seconds(compilation.cpu)}, wall {seconds(compilation.wall)}, memory {size(compilation.memory)}"
        yield f"compilation: {end}, {usage}"
    if result.limits is not None:
        limits = result.limits
        yield (
            f"limits: cpu {seconds(limits.cpu)}, wall {seconds(limits.wall_seconds)}, memory {size(limits.memory)}, "
            f"output {size(limits.output)}, {limits.processes} processes"
        )
    if task.problem is not None:
        yield f"problem: {task.problem.name}, content {task.problem.hash}"
    if task.rerun_of is not None:
        yield f"this is a run of rejudging {task.rejudging}, of submission {task.rerun_of}"
    elif task.rejudging is not None:
        yield f"it is part of rejudging {task.rejudging}, which is open"
    if task.trace:
        yield f"trace: {task.trace}"


def _print_evidence(task: Task, result: Result) -> None:
    out.print(_tests_table(result))
    if result.groups:
        out.print(_groups_table(result))
    _print_excerpts(result)
    for attempt in task.history:
        where = f" (rejudging {attempt.rejudging})" if attempt.rejudging is not None else ""
        out.say(f"attempt {attempt.attempt} on {attempt.executor}{where}: {attempt.reason}", "dim")
    for past in task.past:
        before = past.verdict or past.status
        finished = utc(past.finished or "")
        text = (
            f"before rejudging {past.rejudging}: {before}, cpu {seconds(past.cpu)}, by {past.judged_by}, {finished} UTC"
        )
        out.say(text + (f", trace {past.trace}" if past.trace else "") + (f" ({past.why})" if past.why else ""))
    for line in _facts(task, result):
        out.say(line, "dim")


def print_task(task: Task, *, full: bool = False, source: bool = False) -> None:
    """One task: verdict, reason, compile log, per-test results when asked, and the output of a plain run."""
    out.say(_headline(task))
    if task.waits is not None:
        out.say(f"it has {waits_words(task.waits)}", "yellow")
    result = task.result or Result()
    if result.reason:
        out.say(result.reason)
    if result.weak_sandbox:
        out.say("judged in a weak sandbox: limits and isolation are not fully enforced", "yellow")
    if result.compile_log and (full or task.verdict == Verdict.CE):
        out.verbatim(result.compile_log.rstrip(), "dim")
    if full:
        _print_evidence(task, result)
    if source and (files := handed.contents(task.submission)):
        print_source(files)
    if result.stdout:
        _print_text(result.stdout)


def print_source(files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        if len(files) > 1:
            out.say(f"── {name} ({size(len(data))})", "bold")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = ""
        if data and not text:
            out.say(f"{len(data)} bytes that are no UTF-8 text; `judgectl source ID --to DIR` writes them")
        else:
            _print_text(text.removesuffix("\n") + "\n")


def print_bytes(data: bytes) -> None:
    """A file, byte by byte into a pipe or a file; harmless on a terminal."""
    if out.is_terminal:
        print_source({"": data})
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _print_text(text: str) -> None:
    """A source, or what a command printed: exactly that into a pipe or a file, harmless on a terminal."""
    if out.is_terminal:
        out.print(Text(text), end="", soft_wrap=True)
    else:
        sys.stdout.write(text)


def executors_table(executors: Sequence[ExecutorState]) -> Grid:
    """The executors. Their languages are counted only: there may be many, and `judgectl languages` has them."""
    table = grid("executor", "state", "busy>", "slots>", "languages>", "reported (UTC)", "notes¶")
    for state in executors:
        info = state.info
        notes = [state.drain_reason] if state.drain_reason else []
        if info and info.weak_sandbox:
            notes.append("weak sandbox")
        notes += info.checks[:1] if info else []
        table.add_row(
            state.name,
            _executor_word(state),
            str(state.executing),
            str(info.slots) if info else "",
            str(len(info.languages)) if info else "",
            utc(state.reported),
            Text("; ".join(notes)),
        )
    return table


def _executor_word(state: ExecutorState) -> Text:
    drained = "draining" if state.executing else "drained"
    state_name = "down" if not state.alive else drained if state.drain else "up"
    return Text(state_name, style={"up": "green", "down": "bold red"}.get(state_name, "yellow"))


def print_whoami(caller: Whoami) -> None:
    def most(value: float | None, unit: str = "") -> str:
        return "no limit" if value is None else f"{decimal(value)}{unit}"

    may = caller.allowance
    stored = "no limit" if may.stored_bytes is None else size(may.stored_bytes)
    table = grid("what…", "now>!", "at most>!")
    table.add_row("submissions that wait", str(caller.waiting), most(may.waiting))
    table.add_row("submissions that are judged", str(caller.running), f"{may.slot_share:.0%} of the slots")
    table.add_row("stored submissions and results", size(caller.stored_bytes), stored)
    table.add_row("all runs of a submission without a problem", "", most(may.own_seconds, " s"))
    table.add_row("all runs of a submission to a problem", "", most(may.problem_seconds, " s"))
    table.add_row("tests that are repeated near a limit", "", most(may.repeats))
    table.add_row("time that they have an executor to themselves", "", most(may.alone_seconds, " s"))
    if may.per_minute is not None:
        now = "" if caller.rate is None else str(caller.rate.limit - caller.rate.left)
        table.add_row("submissions handed in within a minute", now, most(may.per_minute))
    out.say(f"{caller.user}, role {caller.role}")
    if not may.own_tests:
        out.say("programs to problems only: no commands, no runs without a problem, no tests of one's own")
    out.print(table)


def print_status(status: StatusReply, services: Sequence[dict[str, Any]]) -> None:
    if status.faults:
        out.say("unhealthy", "bold red")
        for fault in status.faults:
            out.say(f"  ✗ {fault}", "red")
    else:
        out.say("healthy", "bold green")
    for warning in status.warnings:
        out.say(f"  ! {warning}", "yellow")
    for sentence in status.waits:
        out.say(f"  … {sentence}", "yellow")
    queued = sum(status.queued.values())
    drained = sum(state.info.slots for state in status.executors if state.alive and state.drain and state.info)
    out.say(
        f"queue {queued}  running {status.running}  finished {status.finished}  "
        f"slots {status.slots - status.vacant}/{status.slots} busy" + (f", {drained} drained" if drained else "")
    )
    table = grid("member", "kind!", "address", "role", "state!")
    for judicator in status.judicators:
        role = f"leader, epoch {status.epoch}" if judicator.leader else "follower"
        table.add_row(judicator.name, "judicator", judicator.address, role, Text("up", style="green"))
    for kind, members in (("etcd", status.etcd), ("mongodb", status.mongodb)):
        for member in members:
            state = Text("up", style="green") if member.healthy else Text("down", style="bold red")
            table.add_row(member.name, kind, member.address, member.role, state)
    for executor in status.executors:
        slots = several(executor.info.slots, "slot") if executor.info else ""
        table.add_row(executor.name, "executor", "", slots, _executor_word(executor))
    out.print(table)
    if services:
        out.print(services_table(services))


def judicators_table(rows: Iterable[Mapping[str, Any]]) -> Grid:
    table = grid("judicator", "address", "role!")
    for row in rows:
        table.add_row(row["name"], row["address"], f"leader, epoch {row['epoch']}" if row["leader"] else "follower")
    return table


def languages_table(rows: Iterable[Mapping[str, Any]]) -> Grid:
    table = grid("language", "title…", "suffixes…", "version…")
    for row in rows:
        table.add_row(row["name"], row.get("title", ""), " ".join(row.get("suffixes", [])), row.get("version") or "-")
    return table


def services_table(services: Sequence[dict[str, Any]]) -> Grid:
    table = grid("service", "state!", "pid>", "restarts>", "reason¶")
    for service in services:
        state = str(service.get("state", ""))
        style = {"RUNNING": "green", "FATAL": "bold red"}.get(state, "yellow")
        table.add_row(
            str(service.get("name", "")),
            Text(state, style=style),
            str(service.get("pid") or ""),
            str(service.get("restarts", 0)),
            Text(str(service.get("reason") or "")),
        )
    return table
