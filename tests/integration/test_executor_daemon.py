"""The executor daemon against a real judicator: judging, cancelling, draining, dying, and judging on alone."""

import contextlib
import hashlib
import os
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from judge.executor.storage.spool import Spool, Spooled
from judge.model.messages import Completed, Result, Status, Test, Verdict
from judge.model.problem import ProblemManifest, ProblemTest
from tests.support.executors import Cluster, Daemon, alive, started
from tests.support.sandbox import FULL_SANDBOX
from tests.support.servers import free_port, wait_for

pytestmark = FULL_SANDBOX

C_SUM = '#include <stdio.h>\nint main(void){long a,b;if(scanf("%ld%ld",&a,&b)!=2)return 1;printf("%ld\\n",a+b);}'
SUM = [Test(name=str(n), input=f"{n} {n + 1}\n", answer=f"{2 * n + 1}\n") for n in range(1, 4)]
LONG = {"command": "sleep 111.25", "limits": {"wall": 120}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, etcd_endpoint, mongod_address):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), etcd_endpoint, mongod_address)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(autouse=True)
def no_task_is_left(cluster):
    """A test that fails leaves no work to the executor of the next one."""
    yield
    cluster.cancel_all()


@pytest.fixture
def name(request):
    return "e-" + hashlib.sha256(request.node.name.encode()).hexdigest()[:8]


@contextlib.contextmanager
def vacant(cluster: Cluster, daemon: Daemon):
    """A started executor that asks for work."""
    with started(daemon):
        wait_for(lambda: running(daemon) and cluster.vacant(daemon), what="a vacant executor")
        yield daemon


def running(daemon: Daemon) -> bool:
    assert daemon.process is not None
    assert daemon.process.poll() is None, daemon.log.read_text(errors="replace")[-3000:]
    return True


def test_judges_and_stays_clean(cluster, name):
    executor = cluster.executor(name)
    with vacant(cluster, executor):
        state = cluster.state(executor)
        assert state.info.slots == 1
        assert {"c", "cpp", "python3"} <= set(state.info.languages)
        task = cluster.done(cluster.add(language="c", source=C_SUM, tests=SUM).id)
        assert (task.verdict, task.status, task.judged_by) == (Verdict.AC, Status.SUCCESS, "e1")
        assert "gcc" in task.result.language_version
        assert len(task.result.tests) == 3
        tasks = [cluster.add(language="c", source=C_SUM, tests=SUM) for _ in range(10)]
        assert {cluster.done(task.id).verdict for task in tasks} == {Verdict.AC}
        assert cluster.done(cluster.add(command="cat", stdin="hello").id).result.stdout == "hello"
        slots = executor.children()
        assert len(slots) == 1
        assert executor.stop() == 0
    assert not any(Path(f"/proc/{slot}").exists() for slot in slots)
    assert not list(Path(executor.config["work_dir"], "outputs").iterdir())
    assert not list(Path(executor.config["work_dir"], "spool").iterdir())


def test_an_executor_that_starts_without_etcd_judges(cluster, name):
    executor = cluster.executor(name)
    with vacant(cluster, executor):
        wait_for(Path(executor.config["work_dir"], "judicators").exists, what="the file of judicators")
    etcd = {**executor.config["etcd"], "endpoints": [f"127.0.0.1:{free_port()}"]}
    executor.config["etcd"] = etcd
    with started(executor):
        task = cluster.done(cluster.add(command="cat", stdin="hello").id)
        assert task.result.stdout == "hello"


def test_a_problem_and_a_big_output(cluster, name):
    blobs = {text: cluster.rpc.put_blob(text.encode()) for text in ("1 2\n", "3\n", "5 5\n", "10\n")}
    tests = [
        ProblemTest(name="sample/1", input=blobs["1 2\n"], answer=blobs["3\n"]),
        ProblemTest(name="secret/1", input=blobs["5 5\n"], answer=blobs["10\n"]),
    ]
    manifest = cluster.rpc.put_blob(ProblemManifest(name="sum", tests=tests).model_dump_json().encode())
    cluster.import_problem(manifest)
    executor = cluster.executor(name)
    with vacant(cluster, executor):
        task = cluster.done(cluster.add(language="c", source=C_SUM, problem="sum").id)
        assert task.verdict is Verdict.AC, task.result
        assert [test.name for test in task.result.tests] == ["sample/1", "secret/1"]
        # Damage in the cache never decides: the blob is fetched again.
        cached = next(Path(executor.config["work_dir"], "blobs").rglob(blobs["10\n"]))
        cached.chmod(0o644)
        cached.write_bytes(b"11\n")
        assert cluster.done(cluster.add(language="c", source=C_SUM, problem="sum").id).verdict is Verdict.AC
        inputs = [Test(name="1", input_blob=cluster.rpc.put_blob(b"from a blob"), answer="from a blob")]
        assert cluster.done(cluster.add(command="cat", tests=inputs).id).verdict is Verdict.AC
        task = cluster.done(cluster.add(command="head -c 200000 /dev/zero").id)
        assert task.result.stdout is None
        assert task.result.stdout_blob == hashlib.sha256(b"\0" * 200000).hexdigest()
        assert cluster.rpc.has_blob(task.result.stdout_blob)
        wait_for(lambda: not list(Path(executor.config["work_dir"], "outputs").iterdir()), what="a clean directory")


def test_cancel_while_running(cluster, name):
    with vacant(cluster, cluster.executor(name)):
        task = cluster.running(cluster.add(**LONG).id)
        assert alive("sleep 111.25")
        began = time.monotonic()
        assert cluster.cancel(task.id).status is Status.CANCELLED
        wait_for(lambda: not alive("sleep 111.25"), what="the end of its processes")
        assert time.monotonic() - began < 20, "a report interval of 0.5 s, and the kill; room for a busy machine"
        # The slot lives on and judges the next one.
        assert cluster.done(cluster.add(command="echo next").id).result.stdout == "next\n"
        assert cluster.get(task.id).status is Status.CANCELLED


def test_drain_and_resume(cluster, name):
    executor = cluster.executor(name)
    with vacant(cluster, executor):
        first = cluster.add(command="sleep 4; echo done")
        cluster.running(first.id)
        assert cluster.drain("e1", True).drain
        second = cluster.add(command="echo later")
        assert cluster.done(first.id).result.stdout == "done\n", "the work in hand is finished"
        wait_for(lambda: executor.log_has("drained: no more tasks"), what="the drained state")
        assert cluster.get(second.id).status is Status.PENDING
        cluster.drain("e1", False)
        assert cluster.done(second.id).verdict is Verdict.AC


def test_a_killed_slot_is_replaced_and_its_task_retried(cluster, name):
    executor = cluster.executor(name)
    with vacant(cluster, executor):
        task = cluster.add(command="test -e /box/never && exit 1; sleep 4; echo ok", limits={"wall": 30})
        cluster.running(task.id)
        (slot,) = executor.children()
        os.kill(slot, signal.SIGKILL)
        final = cluster.done(task.id)
        assert (final.verdict, final.result.stdout, final.attempt) == (Verdict.AC, "ok\n", 2)
        assert "SIGKILL" in final.history[0].reason
        assert executor.children() != [slot]


def test_a_killed_executor_restarts_and_gives_back_at_once(cluster, name):
    executor = cluster.executor(name)
    with vacant(cluster, executor):
        task = cluster.running(cluster.add(command="sleep 3.25; echo ok", limits={"wall": 30}).id)
        executor.stop(signal.SIGKILL)
        wait_for(lambda: not alive("sleep 3.25"), what="the end of the sandbox with its executor")
        executor.start()
        final = cluster.done(task.id)
        assert (final.result.stdout, final.attempt) == ("ok\n", 2)
        # By the incarnation in the first report, not by the judicators' patience.
        assert final.history[0].reason == "the executor restarted"


def test_sigterm_gives_back_at_once_without_a_strike(cluster, name):
    executor = cluster.executor(name, stop_grace=20)
    with vacant(cluster, executor):
        task = cluster.running(cluster.add(**LONG).id)
        began = time.monotonic()
        assert executor.stop() == 0
        assert time.monotonic() - began < 15
        after = cluster.get(task.id)
        assert after.status is Status.RETRYING
        assert after.history[-1].reason == "the executor is stopping"
        assert not alive("sleep 111.25")
        cluster.cancel(task.id)


def spooled(executor: Daemon) -> list[Path]:
    return list(Path(executor.config["work_dir"], "spool").glob("*.json"))


def test_judging_goes_on_without_judicators(cluster, name):
    executor = cluster.executor(name)
    with vacant(cluster, executor):
        plain = cluster.add(command="sleep 4; echo done")
        cluster.running(plain.id)
        cluster.judicator.stop(signal.SIGKILL)
        try:
            wait_for(lambda: spooled(executor), what="a spooled result")
            assert executor.log_has("judging goes on")
        finally:
            cluster.start()
        final = cluster.done(plain.id)
        assert (final.result.stdout, final.attempt) == ("done\n", 1)
        wait_for(lambda: not spooled(executor), what="an empty spool")
        assert executor.log_has("take reports again")


def test_a_spooled_result_survives_the_executor(cluster, name):
    executor = cluster.executor(name)
    with vacant(cluster, executor):
        # One with its output inside, one whose output must still be uploaded by the next life.
        task = cluster.add(command="sleep 4; head -c 100000 /dev/zero")
        cluster.running(task.id)
        cluster.judicator.stop(signal.SIGKILL)
        try:
            wait_for(lambda: spooled(executor), what="a spooled result")
            executor.stop(signal.SIGKILL)
        finally:
            cluster.start()
        executor.start()
        final = cluster.done(task.id)
        assert final.attempt == 1, final.history
        assert cluster.rpc.has_blob(final.result.stdout_blob)
        wait_for(lambda: not spooled(executor), what="an empty spool")


def test_a_stale_spool_is_void(cluster, name):
    executor = cluster.executor(name)
    spool = Spool(Path(executor.config["work_dir"], "spool"), 1 << 20)
    task = cluster.add(command="echo right")
    wrong = Completed(
        id=task.id, attempt=1, claim="old", status=Status.SUCCESS, verdict=Verdict.AC, result=Result(stdout="wrong")
    )
    spool.write(Spooled(completed=wrong))
    with vacant(cluster, executor):
        assert cluster.done(task.id).result.stdout == "right\n"
        assert not spooled(executor)


def test_a_full_disk_takes_no_tasks(cluster, name):
    executor = cluster.executor(name, min_free_bytes=1 << 60)
    with started(executor):
        wait_for(lambda: running(executor) and cluster.state(executor), what="the first report")
        wait_for(lambda: executor.log_has("no room under"), what="the log line")
        state = cluster.state(executor)
        assert state.vacant == 0
        wait_for(lambda: any("FAIL disk" in check for check in cluster.state(executor).info.checks), what="the finding")
        task = cluster.add(command="echo x")
        wait_for(lambda: cluster.state(executor).info.languages, what="the languages")
        assert cluster.get(task.id).status is Status.PENDING
        cluster.cancel(task.id)
        assert executor.stop() == 0


def test_a_disk_that_fills_up_and_gets_room_again(cluster, name):
    executor = cluster.executor(name, min_free_bytes=4 << 20)
    work = Path(executor.config["work_dir"])
    work.mkdir()
    mount = f'mount -t tmpfs -o size=8m,mode=0700 tmpfs {work} && exec "$@"'
    executor.prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh"]
    with vacant(cluster, executor):
        inside = Path(f"/proc/{executor.process.pid}/root{work}")
        task = cluster.add(command="sleep 4; echo kept")
        cluster.running(task.id)
        with contextlib.suppress(OSError), (inside / "filler").open("wb") as file:
            while True:
                file.write(b"x" * 4096)
        wait_for(lambda: executor.log_has("no room under"), what="the log line")
        cluster.judicator.stop(signal.SIGKILL)
        try:
            # No judicator and no room: the result waits in memory.
            wait_for(lambda: executor.log_has("cannot be spooled"), what="a result in memory")
        finally:
            cluster.start()
        assert cluster.done(task.id).result.stdout == "kept\n"
        wait_for(lambda: cluster.state(executor).vacant == 0, what="no vacancy")
        (inside / "filler").unlink()
        wait_for(lambda: cluster.vacant(executor), what="a vacant executor")
        assert executor.log_has("room again under")
        assert cluster.done(cluster.add(command="echo more").id).result.stdout == "more\n"


def test_two_slots_judge_at_once(cluster, name):
    executor = cluster.executor(name, slots=2)
    with vacant(cluster, executor):
        wait_for(lambda: cluster.state(executor).vacant == 2, what="two vacant slots")
        tasks = [cluster.add(command="sleep 4") for _ in range(3)]
        for task in tasks[:2]:
            cluster.running(task.id)
        assert cluster.get(tasks[2].id).status is Status.PENDING
        assert len(executor.children()) == 2
        assert {cluster.done(task.id).verdict for task in tasks} == {Verdict.AC}


def test_an_idle_slot_helps_and_comes_back_for_a_task(cluster, name):
    executor = cluster.executor(name, slots=2, log_level="debug")
    tests = [Test(name=f"{n:02d}", input=str(n), answer=str(n)) for n in range(10)]
    with vacant(cluster, executor):
        wait_for(lambda: cluster.state(executor).vacant == 2, what="two vacant slots")
        quick = cluster.add(command="sleep 0.3; cat", tests=tests, limits={"wall": 60})
        final = cluster.done(quick.id)
        assert (final.verdict, final.attempt) == (Verdict.AC, 1)
        assert [test.name for test in final.result.tests] == [test.name for test in tests]
        wait_for(lambda: executor.log_has(r"slot 1 ran [1-9]\d* tests for another"), what="a slot that has helped")
        slow = cluster.add(command="sleep 111.5", tests=tests, limits={"wall": 120})
        wait_for(lambda: executor.log_has(f"slot 1 helps with task {slow.id}"), what="a slot that helps")
        wait_for(lambda: cluster.state(executor).vacant == 1, what="a slot that counts as vacant")
        quick_task = cluster.done(cluster.add(command="echo at once").id)
        assert (quick_task.result.stdout, quick_task.attempt) == ("at once\n", 1)
        assert not cluster.get(slow.id).done, "nobody waited for its tests to end"
        cluster.cancel(slow.id)
        wait_for(lambda: not alive("111.5"), what="the end of all its programs")
        wait_for(lambda: cluster.state(executor).vacant == 2, what="two vacant slots")
        assert not executor.log_has("ended while judging")
    assert not executor.log_has("Traceback")


def test_two_executors_never_share_a_directory(cluster, name):
    executor = cluster.executor(name)
    with vacant(cluster, executor):
        second = Daemon("executor", {**executor.config, "name": "e2"}, cluster.directory)
        with started(second):
            assert second.process.wait(30) == 3
        assert second.log_has("is in use by another executor")


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"work_dir": "/proc/nowhere"}, 2, "work_dir /proc/nowhere cannot be used"),
        ({"tls": {"ca": "/nope", "cert": "/nope", "key": "/nope"}}, 2, "/nope cannot be read"),
        ({"cores": [4000], "slots": "auto"}, 3, "core 4000 is not one"),
    ],
)
def test_settings_that_cannot_be_used(cluster, name, settings, code, words):
    executor = cluster.executor(name, **settings)
    with started(executor):
        assert executor.process.wait(30) == code
    assert executor.log_has(words)
    assert not executor.log_has("Traceback")


def test_a_replaced_executor_ends(cluster, name, work):
    """Two processes with one name: the older one hears it and ends, so that boot can decide."""
    first = cluster.executor(name)
    with vacant(cluster, first):
        config = {**first.config, "work_dir": str(work / "elsewhere")}
        second = Daemon("executor", config, work)
        with started(second):
            assert first.process.wait(30) == 1
            assert first.log_has("out of date")
            assert second.process.poll() is None


def test_starts_before_its_judicators(cluster, name):
    executor = cluster.executor(name)
    cluster.judicator.stop(signal.SIGTERM)
    with started(executor):
        wait_for(lambda: running(executor) and executor.log_has("reports are not taken"), what="the log line")
        cluster.start()
        wait_for(lambda: cluster.vacant(executor), what="a vacant executor")
        text = executor.log.read_text()
        assert text.count("reports are not taken") == 1, "told once per change"


def test_metrics(cluster, name):
    port = free_port()
    with vacant(cluster, cluster.executor(name, metrics=f"127.0.0.1:{port}")):
        cluster.done(cluster.add(command="true").id)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
    assert 'judge_executor_judged_total{verdict="AC"} 1.0' in text
    assert 'judge_executor_slots{state="all"} 1.0' in text
    assert "judge_executor_sandbox_overhead_seconds_count 1.0" in text
