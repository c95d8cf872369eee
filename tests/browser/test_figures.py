"""Charts in a real browser: of the cluster's work and of an executor, for everybody, in light, dark and on phones."""

import datetime

import pytest
from selenium.webdriver.common.by import By

from judge.common import clock
from judge.judicator.figures.series import minute
from judge.model.base import CoreSpeed
from judge.model.messages import AddReply
from tests.support.gateway import ADMIN
from tests.support.judicators import accepted, source
from tests.support.pages import busy_minute
from tests.support.servers import wait_for

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def filled(world):
    """An hour and more of figures, and an executor that has started a few times."""
    now = minute(clock.wall())
    for number in range(180):
        begun = now - datetime.timedelta(minutes=number)
        if number not in range(30, 34):  # nobody led then
            world.db.minutes.replace_one({"_id": begun}, busy_minute(begun, number % 90), upsert=True)
    host = world.executor("e1", slots=2)
    for number in range(6):
        host.restart()
        host.info.version = f"0.{number // 3 + 1}.0"
        host.info.languages = {"c": f"gcc 12.{number // 2}", "python3": "3.11"}
        slower = 0.02 * number if number < 5 else 0.18
        host.info.calibration = [
            CoreSpeed(core=core, seconds=0.01 * (1 + slower * core), first=0.01) for core in (1, 2)
        ]
        host.report(vacant=0)
    return host


@pytest.mark.parametrize(
    ("name", "look"),
    [("desktop", {"width": 1280}), ("dark", {"width": 1280, "dark": True}), ("phone", {"width": 390}),
     ("script", {"width": 1280, "javascript": False})],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_charts_fit_and_have_no_barriers(chrome, filled, name, look):
    browser = chrome(ADMIN, **look)
    for page, count in [("/cluster", 2), ("/figures", 5), ("/figures?span=day", 5), ("/executors/e1", 1)]:
        browser.go(page)
        drawn = browser.all(".chart svg")
        assert len(drawn) == count, browser.text()
        if look.get("javascript", True):
            width = browser.driver.execute_script("return document.documentElement.scrollWidth")
            assert width <= browser.width, f"{page} is {width} pixels wide"
        browser.shot(f"figures-{name}-{page.strip('/').replace('?', '-').replace('/', '-') or 'overview'}")
    if look.get("javascript", True):
        assert browser.complaints() == []


def test_a_chart_has_a_text_for_screen_readers(chrome, filled):
    browser = chrome(ADMIN)
    browser.go("/figures")
    captions = {desc.get_attribute("id"): desc.get_attribute("textContent") for desc in browser.driver.find_elements(
        By.CSS_SELECTOR, ".chart desc")}  # fmt: skip
    assert "At most 140 submissions waited" in captions["d-waiting"]
    assert "Accepted: " in captions["d-verdicts"]
    assert "95 of 100 within" in captions["d-times"]
    browser.element("#all-figures summary").click()
    table = browser.driver.execute_script("return document.querySelector('#all-figures tbody').innerText")
    assert "140" in [row.split()[1] for row in table.splitlines()]


def test_a_judged_submission_appears_in_the_charts(chrome, filled, world):
    """From the commit of a verdict, by the judicator's own loop, to the page."""
    task = world.client().call("add", source("print()"), AddReply).task.id
    wait_for(lambda: filled.report() and task in filled.work, what="the task")
    begun = minute(clock.wall())
    before = (world.db.minutes.find_one({"_id": begun}) or {}).get("verdicts", {}).get("AC", 0)
    filled.report(accepted(filled.work[task]), vacant=0)

    def counted() -> bool:
        docs = world.db.minutes.find({"_id": {"$gte": begun}})
        return sum(doc.get("verdicts", {}).get("AC", 0) for doc in docs) > before

    wait_for(counted, what="the count in the database")
