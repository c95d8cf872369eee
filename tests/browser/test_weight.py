"""What each page weighs in a browser that has nothing of it yet: requests, bytes, time to the first paint. Printed."""

from __future__ import annotations

import datetime

import pytest

from judge import clock
from judge.judicator.figures.series import minute
from judge.model import messages as m
from tests.browser.test_figures import busy_minute
from tests.support.gateway import ADMIN
from tests.support.judicators import accepted, source
from tests.support.servers import wait_for

pytestmark = pytest.mark.browser

# With an editor: its sheet, its code and what starts it.
REQUESTS, WITH_EDITOR = 5, 8
BYTES = 300_000
_MEASURE = """
const loaded = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
const paint = performance.getEntriesByType("paint").find((one) => one.name === "first-contentful-paint");
return {
  requests: loaded.length, bytes: loaded.reduce((sum, one) => sum + one.transferSize, 0),
  html: loaded[0].encodedBodySize, answered: loaded[0].responseStart, paint: paint ? paint.startTime : null,
  elsewhere: loaded.map((one) => one.name).filter((name) => !name.startsWith(location.origin)),
};
"""


@pytest.fixture(scope="module")
def task(world):
    """A submission with its verdict."""
    people, executor = world.client(), world.executor("e1", slots=2, languages=("c", "cpp", "python3"))
    executor.report(vacant=0)
    now = minute(clock.wall())
    for number in range(1, 1440):
        begun = now - datetime.timedelta(minutes=number)
        world.db.minutes.insert_one(busy_minute(begun, number % 90))
    made = [people.call("add", source("int x;", user="ada"), m.AddReply).task.id for _ in range(12)]
    wait_for(lambda: executor.report(vacant=12) and made[0] in executor.work, what="the task")
    tests = [m.TestResult(name=f"secret/{number}", verdict="AC", cpu=0.1, wall=0.1, memory=9) for number in range(40)]
    executor.report(accepted(executor.work[made[0]], result=m.Result(tests=tests)), vacant=0)
    return made[0]


def measured(browser, page):
    """What the browser says of a page that it has just loaded, once it is painted."""
    browser.go(page)
    told = {}

    def painted():
        told.update(browser.driver.execute_script(_MEASURE))
        return told["paint"] is not None

    wait_for(painted, what=f"the first paint of {page}")
    return told


def test_pages_are_light(chrome, task, capsys):
    browser = chrome()
    browser.login(ADMIN)
    browser.driver.execute_cdp_cmd("Network.enable", {})
    browser.driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
    pages = ["/", "/submit", "/submissions", f"/submissions/{task}", "/problems", "/executors", "/executors/e1",
             "/judicators", "/figures", "/figures?span=day", "/me", "/users", "/audit", "/webhooks"]  # fmt: skip
    found = {page: measured(browser, page) for page in pages}
    with capsys.disabled():
        print(f"\n{'page':22} {'requests':>8} {'KB in all':>10} {'KB of HTML':>11} {'answer ms':>10} {'paint ms':>9}")
        for page, one in found.items():
            shown = page.replace(task, "ID")
            print(f"{shown:22} {one['requests']:8} {one['bytes'] / 1000:10.1f} {one['html'] / 1000:11.1f} "
                  f"{one['answered']:10.0f} {one['paint']:9.0f}")  # fmt: skip
    for page, one in found.items():
        editor = page == "/submit"
        assert one["requests"] <= (WITH_EDITOR if editor else REQUESTS), page
        assert one["bytes"] <= BYTES, page
        assert not one["elsewhere"], page
