"""Every format is a leaf: it knows the base of its room alone, and can go with its line in the table."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import srbwriter
from srbwriter.story import formats

BASE = {
    "archive", "base", "binding", "build", "cursor", "document", "encoding", "frontmatter", "inline", "lore",
    "manuscript", "others", "prose", "webpage",
}  # fmt: skip
"""Modules that any format may use; ``lore`` has a format too, for files with nothing but lore in them."""

PARTS = {"novelai": {"packed"}, "word": {"word_reader"}}
"""Modules of one leaf alone, which go with it."""

PACKAGE = "srbwriter.story.formats"
ROOM = Path(formats.__file__).parent
PROGRAM = Path(srbwriter.__file__).parent
MODULES = {file.stem for file in ROOM.glob("*.py")} - {"__init__"}
ALL_PARTS = set[str]().union(*PARTS.values())
LEAVES = sorted(MODULES - BASE - ALL_PARTS)
LINE = '    "{}",\n'


def imports_of(file: Path) -> set[str]:
    """The modules of the room that a file imports."""
    found = set[str]()
    text = file.read_text("utf-8")
    for node in ast.walk(ast.parse(text)) if PACKAGE in text else ():
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            found |= {alias.name for alias in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE + "."):
            found.add((node.module or "").removeprefix(PACKAGE + "."))
    return found


def test_the_table_has_a_line_for_each_leaf() -> None:
    table = (ROOM / "__init__.py").read_text("utf-8")
    assert [name for name in LEAVES if table.count(LINE.format(name)) != 1] == []


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_leaf_knows_the_base_and_its_own_parts_alone(leaf: str) -> None:
    own = PARTS.get(leaf, set()) | {leaf}
    assert set[str]().union(*(imports_of(ROOM / f"{name}.py") for name in own)) <= BASE | own


def test_the_base_knows_no_leaf() -> None:
    assert {name: found for name in BASE & MODULES if (found := imports_of(ROOM / f"{name}.py") - BASE)} == {}
    assert imports_of(ROOM / "__init__.py") <= BASE


def test_nobody_outside_the_room_knows_a_leaf() -> None:
    outside = [file for file in PROGRAM.rglob("*.py") if ROOM not in file.parents]
    assert {str(file): found for file in outside if (found := imports_of(file) - BASE)} == {}
