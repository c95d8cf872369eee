"""`judgectl user`, `token`, `passwd` at a real gateway; and that no secret is in its log or in the trail."""

import csv
import json
import re
import time
from pathlib import Path

import httpx
import pytest

from tests.support.cluster import judgectl
from tests.support.gateway import ADMIN, make_config, running_gateway
from tests.support.judicators import module_world

world = module_world()

FIRST, SECOND = "correct horse battery", "another good phrase"


@pytest.fixture(scope="module")
def gateway(world, tmp_path_factory):
    """(its address, the directory with its log)"""
    settings = make_config(tmp_path_factory.mktemp("gw"), world.etcd_config, world.tls("gateway-1", "gateway"))
    directory = tmp_path_factory.mktemp("ctl")
    with running_gateway(settings, directory) as url:
        yield url, directory


def ctl(gateway: tuple[str, Path], *arguments: str, token: str = ADMIN, stdin: str = "", code: int = 0) -> str:
    """What judgectl answers; its error when it is to fail."""
    url, directory = gateway
    (directory / "token").write_text(token)
    (directory / "token").chmod(0o600)
    context = directory / "client.yml"
    context.write_text(f"server: {url}\ntoken_file: token\n")
    result = judgectl(context, *arguments, stdin=stdin, code=code)
    return result.stderr if code else result.stdout


def test_people_from_their_first_day_to_their_last(gateway, world) -> None:
    secrets = [FIRST, SECOND]
    output = ctl(gateway, "user", "add", "ada", "-g", "cs101", "--per-minute", "30", "--stdin", stdin=f"{FIRST}\n")
    assert "cs101" in output and "per_minute 30" in output and "password" in output
    assert "there is a user 'ada' already" in ctl(gateway, "user", "add", "Ada", code=2)
    generated = json.loads(ctl(gateway, "user", "add", "bob", "--role", "judge", "--generate", "-o", "json"))
    secrets.append(generated["password_made"])
    listed = json.loads(ctl(gateway, "user", "list", "--group", "cs101", "-o", "json"))
    assert [user["name"] for user in listed] == ["ada"]
    # A token of one's own, with what one may of oneself; by it another one, and the password.
    token = ctl(gateway, "token", "create", "-u", "ada", "-s", "account", "-s", "submit", "--label", "laptop").strip()
    second_token = ctl(gateway, "token", "create", "--expires", "12h", token=token).strip()
    secrets += [token, second_token]
    assert token not in ctl(gateway, "token", "list", token=token)
    tokens = json.loads(ctl(gateway, "token", "list", "-o", "json", token=token))
    assert [row["label"] for row in tokens] == ["", "laptop"]
    assert [row["scopes"] for row in tokens] == [["read", "submit"], ["account", "submit"]]
    assert tokens[1]["used"] is not None and tokens[0]["used"] is None
    assert "may only list their own tokens" in ctl(gateway, "token", "list", "--user", "bob", token=token, code=2)
    refused = ctl(gateway, "passwd", "--stdin", token=token, stdin=f"no\n{SECOND}\n", code=2)
    assert "is not the present password" in refused
    ctl(gateway, "passwd", "--stdin", token=token, stdin=f"{FIRST}\n{SECOND}\n")
    assert json.loads(ctl(gateway, "whoami", "-o", "json", token=token))["allowance"]["per_minute"] == 30
    ctl(gateway, "token", "revoke", tokens[0]["id"], token=token)
    assert "there is no token" in ctl(gateway, "token", "revoke", tokens[0]["id"], token=token, code=2)
    assert "disabled" in ctl(gateway, "user", "disable", "ada")
    ctl(gateway, "user", "enable", "ada")
    ctl(gateway, "user", "passwd", "ada", "--stdin", stdin=f"{FIRST}\n")
    assert "unlimited" in ctl(gateway, "user", "change", "ada", "--per-minute", "0", "--role", "judge")
    (source := gateway[1] / "hello.c").write_text("int main(){}")
    ctl(gateway, "submit", "--no-wait", str(source), token=token)
    assert "judgectl purge --user ada" in ctl(gateway, "user", "delete", "ada", code=2)
    assert "the account" in ctl(gateway, "purge", "--user", "ada", "--yes")
    assert "there is no user 'ada'" in ctl(gateway, "user", "show", "ada", code=2)
    ctl(gateway, "user", "delete", "bob")
    _nowhere(gateway, world, secrets)


def test_a_class_is_imported_at_once(gateway, world, tmp_path: Path) -> None:
    table, sheet = tmp_path / "people.csv", tmp_path / "cards.html"
    table.write_bytes("\ufeffUser;Name;Email;Group;Password\r\nkim;Kim <b>;k@example.org;cs7;\r\n".encode())
    with table.open("ab") as file:
        file.writelines(
            f's{number};"Süd; {number}";;cs7 lab;{FIRST if number == 1 else ""}\r\n'.encode() for number in range(60)
        )
    begin = time.monotonic()
    output = ctl(gateway, "user", "import", str(table), "--sheet", str(sheet), "-o", "csv")
    assert time.monotonic() - begin < 60
    rows = list(csv.DictReader(output.splitlines()))
    assert [row["user"] for row in rows] == ["kim", *(f"s{number}" for number in range(60))]
    assert rows[1]["name"] == "Süd; 0" and rows[2]["password"] == FIRST
    page = sheet.read_text()
    assert page.count("<section>") == 61 and "Kim &lt;b&gt;" in page and rows[0]["password"] in page
    assert sheet.stat().st_mode & 0o77 == 0
    with httpx.Client(base_url=gateway[0], trust_env=False) as http:
        for row in rows[:3]:
            csrf = re.search(r'name="csrf" value="([^"]+)"', http.get("/login").text)
            assert csrf is not None
            data = {"csrf": csrf[1], "user": row["user"], "password": row["password"]}
            assert http.post("/login", data=data).status_code == 303
            http.cookies.clear()
    kim = json.loads(ctl(gateway, "user", "show", "kim", "-o", "json"))
    assert (kim["display_name"], kim["email"], kim["groups"], kim["role"]) == (
        "Kim <b>",
        "k@example.org",
        ["cs7"],
        "user",
    )
    assert "Süd; 7" in ctl(gateway, "user", "list", "--group", "lab")
    assert "Kim K." in ctl(gateway, "user", "change", "kim", "--name", "Kim K.", "--email", "")
    again = tmp_path / "again.html"
    assert ctl(gateway, "user", "import", str(table), "--sheet", str(again), "-o", "csv") == output
    assert again.read_text() == page, "who has lost the passwords imports the list once more"
    # Nothing of a list that is refused is done, and nothing is left of it.
    assert "cannot be made" in ctl(gateway, "user", "import", str(table), "--sheet", str(sheet), code=2)
    table.write_text("user,name\nnew,New\nkim,Kim\n\nS3,Three\n")
    other = tmp_path / "other.html"
    refused = ctl(gateway, "user", "import", str(table), "--sheet", str(other), code=2)
    assert (
        f"{table}: no account is added; line 3: there is a user 'kim' already; line 5: there is a user 's3'" in refused
    )
    assert "there is no user 'new'" in ctl(gateway, "user", "show", "new", code=2) and not other.exists()
    assert "line 2: user: is missing" in ctl(gateway, "user", "import", _csv(table, "name,user\nA"), code=2)
    assert "cannot be read" in ctl(gateway, "user", "import", str(tmp_path / "none.csv"), code=2)
    _nowhere(gateway, world, [row["password"] for row in rows])


def test_results_are_a_table(gateway) -> None:
    assert json.loads(ctl(gateway, "results", "-p", "none", "--since", "2h", "-o", "json")) == []
    assert "--since: 'soon' is no time" in ctl(gateway, "results", "--since", "soon", code=2)


def _csv(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_wrong_words_are_said_before_anything_is_asked(gateway) -> None:
    for arguments, sentence in (
        (("user", "add", "x y"), "is no name of a user"),
        (("user", "add", "eve", "--role", "root"), "choose user, judge or admin"),
        (("user", "add", "eve", "--issuer", "https://id.example"), "--issuer and --subject go together"),
        (("user", "add", "eve", "--per-minute", "-1"), "--per-minute"),
        (("user", "add", "eve", "--password"), "there is nobody to ask"),
        (("user", "add", "eve", "--name", "=1"), "--name: has '=' where a formula"),
        (("user", "change", "eve", "--email", "eve"), "--email: is no e-mail address"),
        (("user", "change", "eve"), "nothing is named that should change"),
        (("token", "create", "--scope", "root"), "choose among read, submit"),
        (("token", "create", "--expires", "soon"), "--expires"),
        (("passwd", "--stdin"), "is missing"),
    ):
        assert sentence in ctl(gateway, *arguments, code=2), arguments
    assert json.loads(ctl(gateway, "user", "list", "--prefix", "eve", "-o", "json")) == []


def _nowhere(gateway: tuple[str, Path], world, secrets: list[str]) -> None:
    """None of these is in the gateway's log, in the database or in the trail."""
    url, directory = gateway
    wrong = "a wrong password of somebody"
    with httpx.Client(base_url=url, trust_env=False) as http:
        http.get("/api/v1/whoami", headers={"Authorization": f"Bearer judge_{'q' * 43}"})
        http.get(f"/login/with/none/back?code={'k' * 30}&state=s")
        http.post("/login", data={"user": wrong, "password": wrong})
    log = (directory / "gateway.log").read_text()
    stored = str([list(world.db[name].find()) for name in world.db.list_collection_names()])
    for secret in (*secrets, "q" * 43, "k" * 30, wrong):
        assert secret not in log and secret not in stored
