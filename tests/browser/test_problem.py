"""The page of a problem in a real browser: what people see on every screen, and what no statement can do to them."""

import json

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.gateway import ADMIN, USER
from tests.support.judicators import accepted
from tests.support.pages import bring, interactive, problem, statement, verify
from tests.support.servers import wait_for
from tests.support.statements import render_statements

pytestmark = pytest.mark.browser

EVIL = """<script>window.hit = 1</script>
<img src=x onerror="window.hit = 2"><svg onload="window.hit = 3"></svg><a id=bad href="javascript:window.hit=4">x</a>
<math><mtext><img src=x onerror="window.hit = 5"></mtext></math>
<form action="https://evil.example"><input name=token></form>
<div id="live" data-task="x" style="position:fixed;inset:0;background:red">over all</div>

$\\text{<img src=x onerror="window.hit = 6">}$ ![y](map.svg)
"""
MAP = b"""<svg xmlns="http://www.w3.org/2000/svg" width="120" height="60"><script>window.top.hit = 7</script>
<rect width="120" height="60" fill="#7aa" onclick="window.top.hit = 8"/></svg>"""


@pytest.fixture(scope="module")
def people(world):
    executor = world.executor("executor-1", slots=2, languages=("c", "cpp", "python3"))
    executor.report(vacant=0)
    client = world.client()
    client.executor = executor
    put = client.put_blob
    caves = bring(client, problem(put))
    evil = statement(put, "en", "problem.md", EVIL.encode(), files={"map.svg": MAP})
    evil_problem = problem(put, "evil", title="Evil", statements=[evil])
    render_statements(client, executor, caves, bring(client, interactive(put)), bring(client, evil_problem))
    verify(client, caves)
    return client


def hit(browser):
    return browser.driver.execute_script("return window.hit")


@pytest.mark.parametrize(
    ("name", "look"),
    [("light", {}), ("dark", {"dark": True}), ("phone", {"width": 390}), ("phone-dark", {"width": 390, "dark": True})],
)
def test_a_problem_is_read_on_every_screen(chrome, people, name, look):
    browser = chrome(USER, **look)
    browser.go("/problems")
    browser.element("a.title[href='/problems/caves']").click()
    browser.sees("You walk through a cave", ".statement")
    browser.sees("Sample output 2 Copy Download impossible")
    # Formulas are drawn, pictures are there, nothing is wider than the screen.
    assert browser.driver.execute_script(
        "return [...document.querySelectorAll('math')].every(one => one.getBoundingClientRect().width > 3)"
    )
    wait_for(
        lambda: browser.driver.execute_script(
            "return [...document.images].every(one => one.complete && one.naturalWidth > 0)"
        ),
        what="the pictures",
    )
    assert browser.driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.shot(f"problem-{name}")
    browser.go("/problems/guess")
    browser.sees("Sample interaction 1")
    assert browser.driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.shot(f"problem-interactive-{name}")
    assert browser.barriers() == []
    assert browser.complaints() == []


def test_admins_see_how_it_was_verified(chrome, people):
    for look in ({}, {"width": 390, "dark": True}):
        browser = chrome(ADMIN, **look)
        browser.go("/problems/caves")
        browser.sees("no test is WA")
        browser.sees("2.5\N{MULTIPLICATION SIGN}")
        assert browser.driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
        browser.shot(f"problem-admin-{'phone' if look else 'wide'}")
        assert browser.barriers() == []
        assert browser.complaints() == []


def test_a_pdf_is_shown_in_the_page(chrome, people):
    browser = chrome(USER)
    browser.go("/problems/caves?language=en&kind=pdf")
    browser.sees("Sample input 1")
    frame = browser.element("object.pdf")
    assert frame.size["height"] > 400
    answer = browser.driver.execute_async_script(
        "const done = arguments[0]; fetch(document.querySelector('object.pdf').data)"
        ".then(one => done(one.headers.get('content-type')))"
    )
    assert answer == "application/pdf"
    browser.shot("problem-pdf")
    assert not [line for line in browser.complaints() if "Content Security Policy" in line or "Refused" in line]


def test_a_statement_runs_nothing_and_covers_nothing(chrome, people):
    browser = chrome(USER)
    browser.go("/problems/evil")
    browser.sees("Evil", "h1")
    wait_for(lambda: browser.driver.execute_script("return document.images.length > 1"), what="the picture")
    browser.element(".button.primary").click()
    assert hit(browser) is None
    assert browser.driver.find_elements(By.CSS_SELECTOR, ".statement script, .statement svg, .statement form") == []
    assert browser.driver.find_elements(By.CSS_SELECTOR, ".statement [style], .statement [id=live]") == []
    assert browser.barriers() == []
    assert browser.complaints() == []
    # The picture by itself, as whoever opens it in a tab of its own would have it.
    picture = browser.element(".statement img[src]").get_attribute("src")
    browser.driver.get(picture)
    assert hit(browser) is None and "script" not in browser.driver.page_source
    assert json.dumps(browser.complaints()).count("Refused to execute") == 0


def test_the_page_of_a_problem_takes_submissions_without_a_script(chrome, people):
    browser = chrome(USER, javascript=False)
    browser.go("/problems/caves")
    browser.sees("You have handed in nothing")
    assert browser.driver.find_elements(By.CSS_SELECTOR, "button.copy:not([hidden])") == []
    browser.element("details.more summary").click()
    browser.fill(language="c", source="int main(void) { return 0; }")
    browser.press("Submit", "#submit")
    wait_for(lambda: "/submissions/" in browser.driver.current_url, what="the page of the submission")
    task = browser.driver.current_url.rpartition("/")[2]
    wait_for(lambda: people.executor.report() and task in people.executor.work, what="the task at the executor")
    people.executor.report(accepted(people.executor.work[task]), vacant=0)
    browser.go("/problems/caves")
    browser.sees("AC")
    assert browser.element(f"a.id[title='{task}']")


def test_a_printed_problem_is_its_statement_without_navigation_and_forms(chrome, people):
    browser = chrome(USER)
    browser.go("/problems/caves")
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    printed = [any(part.is_displayed() for part in browser.all(css)) for css in (".statement", ".sample pre")]
    assert printed == [True, True]
    assert not [part.text for part in browser.all(".top, form, button, footer") if part.is_displayed()]


def test_samples_are_copied_as_they_are(chrome, people):
    browser = chrome(USER)
    browser.go("/problems/caves")
    browser.driver.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    button = browser.element("button.copy")
    assert button.is_displayed()
    button.click()
    browser.sees("Copied", ".sample")
    copied = browser.driver.execute_async_script("const done = arguments[0]; navigator.clipboard.readText().then(done)")
    assert copied == "3 2\n5 9 4\n"


def test_the_page_is_walked_by_keyboard(chrome, people):
    browser = chrome(USER)
    browser.go("/problems/caves")
    names = []
    for _ in range(60):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        element = browser.driver.switch_to.active_element
        label = element.get_attribute("name") if element.tag_name in {"select", "input"} else element.text
        names.append((element.tag_name, (label or "").strip()))
    for stop in [("a", "Svenska"), ("a", "rooms.txt"), ("a", "Submit"), ("select", "language"), ("input", "file")]:
        assert any(tag == stop[0] and stop[1] in text for tag, text in names), (stop, names)
    assert any(tag == "pre" and "5 9 4" in text for tag, text in names), names
