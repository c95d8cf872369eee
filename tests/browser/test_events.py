"""Admins see to webhooks, with JavaScript and without; a page listens with the browser's own EventSource."""

import pytest

from judge.model import messages as m
from tests.support.gateway import ADMIN, USER
from tests.support.judicators import source
from tests.support.servers import wait_for

pytestmark = pytest.mark.browser

LISTEN = """
const done = arguments[arguments.length - 1];
window.heard = [];
const source = new EventSource('/api/v1/events');
source.addEventListener('submission', (event) => window.heard.push([event.lastEventId, JSON.parse(event.data)]));
source.addEventListener('begin', (event) => done(event.lastEventId));
source.onerror = () => done('');
"""


@pytest.mark.parametrize("look", [{}, {"javascript": False, "width": 390}], ids=["usual", "narrow-without-script"])
def test_an_admin_adds_tries_and_removes(chrome, look):
    browser = chrome(ADMIN, **look)
    browser.go("/webhooks")
    browser.sees("No webhook is called yet")
    browser.fill(name="near", url="http://127.0.0.1:9/")
    browser.press("Save")
    browser.sees("no public address")
    assert browser.element("main [name=name]").get_attribute("value") == "near", "what was typed is still there"
    browser.complaints()  # of the answer 400, which is what it should be
    browser.fill(name="board", url="http://none.invalid/x")
    browser.press("Save")
    browser.sees("board is called from now on")
    assert browser.text("#secret").startswith("whsec_")
    browser.shot(f"webhooks-{len(look)}")
    browser.press("Try")
    browser.sees("on its way to board")
    assert "whsec_" not in browser.driver.page_source

    def tried():
        browser.go("/webhooks?webhook=board&state=waiting")
        return "stands for no address" in browser.driver.page_source

    wait_for(tried, what="the first try")
    assert browser.complaints() == []
    width = browser.driver.execute_script("return document.documentElement.scrollWidth") if not look else 0
    assert width <= browser.width
    browser.press("Remove")
    browser.sees("Removed: board")
    browser.sees("No webhook is called yet")


def test_users_do_not_find_the_page_of_webhooks(chrome):
    browser = chrome(USER)
    assert "Webhooks" not in browser.text(".top")
    browser.go("/webhooks")
    browser.sees("requires a token of role admin")


def test_a_page_listens(world, chrome):
    browser = chrome(USER)
    begin = browser.driver.execute_async_script(LISTEN)
    assert "-" in begin, "the session of the pages is enough, and the policy of the pages allows it"
    people = world.client()
    task = people.call("add", source(user="ada"), m.AddReply).task.id
    people.call("add", source(user="bob"), m.AddReply)
    people.call("cancel", m.TaskRef(id=task), m.Task)
    events = wait_for(
        lambda: [data for _, data in browser.driver.execute_script("return window.heard") if data["done"]],
        what="the end",
    )
    assert {event["submission"] for event in events} == {task}
    assert {event["user"] for _, event in browser.driver.execute_script("return window.heard")} == {"ada"}
