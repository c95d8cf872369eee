"""A problem as people see it: its page, its statement in the API, which files anybody may have. Prepared cluster."""

import html
import io
import re

import pytest

from judge.config.allowance import Allowance
from judge.model import messages as m
from judge.model.overview import ExecutorsReply, UsageReply
from judge.model.problem import ProblemInfo, ProblemProgram, ProblemsReply, Verification, VerificationReply, VerifiedRow
from judge.model.statements import PagesReply
from judge.problems.package import manifest_bytes
from tests.support.gateway import (
    ADMIN,
    ID,
    USER,
    Browser,
    Person,
    Prepared,
    check,
    executor_state,
    gateway_config,
    healthy,
    make_task,
    serving_app,
)
from tests.support.pages import interactive, pdf, problem, statement


@pytest.fixture(scope="module")
def judicator(tmp_path_factory, etcd_endpoint):
    with Prepared(tmp_path_factory.mktemp("judicator"), etcd_endpoint).serving() as judicator:
        yield judicator


@pytest.fixture(scope="module")
def app(judicator, tmp_path_factory):
    settings = gateway_config(judicator, tmp_path_factory.mktemp("gw"), rpc_timeout=5.0)
    with serving_app(settings) as app:
        yield app


def info(judicator, manifest):
    return ProblemInfo(
        name=manifest.name, title=manifest.title, hash=judicator.put(manifest_bytes(manifest)), limits=manifest.limits,
        tests=len(manifest.tests), kind=manifest.kind, languages=manifest.languages,
    )  # fmt: skip


@pytest.fixture
def prepare(judicator):
    """Prepares the cluster's answers; call it with the problems that it has."""
    judicator.answers.clear()

    def answers(*manifests):
        judicator.answers |= {
            "status": healthy(),
            "executors": ExecutorsReply(executors=[executor_state()]),
            "problems": ProblemsReply(problems=[info(judicator, manifest) for manifest in manifests]),
            "problem_verification": VerificationReply(),
            "usage": UsageReply(allowance=Allowance(), waiting=0, running=0),
            "add": lambda request: m.AddReply(task=make_task(submission=request), created=True),
        }
        judicator.tasks(make_task(problem=m.ProblemRef(name="caves", hash="a" * 64)))
        return judicator

    return answers


@pytest.fixture
def caves(judicator, prepare):
    manifest = problem(judicator.put)
    prepare(manifest)
    return manifest


@pytest.fixture
def ada(app, caves):
    return Browser(app.test_client(), USER)


@pytest.fixture
def person(app):
    return Person(app.test_client(), USER)


@pytest.fixture
def root(app):
    return Person(app.test_client(), ADMIN)


def words(page):
    """What a person reads of a page."""
    text = re.sub(r"<[^>]+>", " ", page.text[page.text.index("<main") :])
    return " ".join(html.unescape(text).split())


# --- the page -----------------------------------------------------------------------------------------------------


def test_the_page_has_all_that_one_needs_to_solve_it(ada):
    page = ada.get("/problems/caves")
    assert page.status_code == 200
    text = words(page)
    assert page.text.count('<h1 dir="auto">Cave Walk</h1>') == 1 and "<h2>Cave Walk" not in page.text
    for sentence in (
        "CPU time limit 2 s", "Memory limit 1 GiB", "You walk through a cave", "Sample input 1 Copy Download 3 2 5 9 4",
        "Sample output 2 Copy Download impossible", "Sample input 3", "rooms.txt", "tools/view.py", "Your submissions",
        "2 times the slowest accepted submission of the package (810 ms), rounded up to a multiple of 1 s",
    ):  # fmt: skip
        assert sentence in text, text
    # The first sample stands where the statement says, the third, which it does not place, at its end.
    assert text.index("Sample input 1") < text.index("In the first sample") < text.index("Sample input 2")
    assert text.index("Sample input 2") < text.index("Scoring") < text.index("Sample input 3")
    assert "<math" in page.text and "{{" not in page.text and "$" not in text
    assert 'action="/problems/caves' in page.text


def test_the_policy_of_the_page_allows_its_pdf_and_nothing_more(ada):
    page = ada.get("/problems/caves")
    rules = dict(rule.split(" ", 1) for rule in page.headers["Content-Security-Policy"].split("; "))
    assert rules.pop("object-src") == rules.pop("frame-src") == "'self'"
    of_list = dict(rule.split(" ", 1) for rule in ada.get("/problems").headers["Content-Security-Policy"].split("; "))
    assert rules == of_list and "unsafe" not in str(rules)
    assert not re.search(r"<[^>]+\s(style|on\w+)=", page.text)


def test_the_browser_says_in_which_language(app, ada):
    def language_of(path="/problems/caves", accept=""):
        return ada.client.get(path, headers={"Accept-Language": accept})

    assert "Du går genom" in words(language_of(accept="sv-FI,sv;q=0.9,en;q=0.5"))
    assert "You walk" in words(language_of(accept="fr,en;q=0.5"))
    assert "You walk" in words(language_of(accept="fi"))  # the first there is
    chosen = language_of("/problems/caves?language=sv", "en")
    assert "Du går" in words(chosen) and '<article class="card statement" lang="sv" dir="ltr">' in chosen.text
    assert re.search(r'language=sv[^>]* lang="sv" dir="ltr" aria-current="true">Svenska<', chosen.text)
    assert "English, Text" in words(chosen) and "English, PDF" in words(chosen)
    assert "You walk" in words(language_of("/problems/caves?language=xx", "en"))
    assert "Grottvandring" in chosen.text


def test_a_pdf_is_shown_as_it_is(ada, caves):
    page = ada.get("/problems/caves?language=en&kind=pdf")
    sha = caves.statements[1].files["problem.en.pdf"]
    address = f"/api/v1/problems/caves/files/{sha}"
    assert f'<object class="pdf card" data="{address}#navpanes=0&amp;view=FitH" type="application/pdf"' in page.text
    assert "Sample input 1" in words(page)
    answer = ada.get(f"/api/v1/problems/caves/files/{sha}")
    assert answer.mimetype == "application/pdf" and answer.data == pdf("Cave Walk, as its author drew it")
    assert answer.headers["X-Frame-Options"] == "SAMEORIGIN" and answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Disposition"] == "inline; filename*=UTF-8''problem.en.pdf"


def test_a_problem_without_a_statement_has_a_page(app, prepare, judicator):
    prepare(problem(judicator.put, statements=[], attachments={}, limit_origin=None))
    page = Browser(app.test_client(), USER).get("/problems/caves")
    assert "came without a statement" in words(page) and "Sample input 1" in words(page)


def test_latex_that_became_no_page_is_a_download(app, prepare, judicator):
    source = statement(judicator.put, "en", "problem.en.tex", b"\\problemname{Caves}\nWalk.")
    prepare(problem(judicator.put, statements=[source]))
    page = Browser(app.test_client(), USER).get("/problems/caves")
    assert "could not be turned into a page" in words(page)
    assert f'/api/v1/problems/caves/files/{source.files["problem.en.tex"]}" download="caves.en.tex"' in page.text
    converted = source.model_copy(update={"html": judicator.put(b"<h1>Input</h1><p>Walk <math><mi>n</mi></math></p>")})
    prepare(problem(judicator.put, statements=[converted]))
    page = Browser(app.test_client(), USER).get("/problems/caves")
    assert "<h2>Input</h2><p>Walk <math><mi>n</mi></math></p>" in page.text and "Its source" not in page.text


def test_a_statement_that_cannot_be_shown_is_replaced_by_one_sentence(app, prepare, judicator):
    heavy = statement(judicator.put, "en", "problem.html", b"<div>" * 1000)
    prepare(problem(judicator.put, statements=[heavy]))
    page = Browser(app.test_client(), USER).get("/problems/caves")
    assert page.status_code == 200
    assert "The statement cannot be shown here: the statement has elements in elements" in words(page)
    assert "Its source can be downloaded" in words(page) and "Sample input 1" in words(page)


def test_a_statement_that_is_being_rendered_is_shown_by_the_next_load(app, person, prepare, judicator):
    prepare(problem(judicator.put, title="Deep Caves"))
    judicator.answers["problem_statements"] = PagesReply()
    browser = Browser(app.test_client(), USER)
    page = browser.get("/problems/caves?language=en")
    assert "The statement is being prepared" in words(page) and '<meta http-equiv="refresh"' in page.text
    assert "Sample input 1" in words(page) and "Its source can be downloaded" in words(page)
    statement_ = check(person("GET", "/problems/caves/statement?language=en"), 200, "statement")
    assert statement_["preparing"] and statement_["html"] is None and statement_["why"] == ""
    judicator.answers["problem_statements"] = PagesReply(why="the sandbox has no Python")
    assert "cannot be shown here: the sandbox has no Python." in words(browser.get("/problems/caves?language=en"))
    del judicator.answers["problem_statements"]
    page = browser.get("/problems/caves?language=en")
    assert "You walk" in words(page) and '<meta http-equiv="refresh"' not in page.text


def test_an_interactive_sample_is_a_dialogue(app, prepare, judicator):
    prepare(interactive(judicator.put))
    page = Browser(app.test_client(), USER).get("/problems/guess")
    text = words(page)
    assert "Sample interaction 1 Read Write Pass 1 Your program reads 100 Your program writes 50" in text
    assert "Pass 2 Your program reads 7 Your program writes 7 Your program reads correct" in text
    assert '<li class="read">' in page.text and '<li class="write">' in page.text


def test_samples_are_shown_and_kept_as_the_package_says(person, prepare, judicator):
    files = {"sample/1": {"in.statement": judicator.put(b"short\n"), "out": judicator.put(b"seen answer\n"),
                          "in.download": judicator.put(b"kept input\n")}}  # fmt: skip
    prepare(problem(judicator.put, sample_files=files))
    sample = check(person("GET", "/problems/caves"), 200, "problem")["samples"][0]
    assert (sample["input"], sample["answer"]) == ("short\n", "seen answer\n")
    file = person("GET", f"/problems/caves/files/{sample['input_file']}")
    assert file.data == b"kept input\n" and file.headers["Content-Disposition"] == "attachment; filename*=UTF-8''1.in"


def test_a_long_sample_is_cut_and_said_so(app, prepare, judicator):
    manifest = problem(judicator.put)
    manifest.tests[0].input = judicator.put(b"7\n" * 100_000)
    prepare(manifest)
    page = Browser(app.test_client(), USER).get("/problems/caves")
    assert len(page.text) < 80_000 and "Only the beginning is shown" in words(page)


def test_characters_that_do_not_show_are_named_in_samples(app, prepare, judicator):
    manifest = problem(judicator.put)
    manifest.tests[0].input = judicator.put("a\u202eb</pre><script>alert(1)</script>\n".encode())
    prepare(manifest)
    page = Browser(app.test_client(), USER).get("/problems/caves")
    assert "a⟨U+202E⟩b&lt;/pre&gt;&lt;script&gt;" in page.text


def test_admins_see_the_verification_and_nobody_else(app, caves, judicator):
    row = VerifiedRow(
        submission="accepted/bfs.py", language="python3", verdict="AC", expected="AC", cpu=0.5, limit=2.0, margin=4.0
    )
    wrong = VerifiedRow(
        submission="wrong_answer/greedy.c", language="c", verdict="AC", expected="WA", wrong="no test is WA"
    )
    verification = Verification(
        problem="caves",
        hash="a" * 64,
        rows=[row, wrong],
        warnings=["the margin is small"],
        left_out=["accepted/bfs.kt: no executor has kotlin"],
        verified="2026-01-31T12:00:05Z",
    )
    judicator.answers["problem_verification"] = VerificationReply(verification=verification)
    text = words(Browser(app.test_client(), ADMIN).get("/problems/caves"))
    for sentence in (
        "accepted/bfs.py", "4.0\N{MULTIPLICATION SIGN}", "no test is WA", "The margin is small",
        "no executor has kotlin", "The limit was inferred from accepted/bfs.py",
        "time_limit_exceeded/quadratic.cpp (8.2 s)",
    ):  # fmt: skip
        assert sentence in text, text
    judicator.asked.clear()
    page = Browser(app.test_client(), USER).get("/problems/caves").text
    assert "bfs" not in page and "quadratic" not in page and "Verification" not in page
    assert "problem_verification" not in [name for name, _ in judicator.asked]


def test_judges_see_how_a_legacy_package_is_read(app, prepare, judicator):
    manifest = problem(judicator.put).model_copy(update={"format": "legacy", "dialect": "domjudge"})
    prepare(manifest)
    sentence = "A package of format legacy, read as domjudge reads it."
    assert sentence in words(Browser(app.test_client(), ADMIN).get("/problems/caves"))
    assert sentence not in words(Browser(app.test_client(), USER).get("/problems/caves"))


def test_the_page_stays_while_the_cluster_knows_no_languages(ada, judicator):
    del judicator.answers["executors"]
    judicator.answers.pop("search")
    page = ada.get("/problems/caves")
    assert page.status_code == 200 and "You walk through" in words(page)


PROGRAM = {"language": "c", "source": "int main(void) {}"}


def sent(judicator):
    return next(request for name, request in judicator.asked[::-1] if name == "add")


def test_a_program_is_run_on_the_samples_and_on_an_input_of_ones_own(ada, caves, judicator):
    page = ada.get("/problems/caves").text
    assert 'value="samples">Run on the samples' in page and 'value="input">Run on this input' in page
    answer = ada.post("/problems/caves", "/problems/caves", do="samples", stdin="7", **PROGRAM)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/submissions/{ID}?problem=caves")
    run = sent(judicator)
    assert (run.problem, run.stdin, run.mode, run.source) == (None, None, "full", PROGRAM["source"])
    assert (run.limits.cpu, run.limits.wall, run.limits.memory) == (2, 5, 1024**3)
    samples = [test for test in caves.tests if test.sample]
    assert [(test.input_blob, test.answer_blob) for test in run.tests] == [(s.input, s.answer) for s in samples]
    ada.post("/problems/caves", "/problems/caves", do="input", stdin="7 8\r\n", **PROGRAM)
    run = sent(judicator)
    assert (run.problem, run.stdin, run.tests, run.limits.cpu) == (None, "7 8\n", [], 2)
    ada.post("/problems/caves", "/problems/caves", stdin="7", **PROGRAM)
    assert (sent(judicator).problem, sent(judicator).stdin) == ("caves", None)


def test_a_run_leads_back_to_its_problem(ada, judicator):
    tests = [m.Test(name="sample-1", input_blob="a" * 64, answer_blob="b" * 64)]
    result = m.Result(tests=[m.TestResult(name="sample-1", verdict="AC")])
    run = m.Submission(user="ada", language="c", source="x", tests=tests)
    judicator.tasks(make_task(submission=run, done=True, status="success", verdict="AC", result=result))
    page = ada.get(f"/submissions/{ID}?problem=caves")
    assert "Passed" in words(page) and "Accepted" not in words(page)
    assert f'href="/problems/caves?from={ID}#submit">Edit and resubmit' in page.text
    assert "own tests for Cave Walk" in words(page)
    page = ada.get(f"/submissions/{ID}?problem=none")
    assert "Passed" in words(page) and "/problems/none" not in page.text and "Edit and resubmit" not in page.text


def test_samples_have_no_answers_where_only_the_problem_s_own_validator_can_tell(app, prepare, judicator):
    validator = ProblemProgram(name="v", language="c", main="v.c", files={"v.c": "a" * 64})
    for changes in ({"validators": [validator]}, {"validator_flags": ["float_tolerance", "1e-6"]}):
        prepare(problem(judicator.put, **changes))
        browser = Browser(app.test_client(), USER)
        browser.post("/problems/caves", "/problems/caves", do="samples", **PROGRAM)
        assert [test.answered for test in sent(judicator).tests] == [False] * 3


def test_a_problem_whose_programs_do_not_run_alone_offers_no_runs(app, prepare, judicator):
    for manifest in (interactive(judicator.put), problem(judicator.put, include={"c": {"a.h": "a" * 64}})):
        prepare(manifest)
        browser = Browser(app.test_client(), USER)
        path = f"/problems/{manifest.name}"
        assert 'name="do"' not in browser.get(path).text
        answer = browser.post(path, path, do="input", stdin="7", **PROGRAM)
        assert answer.status_code == 400 and "only runs with the whole problem" in words(answer)
        assert "int main(void) {}</textarea>" in answer.text and "7</textarea>" not in answer.text


def test_who_may_not_run_own_tests_is_offered_no_runs(ada, judicator):
    modest = Allowance(own_tests=False)
    judicator.answers["usage"] = UsageReply(allowance=modest, waiting=0, running=0)
    assert 'name="do"' not in ada.get("/problems/caves").text


def test_an_error_keeps_the_statement_and_the_language_that_nobody_has(ada, judicator):
    page = ada.get("/problems/caves?language=sv&kind=md")
    assert 'action="/problems/caves?language=sv&amp;kind=md"' in page.text
    answer = ada.post("/problems/caves", "/problems/caves?language=sv&kind=md", language="zz", source="", stdin="7")
    assert answer.status_code == 400 and "Du går genom" in words(answer) and "7</textarea>" in answer.text
    assert "<option selected>zz</option>" in answer.text
    files = [(io.BytesIO(b"x"), "a.c"), (io.BytesIO(b"y"), "b.py")]
    answer = ada.post("/problems/caves", "/problems/caves", language="", file=files)
    assert answer.status_code == 400 and "Choose these files again: a.c, b.py." in words(answer)


def test_problems_that_do_not_exist(ada, person):
    assert ada.get("/problems/none").status_code == 404
    assert person("GET", "/problems/none").status_code == 404
    assert person("GET", "/problems/none/statement").status_code == 404
    assert person("GET", f"/problems/none/files/{'a' * 64}").status_code == 404


# --- the API ------------------------------------------------------------------------------------------------------


def test_a_problem_in_the_api(person, caves, root):
    problem = check(person("GET", "/problems/caves"), 200, "problem")
    assert [(statement["language"], statement["kind"], statement["html"]) for statement in problem["statements"]] == [
        ("en", "md", True), ("en", "pdf", False), ("sv", "md", True)]  # fmt: skip
    assert [sample["name"] for sample in problem["samples"]] == ["1", "2", "3"]
    assert problem["samples"][1]["answer"] == "impossible\n"
    assert [attachment["name"] for attachment in problem["attachments"]] == ["rooms.txt", "tools/view.py"]
    assert problem["limit_origin"]["how"] == "inferred" and problem["limit_origin"]["slowest_cpu"] == 0.81
    assert "bfs" not in str(problem) and "quadratic" not in str(problem)
    assert check(root("GET", "/problems/caves"), 200, "problem")["limit_origin"]["slowest"] == "accepted/bfs.py"


def test_a_statement_in_the_api(person, caves):
    reply = check(person("GET", "/problems/caves/statement", headers={"Accept-Language": "sv"}), 200, "statement")
    assert reply["language"] == "sv" and "Du går" in reply["html"]
    reply = check(person("GET", "/problems/caves/statement?language=en"), 200, "statement")
    assert '<div data-sample="1"></div>' in reply["html"] and "<math" in reply["html"] and reply["why"] == ""
    assert f"/api/v1/problems/caves/files/{caves.statements[0].files['cave.png']}" in reply["html"]
    reply = check(person("GET", "/problems/caves/statement?kind=pdf"), 200, "statement")
    assert reply["html"] is None and reply["why"].startswith("the statement is a file")
    answer = check(person("GET", "/problems/caves/statement?language=fi"), 404, "statement")
    assert answer["error"] == "problem 'caves' has no such statement; it has en (md), en (pdf), sv (md)"
    assert person("GET", "/problems/caves/statement?kind=doc").status_code == 400


def test_every_secret_file_stays_secret(person, root, caves, judicator):
    """Whatever the address: only what the manifest lists for people is handed out, to admins as well."""
    secret = {sha for test in caves.tests if not test.sample for sha in (test.input, test.answer)}
    public = 0
    for sha in judicator.blobs.data:
        answer = person("GET", f"/problems/caves/files/{sha}")
        if answer.status_code == 200:
            public += 1
            assert sha not in secret and b"secret" not in answer.data
        else:
            assert answer.status_code == 404 and sha not in caves.shown()
    assert public >= 11
    assert {root("GET", f"/problems/caves/files/{sha}").status_code for sha in secret} == {404}
    for bad in ("x", "..%2f", "A" * 64, "a" * 65):
        assert person("GET", f"/problems/caves/files/{bad}").status_code == 404


def test_files_are_served_with_their_types(person, caves, judicator):
    picture = person("GET", f"/problems/caves/files/{caves.statements[0].files['cave.png']}")
    assert picture.mimetype == "image/png" and picture.headers["Content-Disposition"].startswith("inline")
    assert "sandbox" in picture.headers["Content-Security-Policy"] and "max-age" in picture.headers["Cache-Control"]
    file = person("GET", f"/problems/caves/files/{caves.attachments['rooms.txt']}")
    assert file.data == b"<script>alert(1)</script>\n" and file.mimetype == "application/octet-stream"
    assert file.headers["Content-Disposition"] == "attachment; filename*=UTF-8''rooms.txt"


def test_a_false_picture_is_served_as_a_download(person, prepare, judicator):
    script = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script><rect width="3"/></svg>'
    broken = b'<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg">&a;</svg>'
    files = {"a.png": b"<script>alert(1)</script>", "b.svg": script, "c.svg": broken}
    page = statement(judicator.put, "en", "problem.md", b"![x](a.png) ![y](b.svg)", files=files)
    prepare(problem(judicator.put, statements=[page]))
    answers = {name: person("GET", f"/problems/caves/files/{sha}") for name, sha in page.files.items()}
    assert answers["a.png"].mimetype == answers["c.svg"].mimetype == "application/octet-stream"
    assert answers["a.png"].headers["Content-Disposition"].startswith("attachment")
    assert answers["b.svg"].mimetype == "image/svg+xml" and b"script" not in answers["b.svg"].data
    assert b'width="3"' in answers["b.svg"].data


def test_strangers_get_nothing(app, caves):
    nobody = Person(app.test_client(), None)
    sha = next(iter(caves.attachments.values()))
    for path in ("/problems/caves", "/problems/caves/statement", f"/problems/caves/files/{sha}"):
        assert nobody("GET", path).status_code == 401
    assert app.test_client().get("/problems/caves").status_code == 303


def test_a_verification_is_for_admins(person, root, caves, judicator):
    verification = Verification(problem="caves", hash="a" * 64, rows=[VerifiedRow(submission="accepted/a.c")])
    judicator.answers["problem_verified"] = m.Empty()
    body = verification.model_dump(mode="json")
    assert person("POST", "/problems/caves/verification", json=body).status_code == 403
    assert person("GET", "/problems/caves/verification").status_code == 403
    assert root("POST", "/problems/caves/verification", json=body).status_code == 201
    assert judicator.asked[-1] == ("problem_verified", verification)
    assert root("POST", "/problems/other/verification", json=body).status_code == 400
    judicator.answers["problem_verification"] = VerificationReply(verification=verification)
    assert check(root("GET", "/problems/caves/verification"), 200, "verification")["verification"]["rows"]


def test_a_file_that_is_known_is_not_fetched(person, caves, judicator):
    """If-None-Match and HEAD are answered by the manifest alone, whatever becomes of the content."""
    sha = caves.statements[0].files["cave.png"]
    path = f"/problems/caves/files/{sha}"
    first = person("GET", path)
    assert first.headers["ETag"] == f'"{sha}"' and first.data
    content = judicator.blobs.data.pop(sha)
    try:
        assert person("GET", path).status_code == 404, "it is fetched"
        for tag in (f'"{sha}"', f'W/"{sha}"', f'"x", "{sha}"', "*"):
            answer = person("GET", path, headers={"If-None-Match": tag})
            assert (answer.status_code, answer.data, answer.headers["ETag"]) == (304, b"", f'"{sha}"')
        headed = person("HEAD", path)
        assert (headed.status_code, headed.headers["ETag"]) == (200, f'"{sha}"')
        assert "Content-Length" not in headed.headers and "Content-Type" not in headed.headers
        assert person("GET", path, headers={"If-None-Match": '"x"'}).status_code == 404
        secret = caves.tests[-1].input
        for call in ({"method": "HEAD"}, {"method": "GET", "headers": {"If-None-Match": f'"{secret}"'}}):
            assert person(path=f"/problems/caves/files/{secret}", **call).status_code == 404
    finally:
        judicator.blobs.data[sha] = content
