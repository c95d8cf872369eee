"""Several programs that talk over named pipes, and runs with files: what each sees, who is ended, what is left."""

import concurrent.futures
import contextlib
import os
import time
from pathlib import Path

import pytest

from judge.common.errors import UsageError
from judge.model.messages import Limits
from judge.sandbox import Command, Killed
from judge.sandbox.meeting import Actor, Link, path_of, run_meeting
from tests.support.sandbox import MIB, need_sandbox, pool
from tests.support.servers import wait_for

pytestmark = pytest.mark.root
LIMITS = Limits(cpu=1, wall=3, memory=128 * MIB, output=1 * MIB)


@pytest.fixture(scope="module")
def boxes():
    need_sandbox()
    with pool("meeting") as sandboxes:
        boxes = [sandboxes.take() for _ in range(3)]
        yield boxes
        for box in boxes:
            box.close()


def sh(script: str, *arguments: str, limits: Limits = LIMITS, **options) -> Command:
    return Command(argv=["/bin/sh", "-c", script, "sh", *arguments], limits=limits, **options)


def closed(outcome) -> bytes:
    with outcome:
        return outcome.read_stdout()


def close(outcomes) -> None:
    for outcome in outcomes:
        outcome.close()


def meet(boxes, commands, links, over=lambda *_: False, counted=None, **options):
    counted = counted or [True] * len(commands)
    actors = [Actor(box, command, counts) for box, command, counts in zip(boxes, commands, counted, strict=False)]
    return run_meeting(actors, links, over, **options)


ONE, TWO = path_of(0), path_of(1)


def test_two_programs_talk_by_names(boxes):
    first = sh('echo hello > "$1"; read answer < "$2"; echo "$answer"', ONE, TWO)
    second = sh('read heard < "$1"; echo "$heard you" > "$2"', ONE, TWO)
    first_outcome, two = meet(boxes, [first, second], [Link(0, 1), Link(1, 0)])
    assert (closed(first_outcome), closed(two)) == (b"hello you\n", b"")


@pytest.mark.parametrize("hold", [False, True])
def test_a_pipe_that_was_never_opened_ends_with_its_program(boxes, hold):
    begin = time.monotonic()
    outcomes = meet(boxes, [sh("exit 3"), sh('sleep 0.1; cat "$1"; echo end', ONE)], [Link(0, 1, held=hold)])
    assert [outcome.exit_code for outcome in outcomes] == [3, 0]
    assert [closed(outcome) for outcome in outcomes] == [b"", b"end\n"]
    assert time.monotonic() < begin + 2


def test_output_to_an_ended_program_is_discarded(boxes):
    outcomes = meet(boxes, [sh('head -c 300000 /dev/zero > "$1"; echo $?', ONE), sh("exit 0")], [Link(0, 1)])
    assert [closed(outcome) for outcome in outcomes] == [b"0\n", b""]


def test_closing_early_is_seen_and_a_held_end_is_not(boxes):
    writer = 'echo x > "$1"; sleep 0.4'
    reader = 'cat "$1" > /dev/null; date +%s%N'
    before = time.time_ns()
    _, reading = meet(boxes, [sh(writer, ONE), sh(reader, ONE)], [Link(0, 1)])
    early = int(closed(reading)) - before
    before = time.time_ns()
    ended, reading = meet(boxes, [sh(writer, ONE), sh(reader, ONE)], [Link(0, 1, held=True)])
    late = int(closed(reading)) - before
    assert early < 0.3e9
    assert late >= 0.4e9
    assert ended.ended < reading.ended
    ended.close()


def test_cpu_time_of_counted_ones_is_limited_together(boxes):
    burn = "while :; do :; done"
    limits = LIMITS.model_copy(update={"cpu": 0.3})
    outcomes = meet(boxes, [sh(burn, limits=limits), sh(burn, limits=limits)], [Link(0, 1)])
    assert all(outcome.killed == {Killed.CPU} for outcome in outcomes)
    assert 0.3 < sum(outcome.cpu for outcome in outcomes) < 0.45
    close(outcomes)


def test_an_end_that_settles_it_kills_all_others(boxes):
    outcomes = meet(
        boxes, [sh("exit 1"), sh("sleep 9"), sh('cat "$1"; sleep 9', ONE)], [Link(1, 2)], lambda number, *_: number == 0
    )
    assert [outcome.killed for outcome in outcomes] == [set(), {Killed.CANCELLED}, {Killed.CANCELLED}]
    close(outcomes)


def arguments() -> set[bytes]:
    """Of all that runs on this host."""
    words: set[bytes] = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words |= set(path.read_bytes().split(b"\0"))
    return words


def test_cancelling_ends_all(boxes):
    """Both programs under way: what is cancelled before its program has begun was not killed.

    The reader goes on after the end of its pipe: on a busy host the writer's end is seen before the reader is killed.
    """
    reading, writing = os.pipe()
    # Of this run alone: another one may be under way on this host.
    first_mark, second_mark = (f"9.{os.getpid():07}{number}" for number in (1, 3))
    marks = {first_mark.encode(), second_mark.encode()}

    def cancel() -> None:
        wait_for(lambda: marks <= arguments(), what="two programs under way")
        os.write(writing, b"x")

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(cancel)
        commands = [sh(f'cat "$1" {first_mark}; sleep 9', ONE), sh(f'exec 5> "$1"; sleep {second_mark}', ONE)]
        outcomes = meet(boxes, commands, [Link(1, 0, held=True)], cancel_fd=reading)
        future.result()
    assert all(Killed.CANCELLED in outcome.killed for outcome in outcomes)
    close(outcomes)
    os.close(reading)
    os.close(writing)


def test_a_program_has_only_its_own_ends_of_pipes(boxes):
    """The third program has one pipe to the first; of the pipe between the others it finds nothing."""
    script = (
        "ls -l /proc/self/fd > list; grep -c judge-pipe list; "
        "for fd in 3 4 5 6; do test -e /proc/self/fd/$fd && echo $fd; done; true"
    )
    outcomes = meet(boxes, [sh(script), sh(script), sh(script)], [Link(0, 1), Link(0, 2)])
    counts = [closed(outcome).split()[0] for outcome in outcomes]
    assert counts == [b"2", b"1", b"1"]


def test_a_pipe_is_no_way_to_the_host(boxes):
    script = """
    readlink /proc/self/fd/3 | grep -v judge-pipe
    ls /proc/self/fd/3/ 2>/dev/null; chmod 777 /proc/self/fd/3 2>/dev/null && echo changed
    cat /proc/self/fd/3/../x 2>/dev/null; touch -d 2001-01-01 /proc/self/fd/3 2>/dev/null && echo touched; exit 0
    """
    outcomes = meet(boxes, [sh(script), sh("exit 0")], [Link(0, 1)])
    assert closed(outcomes[0]) == b""
    outcomes[1].close()


def test_many_pipes_and_too_many(boxes):
    links = [Link(0, 1)] * 60
    outcomes = meet(
        boxes,
        [sh(f"ls /proc/self/fd | wc -l; cat < {path_of(59)}"), sh(f"echo x > {path_of(59)}")],
        [*links[:59], Link(1, 0)],
    )
    assert closed(outcomes[0]).split()[-1] == b"x"
    outcomes[1].close()
    with pytest.raises(UsageError, match="a run can have 68 of them"):
        boxes[0].run(sh("exit 0", pipes=[0] * 69))


def run(box, script: str, output: str | None = "out", **options):
    return box.run(sh(script, output=output, **options))


def content(outcome) -> bytes | None:
    with outcome:
        if outcome.file is None:
            return None
        return os.pread(outcome.file, 1 << 20, 0)


def test_files_lie_in_the_working_directory_of_one_run(boxes, tmp_path):
    (tmp_path / "blob").write_bytes(b"from a blob\n")
    files = {"in": b"one\n", "sub/two": tmp_path / "blob"}
    assert content(run(boxes[0], "cat in sub/two > out; echo x >> in; rm sub/two; ls > /dev/null", files=files)) == (
        b"one\nfrom a blob\n"
    )
    assert closed(run(boxes[0], "ls -A; cat in 2>&1", None)) == b"cat: in: No such file or directory\n"
    assert (tmp_path / "blob").read_bytes() == b"from a blob\n"


@pytest.mark.parametrize(
    "script",
    [
        "true",
        "ln -s /etc/passwd out",
        "ln -s in out",
        "mkfifo out",
        "mkdir out",
        "mkdir out; chmod 0 out",
        "ln -s /proc/self/fd/1 out",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"out\")'",
    ],
)
def test_only_a_regular_file_is_taken(boxes, script):
    assert content(run(boxes[0], script, files={"in": b"x"})) is None


def test_a_file_without_permissions_and_one_in_a_locked_folder_are_taken(boxes):
    assert content(run(boxes[0], "echo x > out; chmod 0 out")) == b"x\n"
    assert content(run(boxes[0], "mkdir d; echo x > d/out; chmod 0 d", "d/out")) == b"x\n"
    assert content(run(boxes[0], "mkdir e; echo x > e/out; ln -s e d", "d/out")) is None


def test_a_huge_file_is_cut_and_counts_as_too_much_output(boxes):
    script = "trap '' XFSZ; head -c 3000000 /dev/zero > out; ls -l out >&2; true"
    with run(boxes[0], script) as outcome:
        assert Killed.OUTPUT in outcome.killed
        assert os.fstat(outcome.file).st_size == LIMITS.output
    with run(boxes[0], "trap '' XFSZ; truncate -s 900000000 out; true") as outcome:
        assert outcome.file is None or os.fstat(outcome.file).st_size <= LIMITS.output


def test_a_file_that_is_written_by_who_lives_on_is_as_it_was_at_the_end(boxes):
    script = "echo early > out; (while :; do echo late >> out; done) & sleep 0.05"
    with run(boxes[0], script) as outcome:
        size = os.fstat(outcome.file).st_size
        assert {os.fstat(outcome.file).st_size for _ in range(5_000)} == {size}
        assert os.pread(outcome.file, 6, 0) == b"early\n"
    assert closed(run(boxes[0], "ls -A", None)) == b""


@pytest.mark.parametrize("name", ["../x", "/x", "a/../b", ""])
def test_names_that_lead_out_are_refused(boxes, name):
    with pytest.raises(UsageError):
        run(boxes[0], "true", name)
    with pytest.raises(UsageError):
        run(boxes[0], "true", None, files={name: b"x"})
