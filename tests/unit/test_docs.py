"""What the documentation names exists: code, tests, pages, commands."""

import ast
import graphlib
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from judge.ctl.main import app
from tests.support.walk import line_of, steps

ROOT = Path(__file__).resolve().parents[2]
POINTER = re.compile(r"`((?:judge|tests)/[\w/.]+\.py)(?::(\w+))?`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def pages() -> list[Path]:
    """README.md and the pages of docs/."""
    return sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def test_every_seed_points_at_code_and_at_a_test() -> None:
    rows = [line for line in (ROOT / "docs/seeds.md").read_text().splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) > 50
    for row in rows:
        cells = row.strip("|").split("|")
        assert POINTER.search(cells[3]), f"no test: {row}"
        assert POINTER.search(cells[2]) or "as under" in cells[2], f"no code: {row}"


def exists(path: str, name: str) -> bool:
    """Whether there is such a file or folder, with such a function, class or table if one is named."""
    pattern = rf"^\s*(?:async def|def|class) {name}\b|^{name}\b.*="
    place = ROOT / path
    return place.exists() and (not name or bool(re.search(pattern, place.read_text(), re.MULTILINE)))


def test_what_a_page_points_at_exists() -> None:
    for page in pages():
        text = page.read_text()
        for path, name in POINTER.findall(text):
            assert exists(path, name), f"{page}: {path}:{name}"
        for target in LINK.findall(text):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page}: {target}"


def sources() -> list[Path]:
    """Files of code, tests and deployment."""
    return sorted(
        path
        for folder in ("judge", "tests", "lab", "plugins", "roles", "playbooks", "scripts", "systemd", "molecule")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in {"", ".py", ".c", ".h", ".yml", ".j2", ".service", ".sh"}
        and not {"__pycache__", "corpus", "programs"} & set(path.parts) and path.name != "agent"
    )  # fmt: skip


REFERENCE = re.compile(r"docs/([\w/-]+\.md)(?:, rules? (\d+)(?: (?:to|and) (\d+))?)?")
RULE = re.compile(r"^(\d)\. \*\*", re.MULTILINE)


def test_references_to_the_documentation_exist() -> None:
    """Every page that code and tests name exists, with the rule that they name; nothing outside the repository is."""
    references = 0
    for path in [*sources(), ROOT / "Makefile", *pages()]:
        text = path.read_text()
        for page, *rules in REFERENCE.findall(text):
            references += 1
            place = f"{path.relative_to(ROOT)}: docs/{page}"
            assert (ROOT / "docs" / page).is_file(), place
            rule_numbers = set(RULE.findall((ROOT / "docs" / page).read_text()))
            assert {rule for rule in rules if rule} <= rule_numbers, f"{place}, rules {rules}"
        assert path == Path(__file__) or not re.search(r"\bDESIGN\b|\bI\d\d?\b", text), path
    assert references > 150


def test_help_lists_every_verb_of_the_makefile() -> None:
    (verbs,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    output = subprocess.run(["make", "--silent", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    listed = {line.split()[1]: line.split()[2:] for line in output.splitlines()}
    assert sorted(listed) == sorted(verbs.split())
    assert all(listed.values())


def test_the_walk_names_existing_functions() -> None:
    """Each step has a function in its file; tests/integration/test_walk.py follows a submission through them."""
    walk = steps()
    assert [step.number for step in walk] == list(range(1, len(walk) + 1))
    assert len(walk) >= 20
    rows = re.findall(r"^\| \d+ \|", (ROOT / "docs/walk.md").read_text(), re.MULTILINE)
    assert len(rows) == len(walk)
    for step in walk:
        if step.file.endswith(".c"):
            assert re.search(rf"^static .*\bvoid {step.name}\(", (ROOT / step.file).read_text(), re.MULTILINE)
        elif step.file.endswith(".js"):
            assert f"function {step.name}(" in (ROOT / step.file).read_text()
        else:
            assert line_of(step.file, step.name)
        assert all(line_of(*call) for call in step.inner)


PLACE = re.compile(r"`([\w./-]+?)(?::(\w+))?`")


@pytest.mark.parametrize(("page", "rows"), [("contributing.md", 25), ("glossary.md", 30)])
def test_places_in_tables_for_newcomers_exist(page: str, rows: int) -> None:
    rows_with_places = 0
    _, _, tables = (ROOT / "docs" / page).read_text().partition("\n| ")
    for row in (line for line in tables.splitlines() if line.startswith("| ")):
        places = [(path, name) for path, name in PLACE.findall(row) if "/" in path or path.endswith((".toml", ".txt"))]
        rows_with_places += bool(places)
        for path, name in places:
            assert exists(path, name), f"{page}: {path}:{name}"
    assert rows_with_places >= rows


def test_the_row_of_problem_types_names_each_module_that_asks_for_one_of_them() -> None:
    asking = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "judge").rglob("*.py")
        if re.search(r"\bProblemType\.[A-Z]", path.read_text())
    }
    (row,) = re.findall(r"^\| a type of problem \|.*", (ROOT / "docs/contributing.md").read_text(), re.MULTILINE)
    assert asking <= {path for path, _ in PLACE.findall(row)}


# They name a language, and do not change with the table.
OF_ONE_LANGUAGE = {
    "judge/gateway/pages/reference.py": "an example of a submission",
    "judge/problems/checktestdata.py": "what descriptions of inputs are turned into",
    "judge/problems/expectations.py": "C is judged as C++ where a package's folder says both",
}


def test_the_row_of_languages_names_modules_that_name_a_language() -> None:
    """Importers read other judges' names of languages, and Judge0's are a table of its own."""
    (row,) = re.findall(r"^\| a language \|.*", (ROOT / "docs/contributing.md").read_text(), re.MULTILINE)
    asking = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "judge").rglob("*.py")
        if re.search(r'"(?:cpp|python3|pypy3|java)"', path.read_text())
        and not {"importers", "judge0"} & set(path.relative_to(ROOT).parts)
    }
    assert {path for path in asking if f"`{path}" not in row} == set(OF_ONE_LANGUAGE)


MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (ROOT / "judge").rglob("*.py")
}


def imported_modules(module: str, path: Path) -> set[str]:
    """The modules of judge/ from which a module imports, at its head or later, or for its types alone."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            full = {alias.name: f"{source}.{alias.name}" for alias in node.names}
            modules |= {name if name in MODULES else source for name in full.values()}
    return (modules & MODULES.keys()) - {module}


def test_each_package_imports_only_packages_below_it() -> None:
    table, _, _ = (ROOT / "docs/contributing.md").read_text().partition("\n## ")
    rooms = [
        re.findall(r"\[judge/(\w+)", row.split("|")[1]) for row in re.findall(r"^\| \[judge/.*", table, re.MULTILINE)
    ]
    place = {room: number for number, row in enumerate(rooms) for room in row}
    assert {path.parent.name for path in (ROOT / "judge").glob("*/__init__.py")} <= set(place)
    for module, path in MODULES.items():
        number = place.get(module.split(".")[1] if module != "judge" else "", 0)
        rooms_of = {name.split(".")[1] for name in imported_modules(module, path) if name != "judge"}
        assert [above for above in rooms_of if place.get(above, number) < number] == [], path


def test_no_modules_import_one_another_in_a_circle() -> None:
    """Layers say it of rooms (`[tool.importlinter]`), and this within each of them."""
    uses = {module: imported_modules(module, path) for module, path in MODULES.items()}
    assert sum(map(len, uses.values())) > 1500
    try:
        graphlib.TopologicalSorter(uses).prepare()
    except graphlib.CycleError as exc:
        pytest.fail(" imports ".join(reversed(exc.args[1])))


def test_the_commit_hook_runs_the_checks_of_the_page() -> None:
    """docs/contributing.md: `make lint` and `make types`, nothing else and nothing less."""
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["entry"].replace(" --silent", "") for hook in local["hooks"]] == ["make lint", "make types"]


FOR = sorted((ROOT / "docs/for").glob("*.md"))


@pytest.mark.parametrize("page", ["README.md", "docs/for/organiser.md"])
def test_a_page_says_what_there_is_not_yet(page: str) -> None:
    assert "Judge has no contests yet" in (ROOT / page).read_text()


def test_the_front_page_links_the_pages_for_newcomers_and_for_each_kind_of_user() -> None:
    assert [page.stem for page in FOR] == ["author", "class", "contestant", "integrator", "operator", "organiser"]
    text = (ROOT / "README.md").read_text()
    for name in ("contributing.md", "walk.md", *(f"for/{page.name}" for page in FOR)):
        assert f"](docs/{name})" in text


TYPED = re.compile(r"^(?:.*\| ?)?judgectl (.*)|`judgectl ([^`\n]+)`", re.MULTILINE)


def names_in(command: Any) -> list[str]:
    """Names of the commands of a group; none of a command."""
    return command.list_commands(None) if hasattr(command, "list_commands") else []


@pytest.mark.parametrize("page", [*FOR, ROOT / "README.md", ROOT / "docs/cookbook.md"], ids=lambda page: page.stem)
def test_judgectl_accepts_the_commands_of_a_page(page: Path) -> None:
    """Its commands and their options; what stands for something of one's own is not looked at."""
    for match in TYPED.finditer(page.read_text()):
        line = (match[1] or match[2]).partition(" #")[0]
        command: Any = typer.main.get_command(app)
        for word in shlex.split(line):
            if word in names_in(command):
                command = command.get_command(None, word)
            elif word.startswith("-") and len(word) > 1:
                options = {
                    name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)
                } | {"--help"}
                assert word in options, f"{page.name}: judgectl {line}: {word}"
            elif names_in(command):
                assert set(word.split("|")) <= {*names_in(command), "INVENTORY"}, (
                    f"{page.name}: judgectl {line}: {word}"
                )


# Submissions, damaged input, pictures, and the page that says the policy.
NO_PROSE = ("examples/", "tests/fuzz/corpus/", "docs/contributing.md", "docs/pictures/")


def test_no_file_has_marks_of_open_work() -> None:
    marks = re.compile(r"\b(?:[T]ODO|[F]IXME|[X]XX)\b")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    checked = 0
    for name in files.split("\0"):
        path = ROOT / name
        if name and path.is_file() and not path.is_symlink() and not name.startswith(NO_PROSE):
            checked += 1
            mark = marks.search(path.read_bytes().decode(errors="replace"))
            assert mark is None, f"{name}: {mark[0] if mark else ''}"
    assert checked > 400


def test_every_decision_has_a_number_of_its_own() -> None:
    pages = sorted((ROOT / "docs/decisions").glob("*.md"))
    numbers = [page.name[:3] for page in pages]
    assert sorted(set(numbers)) == numbers
    for page in pages:
        assert page.read_text(encoding="utf-8").startswith((f"# {page.name[:3]}: ", f"# {page.name[:3]} ")), page.name


def test_the_page_of_deployments_names_every_test_of_clusters() -> None:
    text = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
    missing = [
        path.name for path in (ROOT / "tests/cluster").glob("test_*.py") if f"`tests/cluster/{path.name}`" not in text
    ]
    assert missing == []


def test_man_pages_have_every_command(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts/make-man", tmp_path], check=True)
    texts = {path.name: path.read_text().replace("\\-", "-") for path in tmp_path.iterdir()}
    assert sorted(texts) == ["judge-cli.1", "judge.1", "judgectl.1"]
    for name, words in {
        "judgectl.1": ["judgectl problem verify [OPTIONS]", "judgectl audit", ".B -n, --limit", "Exit code: 0 AC"],
        "judge-cli.1": ["judge-cli submit [-h]", ".B --output, -o table|json|csv", "the last 7 characters"],
        "judge.1": ["judge up"],
    }.items():
        assert all(word in texts[name] for word in words), name
    for text in texts.values():
        lines = text.splitlines()
        assert text.isascii() and {line.split()[0] for line in lines if line.startswith(".")} <= {
            ".TH", ".SH", ".SS", ".TP", ".B", ".br",
        }  # fmt: skip
