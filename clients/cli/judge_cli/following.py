"""A submission on its way to the verdict, and its result: as judgectl shows it, with the first failing test's diff."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

from judge_cli import comparing, screen
from judge_cli.errors import EXIT_CANCELLED, EXIT_FAILED, EXIT_INTERRUPTED
from judge_cli.gateway import Gateway, address

_INPUT_LINES = 20
# After so many seconds without news it is asked why a submission in such a state waits.
_QUIET_SECONDS = 5.5
_WAITING = {"pending", "retrying"}


def follow(gateway: Gateway, task_id: str) -> dict[str, Any] | None:
    """Wait until a submission is judged; None after Ctrl-C, when its id has been printed."""
    status, state, reason = screen.Status(), "", ""
    path = address("submissions", task_id)
    try:
        for event in _interruptible(gateway.events(task_id)):
            state = event.get("verdict") or event.get("status") or state
            waits = gateway.json("GET", path).get("waits") if not event and state in _WAITING else None
            if waits and waits["reason"] != reason:
                reason = waits["reason"]
                status.show("")
                screen.note(f"{task_id} has waited for {waits['seconds']:.0f} s: {reason}")
            status.show(f"{state}  {task_id}" + (f"  {waits['seconds']:.0f} s" if waits else ""))
        status.show("")
        task: dict[str, Any] = gateway.json("GET", path)
    except KeyboardInterrupt:
        status.show("")
        screen.note(f"judging goes on without you; look with: judge-cli follow {task_id}")
        return None
    return task


def _interruptible(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same, read by another thread: on Windows Ctrl-C does not end a thread's wait for the network.

    An empty event stands for some seconds without one.
    """
    items: queue.Queue[dict[str, Any] | BaseException | None] = queue.Queue()

    def read() -> None:
        try:
            for event in events:
                items.put(event)
            items.put(None)
        except BaseException as exc:  # noqa: BLE001 - raised by the thread that waits
            items.put(exc)

    threading.Thread(target=read, daemon=True).start()
    last = time.monotonic()
    while True:
        try:
            item = items.get(timeout=0.2)
        except queue.Empty:
            if time.monotonic() - last < _QUIET_SECONDS:
                continue
            item = {}
        last = time.monotonic()
        if item is None:
            return
        if isinstance(item, BaseException):
            raise item
        yield item


def exit_code(task: dict[str, Any] | None) -> int:
    if task is None:
        return EXIT_INTERRUPTED
    if task.get("verdict"):
        return screen.exit_code(task["verdict"])
    return EXIT_CANCELLED if task.get("status") == "cancelled" else EXIT_FAILED


def show(gateway: Gateway, task: dict[str, Any]) -> None:
    """Print verdict, reason, the compiler's messages, and of the first failing test what this person may see."""
    result, submission = task.get("result") or {}, task["submission"]
    verdict = _verdict(task)
    parts = [submission.get("language"), task.get("judged_by")]
    parts += [f"score {screen.score(result['score'])}"] if result.get("score") is not None else []
    parts += [f"{word} {figure}" for word, figure in zip(("cpu", "memory"), _figures(result), strict=True) if figure]
    parts += [f"judged in {screen.seconds(task['latency'])}"] if task.get("latency") is not None else []
    details = "".join(f" · {part}" for part in parts if part)
    screen.say(
        f"{verdict}  {task['id']}  {subject(submission)}{details}", screen.colour_codes(task.get("verdict") or "")
    )
    if result.get("reason"):
        screen.say(result["reason"])
    if result.get("compile_log") and verdict == "CE":
        screen.say(result["compile_log"].rstrip())
    if result.get("stdout"):
        screen.say(result["stdout"].rstrip("\n"))
    failed = next((test for test in result.get("tests", []) if test["verdict"] != "AC"), None)
    if failed is not None and not failed.get("withheld"):
        if f"test {failed['name']}" not in result.get("reason", ""):
            screen.say(f"test {failed['name']}: {failed['verdict']}")
        _show_test(failed, *_data_of(gateway, task, failed["name"]))


def row(task: dict[str, Any]) -> list[str]:
    """A submission in a list: id, what, language, verdict, CPU time, memory, time."""
    submission = task["submission"]
    cells = [task["id"], subject(submission), submission.get("language") or "", _verdict(task)]
    return [*cells, *_figures(task.get("result") or {}), task["created"][:19].replace("T", " ")]


def _figures(result: dict[str, Any]) -> list[str]:
    """CPU time and memory; empty if no program ran, as after a compile error."""
    ran = bool(result.get("cpu") or result.get("memory"))
    return [screen.seconds(result["cpu"]), screen.size(result["memory"])] if ran else ["", ""]


def _verdict(task: dict[str, Any]) -> str:
    """The verdict or status; `ran` for a program that ran to its end and was compared with nothing."""
    verdict, submission = task.get("verdict") or task["status"], task["submission"]
    return "ran" if verdict == "AC" and not submission.get("problem") and not submission.get("tests") else str(verdict)


def subject(submission: dict[str, Any]) -> str:
    return str(submission.get("problem") or submission.get("filename") or submission.get("command") or "-")


def _data_of(gateway: Gateway, task: dict[str, Any], name: str) -> tuple[str | None, str | None]:
    """Input and answer of a test as far as they are disclosed: of a sample, or of the submission's own test."""
    data = next((test for test in task["submission"].get("tests", []) if test["name"] == name), None)
    if data is None and task.get("problem"):
        problem = gateway.json("GET", address("problems", task["problem"]["name"]))
        if problem["hash"] == task["problem"]["hash"]:
            data = next(
                (sample for sample in problem["samples"] if sample["name"] == name.removeprefix("sample/")), None
            )
    return (data.get("input"), data.get("answer")) if data else (None, None)


def _show_test(test: dict[str, Any], input_text: str | None, answer: str | None) -> None:
    if input_text:
        lines = input_text.rstrip("\n").split("\n")
        rest = [f"… ({len(lines)} lines)"] if len(lines) > _INPUT_LINES else []
        _quote("input", lines[:_INPUT_LINES] + rest)
    if answer is not None and test["verdict"] == "WA":
        _quote("difference", list(comparing.difference(test.get("output", ""), answer)))
    elif test.get("output"):
        _quote("output", test["output"].rstrip("\n").split("\n")[:_INPUT_LINES])
    if test.get("error"):
        _quote("error output", test["error"].rstrip("\n").split("\n")[-_INPUT_LINES:])


def _quote(title: str, lines: list[str]) -> None:
    screen.say(f"  {title}")
    for line in lines:
        screen.say(f"    {line}", {"-": "31", "+": "32"}.get(line[:1], "") if title == "difference" else "")
