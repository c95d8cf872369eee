"""A call's row of METHODS or ROUTES says what it is: every row is complete, and the page about the protocol agrees."""

import asyncio
import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import pytest
from pydantic import Field, StringConstraints, ValidationError

from judge.common.errors import ForbiddenError, JudgeError, TooLargeError, UnavailableError, UsageError
from judge.config import EtcdClient, JudicatorConfig, MongodbClient
from judge.gateway.api.handlers import ROUTES
from judge.gateway.api.routes import Route
from judge.judicator.dispatch import Dispatcher
from judge.judicator.main import Judicator
from judge.model.audit import Action
from judge.model.messages import Identifier, Message, ReportRequest
from judge.rpc import pki
from judge.rpc.methods import EXECUTOR, GATEWAY, JUDICATOR, METHODS
from judge.rpc.server import Peer

PROTOCOL = Path(__file__).parents[2] / "docs" / "protocol.md"
REPORT = {"executor": "e1", "incarnation": "i", "sequence": 1, "vacant": 0}
ANY_CALL = {error.http_status for error in (UsageError, ForbiddenError, TooLargeError, UnavailableError)}
# Fields that say for how long an answer may be kept.
PATIENCE = {"wait", "hold"}
# Called by pages and by the gateway itself.
WITHOUT_ROUTE = {
    "ping", "adds", "marks", "names", "session_begin", "audit_tokens",
    "login", "identity_login", "credentials", "token_used",
}  # fmt: skip
# Calls that store something for people, by a gateway: not the executors' reports.
WRITING = {name for name, method in METHODS.items() if GATEWAY in method.roles and not method.reads}
# A call of several has an entry for each that needs one.
WRITING -= {name for name, method in METHODS.items() if method.each is not None}
# Those of them that have no entry of their own in the audit trail, and the reason.
NOT_AUDITED = {
    "login": "the gateway notes log-ins, ten at a time",
    "session_begin": "as the log-in that it is part of",
    "token_used": "a token's last use, which stands in its own document",
    "audit_note": "is an entry itself",
    "audit_tokens": "is an entry itself",
    "problem_statements": "as the import whose statements it has rendered",
}
# Whoever looks at a statement first has it rendered.
WRITING_FOR_READERS = {"problem_statements"}


def test_a_method_that_may_wait_says_how_long() -> None:
    for name, method in METHODS.items():
        assert {method.hold} - {None} == PATIENCE & set(method.request.model_fields), name
        if method.hold:
            bounds = method.request.model_fields[method.hold].metadata
            assert any(hasattr(bound, "le") for bound in bounds), name
            required: dict[str, Any] = {"id": "0" * 24, **REPORT}
            fields = {field: value for field, value in required.items() if field in method.request.model_fields}
            assert method.seconds(method.request(**fields, **{method.hold: 2})) == 2.0, name
            assert method.reads or name == "report", f"{name}: a call that waits may be repeated on another judicator"


def test_a_method_is_for_somebody() -> None:
    for name, method in METHODS.items():
        assert method.roles and method.roles <= {EXECUTOR, GATEWAY, JUDICATOR}, name
        for_executors = "executor" in method.request.model_fields and GATEWAY not in method.roles
        assert method.in_own_name == for_executors, name


def test_a_method_names_its_refusals_and_not_everybodys() -> None:
    for name, method in METHODS.items():
        assert all(issubclass(error, JudgeError) for error in method.errors), name
        assert not {error.http_status for error in method.errors} & ANY_CALL, name
        assert len(set(method.errors)) == len(method.errors), name


def rows(head: str) -> list[str]:
    """The lines of a table of the page."""
    _, _, text = PROTOCOL.read_text(encoding="utf-8").partition(head)
    return text.partition("\n\n")[0].splitlines()[2:]


def test_the_page_says_for_each_method_why_it_may_be_repeated() -> None:
    reads = {}
    for line in rows("| method | why |"):
        _, names, reason, _ = line.split("|")
        for name in re.findall(r"`(\w+)`", names):
            assert name not in reads, name
            reads[name] = reason.partition(",")[0].strip() in {"read only", "a hint only"}
    assert reads == {name: method.reads for name, method in METHODS.items()}


def test_a_reading_route_calls_reading_methods_only() -> None:
    for route in ROUTES:
        assert set(route.calls) <= set(METHODS), route.name
        if route.method in {"GET", "HEAD"}:
            assert all(METHODS[name].reads for name in set(route.calls) - WRITING_FOR_READERS), route.name


def test_a_route_names_only_refusals_that_follow_from_nothing_else() -> None:
    for route in ROUTES:
        bare = Route(**{**vars(route), "errors": ()})
        assert not set(route.errors) & bare.refusals(), route.name
        assert all(GATEWAY in METHODS[name].roles for name in route.calls), route.name


def test_every_method_for_people_has_a_route() -> None:
    calls = {name for route in ROUTES for name in route.calls}
    assert calls | WITHOUT_ROUTE == {name for name, method in METHODS.items() if GATEWAY in method.roles}


@pytest.fixture(scope="module")
def dispatcher(tmp_path_factory: pytest.TempPathFactory) -> Dispatcher:
    """That of a judicator without its databases."""
    directory = tmp_path_factory.mktemp("pki")
    pki.make_ca(directory)
    config = JudicatorConfig(
        name="j1", listen="127.0.0.1:1", address="127.0.0.1:1", tls=pki.issue(directory, "j1", "judicator", []),
        etcd=EtcdClient(endpoints=["127.0.0.1:1"]), mongodb=MongodbClient(seeds=["127.0.0.1:1"], timeout=1),
    )  # fmt: skip

    async def make() -> Dispatcher:
        judicator = Judicator(config)
        await judicator.stop()
        return judicator.dispatcher

    return asyncio.run(make())


def test_writing_methods_are_audited_or_have_a_reason(dispatcher: Dispatcher) -> None:
    described = {name for name, entry in dispatcher.table.items() if entry.describe is not None}
    assert described | set(NOT_AUDITED) == WRITING
    assert not described & set(NOT_AUDITED)


def test_a_handler_takes_and_answers_the_messages_of_its_row(dispatcher: Dispatcher) -> None:
    for name, entry in dispatcher.table.items():
        row = METHODS[name]
        hints = get_type_hints(entry.handler)
        answered = hints.pop("return")
        assert answered is row.reply, name
        assert [hint for hint in hints.values() if hint is not Peer] == [row.request], name
        assert (Peer in hints.values()) == entry.peer, name


async def test_a_dispatcher_acts_by_its_rows(dispatcher: Dispatcher) -> None:
    calls = []

    class Noting:
        async def record(self, describe: Any, method: Any, request: Any, peer: Any) -> Any:
            calls.append("noted")
            return await method(request, peer)

    class Leader:
        async def call(self, name: str, request: Any, reply: Any) -> Any:
            calls.append("forwarded")

    async def handler(request: Any) -> Any:
        calls.append("handled")

    table = {name: dataclasses.replace(entry, handler=handler, peer=False) for name, entry in dispatcher.table.items()}
    leading = False
    under_test: Any = Dispatcher(table, Noting(), Leader(), lambda: leading)  # type: ignore[arg-type]
    executor = Peer("e1", EXECUTOR)
    for name in table:
        with contextlib.nullcontext() if name == "ping" else pytest.raises(UnavailableError):
            await under_test(name, None, executor)
    under_test.ready = True
    for name, expected in {
        "get": ["handled"],
        "cancel": ["noted", "handled"],
        "report": ["forwarded", "handled"],
    }.items():
        calls.clear()
        await under_test(name, None, executor)
        assert calls == expected
    calls.clear()
    await under_test("report", None, Peer("j2", JUDICATOR))
    assert calls == ["handled"], "one hop"
    calls.clear()
    leading = True
    await under_test("report", None, executor)
    assert calls == ["handled"]
    with pytest.raises(ValueError, match="differ"):
        Dispatcher({}, Noting(), Leader(), lambda: True)  # type: ignore[arg-type]


def test_the_page_has_each_action_of_the_trail() -> None:
    actions = re.findall(r"`([a-z.]+)`", "".join(line.split("|")[1] for line in rows("| action | object |")))
    assert sorted(actions) == sorted(get_args(Action))


def unbounded(
    schema: Any, definitions: dict[str, Any], place: str = "", visited: frozenset[str] = frozenset()
) -> Iterator[str]:
    """The places of a JSON schema whose values may be of any size."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in visited:
            yield from unbounded(definitions[name], definitions, place, visited | {name})
        return
    for choice in schema.get("anyOf", []):
        yield from unbounded(choice, definitions, place, visited)
    kind = schema.get("type")
    if kind == "string" and not {"enum", "const", "maxLength"} & schema.keys():
        pattern = re.sub(r"\\.|\[[^\]]*\]", "x", schema.get("pattern", "*"))
        if re.search(r"[*+]|,\}", pattern) or not pattern.endswith("$"):
            yield place
    if kind == "integer" and not {"maximum", "exclusiveMaximum"} & schema.keys():
        yield place
    if kind == "array":
        if "maxItems" not in schema:
            yield place
        yield from unbounded(schema["items"], definitions, f"{place}[]", visited)
    if kind == "object":
        for name, inner in schema.get("properties", {}).items():
            yield from unbounded(inner, definitions, f"{place}.{name}", visited)
        bounds = {"patternProperties", "propertyNames"} & schema.keys()
        if "properties" not in schema and not ("maxProperties" in schema and bounds):
            yield place
        for pattern, inner in schema.get("patternProperties", {}).items():
            yield from unbounded({"type": "string", "pattern": pattern}, definitions, f"{place} key", visited)
            yield from unbounded(inner, definitions, f"{place}[]", visited)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if EXECUTOR in method.roles])
def test_every_field_of_an_executor_s_message_is_bounded(name: str) -> None:
    schema = METHODS[name].request.model_json_schema()
    assert not list(unbounded(schema, schema.get("$defs", {})))


def test_unbounded_fields_are_seen() -> None:
    class Inner(Message):
        text: str | None = None
        pattern: Annotated[str, StringConstraints(pattern="^[a+]+$")]
        good: Identifier

    class Outer(Message):
        texts: list[Identifier]
        inner: list[Inner] = Field(max_length=3)
        number: int
        names: dict[str, Identifier] = Field(max_length=3)
        values: dict[Identifier, str]

    schema = Outer.model_json_schema()
    places = set(unbounded(schema, schema["$defs"]))
    assert places == {".texts", ".inner[].text", ".inner[].pattern", ".number", ".names", ".values", ".values[]"}


def test_a_report_of_very_many_languages_is_refused() -> None:
    def report(**info: Any) -> str:
        return json.dumps({**REPORT, "info": {"slots": 1, **info}})

    ReportRequest.received(report(languages={f"l{number}": "v" for number in range(200)}).encode())
    for info in (
        {"languages": {f"l{number}": "v" for number in range(201)}},
        {"languages": {"l" * 64: "v"}},
        {"languages": {"l": "v" * 201}},
        {"version": "v" * 201},
        {"checks": ["c" * 1001]},
    ):
        with pytest.raises(ValidationError):
            ReportRequest.received(report(**info).encode())
