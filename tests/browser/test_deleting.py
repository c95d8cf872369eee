"""Admins delete and look into the audit trail, with JavaScript and without, on a wide screen and a narrow one."""

import pytest

from judge.model import messages as m
from tests.support.gateway import ADMIN
from tests.support.judicators import accepted, imported, source
from tests.support.servers import wait_for

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def executor(world):
    executor = world.executor("executor-1", slots=4)
    executor.report(vacant=0)
    return executor


def judged(world, executor, **fields):
    people = world.client(f"gw-{len(world.judicators)}")
    task = people.call("add", source(**fields), m.AddReply).task.id

    def turn():
        executor.report(*[accepted(assignment) for assignment in list(executor.work.values())])
        return people.call("get", m.GetRequest(id=task), m.Task).done

    wait_for(turn, what="a verdict")
    return task


def follow(browser, words):
    browser.driver.find_element("partial link text", words).click()


@pytest.mark.parametrize("look", [{}, {"javascript": False, "width": 390}], ids=["usual", "narrow-without-script"])
def test_an_admin_sees_what_goes_and_deletes(world, executor, chrome, look):
    task = judged(world, executor, user="ada")
    imported(world.client(), "sum")
    browser = chrome(ADMIN, **look)
    browser.go(f"/submissions/{task}")
    browser.driver.find_element("css selector", "#technical summary").click()
    follow(browser, "Delete")
    browser.sees("What goes")
    browser.sees("with its source, result and history")
    browser.shot(f"delete-{len(look)}")
    follow(browser, "Keep it")
    browser.go(f"/submissions/{task}")
    browser.driver.find_element("css selector", "#technical summary").click()
    follow(browser, "Delete")
    browser.press("Delete for good")
    browser.sees(f"Deleted: submission {task}.")
    browser.go("/problems")
    follow(browser, "Delete")
    browser.press("Delete for good")
    browser.sees("Deleted: problem sum.")
    judged(world, executor, user="eve")
    browser.go("/audit")
    browser.fill(user="eve")
    browser.press("Delete…")
    browser.sees("Delete all data of user eve")
    browser.press("Delete for good")
    browser.sees("Deleted: user eve.")
    browser.sees("user.purge")
    browser.sees("submission.delete")
    browser.shot(f"audit-{len(look)}")
    browser.fill(action="problem.")
    browser.press("Search")
    wait_for(lambda: "user.purge" not in browser.text("main"), what="the search")
    browser.sees("problem.delete")
    assert not look.get("javascript", True) or browser.barriers() == []
    assert browser.complaints() == []
    width = browser.driver.execute_script("return document.documentElement.scrollWidth") if not look else 0
    assert width <= browser.width
