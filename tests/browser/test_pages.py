"""People at the pages: real browser, real uWSGI, real judicator; the executor is a client of the protocol."""

import pytest
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from judge.model import messages as m
from tests.support.gateway import ADMIN, USER
from tests.support.judicators import accepted
from tests.support.servers import wait_for

pytestmark = pytest.mark.browser

PROGRAM = (
    '#include <stdio.h>\nint main(void) {\n    int a, b;\n    scanf("%d %d", &a, &b);\n    printf("%d\\n", a + b);\n}\n'
)


@pytest.fixture(scope="module")
def executor(world):
    executor = world.executor("executor-1", slots=2, languages=("c", "cpp", "python3"))
    executor.report(vacant=0)
    return executor


def task_of(browser):
    wait_for(lambda: "/submissions/" in browser.driver.current_url, what="the page of the submission")
    return browser.driver.current_url.rstrip("/").rpartition("/")[2]


def take(executor, task):
    wait_for(lambda: executor.report() and task in executor.work, what="the task at the executor")
    return executor.work[task]


def result(*verdicts):
    tests = [
        m.TestResult(
            name=f"{'sample' if number == 1 else 'secret'}/{number}", verdict=verdict, cpu=0.0021 * number,
            wall=0.004 * number, memory=1_600_000 + 90_000 * number, output="3\n", output_bytes=2,
            message="" if verdict == "AC" else "token 1 on line 1: judge has 4, you have 3",
        )
        for number, verdict in enumerate(verdicts, 1)
    ]  # fmt: skip
    return m.Result(
        tests=tests, cpu=max(test.cpu for test in tests), wall=max(test.wall for test in tests),
        memory=max(test.memory for test in tests), language_version="gcc (Debian 12.2.0-14+deb12u1) 12.2.0",
        compile=m.RunUsage(cpu=0.04, wall=0.06, memory=30_000_000, exit_code=0), limits=m.Limits(),
        judge_version="0.1.0", sandbox="slot 0, core 1",
        compile_log="main.c:4:5: warning: ignoring return value of 'scanf' [-Wunused-result]\n",
    )  # fmt: skip


def wrong(assignment):
    return accepted(assignment, status="run_failed", verdict="WA", result=result("AC", "AC", "WA"))


def submit(browser, **fields):
    browser.go("/submit")
    browser.fill(**{"language": "c", "source": PROGRAM, **fields})
    browser.press("Submit")
    return task_of(browser)


def test_the_page_of_a_submission_follows_it_to_the_verdict(chrome, executor):
    browser = chrome(USER)
    task = submit(browser)
    browser.sees("Waiting")
    browser.driver.execute_script("window.sameDocument = true")
    assignment = take(executor, task)
    executor.works_on(task, "test 2 of 3")
    browser.sees("Running Cancel test 2 of 3")
    browser.shot("live-running")
    executor.report(wrong(assignment), vacant=0)
    browser.sees("WA Wrong answer", timeout=5)
    assert "2 of 3 passed" in browser.text()
    assert "Cancel" not in browser.text()
    assert browser.driver.title.startswith("WA")
    assert browser.driver.execute_script("return window.sameDocument"), "the page was not loaded again"
    browser.sees("judge has 4, you have 3")  # the details of the test that decided are open
    browser.shot("live-verdict")
    assert browser.complaints() == []


def test_lists_follow_what_happens(chrome, executor):
    browser, second = chrome(USER), chrome(USER)
    task = submit(second)
    browser.go("/submissions")
    row = f"tr:has(a[title='{task}'])"
    assert "Waiting" in browser.text(row)
    executor.report(accepted(take(executor, task), result=result("AC")), vacant=0)
    browser.sees("Ran", row)
    assert browser.complaints() == []


def listed(browser) -> list[str]:
    """The submissions in the list; none while the page is being replaced."""
    try:
        return [link.get_attribute("title") for link in browser.driver.find_elements(By.CSS_SELECTOR, "a.id")]
    except WebDriverException:
        return []


def test_search_and_pages(chrome, executor):
    browser = chrome(USER)
    task = submit(browser)
    executor.report(wrong(take(executor, task)), vacant=0)
    two = submit(browser)
    executor.report(accepted(take(executor, two), result=result("AC")), vacant=0)
    browser.go("/submissions")
    browser.fill(verdict="WA")
    browser.press("Search")
    wait_for(lambda: task in listed(browser) and two not in listed(browser), what="the page of those found")
    browser.fill(problem="nothing-of-this-name")
    browser.press("Search")
    browser.sees("No submission matches")
    browser.go("/submissions?limit=1")
    browser.driver.find_element(By.LINK_TEXT, "Older").click()
    browser.sees("Newest")
    wait_for(lambda: listed(browser) == [task], what="the older one")


def test_cancel(chrome):
    browser = chrome(USER)
    submit(browser)
    browser.sees("Waiting")
    browser.press("Cancel")
    browser.sees("Cancelled.", ".note")
    browser.sees("Cancelled", ".headline")


def test_drain_and_resume(chrome, executor):
    browser = chrome(ADMIN)
    browser.go("/executors")
    browser.fill(reason="a new disk")
    browser.press("Drain", ".executor")
    browser.sees("Takes no more work: a new disk")
    browser.shot("drained")
    browser.press("Resume", ".executor")
    browser.sees("executor-1 takes work again")
    browser.sees("Drain", ".executor")


def test_a_file_that_is_no_source_loses_nothing(chrome, executor, tmp_path):
    browser = chrome(USER)
    (tmp_path / "prog.c").write_bytes(b"\x7fELF\0\0")
    browser.go("/submit")
    browser.element("main details summary").click()
    browser.fill(language="python3", source="typed before", stdin="1 2", cpu="1.5", file=str(tmp_path / "prog.c"))
    browser.press("Submit")
    browser.sees("The source contains a NUL byte, so it is not text", ".field.wrong")
    assert browser.element("[name=source]").get_attribute("value") == "typed before"
    assert browser.element("[name=stdin]").get_attribute("value") == "1 2"
    assert browser.element("[name=cpu]").get_attribute("value") == "1.5"
    assert browser.element("[name=language]").get_attribute("value") == "python3"
    browser.shot("submit-binary")


@pytest.mark.parametrize("look", [{}, {"javascript": False, "width": 390}], ids=["usual", "narrow-without-script"])
def test_files_are_handed_in_and_shown_one_by_one(chrome, executor, tmp_path, look):
    files = {"six.h": b"int six(void);\r\n", "six.c": b"int six(void) { return 6; } // caf\xe9\n", "notes.txt": b""}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    browser = chrome(USER, **look)
    browser.go("/submit")
    browser.fill(file="\n".join(str(tmp_path / name) for name in files), entry="six.c")
    browser.shot("submit-files")
    browser.press("Submit")
    task = task_of(browser)
    browser.sees("3 files, started: six.c")
    handed = take(executor, task).submission
    assert (handed.language, handed.entry) == ("c", "six.c")
    assert {file.name: file.data for file in handed.files} == files
    executor.report(accepted(executor.work[task], result=result("AC")), vacant=0)
    browser.sees("Ran", ".headline")
    for words in ("six.h 16 bytes", "int six(void);", "It is not UTF-8 text", "notes.txt 0 bytes", "It is empty."):
        assert words in browser.text(), browser.text()
    links = [link.get_attribute("href") for link in browser.driver.find_elements(By.LINK_TEXT, "Download")]
    assert [link.rpartition("=")[2] for link in links] == list(files)
    assert len(browser.driver.find_elements(By.LINK_TEXT, "Download all")) == 1
    browser.shot("submission-files")
    assert browser.complaints() == []


def test_a_bad_choice_of_files_is_one_sentence(chrome, executor, tmp_path):
    browser = chrome(USER)
    (tmp_path / "a.c").write_text("x")
    (tmp_path / "b.py").write_text("x")
    browser.go("/submit")
    browser.fill(file=f"{tmp_path}/a.c\n{tmp_path}/b.py")
    browser.press("Submit")
    browser.sees("Could be c or python3", ".field.wrong")


def test_an_ended_session_asks_for_the_token_and_comes_back(chrome, executor):
    browser = chrome(ADMIN)
    browser.go("/executors")
    browser.driver.delete_all_cookies()
    browser.sees("You need a name", timeout=15)
    browser.fill(token="wrong")
    browser.press("Log in")
    browser.sees("This token is unknown")
    browser.fill(token=ADMIN)
    browser.press("Log in")
    browser.sees("executor-1")
    browser.press("Log out", ".top")
    browser.sees("You need a name")


def test_everything_works_without_javascript(chrome, executor, tmp_path):
    browser = chrome(ADMIN, javascript=False)
    (tmp_path / "sum.c").write_text(PROGRAM)
    browser.go("/submit")
    browser.fill(file=str(tmp_path / "sum.c"))
    browser.press("Submit")
    task = task_of(browser)
    browser.sees("Waiting")
    executor.report(accepted(take(executor, task), result=result("AC", "AC")), vacant=0)
    browser.sees("Ran", ".headline")
    browser.shot("no-javascript")
    browser.go("/submissions?verdict=AC")
    assert task in [link.get_attribute("title") for link in browser.driver.find_elements(By.CSS_SELECTOR, "a.id")]
    submit(browser)
    browser.press("Cancel")
    browser.sees("Cancelled")
    browser.go("/executors")
    browser.press("Drain", ".executor")
    browser.sees("Takes no more work")
    browser.press("Resume", ".executor")
    browser.sees("executor-1 takes work again")


def test_a_rejudging_from_choice_to_apply(chrome, executor):
    browser = chrome(ADMIN)
    ids = []
    for verdict in ("WA", "TLE", "AC"):
        ids.append(submit(browser))
        status = "success" if verdict == "AC" else "run_failed"
        completion = accepted(take(executor, ids[-1]), status=status, verdict=verdict, result=result("AC", verdict))
        executor.report(completion, vacant=0)
    browser.driver.find_element(By.LINK_TEXT, "Rejudgings").click()
    browser.fill(ids=" ".join(ids))
    browser.press("Preview")
    browser.sees("3 submissions would be judged again")
    browser.shot("rejudge-preview")
    browser.fill(reason="The answer of test 2 was wrong")
    browser.press("Rejudge")
    browser.sees("0 of 3 judged")
    browser.shot("rejudge-running")
    for _ in ids:
        wait_for(lambda: executor.report(vacant=1) and executor.work, what="a run at the executor")
        (assignment,) = executor.work.values()
        executor.report(accepted(assignment, result=result("AC", "AC")), vacant=0)
    browser.sees("Finished: apply or cancel")
    browser.sees("Apply 2 changes")
    browser.shot("rejudge-finished")
    browser.press("Apply 2 changes")
    browser.sees("Its verdicts count now.", ".note")
    browser.sees("Applied")
    browser.shot("rejudge-applied")
    browser.go(f"/submissions/{ids[0]}")
    browser.sees("Earlier verdicts")
    browser.sees("Ran", ".headline")
    browser.sees("The answer of test 2 was wrong")
    browser.element("#t-1 summary").click()
    browser.sees("Peak memory")
    browser.shot("rejudge-evidence")
    # On a busy machine a status may come late (504); what the policy forbids or a script breaks on never may.
    assert [text for text in browser.complaints() if "Failed to load resource" not in text] == []


def test_the_editor_colours_indents_guesses_and_lets_the_keyboard_go(chrome, executor):
    browser = chrome(USER)
    browser.go("/submit")
    assert not browser.all("script[src*=codemirror]"), "it loads when somebody uses the field"
    browser.element("#source").send_keys("#")
    wait_for(lambda: browser.all(".CodeMirror"), what="the editor")
    keys = browser.driver.switch_to.active_element
    keys.send_keys("include <iostream>", Keys.ENTER)
    mode = "return document.querySelector('.CodeMirror').CodeMirror.getMode().name"
    wait_for(lambda: browser.driver.execute_script(mode) == "clike", what="the colours of C++")
    keys.send_keys("int main() {", Keys.ENTER, "return 0;")
    typed = browser.driver.execute_script("return document.querySelector('.CodeMirror').CodeMirror.getValue()")
    assert typed == "#include <iostream>\nint main() {\n    return 0;\n}"
    assert browser.element("main [name=language]").get_attribute("value") == "cpp"
    browser.sees("It looks like C++")
    assert browser.driver.find_elements(By.CSS_SELECTOR, ".CodeMirror .cm-meta, .CodeMirror .cm-keyword, .cm-type")
    keys.send_keys(Keys.TAB)
    assert browser.driver.switch_to.active_element == keys, "Tab indents"
    keys.send_keys(Keys.ESCAPE, Keys.TAB)
    assert browser.driver.switch_to.active_element != keys, "after Escape it goes to the next field"
    # A person who has chosen a language keeps it, whatever the text looks like.
    browser.fill(language="c", source="print(1)\n")
    assert browser.element("main [name=language]").get_attribute("value") == "c"
    browser.press("Submit")
    task = task_of(browser)
    assert take(executor, task).submission.source == "print(1)\n"
    assert browser.complaints() == []


def test_the_editor_is_dark_where_the_page_is(chrome, executor):
    browser = chrome(USER, dark=True)
    browser.go("/submit")
    browser.fill(language="c", source='#include <stdio.h>\nint main(void) { return sizeof("six"); } // one\n')
    ground, ink = (
        browser.driver.execute_script(f"return getComputedStyle(document.querySelector('.CodeMirror')).{name}")
        for name in ("backgroundColor", "color")
    )
    assert (ground, ink) == ("rgb(17, 22, 30)", "rgb(228, 233, 241)")
    assert browser.barriers() == []


def test_a_compilers_messages_lead_to_their_lines(chrome, executor):
    browser = chrome(USER)
    task = submit(browser)
    failed = m.Result(
        compile_log="main.c:4:5: error: <expected> ';'\n/usr/include/stdio.h:4:5: note: here\nmain.c:400: none\n",
        reason="the compiler ended with exit code 1", compile=m.RunUsage(cpu=0.1, wall=0.1, memory=9, exit_code=1),
    )  # fmt: skip
    executor.report(accepted(take(executor, task), status="compile_failed", verdict="CE", result=failed), vacant=0)
    browser.sees("CE Compile error")
    links = browser.driver.find_elements(By.CSS_SELECTOR, "pre.box a")
    assert [link.text for link in links] == ["main.c:4"]
    links[0].click()
    assert browser.driver.execute_script("return document.querySelector(':target').textContent") == (
        '    scanf("%d %d", &a, &b);\n'
    )
    assert browser.complaints() == []


def test_output_beside_the_answer(chrome, executor, world):
    tests = [m.Test(name="one", input="", answer="1\n2 3\n4\n")]
    submission = m.Submission(user="ada", language="python3", source="print()", tests=tests)
    task = world.client().call("add", submission, m.AddReply).task.id
    test = m.TestResult(name="one", verdict="WA", cpu=0.1, wall=0.1, memory=9, output="1\n2 5\n4\n", output_bytes=8)
    answer = accepted(take(executor, task), status="run_failed", verdict="WA", result=m.Result(tests=[test]))
    executor.report(answer, vacant=0)
    browser = chrome(ADMIN)
    browser.go(f"/submissions/{task}")
    browser.sees("Output beside the answer")
    assert [mark.text for mark in browser.driver.find_elements(By.CSS_SELECTOR, ".diff mark")] == ["5", "3"]
    assert browser.text(".diff .differs") == "2 2 5 2 2 3"
    browser.shot("beside")
    assert browser.complaints() == []
