"""Headless Chromium, the list of all pages, and a cluster with something on each of them."""

import base64
import datetime
import functools
import importlib.util
import math
import os
import secrets
import shutil
import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flask import Flask
from selenium import webdriver
from selenium.common.exceptions import (
    NoSuchElementException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from judge.common import clock
from judge.config.allowance import Quota
from judge.gateway.auth import token_digest
from judge.judicator.figures.series import minute
from judge.model import audit
from judge.model import messages as m
from judge.model import people as p
from judge.model.base import CoreSpeed
from judge.model.overview import DrainRequest, ExecutorState
from judge.model.problem import (
    LimitOrigin,
    ProblemImport,
    ProblemInfo,
    ProblemManifest,
    ProblemTest,
    ProblemType,
    Statement,
    Verification,
    VerifiedRow,
)
from judge.model.visibility import ProblemChange
from judge.model.webhooks import DeliveriesReply, DeliveriesRequest, WebhookAdd, WebhookAdded
from judge.problems.package import manifest_bytes
from judge.rpc.client import RpcClient
from tests.support import judicators
from tests.support.judicators import Executor, World, accepted
from tests.support.receivers import receiving
from tests.support.servers import wait_for
from tests.support.statements import render_statements

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
]  # fmt: skip


# The editor stands in the field's place once the field is used.
_INTO_EDITOR = """
const [field, text, done] = arguments;
field.focus();
(function type() {
  const editor = field.nextElementSibling?.CodeMirror;
  if (!editor) return setTimeout(type, 20);
  editor.setValue(text);
  done();
})();
"""
_LISTEN = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
_AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@functools.cache
def _axe() -> str:
    # The package's own code drives another browser; what is wanted of it is the script that it brings along.
    package = importlib.util.find_spec("axe_playwright_python")
    assert package is not None and package.origin is not None, "make setup-test installs axe"
    return (Path(package.origin).parent / "axe.min.js").read_text(encoding="utf-8")


class Chrome:
    """One browser with a profile of its own. `begin` is called before each use."""

    def __init__(self, directory: Path, *, javascript: bool = True) -> None:
        self.base = ""
        self.shots = directory
        self.width = 1280
        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for flag in [*FLAGS, f"--user-data-dir={directory / 'profile'}", f"--window-size={self.width},900"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        if not javascript:
            options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
        self.driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))

    def begin(self, base: str, shots: Path, *, width: int = 1280, dark: bool = False) -> None:
        self.driver.get("about:blank")
        for command, values in (
            ("Network.clearBrowserCookies", {}),
            ("Network.clearBrowserCache", {}),
            ("Network.setCacheDisabled", {"cacheDisabled": False}),
            ("Storage.clearDataForOrigin", {"origin": base, "storageTypes": "all"}),
            ("Browser.resetPermissions", {}),
        ):
            self.driver.execute_cdp_cmd(command, values)
        self.complaints()
        self.base, self.shots = base, shots
        self.look(width=width, dark=dark)

    def look(self, *, width: int = 1280, dark: bool = False) -> None:
        """Be a screen of this width, of somebody who likes it light or dark."""
        self.width = width
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)

    def go(self, path: str) -> None:
        self.driver.get(self.base + path)

    def element(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "main") -> str:
        """What a person reads there, on one line; while one page takes another one's place, what is on the next."""

        def read() -> list[str]:
            try:
                return [str(self.element(selector).text)]
            except (NoSuchElementException, StaleElementReferenceException):
                return []

        return " ".join(wait_for(read, what=f"a page with '{selector}'")[0].split())

    def fill(self, **fields: str) -> None:
        for name, value in fields.items():
            field = self.element(f"main [name={name}]:not([type=hidden])")
            # The editor closes brackets that somebody types.
            if self.driver.execute_script("return Boolean(arguments[0].dataset.editor)", field):
                self.driver.execute_async_script(_INTO_EDITOR, field, value)
                continue
            if field.tag_name == "select":
                next(option for option in Select(field).options if option.get_property("value") == value).click()
            else:
                if name != "file":
                    field.clear()
                field.send_keys(value)

    def press(self, words: str, inside: str = "main") -> None:
        for button in self.element(inside).find_elements(By.CSS_SELECTOR, "button"):
            if button.text == words:
                button.click()
                return
        raise AssertionError(f"there is no button '{words}' in: {self.text(inside)}")

    def sees(self, words: str, selector: str = "main", timeout: float = 60.0) -> None:
        """Wait until these words are on the page."""
        texts = [""]

        def shown_now() -> bool:
            try:
                texts.append(self.text(selector))
            except WebDriverException:
                return False  # the page is being replaced
            return words in texts[-1]

        try:
            wait_for(shown_now, timeout=timeout)
        except AssertionError:
            raise AssertionError(f"'{words}' is not on the page, which says: {texts[-1][:600]}") from None

    def login(self, token: str) -> None:
        self._login(token=token)

    def enter(self, user: str, password: str) -> None:
        self._login(user=user, password=password)

    def _login(self, **fields: str) -> None:
        self.go("/login")
        self.fill(**fields)
        self.press("Log in")
        self.sees("Log out", ".top")

    def picture(self, height: int) -> bytes:
        """The page from its top on as a PNG, so many pixels of it at most."""
        page = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": self.width, "height": min(page["height"], height), "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        return base64.b64decode(shot["data"])

    def shot(self, name: str) -> None:
        """Save the whole page as a picture, also to $JUDGE_SCREENSHOTS when it is set."""
        data = self.picture(3000)
        for directory in filter(None, [self.shots, os.environ.get("JUDGE_SCREENSHOTS")]):
            Path(directory).mkdir(parents=True, exist_ok=True)
            (Path(directory) / f"{name}.png").write_bytes(data)

    def barriers(self, *rules: str) -> list[str]:
        """What axe finds against WCAG 2.2 AA on the page: rule, what is wrong, and where; by these rules or all."""
        runs_only = {"type": "rule", "values": list(rules)} if rules else _AXE_TAGS
        script = "axe.run(document, {runOnly: arguments[0], resultTypes: ['violations']}).then(arguments[1])"
        if not self.driver.execute_script("return Boolean(window.axe)"):
            script = f"{_axe()};{script}"
        report = self.driver.execute_async_script(script, runs_only)
        return [
            f"{violation['id']}: {violation['help']}: {node['html'][:200]} ({node['failureSummary'][:300]})"
            for violation in report["violations"]
            for node in violation["nodes"]
        ]

    def walk(self) -> list[str]:
        """What is wrong for whoever walks through the page by the tabulator: each control in its turn, seen to have it.

        A ring, and a field's edge, stands out where it differs from what is around by 3 to 1 (WCAG 1.4.11); nothing may
        cut a ring off.
        """
        count = self.driver.execute_script(_LISTEN)
        # Escape lets an editor give the next tabulator away; elsewhere it does nothing.
        ActionChains(self.driver).send_keys((Keys.ESCAPE + Keys.TAB) * (count + 3)).perform()
        return [str(stop) for stop in self.driver.execute_script("return window.walked()")]

    def complaints(self) -> list[str]:
        """What the console complained of since the last call: policy violations, script errors, failed loads."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [str(entry["message"]) for entry in entries if entry["level"] in {"WARNING", "SEVERE"}]


TEXT = r"""# Cave Walk

You walk through a cave with $n$ rooms. Room $i$ is $h_i$ metres high ($1 \le h_i \le 10^9$), and you may go from room
$u$ to room $v$ when $|h_u - h_v| \le k$. What is the **shortest** way from room $1$ to room $n$[^1]?

![Three rooms and the way through them](cave.png){ width=60% }

The number of steps is
$$
d(v) = \begin{cases} 0 & \text{if } v = 1 \\ \min_{u \to v} d(u) + 1 & \text{otherwise} \end{cases}
$$

## Input

The input consists of:

- one line with two integers $n$ and $k$ ($2 \le n \le 2 \cdot 10^5$, $0 \le k \le 10^9$), the number of rooms and how
  high a step may be;
- one line with $n$ integers $h_1, h_2, \ldots, h_n$.

## Output

Output the number of steps, or `impossible` if there is no way.

{{nextsample}}

In the first sample you go straight from room 1 to room 3, as $|5 - 4| \le 2$.

{{nextsample}}

## Scoring

| Group | Points | Constraints |
|:-----:|-------:|-------------|
| 1     | 30     | $n \le 100$ |
| 2     | 70     | No additional constraints |

[^1]: A way of $d$ steps visits $d + 1$ rooms.
"""
SWEDISH = "Du går genom en grotta med $n$ rum.\n\n## Indata\n\nTvå heltal.\n"


def png(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = b"".join(b"\0" + bytes((x * y) % 200 + 40 for x in range(width)) for y in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def pdf(text: str) -> bytes:
    content = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    document, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(document))
        document += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 6\n0000000000 65535 f \n%strailer\n<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
    return document + end % (table, len(document))


def statement(put: Callable[[bytes], str], language: str, name: str, data: bytes, **extra: Any) -> Statement:
    """A statement of one file, with others beside it."""
    files = {path: put(content) for path, content in extra.pop("files", {}).items()}
    return Statement(language=language, main=name, files={name: put(data), **files}, **extra)


def problem(put: Callable[[bytes], str], name: str = "caves", **changes: Any) -> ProblemManifest:
    """A problem told in two languages and as PDF, with samples, an attachment and an inferred limit."""
    tests = [
        ProblemTest(name="sample/1", input=put(b"3 2\n5 9 4\n"), answer=put(b"1\n"), sample=True),
        ProblemTest(name="sample/2", input=put(b"2 0\n1 2\n"), answer=put(b"impossible\n"), sample=True),
        ProblemTest(name="sample/3", input=put(b"4 9\n1 9 2 8\n"), answer=put(b"1\n"), sample=True),
        ProblemTest(name="secret/1", input=put(b"secret input 7\n"), answer=put(b"secret answer 7\n")),
    ]
    values: dict[str, Any] = {
        "name": name,
        "title": "Cave Walk",
        "limits": m.Limits(cpu=2.0, memory=1024**3),
        "tests": tests,
        "statements": [
            statement(put, "en", "problem.en.md", TEXT.encode(), files={"cave.png": png(320, 120)}),
            statement(put, "en", "problem.en.pdf", pdf("Cave Walk, as its author drew it")),
            statement(put, "sv", "problem.sv.md", SWEDISH.encode(), title="Grottvandring"),
        ],
        "attachments": {"tools/view.py": put(b"print('view')\n"), "rooms.txt": put(b"<script>alert(1)</script>\n")},
        "limit_origin": LimitOrigin(
            how="inferred", slowest="accepted/bfs.py", slowest_cpu=0.81, multiplier=2.0, resolution=1.0,
            too_slow={"time_limit_exceeded/quadratic.cpp": 8.2}, left_out=["accepted/bfs.kt: no executor has kotlin"],
        ),
        "format": "2025-09",
        **changes,
    }  # fmt: skip
    return ProblemManifest(**values)


def interactive(put: Callable[[bytes], str], name: str = "guess") -> ProblemManifest:
    """An interactive problem of several passes with a sample dialogue."""
    talk = b"<100\n>50\n<lower\n>25\n<higher\n>30\n<correct\n---\n<7\n>7\n<correct\n"
    return problem(
        put,
        name,
        title="Guess the Number",
        type=[ProblemType.PASS_FAIL, ProblemType.INTERACTIVE],
        statements=[statement(put, "en", "problem.en.md", b"I think of a number.\n")],
        attachments={},
        limit_origin=None,
        tests=[ProblemTest(name="secret/1", input=put(b"7\n"), answer=put(b"7\n"))],
        interactions={"sample/1": put(talk)},
    )


# Endpoints of the gateway that are no pages: a redirection to the icon, and nginx's question about large bodies.
NO_PAGES = {"admission", "favicon", "results_csv"}
ADMIN, PERSON = "grace", "mary"


@dataclass(frozen=True)
class Page:
    """One state of a page. `path` has names of `furnish` in braces; `act` is what is done there before one looks."""

    name: str
    endpoint: str
    path: str
    person: str = ADMIN
    act: Callable[[Chrome], None] = lambda _: None
    sees: str = ""


def _send(button: str, **fields: str) -> Callable[[Chrome], None]:
    """Fill a form in, and press its button."""

    def act(browser: Chrome) -> None:
        browser.fill(**fields)
        browser.press(button)

    return act


def _import(table: str) -> Callable[[Chrome], None]:
    """Upload a table of accounts; `{new}` in it is the name of one that there is not."""

    def act(browser: Chrome) -> None:
        path = browser.shots / "people.csv"
        path.write_text(table.format(new=f"u{secrets.token_hex(6)}"), encoding="utf-8")
        browser.element("main [name=file]").send_keys(str(path))
        browser.press("Import")

    return act


def _wrong_limit(browser: Chrome) -> None:
    browser.element("details.more summary").click()
    browser.fill(language="c", source="int main(void) {}", cpu="soon")
    browser.press("Submit")


def _unfold(browser: Chrome) -> None:
    for summary in browser.all("main details:not([open]) > summary"):
        summary.click()


def _token(browser: Chrome) -> None:
    if browser.all("details.more summary"):
        browser.element("details.more summary").click()
    browser.fill(label="phone")
    browser.press("Make a token")


def _token_without_scope(browser: Chrome) -> None:
    for box in browser.all("[name=scopes]:checked"):
        box.click()
    browser.press("Make a token")


def _delete_user(browser: Chrome) -> None:
    browser.all("details.more summary")[-1].click()
    browser.fill(confirm="nobody")
    browser.press("Delete the account")


_wrong_password = _send("Log in", user="mary", password="not her password")
_differing_passwords = _send("Change the password", old="something", password="something longer", again="another thing")
_webhook = _send("Save", name="standings", url="https://scores.example.org/judge")
_bad_webhook = _send("Save", name="standings", url="https://user:password@scores.example.org/")

PAGES = [
    Page("login", "login", "/login", person="", sees="Log in with the University"),
    Page(
        "login-refused",
        "login",
        "/login",
        person="",
        act=_wrong_password,
        sees="The name or the password is wrong",
    ),
    Page("login-provider-refuses", "login_back", "/login/with/uni", person="", sees="Uppsala says: access_denied"),
    Page("login-provider-away", "login_with", "/login/with/away", person="", sees="does not answer"),
    Page("help", "help", "/help", person="", act=_unfold, sees="COBOL"),
    Page("help-person", "help", "/help", PERSON, sees="that are judged here now"),
    Page("home", "home", "/", PERSON, sees="Tried"),
    Page("overview", "overview", "/cluster", sees="Latest submissions"),
    Page("submit", "submit", "/submit?problem=caves"),
    Page("submit-wrong", "submit", "/submit", act=_wrong_limit, sees="number"),
    Page("submissions", "submissions", "/submissions", sees="Executor"),
    Page("submissions-none", "submissions", "/submissions?problem=none", sees="No submission matches"),
    Page("submissions-wrong", "submissions", "/submissions?limit=x", sees="Limit"),
    Page("submission-accepted", "submission", "/submissions/{AC}", act=_unfold, sees="SHA-256"),
    Page("submission-error", "submission", "/submissions/{CE}", sees="main.c:7"),
    Page("submission-diff", "submission", "/submissions/{diff}", sees="Output beside the answer"),
    Page("submission-problem", "submission", "/submissions/{problem}", PERSON, _unfold, "A secret test"),
    Page("submission-files", "submission", "/submissions/{files}", sees="It is not UTF-8 text"),
    Page("submission-command", "submission", "/submissions/{command}", sees="sort -n"),
    Page("submission-rejudged", "submission", "/submissions/{TLE}", sees="Earlier verdicts"),
    Page("submission-running", "submission", "/submissions/{running}", sees="test 2 of 3"),
    Page("submission-waiting", "submission", "/submissions/{waiting}", PERSON, sees="Waiting"),
    Page("submission-cancelled", "submission", "/submissions/{cancelled}", PERSON, sees="Cancelled"),
    Page("problems", "problems", "/problems", sees="Cave Walk"),
    Page("problems-tag", "problems", "/problems?tag=games", sees="hard"),
    Page("problem", "problem", "/problems/caves", sees="no test is WA"),
    Page("problem-person", "problem", "/problems/guess", PERSON, sees="Sample interaction 1"),
    Page("problem-runs", "problem", "/problems/caves", PERSON, _unfold, "Run on this input"),
    Page("problem-wrong", "problem", "/problems/caves", PERSON, _send("Run on the samples"), "Choose one"),
    Page("problem-hidden", "problem", "/problems/guess", sees="Owners"),
    Page("executors", "executors", "/executors", act=_unfold, sees="hyper-threading"),
    Page("executor", "executor", "/executors/executor-2", sees="a new disk"),
    Page("judicators", "judicators", "/judicators", sees="leader"),
    Page("figures", "figures", "/figures", sees="All figures"),
    Page("figures-day", "figures", "/figures?span=day", sees="Verdicts"),
    Page("me", "me", "/me", sees="laptop"),
    Page("me-token", "me", "/me", act=_token, sees="shown only once"),
    Page("me-token-wrong", "me", "/me", act=_token_without_scope, sees="Scopes"),
    Page("me-password-wrong", "me", "/me", PERSON, _differing_passwords, "differ"),
    Page("users", "users", "/users", sees="disabled"),
    Page("users-none", "users", "/users?prefix=nobody", sees="No account"),
    Page("users-wrong", "users", "/users?group=!", sees="Group: expected a name"),
    Page("users-known", "users", "/users", act=_send("Add", name="mary"), sees="choose another name"),
    Page("users-import", "users", "/users", act=_import("user,name\n{new},Ida Rhodes\n"), sees="shown only once"),
    Page("users-import-wrong", "users", "/users", act=_import("user\nmary\n"), sees="line 2: there is a user"),
    Page("user", "user", "/users/mary", sees="the bot of our"),
    Page("user-wrong", "user", "/users/mary", act=_send("Save", per_minute="many"), sees="expected an integer"),
    Page("user-delete", "user", "/users/mary", act=_delete_user, sees="type its name, mary, to confirm"),
    Page("user-token", "user", "/users/mary", act=_token, sees="shown only once"),
    Page("user-disabled", "user", "/users/linus", sees="Enable"),
    Page("rejudgings", "rejudgings", "/rejudgings", sees="Applied"),
    Page("rejudgings-preview", "rejudgings", "/rejudgings?verdict=WA", sees="would be judged again"),
    Page("rejudgings-wrong", "rejudgings", "/rejudgings?verdict=WA", act=_send("Rejudge", reason=" "), sees="Reason: "),
    Page("rejudging", "rejudging", "/rejudgings/{rejudging_finished}", sees="Apply 2 changes"),
    Page("rejudging-all", "rejudging", "/rejudgings/{rejudging_applied}?all=yes", sees="Changed ones only"),
    Page("rejudging-open", "rejudging", "/rejudgings/{rejudging_open}", sees="0 of 1 judged"),
    Page("rejudging-cancelled", "rejudging", "/rejudgings/{rejudging_cancelled}", sees="Cancelled"),
    Page("audit", "audit", "/audit", sees="login"),
    Page("audit-wrong", "audit", "/audit?since=yesterday", sees="Since: "),
    Page("delete", "delete", "/delete?submission={files}", sees="Delete for good"),
    Page("delete-user", "delete", "/delete?user=mary", sees="What goes"),
    Page("webhooks", "webhooks", "/webhooks", sees="Send again"),
    Page("webhooks-secret", "webhooks", "/webhooks", act=_webhook, sees="shown only once"),
    Page("webhooks-wrong", "webhooks", "/webhooks?state=x", act=_bad_webhook, sees="Url"),
    Page("docs", "docs", "/docs", person="", sees="Hand in a submission"),
    Page("docs-open", "docs", "/docs", act=_unfold, sees="every user"),
    Page("error", "", "/nothing/here", sees="Not found"),
    Page("error-refused", "", "/users", PERSON, sees="requires a token of role admin"),
]


def missing(app: Flask) -> set[str]:
    """The pages of a gateway's own table that none of these is a state of; the two APIs answer programs."""
    served = {
        rule.endpoint
        for rule in app.url_map.iter_rules()
        if "GET" in (rule.methods or ()) and not rule.rule.startswith("/api/") and rule.endpoint[:7] != "judge0."
    }
    return served - NO_PAGES - {page.endpoint for page in PAGES}


def usual() -> list[Page]:
    """Each page once, as it is first of all."""
    return list({page.endpoint: page for page in reversed(PAGES) if page.endpoint}.values())[::-1]


PASSWORD = "correct horse battery staple"
# The settings of such a world's judicator: it may call a receiver on this host.
SETTINGS: dict[str, Any] = {"webhooks": {"networks": ["127.0.0.0/8"]}}
LANGUAGES = ("c", "cpp", "python3")
PROGRAM = """#include <stdio.h>

int main(void) {
    int a, b; /* a comment so long that the line is wider than most screens: it has to be scrolled, not the page */
    if (scanf("%d %d", &a, &b) != 2)
        return 1;
    printf("%d\\n", a + b)
}
"""
MAIN = "a/long/way/down/to/main.c"
FILES = {"six.h": b"int six(void);\r\n", "six.c": b"int six(void) { return 6; } // caf\xe9\n", "notes.txt": b"",
         MAIN: b'#include "six.h"\nint main(void) {\n    return six();\n}\n'}  # fmt: skip


def busy_minute(begun: datetime.datetime, number: int) -> dict[str, object]:
    """A minute of a day with a rush in it, as judicators write it."""
    rush = math.exp(-(((number - 25) / 9) ** 2))
    ends = round(20 + 160 * rush)
    return {
        "_id": begun, "begun": begun, "waiting": round(140 * rush**2), "slots": 8 if number > 12 else 6, "looks": 6,
        "busy": round(6 * min(8, 1 + 9 * rush)), "rejudged": 12 if 40 < number < 48 else 0,
        "verdicts": {"AC": ends // 2, "WA": ends // 4, "TLE": ends // 9, "RTE": ends // 12, "CE": ends // 14, "SV": 1},
        "times": {"-3": ends // 2, "1": ends // 3, "5": max(1, round(9 * rush))},
    }  # fmt: skip


def furnish(world: World) -> dict[str, str]:
    """Fill a world with SETTINGS; names of what the pages are about, as PAGES writes them."""
    client, executor = world.client(), world.executor("executor-1", slots=4, languages=LANGUAGES)
    executor.report(vacant=0)
    _people(client)
    _problems(client, executor)
    _executors(world)
    now = minute(clock.wall())
    led = [number for number in range(2, 1440) if number not in range(30, 34)]  # the newest minute is still counted
    world.db.minutes.insert_many([busy_minute(now - datetime.timedelta(minutes=age), age % 90) for age in led])
    with receiving() as receiver:
        receiver.answer = lambda _, call: 410 if call.path.endswith("gone") else 204
        _add_webhook(client, "scores", receiver.url, user="mary")
        _add_webhook(client, "a-chat-of-an-organiser-with-a-long-name", f"{receiver.url}/{'very-long-way/' * 9}gone")
        ids = _judged(client, executor)
        _wait_delivered(client)
    return ids | _rejudged(client, executor, ids) | _unjudged(client, executor)


# --- people, problems, machines ------------------------------------------------------------------------------------


def _people(client: RpcClient) -> None:
    groups = ["cs101-autumn", "cs101-teachers", "algorithms-and-data-structures", "contest-2026"]
    quota = Quota(per_minute=30, waiting=20, slot_share=0.5, stored_bytes=10**9)
    for person in (
        p.UserAdd(name="grace", role="admin", password=PASSWORD),
        p.UserAdd(name="mary", display_name="Mary Kenneth Keller", groups=groups, password=PASSWORD, quota=quota),
        p.UserAdd(name="somebody-with-the-longest-name-that-an-account-may-have.b@b.edu"),
    ):
        client.call("user_add", person, p.User)
    client.call("user_add", p.UserAdd(name="linus"), p.User)
    client.call("user_change", p.UserChange(name="linus", disabled=True), p.User)
    for number, (user, label, scopes) in enumerate([
        ("grace", "laptop", p.USUAL), ("grace", "", p.SCOPES), ("mary", "the bot of our course's chat room", p.USUAL),
    ]):  # fmt: skip
        digest = token_digest(f"token {number}")
        ends = clock.wall() + datetime.timedelta(days=90) if label else None
        token = p.TokenNew(digest=digest, user=user, label=label, scopes=list(scopes), expires=ends)
        client.call("token_create", token, p.TokenInfo)


def bring(client: RpcClient, manifest: ProblemManifest, *, visible: bool = True) -> ProblemInfo:
    """Import a problem."""
    blob = client.put_blob(manifest_bytes(manifest))
    return client.call("problem_import", ProblemImport(manifest=blob, visible=visible), ProblemInfo)


def verify(client: RpcClient, caves: ProblemInfo) -> None:
    """Store that the problem's own submissions were judged, one of them with another verdict than expected."""
    rows = [
        VerifiedRow(submission="accepted/bfs.py", language="python3", verdict="AC", expected="AC", cpu=0.81,
                    limit=2.0, margin=2.5),
        VerifiedRow(submission="time_limit_exceeded/quadratic.cpp", language="cpp", verdict="TLE", expected="AC, TLE",
                    cpu=2.0, limit=2.0),
        VerifiedRow(submission="wrong_answer/greedy.cpp", language="cpp", verdict="AC", expected="WA", cpu=0.1,
                    limit=2.0, margin=20.0, wrong="no test is WA"),
    ]  # fmt: skip
    outcome = Verification(problem="caves", hash=caves.hash, rows=rows, left_out=["accepted/bfs.kt: nobody has kotlin"])
    client.call("problem_verified", outcome, m.Empty)


def _problems(client: RpcClient, executor: Executor) -> None:
    caves = bring(client, problem(client.put_blob))
    render_statements(client, executor, caves, bring(client, interactive(client.put_blob), visible=False))
    by = audit.By(actor=ADMIN, role="admin")
    client.call(
        "problem_change",
        ProblemChange(name="guess", owners=[PERSON], tags=["games"], difficulty="hard"),
        ProblemInfo,
        by=by,
    )
    verify(client, caves)


def _executors(world: World) -> None:
    host = world.executor("executor-2", slots=2)
    for number in range(4):
        host.restart()
        host.info.version = f"0.{number + 1}.0"
        host.info.languages = {"c": f"gcc 12.{number // 2}", "python3": "3.11"}
        host.info.checks = ["WARN hyper-threading is on, so the times of two runs on one core differ by a third"]
        slow = 0.02 * number
        host.info.calibration = [CoreSpeed(core=core, seconds=0.01 * (1 + slow * core), first=0.01) for core in (1, 2)]
        host.report(vacant=0)
    reason = "a new disk, and after that the cable to the switch, which was bent"
    request = DrainRequest(executor="executor-2", drain=True, reason=reason)
    world.client().call("drain", request, ExecutorState)


def _add_webhook(client: RpcClient, name: str, url: str, user: str | None = None) -> None:
    client.call("webhook_add", WebhookAdd(name=name, url=url, user=user), WebhookAdded)


def _wait_delivered(client: RpcClient) -> None:
    """Wait until a call has arrived and another was given up."""

    def states() -> set[str]:
        reply = client.call("deliveries", DeliveriesRequest(), DeliveriesReply)
        return {delivery.state for delivery in reply.deliveries}

    wait_for(lambda: states() >= {"delivered", "failed"}, what="told webhooks")


# --- submissions ---------------------------------------------------------------------------------------------------


def results(*verdicts: str, names: Iterable[str] = (), **fields: object) -> m.Result:
    labels = [*names] or [f"{'sample' if number == 1 else 'secret'}/{number}" for number, _ in enumerate(verdicts, 1)]
    tests = [
        m.TestResult(
            name=name, verdict=m.Verdict[verdict], cpu=0.0021 * number, wall=0.004 * number,
            memory=1_600_000 + 90_000 * number, output="1\n2 5\n" + "4 " * 200 + "\n", output_bytes=407, exit_code=0,
            message="" if verdict == "AC" else "token 1 on line 1: judge has 4, you have 3",
            output_sha256="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        )
        for number, (name, verdict) in enumerate(zip(labels, verdicts, strict=True), 1)
    ]  # fmt: skip
    tests[-1].repeated = m.Repeated(cpu=1.0342, wall=1.0671, exclusive=True)
    values: dict[str, object] = {
        "tests": tests, "cpu": 0.01, "wall": 0.02, "memory": 1_800_000, "limits": m.Limits(), "judge_version": "0.1.0",
        "language_version": "gcc (Debian 12.2.0-14+deb12u1) 12.2.0", "sandbox": "slot 0, core 1",
        "compile": m.RunUsage(cpu=0.04, wall=0.06, memory=30_000_000, exit_code=0),
        "compile_log": "main.c:5:5: warning: ignoring return value of 'scanf' [-Wunused-result]\n",
        **fields,
    }  # fmt: skip
    return m.Result.model_validate(values)


def _add(client: RpcClient, **fields: object) -> str:
    values = {"user": "mary", "language": "c", **fields}
    return client.call("add", m.Submission.model_validate(values), m.AddReply).task.id


def _finish(executor: Executor, task: str, verdict: str, result: m.Result) -> None:
    wait_for(lambda: executor.report(vacant=1) and task in executor.work, what="the task at the executor")
    status = judicators.STATUS.get(verdict, m.Status.RUN_FAILED)
    executor.report(accepted(executor.work[task], status=status, verdict=m.Verdict[verdict], result=result), vacant=0)


def _judged(client: RpcClient, executor: Executor) -> dict[str, str]:
    ids = {}
    for verdict in ("AC", "TLE", "MLE", "RTE"):
        ids[verdict] = _add(client, source=f"{PROGRAM}// {verdict}\n")
        _finish(executor, ids[verdict], verdict, results("AC", "AC", verdict))
    ids["problem"] = _add(client, problem="caves", source=PROGRAM)
    names = ["sample/1", "sample/2", "sample/3", "secret/1"]
    _finish(executor, ids["problem"], "WA", results("AC", "WA", "AC", "AC", names=names))
    ids["CE"] = _add(client, source=PROGRAM)
    complaint = "main.c:7:26: error: expected ';' before '}' token\n/usr/include/stdio.h:4:5: note: here\n"
    failed = m.Result(compile_log=complaint, reason="the compiler ended with exit code 1",
                      compile=m.RunUsage(cpu=0.1, wall=0.1, memory=9, exit_code=1))  # fmt: skip
    _finish(executor, ids["CE"], "CE", failed)
    tests = [m.Test(name="one", input="", answer="1\n2 3\n" + "4 " * 200 + "\n")]
    ids["diff"] = _add(client, source=PROGRAM, tests=tests)
    _finish(executor, ids["diff"], "WA", results("WA", names=["one"]))
    files = [m.SourceFile.of(name, data) for name, data in FILES.items()]
    ids["files"] = _add(client, files=files, entry=MAIN)
    _finish(executor, ids["files"], "AC", results("AC"))
    ids["command"] = _add(client, language=None, command="sort -n | uniq -c", stdin="3\n1\n2\n")
    _finish(executor, ids["command"], "AC", m.Result(stdout="1 1\n1 2\n1 3\n", cpu=0.01, memory=10**6))
    return ids


def _rejudged(client: RpcClient, executor: Executor, first_ids: dict[str, str]) -> dict[str, str]:
    reason = "The answer of test 2 was wrong, as a contestant from Uppsala has shown with a program of four lines"
    numbers = {}
    for state, ids in [("applied", [first_ids["TLE"]]), ("finished", [first_ids["MLE"], first_ids["RTE"]])]:
        begun = judicators.start(client, reason, ids=ids)
        judicators.rejudge(executor, dict.fromkeys(judicators.sources(client, ids), "AC"), tests=results("AC").tests)
        wait_for(lambda number=begun.id: judicators.show(client, number).state == "finished", what="its end")
        numbers[state] = begun.id
    judicators.act(client, "apply", numbers["applied"])
    judicators.settled(client, numbers["applied"])
    given_up = judicators.start(client, reason, ids=[first_ids["AC"]])
    judicators.act(client, "cancel", given_up.id)
    judicators.settled(client, given_up.id)
    numbers |= {"cancelled": given_up.id, "open": judicators.start(client, reason, ids=[first_ids["diff"]]).id}
    return {f"rejudging_{state}": str(number) for state, number in numbers.items()}


def _unjudged(client: RpcClient, executor: Executor) -> dict[str, str]:
    running = _add(client, source=PROGRAM, priority="high")
    wait_for(lambda: executor.report(vacant=1) and running in executor.work, what="the task at the executor")
    executor.works_on(running, "test 2 of 3")
    cancelled = _add(client, source=PROGRAM)
    client.call("cancel", m.TaskRef(id=cancelled), m.Task)
    return {"running": running, "cancelled": cancelled, "waiting": _add(client, source=PROGRAM)}
