"""Rules of the house that no linter knows."""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from srbwriter.server.connection import UVICORN
from srbwriter.tui.driver import TEXTUAL

ROOT = Path(__file__).parent.parent
OURS = ("srbwriter", "tests", "benchmarks", "tools", "examples")
SKIPPED = {"__pycache__", "node_modules"}

MAX_LINES = 800

# What belongs to the making of the program and not to the program.
SUSPICIOUS = ("/work/", "shared/", "issue ", "TODO", "FIXME", "XXX")  # quick to look for
FOREIGN = re.compile(r"/work/|\bshared/(?:reference|check|corpus)|\bissue #?\d|\bTODO\b|\bFIXME\b|\bXXX\b")


def files(*suffixes: str) -> Iterator[Path]:
    for room in OURS:
        for folder, names, leaves in os.walk(ROOT / room):
            names[:] = [name for name in names if name not in SKIPPED and not name.startswith(".")]
            yield from (Path(folder, leaf) for leaf in leaves if leaf.endswith(suffixes))


def prose() -> Iterator[Path]:
    yield from files(".py", ".md", ".toml", ".tcss", ".js", ".html", ".css", ".sh")
    for pattern in ("*.md", "*.toml", "docs/**/*.md", "themes/*", "sample_prompts/*"):
        yield from ROOT.glob(pattern)


def test_no_module_is_too_long() -> None:
    lengths = {str(file): len(file.read_text("utf-8").splitlines()) for file in files(".py")}
    assert not {file: lines for file, lines in lengths.items() if lines > MAX_LINES}


def test_a_public_class_has_its_name_for_itself() -> None:
    texts = [file.read_text("utf-8") for file in files(".py") if "srbwriter" in file.relative_to(ROOT).parts]
    names = Counter(name for text in texts for name in re.findall(r"^ *class ([A-Z]\w*)", text, re.MULTILINE))
    assert not {name for name, times in names.items() if times > 1}


PRIVATE = re.compile(
    r"^\s*(?:from|import) (?:textual\.(?:_|drivers|document\._)|uvicorn\.protocols|httpcore)"
    r"|^\s*(?:from|import) (?:starlette|anyio)\._"
    r"|ignore\[reportPrivate|\b(?:app|screen|widget)\._[a-z]",
    re.MULTILINE,
)
WRITTEN_AGAINST = {
    "srbwriter/tui/driver.py": ("textual", TEXTUAL),
    "srbwriter/server/connection.py": ("uvicorn", UVICORN),
}


def test_what_is_not_public_in_a_library_is_used_in_one_module() -> None:
    found = {str(file.relative_to(ROOT)) for file in files(".py") if PRIVATE.search(file.read_text("utf-8"))}
    assert {file for file in found if file.startswith("srbwriter/")} == {*WRITTEN_AGAINST}


@pytest.mark.parametrize("file", WRITTEN_AGAINST)
def test_that_module_is_looked_at_again_with_another_version(file: str) -> None:
    """It overrides methods that are not public: compare both before changing the number."""
    library, known = WRITTEN_AGAINST[file]
    assert f"{metadata.version(library)}.".startswith(f"{known}.")


def test_the_text_speaks_of_the_product_only() -> None:
    texts = ((file, file.read_text("utf-8")) for file in prose() if file != Path(__file__))
    suspects = ((file, text) for file, text in texts if any(word in text for word in SUSPICIOUS))
    assert not [
        f"{file.relative_to(ROOT)}: {match.group()}"
        for file, text in suspects
        if (match := FOREIGN.search(text))
    ]


def test_the_lock_file_has_a_version_of_all_that_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = [
        Requirement(line) for line in sum(project["optional-dependencies"].values(), project["dependencies"])
    ]
    lines = (ROOT / "requirements-dev.txt").read_text("utf-8").splitlines()
    locked = dict(line.split()[0].split("==") for line in lines if not line.startswith("#"))
    assert len(declared) > 40
    for wanted in declared:
        assert wanted.name == "srbwriter" or locked[wanted.name] in wanted.specifier, wanted


@pytest.mark.parametrize("file", [".github/workflows/check.yml", ".github/workflows/release.yml", "justfile"])
def test_every_python_that_is_promised_is_tried(file: str) -> None:
    promised = re.findall(r":: (3\.\d+)", (ROOT / "pyproject.toml").read_text("utf-8"))
    assert {*re.findall(r"3\.\d\d", (ROOT / file).read_text("utf-8"))} == {*promised}


def test_no_room_has_more_lines_than_the_table_of_rooms_says() -> None:
    table = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w/]+)/`[^|]* \| (\d+) \|", table, re.MULTILINE)
    most = {room: int(lines) for room, lines in rows}
    assert len(most) == 11
    found = dict.fromkeys(most, 0)
    for file in files(".py"):
        parts = file.relative_to(ROOT).parts
        if parts[0] != "examples":
            place = "/".join(parts[1:] if parts[0] == "srbwriter" else ("benchmarks", *parts[1:]))
            place = place if parts[0] != "tests" else "tests/"
            room = next((r for r in ("engine/remote", *most) if place.startswith(f"{r}/")), "config")
            found[room] += len(file.read_text("utf-8").splitlines())
    assert not {room: lines for room, lines in found.items() if lines > most[room]}
