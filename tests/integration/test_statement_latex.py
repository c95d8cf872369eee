"""Statements in LaTeX on a whole embedded cluster: an executor's pandoc makes HTML of them, in its sandbox."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.ctl import statements
from judge.ctl.api import Api
from judge.ctl.context import from_file
from judge.ctl.problem import importing
from judge.gateway.api.problems import StatementReply
from judge.model.problem import ProblemImport, ProblemInfo
from judge.problems.package import Package, read_package
from judge.problems.rendering.fragment import StatementText, render
from tests.support.cluster import Cluster, processes_of, running
from tests.support.pages import pdf, png
from tests.support.servers import wait_for

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(shutil.which("pandoc") is None, reason="needs pandoc: apt install pandoc poppler-utils"),
]
ECHO = Path(__file__).resolve().parents[2] / "examples/problems/hello"
KATTIS = r"""\problemname{Odd Echo}
\illustration{0.3}{cave.png}{A cave}
You shout ``$n$'' words ($1 \le n \le 10^5$).
\begin{Input}One line.\end{Input}
\input{more}
\includegraphics[width=0.4\textwidth]{plan}
\nextsample
"""
POLYGON = r"""\begin{problem}{Odd Echo}{standard input}{standard output}{1 second}{256 megabytes}
Shout <<once>>, \t{a<<b}.
\InputFile One line.
\Examples
\begin{example}
\exmpfile{example.01}{example.01.a}%
\end{example}
\Note Done.
\end{problem}
"""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running(tmp_path_factory.mktemp("latex") / "cluster", "--slots", "2") as cluster:
        embedded: Cluster = cluster
        with Api(from_file(embedded.directory / "client.yml")) as api:
            yield api
    assert processes_of(str(embedded.directory)) == {}


def package(tmp_path: Path, files: dict[str, bytes]) -> Package:
    folder = tmp_path / "echo"
    shutil.copytree(ECHO, folder, ignore=shutil.ignore_patterns("problem_statement", "statement"))
    for place in (folder / kind / name for kind in ("problem_statement", "statement") for name in files):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(files[place.name])
    return read_package(folder)


def page(echo: Package, language: str) -> str:
    statement = next(statement for statement in echo.manifest.statements if statement.language == language)
    assert statement.html is not None
    files = {name: f"/f/{name}" for name in statement.files}
    text = echo.read(statement.html).decode()
    return "{sample}".join(render(StatementText(kind="html", text=text, files=files)).pieces)


def test_kattis_and_polygons_statements_become_pages(api: Api, tmp_path: Path) -> None:
    files = {
        "problem.en.tex": KATTIS.encode(), "problem.ru.tex": POLYGON.encode(), "more.tex": b"\\section*{Output}$h_1$.",
        "cave.png": png(20, 20), "plan.pdf": pdf("The plan"),
    }  # fmt: skip
    with package(tmp_path, files) as echo:
        assert statements.convert(api, echo) == []
        english = page(echo, "en")
        parts = ("<h2", ">Input</h2>", ">Output</h2>", "“<math", '<img src="/f/cave.png"', "A cave", "{sample}")
        for part in parts:
            assert part in english, (part, english)
        assert '<img src="/f/plan.pdf.png" width="40%"' in english and "Odd Echo" not in english
        russian = page(echo, "ru")
        assert "«once»" in russian and "<code>a&lt;&lt;b</code>" in russian and "megabytes" not in russian
        assert russian.index("{sample}") < russian.index("Done.") and "Входные данные" in russian
        picture = echo.manifest.statements[0].files["plan.pdf.png"]
        assert echo.read(picture).startswith(b"\x89PNG")
        # A statement that is done is not done again.
        assert statements.convert(api, echo) == [] and echo.manifest.statements[0].files["plan.pdf.png"] == picture


def test_statements_are_rendered_at_import_and_their_pages_are_kept(api: Api, tmp_path: Path) -> None:
    def statement(kind: str) -> dict[str, object]:
        return api.call(StatementReply, "GET", f"/problems/echo/statement?kind={kind}").model_dump()

    files = {"problem.en.md": b"Shout $n$ <script>1</script>", "problem.en.tex": b"\\unknown{"}
    with package(tmp_path, files) as echo:
        info = importing.register(api, importing.try_out(api, echo, check=False, page=True).manifest)
    wait_for(lambda: not statement("md")["preparing"], what="the page of a statement")
    assert "Shout <math" in str(statement("md")["html"]) and "script" not in str(statement("md")["html"])
    assert statement("tex")["html"] is None and statement("tex")["why"]
    assert not [
        statement for statement in api.search(problem="echo").tasks if statement.submission.check == "statements"
    ]
    # Whoever has the blobs only imports the same content again: nothing is rendered again.
    assert api.call(ProblemInfo, "POST", "/problems", body=ProblemImport(manifest=info.hash)).hash == info.hash
    assert not statement("md")["preparing"]


@pytest.mark.parametrize(
    "text",
    [
        "\\newcommand{\\a}{\\a\\a}\\a",
        "\\newcommand{\\a}[1]{#1#1#1#1#1#1#1#1}" + "\\a{" * 9 + "x" + "}" * 9,
        "{" * 20_000,
        "\\input{/etc/passwd} \\include{../../../etc/passwd} \\lstinputlisting{/etc/passwd}",
        "\\write18{touch /tmp/hit} \\immediate\\write18{id}",
        "$" + "\\frac{1}{" * 5000 + "$",
        "",
    ],
)
def test_hostile_latex_ends_in_a_note_or_a_harmless_page(api: Api, tmp_path: Path, text: str) -> None:
    with package(tmp_path, {"problem.en.tex": text.encode()}) as echo:
        notes = statements.convert(api, echo)
        if notes:
            assert len(notes) == 1 and notes[0].startswith("problem.en.tex: is offered as a download, not as a page: ")
            assert echo.manifest.statements[0].html is None
        else:
            assert "root:" not in page(echo, "en")


def test_a_missing_pandoc_is_reported(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "_CONVERT", "exec /usr/bin/no-such-program")
    with package(tmp_path, {"problem.en.tex": b"x"}) as echo:
        (note,) = statements.convert(api, echo)
    assert "has no pandoc; install it on the executors and import again" in note
    monkeypatch.setattr(Api, "working", lambda _: [])
    with package(tmp_path / "none", {"problem.en.tex": b"x"}) as echo:
        (note,) = statements.convert(api, echo)
    assert "no executor has pandoc; install it on one of them and import again" in note
