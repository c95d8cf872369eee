"""Every page of the gateway's own table in light, dark and on a phone: width, axe, complaints, keyboard.

With JUDGE_SCREENSHOTS=DIRECTORY there is a picture of each to look at; of one with a fault there is always.
"""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

from judge.gateway.app import create_app
from tests.support.gateway import make_config
from tests.support.pages import (
    ADMIN,
    FILES,
    MAIN,
    PAGES,
    PASSWORD,
    PERSON,
    PROGRAM,
    SETTINGS,
    Chrome,
    Page,
    furnish,
    missing,
    usual,
)
from tests.support.receivers import unkind_providers
from tests.support.servers import wait_for

pytestmark = pytest.mark.browser

# By look: the screen, and which of axe's rules say another thing there. In light, and on a phone, where other parts are
# shown and folded, all of them.
LOOKS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "light": ({}, ()),
    "dark": ({"dark": True}, ("color-contrast", "link-in-text-block")),
    "phone": ({"width": 390}, ()),
}
CUT = """return [...document.querySelectorAll("table")].filter((one) => one.checkVisibility()
  && one.parentElement.scrollWidth > one.parentElement.clientWidth).map((one) => one.innerText.slice(0, 80))"""
# A page that refuses answers 400 or so, which the console tells as a failed load; 503 is for a provider that is away.
OF_STATUS = re.compile("Failed to load resource: the server responded with a status of (4|503)")


@pytest.fixture(scope="module")
def judicator_settings():
    return SETTINGS


@pytest.fixture(scope="module")
def gateway_settings(tmp_path_factory):
    with unkind_providers(tmp_path_factory.mktemp("providers")) as settings:
        yield settings


@pytest.fixture(scope="module")
def ids(world):
    return furnish(world)


class Everybody(Chrome):
    """One browser for all of them, with the cookies of everybody who has logged in by the form."""

    cookies: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def browser(base, ids, tmp_path_factory):
    browser = Everybody(tmp_path_factory.mktemp("browser"))
    browser.begin(base, browser.shots)
    browser.cookies = {"": []}
    for name in (ADMIN, PERSON):
        browser.driver.delete_all_cookies()
        browser.enter(name, PASSWORD)
        browser.cookies[name] = browser.driver.get_cookies()
    yield browser
    browser.driver.quit()


@pytest.fixture(autouse=True)
def nothing_said_before(browser):
    """Each test begins with an empty console: a page of an earlier one may have been a refusal, as it should."""
    browser.complaints()


def show(browser, ids, page):
    browser.driver.delete_all_cookies()
    for cookie in browser.cookies[page.person]:
        browser.driver.add_cookie(cookie)
    browser.look()
    browser.go(page.path.format_map(ids))
    if browser.all("#live[data-stream^='/api/v1/events']"):  # after the first look the page stays as it is
        wait_for(lambda: browser.all("html[data-live]"), what="the first look")
    page.act(browser)
    browser.sees(page.sees)


def test_no_page_is_without_an_entry(world, tmp_path):
    assert not missing(create_app(make_config(tmp_path, world.etcd_config, world.tls("gateway-2", "gateway"))))
    assert len({page.name for page in PAGES}) == len(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_fits_and_has_no_barriers(browser, ids, page):
    show(browser, ids, page)
    barriers = []
    for look, (screen, rules) in LOOKS.items():
        browser.look(**screen)
        width = browser.driver.execute_script("return document.documentElement.scrollWidth")
        barriers += [f"{look}: {width} pixels wide"] if width > browser.width else []
        if look != "phone":
            barriers += [f"{look}: a table is cut off: {text}" for text in browser.driver.execute_script(CUT)]
        barriers += [f"{look}: {text}" for text in browser.barriers(*rules)]
        if barriers or "JUDGE_SCREENSHOTS" in os.environ:
            browser.shot(f"{page.name}-{look}")
        ground = browser.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(15, 19, 26)") is screen.get("dark", False)
    barriers += [text for text in browser.complaints() if not OF_STATUS.search(text)]
    assert not barriers, "\n".join(barriers)


@pytest.mark.parametrize("page", usual(), ids=lambda page: page.name)
def test_a_page_is_walked_by_keyboard(browser, ids, page):
    show(browser, ids, page)
    wrong = browser.walk()
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["submissions", "me", "executors"])
def test_a_dark_phone_with_a_keyboard_is_walked_as_well(browser, ids, name):
    show(browser, ids, next(page for page in PAGES if page.name == name))
    browser.look(width=390, dark=True)
    wrong = browser.walk()
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("token", [ADMIN, PERSON])
def test_the_places_to_go_are_one_line_and_on_phones_one_button(browser, ids, token):
    show(browser, ids, Page("", "home", "/", token, sees="Cave Walk"))
    browser.look(width=1024)
    links = browser.all("nav.places a")
    assert len({link.rect["y"] for link in links}) == 1 and browser.element(".top").size["height"] < 70
    assert not browser.element(".menu").is_displayed()
    browser.look(width=390)
    assert browser.element(".top").size["height"] < 70 and not browser.element("nav.places").is_displayed()
    browser.element(".menu summary").click()
    assert [link.text for link in browser.all(".menu a")][:3] == ["Problems", "Submissions", "Submit"]
    assert len(browser.all(".menu a")) == len(links)
    assert browser.barriers() == []
    if "JUDGE_SCREENSHOTS" in os.environ:
        browser.shot(f"menu-{token}")
    browser.look(width=1024)
    if "JUDGE_SCREENSHOTS" in os.environ:
        browser.shot(f"places-{token}")


def test_a_page_that_could_not_be_made_stays_until_it_can(browser, ids):
    """Whoever reads it, or walks through it, is not thrown back to its beginning every few seconds."""
    show(browser, ids, Page("", "login_with", "/login/with/away", person="", sees="does not answer"))
    browser.driver.execute_script(
        "document.querySelector('main a').focus(); document.body.dataset.old = 'yes'; window.told = [];"
        "const real = window.fetch; window.fetch = async (...all) => {"
        "  const answer = await real(...all); window.told.push(answer.status); return answer; }"
    )
    log = "return (window.told || []).slice(0, 2)"  # a page that was loaded anew has none
    wait_for(lambda: browser.driver.execute_script(log) == [503, 503], what="a page that asks twice and stays")
    assert browser.all("body[data-old]") and browser.driver.switch_to.active_element == browser.element("main a")
    # As if it could be made now.
    browser.driver.execute_script("window.fetch = async () => ({status: 200})")
    wait_for(lambda: not browser.all("body[data-old]"), what="the page that is asked for anew")


def test_an_update_of_a_list_keeps_focus_and_scroll_position(browser, ids):
    """Whoever has walked or scrolled into a list is still there when it has been replaced."""
    show(browser, ids, next(page for page in PAGES if page.name == "rejudgings"))
    browser.look(width=300)
    link = f"#live a[href='/rejudgings/{ids['rejudging_applied']}']"
    browser.driver.execute_script(
        "document.querySelector(arguments[0]).focus({preventScroll: true});"
        "document.querySelector('#live .scroll').scrollLeft = 7; document.querySelector('#live').dataset.old = 'yes'",
        link,
    )
    wait_for(lambda: not browser.all("#live[data-old]"), what="the next look")
    assert browser.driver.switch_to.active_element == browser.element(link)
    assert browser.driver.execute_script("return document.querySelector('#live .scroll').scrollLeft") == 7


@pytest.mark.parametrize(
    ("name", "sources"), [("submission-error", [PROGRAM]), ("submission-files", [FILES["six.h"], FILES[MAIN]])]
)
def test_the_lines_of_a_source_have_their_numbers(browser, ids, name, sources):
    """As they are drawn: they are no text of the page, so that nobody copies them."""
    show(browser, ids, next(page for page in PAGES if page.name == name))
    nodes = browser.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    drawn = [node["name"]["value"] for node in nodes if node["role"]["value"] == "InlineTextBox"]
    for text in sources:
        lines = (text if isinstance(text, str) else text.decode()).splitlines()
        expected = [part for number, line in enumerate(lines, 1) for part in (str(number), line, "\n") if part]
        assert any(drawn[at : at + len(expected)] == expected for at in range(len(drawn))), drawn


def test_an_account_from_its_adding_to_its_deletion(browser, ids):
    show(browser, ids, Page("", "users", "/users"))
    browser.fill(name="eve", groups="cs101 cs102", password=PASSWORD)
    browser.press("Add")
    browser.sees("eve is added.")
    browser.fill(role="judge", per_minute="5")
    browser.press("Save")
    browser.sees("eve is changed.")
    browser.element("details.more summary").click()
    browser.fill(label="phone")
    browser.press("Make a token")
    browser.sees("shown only once")
    browser.press("Revoke")
    browser.sees("Revoked.")
    browser.driver.delete_all_cookies()
    browser.enter("eve", PASSWORD)
    browser.go("/me")
    browser.sees("Role judge")
    browser.fill(label="laptop")
    browser.press("Make a token")
    browser.sees("shown only once")
    assert browser.text("#token").startswith("judge_")
    browser.press("Revoke")
    browser.sees("Programs with this token are refused from now on")
    browser.fill(old=PASSWORD, password=f"{PASSWORD} 2", again=f"{PASSWORD} 2")
    browser.press("Change the password")
    browser.sees("Your password is changed.")
    browser.press("Log out", ".top")
    browser.sees("You need a name and password")
    browser.enter("eve", f"{PASSWORD} 2")
    show(browser, ids, Page("", "user", "/users/eve"))
    for button, message in [("Disable", "disabled: no log-in"), ("Enable", "may log in again")]:
        browser.press(button)
        browser.sees(message)
    browser.all("details.more summary")[-1].click()
    browser.fill(confirm="eve")
    browser.press("Delete the account")
    browser.sees("eve is deleted.")
    assert browser.complaints() == []
