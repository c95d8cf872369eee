"""Packages of Polygon, the preparation system of Codeforces: problem.xml and the files that it names."""

from __future__ import annotations

from judge.problems.importers.draft import Draft, ImporterWords
from judge.problems.importers.polygon import assets, document, judging, statements
from judge.problems.tree import Tree


def matches(tree: Tree) -> bool:
    """Return whether there is a problem.xml; other programs have files of that name, too, but no problems."""
    return document.PROBLEM_XML in tree.files


def convert(tree: Tree, _options: ImporterWords) -> Draft:
    root = document.parse(tree)
    draft = Draft(tree, "polygon")
    draft.name = (root.get("short-name") or "").strip()
    names = statements.titles(root)
    draft.problem["name"] = names or draft.name or tree.label
    tags = {tag.get("value") or "" for tag in root.iterfind("tags/tag")} - {"", document.RUN_TWICE}
    if tags:
        draft.problem["keywords"] = sorted(tags)
    programs = assets.put_programs(draft, root)
    # Before the tests: the main solution may be compiled with some of these.
    assets.put_files(draft, root)
    judging.put_tests(draft, root, programs)
    assets.put_solutions(draft, root, partial=programs.partial)
    statements.put_statements(draft, root)
    for tag in ("scorer", "arbiter", "strategy"):
        if root.find(f"assets/{tag}") is not None:
            draft.report.dropped(
                f"the {tag}: a program that computes results from those of all tests; points add up here"
            )
    return draft
