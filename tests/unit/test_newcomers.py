"""A list of new accounts as CSV: what spreadsheets write is read, and each fault is told with its line."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from judge.common.errors import UsageError
from judge.common.text import shows
from judge.judicator.audit import _hash
from judge.judicator.people.passwords import check_new
from judge.model import newcomers
from judge.model.people import ACCOUNTS, Newcomer, UserAdd, UsersAdd

USERS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,20}", fullmatch=True)
NAMES = st.text(st.characters(categories=("L", "N"), max_codepoint=0xFFFF).filter(shows) | st.sampled_from(" \xa0"),
                max_size=30)  # fmt: skip
CELLS = st.text(st.sampled_from("ab,;\t\"'\r\n \0é@=.-\u202e\ufeff"), max_size=12)


def refusal(text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(UsageError) as caught:
        newcomers.read(data, "people.csv")
    return str(caught.value)


@given(
    st.lists(st.tuples(USERS, NAMES), min_size=1, max_size=5, unique_by=lambda row: row[0].lower()),
    st.sampled_from(",;\t"),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\ufeff"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_what_a_spreadsheet_writes_is_read(rows, delimiter, end, mark, quoting):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerow(["Name", "user"])
    for user, name in rows:
        writer.writerow([name, user])
    people = newcomers.read(f"{mark}{text.getvalue()}{end}".encode(), "people.csv")
    assert [person.name for person in people] == [user for user, _ in rows]
    assert [person.display_name for person in people] == [
        Newcomer(name="x", display_name=name).display_name for _, name in rows
    ]


@given(st.lists(st.lists(CELLS, max_size=4).map(",".join), max_size=6))
def test_any_text_is_read_or_refused_in_one_line(lines):
    data = "\n".join(["user,name,group", *lines]).encode()
    people, refused = [], "people.csv: "
    try:
        people = newcomers.read(data, "people.csv")
    except UsageError as exc:
        refused = str(exc)
    assert shows(refused) and refused.startswith("people.csv: ")
    assert all(shows(person.display_name) for person in people)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    assert refusal(data).startswith("people.csv: ")


def test_fields_come_in_any_order_and_may_be_left_out():
    people = newcomers.read(b"\n group ;user;Email\n\n cs1 cs2;ada;\n;bob\n", "people.csv")
    assert [(person.name, person.groups, person.email, person.line) for person in people] == [
        ("ada", ["cs1", "cs2"], "", 4),
        ("bob", [], "", 5),
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("user\n", "has no person"),
        ("user,phone\nada,1", "line 1: there is no column 'phone'; expected user, name, email, group, password"),
        ("user,USER\nada,1", "line 1: names a column twice"),
        ("name\nAda", "line 1: has no column 'user'"),
        ("user\n\nada\nAda", "line 4: 'Ada' is in line 3 already"),
        ("user\nä", "line 2: user: 'ä' is not a valid user name; expected up to 63 letters"),
        ("user,group\na,b/c", "line 2: group: 'b/c' is not a valid group name"),
        ("name,user\nAda", "line 2: user: is missing"),
        ("user,name\na," + "x" * 101, "line 2: name: expected at most 100 characters"),
        ("user,name\na,x\u202ey", "line 2: name: has invisible characters"),
        ("user,name\na,=1+1", "line 2: name: has '=' where a formula of a spreadsheet begins"),
        ("user,name\na,A; +1", "line 2: name: has '+' where a formula of a spreadsheet begins"),
        ("user,email\na,b", "line 2: email: is no e-mail address"),
        ("user,password\na," + "x" * 201, "line 2: password: expected at most 200 characters"),
        ("user\na,b", "line 2: has more fields than the first line names"),
        ('user,name\na,"b\nc', "line 2: is not valid CSV"),
        ('"user', "line 1: is not valid CSV"),
        ("user\n" + "\n".join(f"u{number}" for number in range(ACCOUNTS + 1)), f"has more than {ACCOUNTS} people"),
        ("user\n" + "ä\n" * (ACCOUNTS + 1), f"has more than {ACCOUNTS} people"),
        ("user\n" + "x" * (4 * 1024**2), "has 4 MiB; at most"),
        (b"user,name\nada,\xe4", "line 2: is not UTF-8"),
        ("user\nada".encode("utf-16"), "line 1: is not UTF-8"),
    ],
)
def test_a_fault_is_one_sentence_with_its_line(text, sentence):
    assert sentence in refusal(text)


def test_all_faults_are_told_up_to_twenty():
    refused = refusal("user\nada\n" + "ä\n" * 30)
    assert "no account is added; line 3: " in refused and "line 22: " in refused
    assert refused.endswith("and 10 more")


def test_no_password_is_quoted():
    assert "secret" not in refusal("user,password\nada," + "secret" * 50)
    with pytest.raises(ValidationError):
        UsersAdd(users=[])


def test_generated_passwords_are_those_of_the_list_and_given_ones_stay():
    table = b"user,password\nada,\nbob,correct horse\neve,"
    call = newcomers.adding(table, "people.csv", b"secret")
    ada, bob, eve = call.users
    assert bob.password == "correct horse"
    check_new(ada.password, "ada")
    assert newcomers.adding(table, "people.csv", b"secret") == call, "who has lost them adds the list once more"
    others = [newcomers.adding(table + b"\n", "people.csv", b"secret"), newcomers.adding(table, "people.csv", b"other")]
    assert len({ada.password, eve.password, *(other.users[0].password for other in others)}) == 4
    assert len({call.idempotency_key, *(other.idempotency_key for other in others)}) == 3
    assert list(csv.DictReader(io.StringIO(newcomers.written(call.users)))) == newcomers.credentials(call.users)


@pytest.mark.parametrize("name", ["Ada Lovelace", "王小明", "علی\u200cرضا", "’t Hooft", "José"])  # noqa: RUF001 - names
def test_names_of_any_script_are_taken(name):
    assert UserAdd(name="x", display_name=f" {name} ").display_name == name


@pytest.mark.parametrize("name", ["a\nb", "a\u202eb", "\u200cab", "@b", "a\0", "a\u2066b", "\u3164", "\u0958" * 60])
def test_names_that_hide_or_steer_are_refused(name):
    with pytest.raises(ValidationError):
        UserAdd(name="x", display_name=name)


def test_the_trail_knows_nothing_of_passwords():
    first, second = (UsersAdd(users=[Newcomer(name="ada", password=password)]) for password in ("one", "two"))
    assert _hash(first) == _hash(second)
