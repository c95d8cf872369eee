"""What each page weighs in a browser that has nothing of it yet: requests, bytes, time to the first paint. Printed."""

import pytest

from tests.support.pages import ADMIN, PAGES, PASSWORD, SETTINGS, furnish, usual
from tests.support.receivers import unkind_providers
from tests.support.servers import wait_for

pytestmark = pytest.mark.browser

# What loads the editor, which comes when somebody uses its field. A problem has a picture, too.
REQUESTS, MORE = 5, {"submit": 1, "problem": 2}
# Charts of a day, which judges see, are drawn in their HTML. The reference of the API is one page.
BYTES, MORE_BYTES = 40_000, {"problem": 60_000, "figures": 150_000, "docs": 220_000}
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
def judicator_settings():
    return SETTINGS


@pytest.fixture(scope="module")
def gateway_settings(tmp_path_factory):
    with unkind_providers(tmp_path_factory.mktemp("providers")) as settings:
        yield settings


@pytest.fixture(scope="module")
def ids(world):
    return furnish(world)


def measured(browser, page):
    """What the browser says of a page that it has just loaded, once it is painted."""
    browser.go(page)
    sizes = {}

    def painted():
        sizes.update(browser.driver.execute_script(_MEASURE))
        return sizes["paint"] is not None

    wait_for(painted, what=f"the first paint of {page}")
    return sizes


def test_pages_are_light(chrome, ids, capsys):
    browser = chrome()
    browser.driver.execute_cdp_cmd("Network.enable", {})
    browser.driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
    # First what nobody has to log in for.
    fullest = [page for page in PAGES if page.name == "figures-day"]
    pages = {page.path: page for page in sorted([*usual(), *fullest], key=lambda page: page.person)}
    weights, person = {}, ""
    for path, page in pages.items():
        if page.person and not person:
            browser.enter(ADMIN, PASSWORD)
            person = ADMIN
        weights[path] = measured(browser, path.format_map(ids))
    with capsys.disabled():
        print(f"\n{'page':36} {'requests':>8} {'KB in all':>10} {'KB of HTML':>11} {'answer ms':>10} {'paint ms':>9}")
        for path, weight in weights.items():
            print(f"{path:36} {weight['requests']:8} {weight['bytes'] / 1000:10.1f} {weight['html'] / 1000:11.1f} "
                  f"{weight['answered']:10.0f} {weight['paint']:9.0f}")  # fmt: skip
    for path, weight in weights.items():
        assert weight["requests"] <= REQUESTS + MORE.get(pages[path].endpoint, 0), path
        assert weight["bytes"] <= MORE_BYTES.get(pages[path].endpoint, BYTES), path
        assert not weight["elsewhere"], path
