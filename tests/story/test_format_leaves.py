"""Every format is a leaf: it knows the base of its room alone, and can go with its line in the table."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import srbwriter
from srbwriter.story import formats
from tests.sizes import some_of
from tests.story.format_files import FIXTURES
from tests.story.test_formats import EXPECTED

BASE = {
    "archive", "base", "binding", "build", "cursor", "document", "encoding", "frontmatter", "inline", "lore",
    "manuscript", "others", "prose", "webpage",
}  # fmt: skip
"""Modules that any format may use; ``lore`` has a format too, for files with nothing but lore in them."""

PARTS = {"novelai": {"packed", "takes"}, "tapestry": {"rkyv"}, "word": {"word_reader"}}
"""Modules of one leaf alone, which go with it."""

PACKAGE = "srbwriter.story.formats"
ROOM = Path(formats.__file__).parent
PROGRAM = Path(srbwriter.__file__).parent
MODULES = {file.stem for file in ROOM.glob("*.py")} - {"__init__"}
ALL_PARTS = set[str]().union(*PARTS.values())
LEAVES = sorted(MODULES - BASE - ALL_PARTS)
LINE = '    "{}",\n'
READS_THE_REST = """\
import sys
from pathlib import Path
from srbwriter.story import formats
from srbwriter.story.model import DraftNode, StoryDraft

assert sys.argv[1] in formats.__file__, formats.__file__
for line in sys.stdin.read().splitlines():
    file, name = line.split("\\t")
    data = Path(file).read_bytes()
    found = formats.detect(data, file).name
    assert found == name, f"{file} is {found}, and should be {name}"
    assert formats.read(data, file).nodes
nodes = [DraftNode("root"), DraftNode("a", "root", text="# One\\n\\nHer *first* words.")]
draft = StoryDraft(nodes, "a", "Tale")
for form in formats.writable():
    assert form.write(draft)
"""


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


def scratch_copy(folder: Path) -> Path:
    """The program with a copy of the room that can be cut; returns the room."""
    room = folder / "srbwriter" / "story" / "formats"
    room.parent.mkdir(parents=True)
    for source, target in ((PROGRAM, folder / "srbwriter"), (PROGRAM / "story", room.parent)):
        for entry in source.iterdir():
            if not (target / entry.name).exists() and entry != ROOM:
                (target / entry.name).symlink_to(entry)
    shutil.copytree(ROOM, room, ignore=shutil.ignore_patterns("__pycache__"))
    return room


@pytest.mark.parametrize("leaf", some_of([*LEAVES, "lore"], {"markdown", "novelai"}))
def test_without_a_leaf_the_others_work(leaf: str, tmp_path: Path) -> None:
    room = scratch_copy(tmp_path)
    table = room / "__init__.py"
    table.write_text(table.read_text("utf-8").replace(LINE.format(leaf), ""), "utf-8")
    for name in ({leaf} | PARTS.get(leaf, set())) - BASE:
        (room / f"{name}.py").unlink()
    kinds = (formats.Format, formats.FolderFormat)
    gone = {form.name for form in vars(sys.modules[f"{PACKAGE}.{leaf}"]).values() if isinstance(form, kinds)}
    assert gone
    samples = [f"{FIXTURES / file}\t{name}" for file, name in EXPECTED.items() if name not in gone]
    done = subprocess.run(
        [sys.executable, "-P", "-c", READS_THE_REST, str(tmp_path)],
        input="\n".join(samples),
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        check=False,
    )
    assert done.returncode == 0, done.stderr
