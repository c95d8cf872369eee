"""A log-out ends a session at every gateway: two gateways and two judicators over a real database."""

import threading
from typing import Any

from judge.gateway.auth import FileTokens
from judge.gateway.identity import LIFETIME
from judge.judicator.people import entry
from judge.model import people as people_model
from tests.support.gateway import ADMIN, USER, Browser, Person
from tests.support.judicators import module_world
from tests.support.servers import wait_for

world = module_world()

SOURCE = {"language": "c", "source": "int main(){}"}


def stolen(browser: Browser, app: Any) -> Browser:
    """Somebody else with a copy of the cookie, at a gateway of their choice."""
    cookie = browser.client.get_cookie("judge")
    assert cookie is not None
    thief = Browser(app.test_client())
    thief.client.set_cookie("judge", cookie.value)
    return thief


def logged_in(browser: Browser) -> bool:
    """Whether this browser still has a session, by the pages and by the API alike."""
    page, api = browser.get("/submissions").status_code, browser.get("/api/v1/whoami").status_code
    assert (page, api) in {(200, 200), (200, 401), (303, 401)}, "it may end between the two, and does not come back"
    return api == 200


def test_a_copied_cookie_is_worth_nothing_after_the_logout_at_any_gateway(gateways):
    first, second = gateways
    ada = Browser(first.test_client(), USER)
    second_browser = Browser(second.test_client(), USER)
    thieves = [stolen(ada, app) for app in gateways]
    assert all(logged_in(thief) for thief in thieves)
    assert ada.post("/", "/logout").status_code == 303
    assert not logged_in(thieves[0]), "at once where the logout was"
    wait_for(lambda: not logged_in(thieves[1]), LIFETIME + 1, what="the end of the session at the other gateway")
    assert logged_in(second_browser), "that session and no other"


def test_another_log_in_of_a_browser_ends_the_session_that_it_had(gateways):
    """Also as somebody else. A session of another browser stays."""
    near, far = gateways
    browser, second_browser = Browser(near.test_client(), USER), Browser(far.test_client(), USER)
    first = stolen(browser, near)
    assert logged_in(first)
    assert browser.post("/me", "/login", token=USER).status_code == 303
    assert not logged_in(first), "at once where the log-in was"
    second = stolen(browser, far)
    assert logged_in(second)
    assert browser.post("/me", "/login", token=ADMIN).status_code == 303
    wait_for(lambda: not logged_in(second), LIFETIME + 1, what="the end of the session at the other gateway")
    assert logged_in(browser)
    assert logged_in(second_browser)


def test_all_sessions_of_a_person_end_together(gateways):
    first, second = gateways
    first_browser, two = Browser(first.test_client(), USER), Browser(second.test_client(), USER)
    assert logged_in(first_browser) and logged_in(two)
    assert first_browser.post("/", "/logout", everywhere="yes").status_code == 303
    assert not logged_in(first_browser)
    wait_for(lambda: not logged_in(two), LIFETIME + 1, what="the end of the other session")


def test_a_cookie_that_the_cluster_does_not_know_is_no_session(gateways, world):
    """Also with the right key: a restored database, or a key that has leaked, opens nothing."""
    ada = Browser(gateways[0].test_client(), USER)
    thief = stolen(ada, gateways[1])
    database = world.judicators[0].judicator.database
    world.judicators[0].do(database.sessions.delete_many({}))
    wait_for(lambda: not logged_in(thief), LIFETIME + 1, what="the end of the session")


def test_a_session_is_of_the_person_who_began_it(gateways):
    """Who holds the key that signs cookies, and a session of their own, is nobody else by it."""
    ada = Browser(gateways[0].test_client(), USER)
    assert logged_in(ada)
    root = FileTokens(gateways[0].extensions["judge"].config.tokens).find(ADMIN)
    with ada.client.session_transaction() as session:
        session["fp"] = root.fingerprint
    assert not logged_in(ada)


def test_a_logout_ends_waiting_calls_of_the_session(gateways):
    first, second = gateways
    ada = Browser(first.test_client(), USER)
    task = Person(first.test_client(), USER)("POST", "/submissions", json=SOURCE).json
    thief, answers = stolen(ada, second), []
    path = f"/api/v1/submissions/{task['id']}?wait=4&version={task['version']}"
    thread = threading.Thread(target=lambda: answers.append(thief.get(path)))
    thread.start()
    assert ada.post("/", "/logout").status_code == 303
    thread.join(20)
    assert answers[0].status_code == 401
    Person(first.test_client(), USER)("POST", f"/submissions/{task['id']}/cancel")


def test_a_person_has_a_number_of_sessions_and_the_oldest_end(gateways, world, monkeypatch):
    monkeypatch.setattr(entry, "MOST_SESSIONS", 3)
    neighbour = Browser(gateways[0].test_client(), ADMIN)
    browsers = [Browser(gateways[0].test_client(), USER) for _ in range(5)]
    wait_for(lambda: not logged_in(browsers[1]), LIFETIME + 1, what="the end of the second-oldest")
    assert [logged_in(browser) for browser in browsers] == [False, False, True, True, True]
    assert logged_in(neighbour)


def test_the_database_ends_old_sessions(world):
    index = world.judicators[0].do(world.judicators[0].judicator.database.sessions.index_information())
    assert index["lifetime"]["expireAfterSeconds"] == people_model.SESSION_SECONDS
