"""The pure and small parts of the gateway: ini, log levels, tokens, form, what users may see."""

import logging
import stat

import pytest
from annotated_types import Le
from hypothesis import example, given
from hypothesis import strategies as st

from judge.common.errors import ConfigError, FieldError, ForbiddenError, JudgeError, TooLargeError
from judge.config import EtcdClient, SubmissionLimits, Tls
from judge.gateway import auth, submit, uwsgi
from judge.gateway.auth import Principal
from judge.gateway.pages import account, forms, views
from judge.languages import rules
from judge.model import messages as m
from tests.support.gateway import ADMIN, PEOPLE, USER, make_config, write_tokens

LIMITS = SubmissionLimits(source_bytes=100)
ADA, ROOT = Principal("ada", "user", "a"), Principal("root", "admin", "r")


@pytest.fixture
def config(work):
    return make_config(
        work, EtcdClient(endpoints=["127.0.0.1:1"]), Tls(ca=work / "ca", cert=work / "cert", key=work / "key")
    )


def test_ini(config):
    pairs = [line.split(" = ") for line in uwsgi.render_ini(config, 128).splitlines()[1:]]
    ini = dict(pairs)
    sockets = [value for key, value in pairs if key == "socket"]
    assert sockets == ["gateway.sock", "gateway-check.sock"], "relative, as paths would be expanded"
    assert ini["listen"] == "128"
    assert ini["threads"] == str(config.threads)
    assert ini["lazy-apps"] == ini["need-app"] == ini["die-on-term"] == ini["no-orphans"] == "true"
    (longest,) = (bound.le for bound in m.GetRequest.model_fields["wait"].metadata if isinstance(bound, Le))
    assert int(ini["harakiri"]) > longest + config.rpc_timeout
    assert "limit-post" not in ini, "the app must get to say 413"
    assert not set("%$@") & set(uwsgi.render_ini(config, 128)), "uWSGI would expand these"


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("*** Starting uWSGI 2.0.30 (64bit) on [x] ***", logging.DEBUG),
        ("uWSGI running as root, you can use --uid", logging.DEBUG),
        ("*** no app loaded. GAME OVER ***", logging.ERROR),
        ("bind(): Address already in use [core/socket.c]", logging.ERROR),
        ("Traceback (most recent call last):", logging.ERROR),
        ("Respawned uWSGI worker 1 (new pid: 7)", logging.WARNING),
        ("spawned uWSGI worker 1 (pid: 7)", logging.INFO),
    ],
)
def test_levels_of_output(line, level):
    assert uwsgi.parse_line(line) == (level, line)


def test_tokens(work):
    write_tokens(work / "t.yml", PEOPLE)
    tokens = auth.FileTokens(work / "t.yml")
    root = tokens.find(ADMIN)
    assert root.user == "root" and root.admin
    ada = tokens.find(USER)
    assert ada.user == "ada" and not ada.admin
    assert tokens.by_fingerprint(ada.fingerprint) == ada
    for wrong in ("", "x", USER + "x", "x" * 5000, "\udcff", auth.token_digest(USER)):
        assert tokens.find(wrong) is None
    assert tokens.by_fingerprint("") is None


def test_changed_tokens_are_read_again_and_a_slip_keeps_the_old(work, caplog):
    path = work / "t.yml"
    write_tokens(path, PEOPLE)
    tokens = auth.FileTokens(path)
    write_tokens(path, [("eve", "user", "a-token-of-eve")])
    assert tokens.find(ADMIN) is None
    eve = tokens.find("a-token-of-eve")
    assert eve.user == "eve"
    with caplog.at_level(logging.WARNING):
        path.write_text("tokens: [{user: eve}]")
        assert tokens.find("a-token-of-eve") == eve
        assert tokens.find("a-token-of-eve") == eve
    assert caplog.text.count("stay in force") == 1
    assert f"{path}:1: key 'tokens.0.sha256' is missing" in caplog.text
    path.unlink()
    assert tokens.find("a-token-of-eve") == eve


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"tokens: []", "at least 1 item"),
        (b"tokens: [{user: a b, sha256: x}]", "tokens.0"),
        (b"\xff", "is not UTF-8"),
        (b"a: [", "not YAML"),
        (None, r"t\.yml: cannot be read: No such file"),
    ],
)
def test_tokens_that_cannot_be_used(work, content, sentence):
    if content is not None:
        (work / "t.yml").write_bytes(content)
    with pytest.raises(ConfigError, match=sentence):
        auth.FileTokens(work / "t.yml")


def test_session_key(work):
    auth.new_session_key(work / "key")
    key = auth.read_session_key(work / "key")
    assert len(key) >= 32
    assert stat.S_IMODE((work / "key").stat().st_mode) == 0o600
    auth.new_session_key(work / "key")
    assert auth.read_session_key(work / "key") == key, "a second start keeps sessions valid"
    (work / "short").write_text("abc")
    with pytest.raises(ConfigError, match="has 3 bytes"):
        auth.read_session_key(work / "short")
    with pytest.raises(ConfigError, match="cannot be read"):
        auth.read_session_key(work / "none")
    assert len(auth.new_token()) > 30 and auth.new_token() != auth.new_token()


@pytest.mark.parametrize("target", ["//evil.example", "/\\evil.example", "https://evil.example", "", "evil", "/a\nb"])
def test_a_login_leads_back_and_nowhere_else(target):
    assert account.local(target) == "/"
    assert account.local("/submissions?verdict=AC") == "/submissions?verdict=AC"


@pytest.mark.parametrize(
    ("source", "error", "text"),
    [
        ("", FieldError, "source: is empty"),
        (" \n\t", FieldError, "source: is empty"),
        ("a\0b", FieldError, "NUL byte"),
        ("é" * 51, TooLargeError, "source: is too large, 102 bytes; at most 100 bytes"),
    ],
)
def test_refused_sources(source, error, text):
    with pytest.raises(error, match=text) as caught:
        rules.check_source(source, LIMITS.source_bytes)
    assert caught.value.field == "source"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x7fELF\0\0", "contains a NUL byte"),
        (b"ok\nok\n\xff", r"is not UTF-8 text \(line 3\)"),
        (b"x" * 101, "too large, 101 bytes"),
    ],
)
def test_uploads_that_are_no_source(data, text):
    with pytest.raises(JudgeError, match=text):
        submit.decode_source(submit.Upload("a.c", len(data), data[:100]), LIMITS)


@given(st.binary(max_size=120))
@example(b"\xef\xbb\xbfint")
def test_any_upload_is_text_or_one_sentence(data):
    upload = submit.Upload("f", len(data), data[:100])
    if len(data) <= 100 and b"\0" not in data and _utf8(data):
        assert submit.decode_source(upload, LIMITS).encode() == data
    else:
        with pytest.raises((FieldError, TooLargeError), match=r"^source: "):
            submit.decode_source(upload, LIMITS)


def _utf8(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _sub(**fields):
    return m.Submission(**{"language": "c", "source": "int main(){}", **fields})


def test_admit_names_the_user_and_the_key():
    submission = submit.admit(_sub(), ADA, LIMITS, "k")
    assert (submission.user, submission.idempotency_key) == ("ada", "k")
    assert submit.admit(_sub(user="ada"), ADA, LIMITS, None).user == "ada"
    assert submit.admit(_sub(user="bob", priority="high"), ROOT, LIMITS, None).user == "bob"
    assert submit.admit(_sub(idempotency_key="k"), ADA, LIMITS, "k").idempotency_key == "k"


@pytest.mark.parametrize(
    ("fields", "key", "error", "text"),
    [
        ({"user": "bob"}, None, ForbiddenError, "may not hand in for 'bob'"),
        ({"priority": "high"}, None, ForbiddenError, "requires a token of role judge"),
        ({"tests": [m.Test(name="1", input_blob="a" * 64)]}, None, ForbiddenError, r"tests\.0: blobs"),
        ({"tests": [m.Test(name="1", answer_blob="a" * 64)]}, None, ForbiddenError, r"tests\.0: blobs"),
        ({}, "", FieldError, "has 0 characters"),
        ({}, "k" * 129, FieldError, "has 129 characters"),
        ({"idempotency_key": "a"}, "b", FieldError, "differs from the header"),
    ],
)
def test_admit_refuses(fields, key, error, text):
    with pytest.raises(error, match=text):
        submit.admit(_sub(**fields), ADA, LIMITS, key)


def _form(**fields):
    return forms.from_mapping({"language": "c", "source": "int main(){}", "key": "k" * 20, **fields})


def test_form_for_a_free_run():
    submission = _form(stdin="1\r\n2", cpu="0,5", memory="64", source="a\r\nb").submission([], LIMITS)
    assert submission.source == "a\nb" and submission.stdin == "1\n2"
    assert submission.limits == m.LimitsOverride(cpu=0.5, memory=64 * 1024**2)
    assert submission.idempotency_key == "k" * 20


def test_form_for_a_problem_has_no_input_and_limits():
    submission = _form(problem="hello", stdin="1", cpu="2").submission([], LIMITS)
    assert submission.problem == "hello"
    assert submission.stdin is None and submission.limits == m.LimitsOverride()


def test_form_guesses_the_language_by_the_files_name():
    form = _form(language="", source="typed before")
    submission = form.submission([submit.Upload("C:\\dir\\prog.py", 5, b"print")], LIMITS)
    assert (submission.language, submission.filename, submission.source) == ("python3", "prog.py", "print")
    assert form.values["language"] == "python3"


@pytest.mark.parametrize(
    ("fields", "upload", "errors"),
    [
        ({"source": ""}, None, {"source": "The source is empty; hand in the text of a program"}),
        ({"language": ""}, None, {"language": "Choose one"}),
        ({"language": ""}, submit.Upload("x.zz", 1, b"x"), {"language": "The language is not clear from the name"}),
        ({"cpu": "fast"}, None, {"cpu": "'fast' is not a number"}),
        ({"cpu": "0"}, None, {"cpu": "Enter more than 0 and at most 60 seconds"}),
        ({"memory": "1e99"}, None, {"memory": "Enter 4 to 4096 MiB"}),
        ({"memory": "inf"}, None, {"memory": "'inf' is not a number"}),
        ({"wall": "nan", "cpu": "99"}, None, {"wall": "Enter more than 0 and at most 120", "cpu": "Enter more than 0"}),
        ({"problem": "no such name"}, None, {"problem": "Expected a name of letters"}),
    ],
)  # fmt: skip
def test_form_faults_stand_beside_their_fields(fields, upload, errors):
    form = _form(**fields)
    before = dict(form.values)
    assert form.submission([upload] if upload else [], LIMITS) is None
    assert form.errors.keys() == errors.keys()
    for name, text in errors.items():
        assert form.errors[name].startswith(text)
    assert {**form.values, "source": ""} == {**before, "source": ""}, "nothing that was typed is lost"


@pytest.mark.parametrize(
    ("error", "place", "text"),
    [
        (FieldError("language", "'x' is unknown here"), "language", "'x' is unknown here"),
        (FieldError("limits.cpu", "is too much"), "cpu", "The CPU time is too much"),
        (TooLargeError("source: has 9 bytes, the limit is 8"), "source", "The source has 9 bytes, the limit is 8"),
        (FieldError("tests", "are odd"), "", "tests: are odd"),
        (JudgeError("nobody answers"), "", "nobody answers"),
    ],
)
def test_errors_of_the_cluster_find_their_field(error, place, text):
    form = _form()
    form.fail(error)
    assert form.errors == {place: text}


def test_an_odd_key_is_replaced():
    assert forms.from_mapping({"key": "x"}).key != "x"


def test_one_output_for_a_problem_needs_no_language():
    submission = _form(language="", source="", problem="sums").submission([submit.Upload("1.out", 3, b"42\n")], LIMITS)
    assert submission.source == "42\n" and submission.filename == "1.out" and submission.language is None
    submission = _form(language="", source="", problem="sums").submission(
        [submit.Upload("1.out", 3, b"\xff\0\n")], LIMITS
    )
    assert [file.data for file in submission.files] == [b"\xff\0\n"]
    uploads = [submit.Upload(f"{n}.out", 200_000, b"x" * 200_000) for n in range(3)]
    assert len(_form(language="", source="", problem="sums").submission(uploads, LIMITS).files) == 3


def test_of_a_long_source_a_page_shows_the_beginning():
    lines, complete = views.beginning("\n" * 4_000_000)
    assert len(lines) == 2000 and not complete
    assert views.beginning("a\r\nb\n") == (["a", "b", ""], True)
    assert len(views.beginning("x" * 100_000)[0][0]) == 65536
