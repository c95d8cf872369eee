"""Statements are rendered in the sandbox, each by a run of its own: one that is too much costs the others nothing."""

from pathlib import Path

import pytest

from judge.executor.channel import Finished
from judge.executor.slot.packaged import rendering
from judge.executor.slot.pipeline import Pipeline
from judge.languages.table import load_table
from judge.model import messages as m
from judge.model.statements import Page, Pages
from tests.support import packages
from tests.support.pages import statement
from tests.support.sandbox import FULL_SANDBOX

pytestmark = FULL_SANDBOX


def execute(pool, work: Path, memory: int | None = None, **texts: bytes) -> Finished:
    """Statements with these texts are rendered; `a_md` is the main file `a.md`."""
    problem = packages.Problem(work / "blobs")
    statements = [
        statement(problem.blob, "en", name.replace("_", "."), data, files={"map.png": b"map"})
        for name, data in texts.items()
    ]
    data = problem.data(name="caves", title="Caves", statements=statements)
    job = packages.job_of_manifest(data, {"problem": "caves", "check": "statements", "role": "admin"})
    pipeline = Pipeline(take=pool.take, tell=lambda _: None, table=load_table(), outputs=work, memory=memory)
    return pipeline.execute(job)


def rendered(pool, work: Path, memory: int | None = None, **texts: bytes) -> dict[str, Page]:
    """The pages of statements with these texts."""
    finished = execute(pool, work, memory, **texts)
    assert finished.completed is not None and finished.completed.verdict is m.Verdict.AC, finished
    assert finished.output is not None
    return Pages.model_validate_json(Path(finished.output).read_bytes()).pages


def test_each_statement_has_its_page_or_the_reason_why_not(pool, work, monkeypatch):
    monkeypatch.setattr(rendering, "LIMITS", rendering.LIMITS.model_copy(update={"cpu": 1.0}))
    pages = rendered(
        pool, work, a_md=b"# Caves\n\n![](map.png) $x$ <script>1</script>\n\n{{nextsample}}\n\nEnd",
        b_html=b"Gr\xfc\xdfe <i>", c_txt=b"x" * (rendering.SOURCE_BYTES + 1), d_html=b"<div>" * 40_000,
        f_pdf=b"%PDF-",
    )  # fmt: skip
    first, second = pages["a.md"].pieces
    assert "<h1" not in first and "<math" in first and "<script" not in first and second.strip() == "<p>End</p>"
    assert 'src="/api/v1/problems/caves/files/' in first and pages["a.md"].samples == ["next"]
    assert "".join(pages["b.html"].pieces) == "Grüße <i></i>"
    assert {name: page.why.partition(";")[0] for name, page in pages.items() if page.why} == {
        "c.txt": "the statement has more than 256 KiB",
        "d.html": "the statement takes more than 5 s to be rendered",
    }


def test_a_statement_that_needs_more_memory_than_a_slot_has_is_refused(pool, work):
    pages = rendered(pool, work, memory=8 * 1024**2, a_md=b"x")
    assert pages["a.md"].why == "the statement takes too much memory to be rendered; read its source"


def test_a_host_without_the_program_gives_the_task_back(pool, work, monkeypatch):
    monkeypatch.setattr(rendering, "renderer", lambda: {"__main__.py": b"import nothing_like_that"})
    completed = execute(pool, work, a_md=b"x").completed
    assert completed is not None and completed.retry
    assert "renders statements failed: ModuleNotFoundError: No module named 'nothing_l" in completed.result.reason


@pytest.mark.parametrize("printed", ["not json", '{"pieces": 5}', '{"pieces": ["a"], "samples": ["next"]}'])
def test_what_a_renderer_prints_ends_no_slot(pool, work, monkeypatch, printed):
    monkeypatch.setattr(rendering, "renderer", lambda: {"__main__.py": f"print({printed!r})".encode()})
    completed = execute(pool, work, a_md=b"x").completed
    assert completed is not None and completed.retry
    assert "has printed no page" in completed.result.reason
