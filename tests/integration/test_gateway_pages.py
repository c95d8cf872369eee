"""The pages in states that are prepared (see tests.support.gateway), without a browser; tests/browser has the rest."""

import html
import io
import re

import pytest

from judge.common import clock
from judge.common.errors import ConflictError, FieldError, NotFoundError, UnavailableError
from judge.config.allowance import Allowance
from judge.gateway import assets, identity
from judge.gateway.pages import views
from judge.judicator.documents import MinuteDocument
from judge.judicator.figures.series import minute, series
from judge.model import messages as m
from judge.model.audit import AuditReply
from judge.model.base import CoreSpeed
from judge.model.figures import HistoryReply, Start, VersionChange
from judge.model.overview import DrainRequest, ExecutorsReply, MarksReply, UsageReply
from judge.model.problem import ProblemInfo, ProblemManifest, ProblemsReply, ProblemTest
from tests.support.gateway import (
    ADMIN,
    ID,
    PEOPLE,
    USER,
    Browser,
    Prepared,
    executor_state,
    gateway_config,
    healthy,
    make_task,
    serving_app,
    write_tokens,
)

PAGES = [
    "/",
    "/cluster",
    "/submit",
    "/submissions",
    f"/submissions/{ID}",
    "/executors",
    "/executors/e1",
    "/figures",
    "/figures?span=day",
    "/judicators",
    "/problems",
    "/me",
]
MINUTES: list[MinuteDocument] = [
    {"_id": minute(clock.wall()), "waiting": 3, "slots": 2, "busy": 1, "looks": 1, "rejudged": 1,
     "verdicts": {"AC": 5, "RTE": 2}, "times": {"0": 7}}
]  # fmt: skip
STARTS = [
    Start(
        at="2026-01-31T12:00:05Z",
        version="0.2.0",
        slots=2,
        calibration=[CoreSpeed(core=3, seconds=0.012, first=0.01)],
        changes=[
            VersionChange(language="ada", before="1"),
            VersionChange(language="c", before="gcc 12", after="gcc 13"),
            VersionChange(language="python3", after="Python 3.11"),
        ],
    ),
    Start(at="2026-01-30T12:00:05Z", version="0.1.0", slots=2),
]  # fmt: skip
NASTY = "</pre><script>alert('x')</script>&"


@pytest.fixture(scope="module")
def judicator(tmp_path_factory, etcd_endpoint):
    with Prepared(tmp_path_factory.mktemp("judicator"), etcd_endpoint).serving() as request:
        yield request


@pytest.fixture(scope="module")
def settings(judicator, tmp_path_factory):
    limits = {"source_bytes": 1000, "body_bytes": 200_000, "blob_bytes": 400_000}
    return gateway_config(judicator, tmp_path_factory.mktemp("gw"), rpc_timeout=1.0, limits=limits)


@pytest.fixture
def prepared(judicator):
    judicator.answers.clear()
    judicator.asked.clear()
    judicator.answers |= {
        "status": healthy(),
        "executors": ExecutorsReply(executors=[executor_state()]),
        "problems": ProblemsReply(
            problems=[ProblemInfo(name="hello", title="Hello, you!", hash="a" * 64, tests=3, limits=m.Limits())]
        ),
        "figures": lambda request: series(MINUTES, request.span, clock.wall()),
        "executor_history": HistoryReply(executor="e1", starts=STARTS),
        "add": lambda request: m.AddReply(task=make_task(submission=request), created=True),
        "usage": UsageReply(allowance=Allowance(), waiting=0, running=0),
    }
    judicator.tasks(make_task())
    return judicator


@pytest.fixture
def admin(app, prepared):
    return Browser(app.test_client(), ADMIN)


@pytest.fixture
def ada(app, prepared):
    return Browser(app.test_client(), USER)


def failing(error):
    def refuse(_):
        raise error

    return refuse


def text_of(page):
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page.text)))


# --- in and out ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_every_page_asks_who_you_are(app, page):
    answer = app.test_client().get(page)
    assert answer.status_code == 303
    assert answer.headers["Location"].startswith("/login?next=%2F")


def test_the_pages_say_why_a_submission_waits(ada, admin, prepared):
    reason = "no live executor has language 'ada' <b>"
    waiting = make_task(done=False, status="pending", verdict=None, result=None, executor=None)
    waiting.waits = m.Waits(reason=reason, seconds=73.4)
    prepared.tasks(waiting)
    prepared.answers["status"] = healthy(waits=[f"the next of 3 waiting submissions has waited for 73 s: {reason}"])
    page = ada.get(f"/submissions/{waiting.id}").text
    assert "It has waited for 73 s: no live executor has language &#39;ada&#39; &lt;b&gt;." in page
    page = admin.get("/cluster").text
    assert "The next of 3 waiting submissions has waited for 73 s: no live executor has" in page


def test_a_login_leads_to_where_one_wanted_to_go(app, prepared):
    browser = Browser(app.test_client())
    answer = browser.post("/login?next=/executors", "/login", token=USER, next="/executors")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/executors")
    assert browser.get("/login?next=//evil.example").headers["Location"] == "/"


def test_login_refuses(app, prepared):
    browser = Browser(app.test_client())
    answer = browser.post("/login", "/login", token="wrong")
    assert answer.status_code == 401 and "This token is unknown" in answer.text
    answer = browser.client.post("/login", data={"token": USER})
    assert answer.status_code == 400 and "too old" in answer.text
    answer = browser.client.post("/login", data={"token": USER, "csrf": "\u00e9"})
    assert answer.status_code == 400
    assert browser.get("/").status_code == 303, "still nobody"


def test_logout(ada):
    assert ada.get("/").status_code == 200
    assert ada.post("/", "/logout").status_code == 303
    assert ada.get("/").status_code == 303


def test_a_call_that_was_held_does_not_bring_back_a_session(ada):
    """Its answer sets no cookie, so it cannot overwrite a logout or a message that came in between."""
    assert "Set-Cookie" not in ada.client.get(f"/api/v1/submissions/{ID}?wait=0.1").headers
    assert "Set-Cookie" not in ada.get("/").headers


def test_a_live_update_leaves_the_message_to_the_page(ada, prepared):
    prepared.answers["cancel"] = make_task(status="cancelled", done=True)
    ada.post(f"/submissions/{ID}", f"/submissions/{ID}/cancel")
    assert "Cancelled." not in ada.client.get("/", headers={"X-Live": "1"}).text
    assert "Cancelled." in ada.get("/").text


def test_taking_a_token_away_ends_its_sessions(app, settings, ada):
    try:
        write_tokens(settings.tokens, PEOPLE[:1])
        assert ada.get("/").status_code == 303
    finally:
        write_tokens(settings.tokens, PEOPLE)
    assert ada.get("/").status_code == 200


@pytest.mark.parametrize("secure", [False, True])
def test_the_session_cookie(settings, prepared, secure):
    with serving_app(settings.model_copy(update={"secure_cookies": secure})) as app:
        answer = app.test_client().get("/login", base_url="https://localhost" if secure else None)
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Path=/" in cookie
    assert ("Secure" in cookie) is secure and cookie.startswith("__Host-judge=") is secure


def test_the_session_reads_the_api_and_changes_nothing_there(ada):
    assert ada.client.get(f"/api/v1/submissions/{ID}").status_code == 200
    assert ada.client.get("/api/v1/whoami").json["user"] == "ada"
    assert ada.client.post("/api/v1/submissions", json={"language": "c", "source": "x"}).status_code == 401
    assert ada.client.get("/api/v1/whoami", headers={"Authorization": "Bearer wrong"}).status_code == 401


@pytest.mark.parametrize(
    "action", [f"/submissions/{ID}/cancel", "/executors/e/drain", "/executors/e/resume", "/logout"]
)
def test_forms_of_other_sites_do_nothing(admin, prepared, action):
    prepared.asked.clear()
    answer = admin.client.post(action, data={"csrf": "guess"})
    assert answer.status_code == 400 and "too old" in answer.text
    assert not prepared.asked
    assert admin.get("/").status_code == 200


def test_a_form_of_very_many_fields_is_not_read(admin):
    answer = admin.client.post("/submit", data="a=1&" * 2_000, content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 400 and "more than 1000 fields" in answer.text


# --- every page ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [*PAGES, "/none"])
def test_pages_load_nothing_from_elsewhere_and_run_nothing_inline(admin, page):
    answer = admin.get(page)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert answer.headers["X-Frame-Options"] == "DENY" and answer.headers["Cache-Control"] == "no-store"
    assert not re.search(r"<[^>]+\s(style|on\w+)=", answer.text), "the policy would forbid it"
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", answer.text))
    for address in re.findall(r'(?:src|href|action)="([^"]*)"', answer.text):
        assert address.startswith(("/", "?", "#")) and not address.startswith("//"), address
    assert '<html lang="en">' in answer.text and 'name="viewport"' in answer.text


def test_static_files_have_names_that_change_with_their_contents(app, admin):
    names = {name for name, _ in assets.assets().values()}
    for address in set(re.findall(r'"(/static/[^"]+)"', admin.get("/").text)):
        assert address.removeprefix("/static/") in names
        assert re.search(r"\.[0-9a-f]{12}\.(css|js|svg)$", address)
    assert app.test_client().get("/favicon.ico").status_code == 301


def test_overview(admin, prepared):
    page = text_of(admin.get("/cluster"))
    assert "The cluster is healthy" in page and "judicator-1 leads, epoch 3" in page
    assert "1,284 judged" in page and "2 /2 slots free" in page
    prepared.answers["status"] = healthy(
        faults=["no executor is alive"], queued={"high": 1, "normal": 2}, warnings=["etcd is old"], leader=None
    )
    page = text_of(admin.get("/cluster"))
    assert "The cluster has a fault no executor is alive" in page
    assert "3 waiting 1 high, 2 normal" in page and "etcd is old" in page
    prepared.answers["status"] = healthy(executors=[executor_state(drain=True, vacant=0)], slots=0, vacant=0)
    assert "0 /0 slots free 2 drained" in text_of(admin.get("/cluster"))


def test_overview_of_a_new_cluster(admin, prepared):
    prepared.answers["search"] = m.SearchReply(tasks=[], next=None)
    prepared.answers["status"] = healthy(leader=None, epoch=None, executors=[])
    page = text_of(admin.get("/cluster"))
    assert "Nothing has been handed in yet" in page and "No leader at the moment" in page


def test_everybody_reads_the_help_page(app, ada, prepared):
    prepared.asked.clear()
    page = app.test_client().get("/help")
    words = text_of(page)
    assert page.status_code == 200 and not prepared.asked and "Log out" not in words
    for verdict in m.Verdict:
        about = verdict.about
        assert f"{verdict.value} {about.title} {about.meaning} {about.advice}" in words
        assert f'<tr id="{verdict.value}">' in page.text
    assert "COBOL" in words and "1000 bytes" in words
    assert all('href="/help"' in ada.get(path).text for path in ("/", "/submit", "/none"))
    page = text_of(ada.get("/help"))
    assert "Log out" in page and "4 languages" in page and "COBOL" not in page and "/usr/bin/gcc -O2" in page
    prepared.answers.clear()
    assert ada.get("/help").status_code == 200


def test_nothing_leads_to_a_problem_that_is_hidden_again(ada, admin, prepared):
    prepared.tasks(_full(submission=m.Submission(user="ada", language="c", source="x", problem="hello")))
    for path in (f"/submissions/{ID}", "/submissions"):
        assert 'href="/problems/hello' in ada.get(path).text
    prepared.answers["problems"] = ProblemsReply(problems=[])
    for path in (f"/submissions/{ID}", "/submissions"):
        page = ada.get(path)
        assert page.status_code == 200 and "hello" in page.text and "/problems/hello" not in page.text


def test_what_did_not_run_has_no_time_and_no_memory(ada, prepared):
    failed = m.Result(compile_log="x", compile=m.RunUsage(cpu=0.1, wall=0.1, memory=9, exit_code=1))
    prepared.tasks(make_task(done=True, status="compile_failed", verdict="CE", result=failed))
    for path in (f"/submissions/{ID}", "/submissions"):
        page = text_of(ada.get(path))
        assert " 0 ms" not in page and "0 bytes" not in page, page


def test_the_trail_is_folded_as_judgectl_shows_it(admin, prepared):
    fields = dict.fromkeys(("actor", "role", "object", "origin", "gateway", "trace"), "x")
    fields |= {"id": ID, "at": "2026-01-31T12:00:05Z", "action": "problem.import", "call": "c1"}
    entries = [{**fields, "outcome": outcome} for outcome in ("done", "begun")]
    prepared.answers["audit"] = AuditReply.model_validate({"entries": entries, "next": None})
    page = admin.get("/audit")
    assert page.text.count("<td>problem.import</td>") == 1 and "begun" not in page.text
    assert page.text.index("Delete all data of a user") < page.text.index("<td>problem.import</td>")


def test_the_account_page_shows_use_and_allowance(ada, prepared):
    allowance = Allowance(own_tests=False, repeats=None, waiting=7, stored_bytes=3 * 1024**2)
    used = UsageReply(allowance=allowance, waiting=2, running=1, stored_bytes=1024**2)
    prepared.answers["usage"] = lambda request: used if (request.user, request.role) == ("ada", "user") else None
    page = text_of(ada.get("/me"))
    for words in (
        "Role user",
        "Waiting 2 of 7",
        "Judged now 1",
        "Stored 1 MiB of 3 MiB",
        "no: programs to problems only",
        "Time of all runs without a problem 5 min",
        "Repeated tests no limit",
        "Slots at once 75 %",
    ):
        assert words in page, page
    assert 'href="/me"' in ada.get("/me").text


def test_charts_of_the_cluster(admin, prepared):
    page = admin.get("/figures").text
    assert page.count("<svg viewBox") == page.count("<desc") == page.count('role="img"') == 5
    assert "Run-time error: 2" in page
    assert "7 submissions got a verdict" in text_of(admin.get("/cluster"))
    assert "All figures" in admin.get("/figures?span=week").text, "as the hour"
    prepared.answers["figures"] = failing(UnavailableError("away"))
    page = admin.get("/cluster")
    assert page.status_code == 200 and "<svg viewBox" not in page.text.partition("<main")[2].replace("icon", "")
    assert admin.get("/figures").status_code == 504


@pytest.mark.parametrize("page", ["/cluster", "/executors", "/executors/e1", "/judicators", "/figures"])
def test_contestants_get_no_page_about_machines(ada, admin, prepared, page):
    answer = ada.get(page)
    assert answer.status_code == 403 and "requires a token of role judge" in answer.text
    assert "executor-1" not in answer.text and "127.0.0.1" not in answer.text
    assert admin.get(page).status_code == 200
    assert "Cluster" not in text_of(ada.get("/")) and "Cluster" in text_of(admin.get("/"))


def test_the_home_page_marks_what_one_has_solved_and_tried(ada, prepared):
    infos = [ProblemInfo(name=name, title="", hash="a" * 64, tests=3, limits=m.Limits()) for name in "abc"]
    prepared.answers["problems"] = ProblemsReply(problems=infos)
    prepared.answers["marks"] = lambda request: MarksReply(solved=["a"], tried=["b"]) if request.user == "ada" else None
    page = text_of(ada.get("/"))
    assert re.search(r"a Solved .* b Tried .* c not tried ", page), page
    prepared.answers["marks"] = failing(UnavailableError("away"))
    assert "a not tried" in text_of(ada.get("/")), "the list is there without them"


def test_an_executors_page(admin, prepared):
    page = text_of(admin.get("/executors/e1"))
    assert "core 3: +20.0 %" in page and "gcc 12 → gcc 13" in page and "ada: gone" in page and "new, Python" in page
    assert "does not belong to the cluster now" in page
    prepared.answers["executors"] = ExecutorsReply(executors=[executor_state("e1", drain=True, drain_reason="disk")])
    page = text_of(admin.get("/executors/e1"))
    assert "alive" in page and "Takes no more work: disk" in page
    prepared.answers["executor_history"] = failing(NotFoundError("there is no executor 'e7'"))
    assert admin.get("/executors/e7").status_code == 404
    assert admin.get("/executors/%20").status_code == 404


def test_executors_and_judicators(admin, prepared):
    info = m.ExecutorInfo(slots=4, languages={"c": "gcc 12"}, weak_sandbox=True, checks=["WARN swap is on"])
    prepared.answers["executors"] = ExecutorsReply(
        executors=[
            executor_state("e1", alive=False),
            executor_state("e2", drain=True, drain_reason="new disk", executing=1, info=info),
            executor_state("e3", info=None, vacant=0),
        ]
    )
    page = text_of(admin.get("/executors"))
    for words in (
        "silent",
        "draining",
        "Takes no more work: new disk",
        "1 of 4 slots busy",
        "Weak sandbox",
        "swap is on",
    ):
        assert words in page
    assert "Drain" in page and "Resume" in page
    prepared.answers["executors"] = ExecutorsReply(executors=[])
    assert "No executor has reported yet" in text_of(admin.get("/executors"))

    prepared.answers["status"] = healthy(leader=None, mongodb=[], versions={"etcd": "3.4.23"})
    page = text_of(admin.get("/judicators"))
    assert "No judicator leads" in page and "Their state is unknown" in page and "3.4.23" in page


def test_drain_and_resume(admin, ada, prepared):
    prepared.answers["drain"] = lambda request: executor_state(request.executor, drain=request.drain)
    answer = admin.post("/executors", "/executors/executor-1/drain", reason="new disk")
    assert answer.status_code == 303
    assert ("drain", DrainRequest(executor="executor-1", drain=True, reason="new disk")) in prepared.asked
    assert "executor-1 takes no more work." in admin.get("/executors").text
    admin.post("/executors", "/executors/executor-1/resume")
    assert "executor-1 takes work again." in admin.get("/executors").text
    answer = ada.post("/submit", "/executors/executor-1/drain")
    assert answer.status_code == 403 and "role admin" in answer.text


def test_problems(ada, admin, prepared):
    page = text_of(ada.get("/problems"))
    assert "Hello, you! hello" in page and "2 s" in page
    prepared.answers["problems"] = ProblemsReply(problems=[])
    assert "No problem is visible to you yet" in text_of(ada.get("/problems"))
    assert "judgectl" not in ada.get("/problems").text and "judgectl problem import" in admin.get("/problems").text


# --- submissions -----------------------------------------------------------------------------------------------


def test_search(admin, prepared):
    prepared.answers["search"] = lambda request: m.SearchReply(tasks=[make_task()], next=ID)
    page = admin.get("/submissions?verdict=WA&language=klingon&problem=hello&user=")
    search = m.SearchRequest(verdict="WA", language="klingon", problem="hello", limit=25)
    assert search in [request for _, request in prepared.asked]
    assert "Accepted, or ran</option>" in page.text and '<option value="pending">Waiting</option>' in page.text
    assert '<option value="WA" selected>' in page.text and '<option value="klingon" selected>' in page.text
    assert f"verdict=WA&amp;language=klingon&amp;problem=hello&amp;before={ID}" in page.text
    page = admin.get(f"/submissions?verdict=WA&before={ID}")
    assert 'href="?verdict=WA">Newest' in page.text


@pytest.mark.parametrize("query", ["verdict=XX", "before=x", "odd=1", "limit=0", "problem=a%20b"])
def test_searches_that_make_no_sense(ada, query):
    answer = ada.get(f"/submissions?{query}")
    assert answer.status_code == 400
    assert query.partition("=")[0] in text_of(answer).lower()
    assert 'role="search"' in answer.text, "the form is still there"


def test_a_search_without_a_find(ada, prepared):
    prepared.answers["search"] = m.SearchReply(tasks=[], next=None)
    assert "No submission matches" in text_of(ada.get("/submissions?verdict=AC"))
    assert "There are no older ones" in text_of(ada.get(f"/submissions?before={ID}"))
    assert "Nothing has been handed in yet" in text_of(ada.get("/submissions"))
    assert ada.get("/submissions?user=bob").status_code == 400


@pytest.mark.parametrize("verdict", list(m.Verdict))
def test_every_verdict_is_told_by_words(ada, prepared, verdict):
    status = m.Status.SUCCESS if verdict is m.Verdict.AC else m.Status.RUN_FAILED
    judged = m.Submission(user="ada", language="cpp", source="x", problem="hello")
    prepared.tasks(make_task(submission=judged, status=status, done=True, verdict=verdict, result=m.Result()))
    page = ada.get(f"/submissions/{ID}")
    assert f"{verdict.value} {views.look(verdict).text}" in text_of(page)
    assert (f'href="/help#{verdict.value}"' in page.text) is (verdict is not m.Verdict.AC)
    assert "http-equiv" not in page.text and ">Cancel<" not in page.text


def test_a_running_submission_reloads_itself_without_javascript(ada, prepared):
    prepared.tasks(make_task(status=m.Status.RUNNING, progress="test 3 of 10", executor="e7", version=5))
    page = ada.get(f"/submissions/{ID}")
    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in page.text
    assert '<progress value="3" max="10">' in page.text and 'data-version="5"' in page.text
    assert ">Cancel<" in page.text and "e7" in page.text


def _full(**changes):
    tests = [
        m.TestResult(
            name="sample/1",
            verdict="AC",
            cpu=0.01,
            memory=2**20,
            output="fine",
            repeated=m.Repeated(cpu=2.125, wall=2.25),
        ),
        m.TestResult(
            name="secret/1", verdict="WA", output=NASTY, error=NASTY, message=NASTY, output_bytes=9999, exit_code=3
        ),
    ]
    result = m.Result(
        tests=tests, compile_log=NASTY, cpu=0.5, memory=2**20, language_version="gcc 12", failed_test="secret/1",
        weak_sandbox=True, reason="wrong answer",
    )  # fmt: skip
    values = {
        "submission": m.Submission(user="ada", language="cpp", source=NASTY, filename=NASTY[:50]),
        "status": "run_failed",
        "done": True,
        "verdict": "WA",
        "result": result,
        "problem": m.ProblemRef(name="hello", hash="a" * 64),
        "attempt": 2,
        "judged_by": "e7",
        "latency": 1.5,
        "history": [m.Attempt(attempt=1, executor="e6", reason="silent")],
        **changes,
    }
    return make_task(**values)


def test_a_judged_submission_in_full(admin, prepared):
    prepared.tasks(_full())
    page = admin.get(f"/submissions/{ID}")
    words = text_of(page)
    for text in (
        "Wrong answer (test secret/1)", "1 of 2 passed", "exit code 3", "gcc 12", "1.5 s", "e6 silent",
        "weak sandbox", "the beginning of 9.8 KiB", "repeated near the time limit",
        "first run 2.125 s CPU, 2.250 s wall; repeated with all other slots at rest",
    ):  # fmt: skip
        assert text in words, text
    assert "<script>alert" not in page.text and page.text.count("&lt;script&gt;alert") >= 5
    assert 'title="2026-01-31 12:00:05 UTC"' in page.text


def test_users_do_not_see_what_hidden_tests_print(ada, prepared):
    manifest = ProblemManifest(
        name="hello",
        tests=[
            ProblemTest(name="sample/1", input="b" * 64, answer="c" * 64, sample=True),
            ProblemTest(name="secret/1", input="d" * 64, answer="e" * 64),
        ],
    )
    sha = prepared.put(manifest.model_dump_json().encode())
    prepared.tasks(_full(problem=m.ProblemRef(name="hello", hash=sha), submission=m.Submission(user="ada", source="x")))
    page = ada.get(f"/submissions/{ID}")
    assert "fine" in page.text and "secret/1" in page.text
    assert page.text.count("&lt;script&gt;alert") == 1, "the compiler's messages only"
    prepared.tasks(_full(problem=m.ProblemRef(name="hello", hash="f" * 64)))
    assert "fine" not in ada.get(f"/submissions/{ID}").text, "an unknown problem shows nothing"


def test_invisible_characters_are_made_visible_and_typed_text_is_unchanged(ada, prepared):
    """Source that reads otherwise than it runs (U+202E), and words that are not there to see (U+200B)."""
    odd = "a\u202eb\u2066c\u200bd\ufe0f\x1b[31m"
    prepared.tasks(
        make_task(
            submission=m.Submission(
                user="ada", command=odd, compile=odd, stdin=odd, source=f"{odd}\r\nx\n", filename=odd
            ),
            status="success", done=True, verdict="WA", judged_by=odd,
            history=[m.Attempt(attempt=2, executor="e", reason=odd)],
            result=m.Result(compile_log=odd, stdout=odd, reason=odd, tests=[
                m.TestResult(name=odd, verdict="WA", output=odd, error=odd, message=odd, feedback=odd, reason=odd)
            ]),
        )
    )  # fmt: skip
    for page in (f"/submissions/{ID}", "/submissions", "/"):
        text = ada.get(page).text
        assert not set(text) & set("\u202e\u2066\u200b\ufe0f\x1b\r"), page
    assert ada.get(f"/submissions/{ID}").text.count("a⟨U+202E⟩b⟨U+2066⟩c⟨U+200B⟩d⟨U+FE0F⟩⟨U+001B⟩[31m") >= 12
    answer = ada.client.post("/submit", data={"csrf": "old", "language": "c", "source": f"{odd}<", "stdin": odd})
    assert f"{odd}&lt;</textarea>" in answer.text and f"{odd}</textarea>" in answer.text


def test_free_runs_and_commands(ada, prepared):
    result = m.Result(stdout="", tests=[m.TestResult(name="run", verdict="AC")])
    free = make_task(status="success", done=True, verdict="AC", result=result)
    prepared.tasks(free)
    page = ada.get(f"/submissions/{ID}")
    assert "(nothing)" in page.text
    assert "Ran" in text_of(page) and 'aria-label="Submission …1234567: Ran"' in page.text, "compared with nothing"
    prepared.answers["search"] = m.SearchReply(tasks=[free], next=None)
    assert '<span class="words">Ran</span>' in ada.get("/submissions").text
    prepared.tasks(free.model_copy(update={"result": m.Result(stdout_blob="a" * 64)}))
    assert "too large to show" in ada.get(f"/submissions/{ID}").text
    command = m.Submission(user="ada", command="sort -n", compile="true", stdin="3 1", priority="low")
    prepared.tasks(make_task(submission=command))
    page = text_of(ada.get(f"/submissions/{ID}"))
    assert "shell command" in page and "sort -n" in page and "3 1" in page and "low" in page
    prepared.tasks(make_task(submission=m.Submission(user="ada", tests=[m.Test(name="1")])))
    assert "own tests" in text_of(ada.get(f"/submissions/{ID}"))


def test_cancel(ada, prepared):
    prepared.answers["cancel"] = make_task(status="cancelled", done=True)
    answer = ada.post(f"/submissions/{ID}", f"/submissions/{ID}/cancel")
    assert answer.headers["Location"] == f"/submissions/{ID}"
    assert "Cancelled." in ada.get(f"/submissions/{ID}").text
    prepared.tasks(make_task(status="success", done=True, verdict="AC"))
    prepared.answers["cancel"] = make_task(status="success", done=True, verdict="AC")
    ada.post("/submit", f"/submissions/{ID}/cancel")
    assert "its verdict stays" in ada.get(f"/submissions/{ID}").text


@pytest.mark.parametrize("task", ["x", "f" * 24, "%3Cscript%3E"])
def test_submissions_that_do_not_exist(ada, task):
    answer = ada.get(f"/submissions/{task}")
    assert answer.status_code == 404 and "There is no submission" in text_of(answer)
    assert "<script>" not in answer.text


# --- handing in ------------------------------------------------------------------------------------------------


def test_submit(ada, prepared):
    page = ada.get("/submit?problem=hello&language=cpp").text
    assert '<option value="hello" selected>' in page and '<option value="cpp" selected ' in page
    answer = ada.post("/submit", "/submit", language="cpp", problem="hello", source="int main() {}\r\n", key="k" * 20)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/submissions/{ID}")
    name, request = prepared.asked[-1]
    assert len(request.trace) == 32
    assert (name, request.model_copy(update={"trace": ""})) == (
        "add",
        m.Submission(user="ada", language="cpp", problem="hello", source="int main() {}\n", idempotency_key="k" * 20),
    )


def test_submit_a_file(ada, prepared):
    ada.post("/submit", "/submit", language="", source="", file=(io.BytesIO(b"print(1)\n"), "a.py"), stdin="1\r\n")
    sent_ = prepared.asked[-1][1]
    assert (sent_.language, sent_.source, sent_.filename, sent_.stdin) == ("python3", "print(1)\n", "a.py", "1\n")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x7fELF\0\1\2", "The source contains a NUL byte, so it is not text"),
        (b"", "The source is empty"),
        (b"x" * 1001, "The source is too large, 1001 bytes; at most 1000 bytes are accepted."),
        (b"x" * 150_000, "The source is too large, 146.5 KiB; at most 1000 bytes are accepted."),
    ],
    ids=["binary", "empty", "large", "much-too-large"],
)
def test_files_that_are_no_source_come_back_with_all_that_was_typed(ada, prepared, data, text):
    typed = {"language": "java", "problem": "hello", "stdin": "7 8", "cpu": "1.5", "memory": "64", "source": ""}
    answer = ada.post("/submit", "/submit", **typed, file=(io.BytesIO(data), "a.py"))
    assert answer.status_code == 400
    place = answer.text[answer.text.index('id="source"') :]
    assert text in html.unescape(place[: place.index('type="file"')]), "the message stands beside the field"
    for value in ('value="java" selected', 'value="hello" selected', "7 8</textarea>", 'value="1.5"', 'value="64"'):
        assert value in answer.text
    assert not [request for request in prepared.asked if request[0] == "add"]


def test_an_upload_beyond_all_limits_is_refused_in_words(ada):
    answer = ada.post("/submit", "/submit", language="c", file=(io.BytesIO(b"x" * 300_000), "a.c"))
    assert answer.status_code == 413 and "too large" in answer.text


def test_a_refusal_of_the_cluster_stands_beside_its_field(ada, prepared):
    def refuse(_):
        raise FieldError("language", "'zz' is unknown here; known are c")

    prepared.answers["add"] = refuse
    answer = ada.post("/submit", "/submit", language="zz", problem="gone", source="x")
    assert answer.status_code == 400
    assert "'zz' is unknown here; known are c." in html.unescape(answer.text)
    assert "<option selected>zz</option>" in answer.text and "<option selected>gone</option>" in answer.text


def test_a_page_that_was_open_for_too_long_loses_nothing(ada, prepared):
    answer = ada.client.post("/submit", data={"csrf": "old", "language": "c", "source": "int x;"})
    assert answer.status_code == 400
    assert "open for too long" in answer.text and "int x;</textarea>" in answer.text
    assert not [request for request in prepared.asked if request[0] == "add"]


def test_a_cluster_that_is_away_loses_nothing_that_was_typed(ada, prepared):
    csrf = ada.csrf("/submit")
    prepared.answers.clear()
    answer = ada.client.post("/submit", data={"csrf": csrf, "language": "c", "source": "int x;"})
    assert answer.status_code in {503, 504}
    assert "int x;</textarea>" in answer.text and "again" in answer.text


def away(_):
    raise UnavailableError("nobody is here")


def test_a_person_who_cannot_be_looked_up_sees_nothing_and_keeps_typed_text(app, ada, prepared, monkeypatch):
    csrf = ada.csrf("/submit")
    monkeypatch.setattr(identity, "LIFETIME", 0.0)
    prepared.answers["credentials"] = away
    page = ada.get("/submissions")
    assert page.status_code in {503, 504} and "ada" not in page.text
    assert ada.get("/api/v1/whoami").status_code in {503, 504}
    answer = ada.client.post("/submit", data={"csrf": csrf, "language": "c", "source": "int x;"})
    assert answer.status_code in {503, 504}
    assert "int x;</textarea>" in answer.text and "submit again" in answer.text
    assert not [request for request in prepared.asked if request[0] == "add"]
    del prepared.answers["credentials"]
    assert ada.get("/submissions").status_code == 200, "the session itself is as it was"


def test_a_logout_that_cannot_be_done_says_so(ada, prepared):
    prepared.answers["session_end"] = away
    assert ada.post("/", "/logout").status_code in {503, 504}
    assert ada.get("/").status_code == 200


def test_the_same_page_sent_again_with_another_text_is_another_submission(ada, prepared):
    keys = []

    def add(request):
        keys.append(request.idempotency_key)
        if request.idempotency_key == "k" * 20:
            raise ConflictError("the key was used")
        return m.AddReply(task=make_task(), created=True)

    prepared.answers["add"] = add
    assert ada.post("/submit", "/submit", language="c", source="y", key="k" * 20).status_code == 303
    assert len(keys) == 2 and keys[1] != keys[0]


def test_a_problems_page_gives_back_all_that_was_typed_with_what_is_wrong_beside_it(ada, prepared):
    manifest = ProblemManifest(
        name="hello", title="Hello, you!", tests=[ProblemTest(name="1", input="d" * 64, answer="e" * 64)]
    )
    sha = prepared.put(manifest.model_dump_json().encode())
    hello = ProblemInfo(name="hello", title="Hello, you!", hash=sha, tests=1, limits=m.Limits())
    prepared.answers["problems"] = ProblemsReply(problems=[hello])
    page = ada.post("/problems/hello", "/problems/hello", language="", source="int x;\r\n")
    assert page.status_code == 400 and '<h1 dir="auto">Hello, you!</h1>' in page.text
    assert "int x;\n</textarea>" in page.text and "Choose one." in text_of(page)
    prepared.answers["add"] = failing(FieldError("language", "is missing; give 'language' and 'source'"))
    page = ada.post("/problems/hello", "/problems/hello", file=(io.BytesIO(b"x"), "program.xyz"), language="")
    assert "The language is not clear from the name 'program.xyz'; choose one." in text_of(page)
    ada.post("/problems/hello", "/problems/hello", language="c", source="int x;", problem="another")
    assert [(add_.problem, add_.source) for name, add_ in prepared.asked if name == "add"][-1] == ("hello", "int x;")
    csrf = ada.csrf("/problems/hello")
    prepared.answers.clear()
    answer = ada.client.post("/problems/hello", data={"csrf": csrf, "language": "c", "source": "int x;"})
    assert answer.status_code in {503, 504} and "int x;</textarea>" in answer.text


def test_a_submission_is_edited_and_handed_in_again_in_two_steps(ada, prepared):
    sub = m.Submission(user="ada", language="c", source="a < b", filename="a.c", stdin="7", limits={"cpu": 1.5})
    prepared.tasks(make_task(submission=sub))
    assert "Edit and resubmit" not in ada.get(f"/submissions/{ID}").text, "it is being judged"
    prepared.tasks(make_task(submission=sub, done=True, status="run_failed", verdict="RTE"))
    assert f'href="/submit?from={ID}">Edit and resubmit' in ada.get(f"/submissions/{ID}").text
    page = ada.get(f"/submit?from={ID}").text
    for text in ("a &lt; b</textarea>", '<option value="c" selected', "7</textarea>", 'name="cpu" value="1.5"'):
        assert text in page, text
    prepared.tasks(make_task(submission=m.Submission(user="ada", command="true"), done=True, verdict="AC"))
    assert "Edit and resubmit" not in ada.get(f"/submissions/{ID}").text, "the form has no place for a command"


def test_files_are_kept_when_a_submission_is_edited(ada, prepared):
    files = [m.SourceFile.of(name, name.encode()) for name in ("main.c", "lib/a.h", "notes")]
    sub = m.Submission(user="ada", language="c", files=files, entry="main.c", problem="hello")
    prepared.tasks(make_task(submission=sub, done=True, status="run_failed", verdict="RTE"))
    page = ada.get(f"/submissions/{ID}")
    assert f'href="/problems/hello?from={ID}#submit"' in page.text and "Hello, you!" in page.text
    assert page.text.count('href="/problems/hello"') == 1, "the title leads to the problem"
    form = ada.get(f"/submit?from={ID}").text
    assert all(f'name="keep" value="{file.name}" checked' in form for file in files)
    mended = (io.BytesIO(b"mended"), "main.c")
    typed = {"from": ID, "keep": ["main.c", "lib/a.h"], "language": "c", "entry": "main.c", "source": ""}
    ada.post(f"/submit?from={ID}", "/submit", **typed, file=mended)
    submission = next(request for name, request in prepared.asked if name == "add")
    assert {file.name: file.data for file in submission.files} == {"main.c": b"mended", "lib/a.h": b"lib/a.h"}
    prepared.answers["get"] = failing(NotFoundError("gone"))
    assert ada.get(f"/submit?from={ID}").status_code == 404, "another's is not shown either"


# --- errors ----------------------------------------------------------------------------------------------------


def test_error_pages(app, ada, prepared, monkeypatch):
    answer = ada.get("/none")
    assert answer.status_code == 404 and "There is nothing at /none" in text_of(answer)
    assert ada.client.delete("/submit").status_code == 405
    prepared.answers.clear()
    answer = ada.get("/")
    assert answer.status_code in {503, 504} and answer.headers["Retry-After"]
    assert "Please wait" in answer.text and '<noscript><meta http-equiv="refresh"' in answer.text
    cluster = app.extensions["judge"].cluster
    call = cluster.call
    monkeypatch.setattr(cluster, "call", lambda name, *args: 1 / 0 if name == "problems" else call(name, *args))
    answer = ada.get("/")
    assert answer.status_code == 500 and "Internal error" in answer.text and "ZeroDivision" not in answer.text
