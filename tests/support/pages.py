"""Every page that people see, as tests of all pages go through them: where it is, who looks, and what they do there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flask import Flask

from tests.support.browser import Chrome

# In the gateway's table, but nothing that somebody looks at: files, the front's question.
NO_PAGES = {"static", "editor_js", "editor_css", "favicon", "session"}
ADMIN, PERSON = "grace", "mary"


@dataclass(frozen=True)
class Page:
    """One state of a page. `path` has names of `furnish` in braces; `act` is what is done there before one looks."""

    name: str
    endpoint: str
    path: str
    who: str = ADMIN
    act: Callable[[Chrome], None] = lambda _: None
    sees: str = ""


def _refused(browser: Chrome) -> None:
    browser.fill(user="mary", password="not her password")
    browser.press("Log in")


def _wrong_limit(browser: Chrome) -> None:
    browser.one("details.more summary").click()
    browser.fill(language="c", source="int main(void) {}", cpu="soon")
    browser.press("Submit")


def _unfold(browser: Chrome) -> None:
    for one in browser.all("details:not([open]) > summary"):
        one.click()


def _token(browser: Chrome) -> None:
    if browser.all("details.more summary"):
        browser.one("details.more summary").click()
    browser.fill(label="phone")
    browser.press("Make a token")


def _token_without_scope(browser: Chrome) -> None:
    for one in browser.all("[name=scopes]:checked"):
        one.click()
    browser.press("Make a token")


def _passwords_differ(browser: Chrome) -> None:
    browser.fill(old="something", password="something longer", again="another thing")
    browser.press("Change the password")


def _known_name(browser: Chrome) -> None:
    browser.fill(name="mary")
    browser.press("Add")


def _bad_quota(browser: Chrome) -> None:
    browser.fill(per_minute="many")
    browser.press("Save")


def _webhook(browser: Chrome) -> None:
    browser.fill(name="standings", url="https://scores.example.org/judge")
    browser.press("Save")


def _bad_webhook(browser: Chrome) -> None:
    browser.fill(name="standings", url="https://user:password@scores.example.org/")
    browser.press("Save")


def _no_reason(browser: Chrome) -> None:
    browser.fill(reason=" ")
    browser.press("Rejudge")


PAGES = [
    Page("login", "login", "/login", who="", sees="Log in with the University"),
    Page("login-refused", "login", "/login", who="", act=_refused, sees="do not belong together"),
    Page("login-provider-refuses", "login_back", "/login/with/uni", who="", sees="Uppsala says: access_denied"),
    Page("login-provider-away", "login_with", "/login/with/away", who="", sees="does not answer"),
    Page("overview", "overview", "/", sees="Latest submissions"),
    Page("overview-person", "overview", "/", PERSON, sees="Latest submissions"),
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
    Page("problem", "problem", "/problems/caves", sees="no test is WA"),
    Page("problem-person", "problem", "/problems/guess", PERSON, sees="Sample interaction 1"),
    Page("executors", "executors", "/executors", act=_unfold, sees="hyper-threading"),
    Page("executor", "executor", "/executors/executor-2", sees="a new disk"),
    Page("judicators", "judicators", "/judicators", sees="leader"),
    Page("figures", "figures", "/figures", sees="All figures"),
    Page("figures-day", "figures", "/figures?span=day", sees="Verdicts"),
    Page("me", "me", "/me", sees="laptop"),
    Page("me-token", "me", "/me", act=_token, sees="shown this once"),
    Page("me-token-wrong", "me", "/me", act=_token_without_scope, sees="Scopes"),
    Page("me-password-wrong", "me", "/me", PERSON, _passwords_differ, "differ"),
    Page("users", "users", "/users", sees="disabled"),
    Page("users-none", "users", "/users?prefix=nobody", sees="No account"),
    Page("users-wrong", "users", "/users?group=!", sees="Group: string"),
    Page("users-known", "users", "/users", act=_known_name, sees="choose another name"),
    Page("user", "user", "/users/mary", sees="the bot of our"),
    Page("user-wrong", "user", "/users/mary", act=_bad_quota, sees="valid integer"),
    Page("user-token", "user", "/users/mary", act=_token, sees="shown this once"),
    Page("user-disabled", "user", "/users/linus", sees="Enable"),
    Page("rejudgings", "rejudgings", "/rejudgings", sees="Applied"),
    Page("rejudgings-preview", "rejudgings", "/rejudgings?verdict=WA", sees="would be judged again"),
    Page("rejudgings-wrong", "rejudgings", "/rejudgings?verdict=WA", act=_no_reason, sees="Reason: "),
    Page("rejudging", "rejudging", "/rejudgings/{rejudging_finished}", sees="Apply 2 changes"),
    Page("rejudging-all", "rejudging", "/rejudgings/{rejudging_applied}?all=yes", sees="Changed ones only"),
    Page("rejudging-open", "rejudging", "/rejudgings/{rejudging_open}", sees="0 of 1 judged"),
    Page("rejudging-cancelled", "rejudging", "/rejudgings/{rejudging_cancelled}", sees="Cancelled"),
    Page("audit", "audit", "/audit", sees="login"),
    Page("audit-wrong", "audit", "/audit?since=yesterday", sees="Since: "),
    Page("delete", "delete", "/delete?submission={files}", sees="Delete for good"),
    Page("delete-user", "delete", "/delete?user=mary", sees="What goes"),
    Page("webhooks", "webhooks", "/webhooks", sees="Send again"),
    Page("webhooks-secret", "webhooks", "/webhooks", act=_webhook, sees="shown this once"),
    Page("webhooks-wrong", "webhooks", "/webhooks?state=x", act=_bad_webhook, sees="Url"),
    Page("error", "", "/nothing/here", sees="Not found"),
    Page("error-refused", "", "/users", PERSON, sees="takes a token of role admin"),
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
