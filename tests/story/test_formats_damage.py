"""One bad entry in a file of a tree program: it is told by its place, and everything else is there.

The entries of the example files (nodes, chunks, actions, options, sessions) are damaged one at a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story import formats
from srbwriter.story.model import StoryDraft, check_draft
from tests.sizes import examples
from tests.story.format_files import FIXTURES, changed, without
from tests.story.leaf_check import Path, at, open_file, places
from tests.story.test_formats import EXPECTED


@dataclass(frozen=True, slots=True)
class Layout:
    """The way to an entry as a regular expression, and its fields' names, empty for one there is not."""

    entries: str
    text: str = "text"
    id: str = ""
    parent: str = ""


LAYOUTS = {
    "loom.json": Layout(r"root(\.children\.\d+)+", id="id"),
    "loom_old.json": Layout(r"(\.?children\.\d+)+", id="id"),
    "loom_simple.json": Layout(r"(\.?children\.\d+)+"),
    "loom.jsonl": Layout(r"\d+", id="id", parent="parent_id"),
    "loom_chapters.json": Layout(r"root(\.children\.\d+)+", id="id"),
    "loomsidian.json": Layout(r"nodes\.[^.]+", parent="parentId"),
    "loomsidian_data.json": Layout(r"state\..*\.nodes\.[^.]+", parent="parentId"),
    "loomsidian_list.json": Layout(r"nodes\.[^.]+", "value", id="id", parent="parentId"),
    "exoloom.json": Layout(r"tree\.nodes\.\d+", "content", parent="parentId"),
    "basemode.json": Layout(r"nodes\.[^.]+", id="id", parent="parent_id"),
    "basemode_contexts.json": Layout(r"nodes\.[^.]+", id="id", parent="parent_id"),
    "logitloom.json": Layout(r"roots\.\d+(\.children\.\d+)*"),
    "mikupad.json": Layout(r"prompt\.\d+", "content"),
    "mikupad_db.json": Layout(r"Sessions\.\d+\.value\.prompt\.\d+", "content"),
    "kobold_united.json": Layout(r"actions\.actions\.\d+\.Options\.\d+"),
}

SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
WRONG = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)


def entries(file: str) -> list[Path]:
    """The ways to the entries of an example file, but for those that are no part of the text."""
    value = open_file(EXPECTED[file], (FIXTURES / file).read_bytes()).value
    ways = [path for path in places(value) if _is_entry(path, LAYOUTS[file])]
    return [way for way in ways if at(value, way).get("kind") != "context"]


def _is_entry(path: Path, layout: Layout) -> bool:
    return re.fullmatch(layout.entries, ".".join(map(str, path))) is not None


def read(file: str, value: Any) -> StoryDraft:
    return formats.read(open_file(EXPECTED[file], (FIXTURES / file).read_bytes()).close(value), "damaged")


def source(file: str) -> Any:
    return open_file(EXPECTED[file], (FIXTURES / file).read_bytes()).value


def place(file: str, path: Path) -> str:
    """The way as it is told."""
    if file.endswith(".jsonl"):
        return ".".join([f"line {int(path[0]) + 1}", *map(str, path[1:])])
    told = ""
    for step in path:
        told += f"[{step}]" if isinstance(step, int) else f".{step}"
    return told.removeprefix(".")


def texts_outside(file: str, value: Any, damaged: Path) -> Iterator[str]:
    """The texts of the entries that are neither at the damaged place nor below it."""
    layout = LAYOUTS[file]
    for path in entries(file):
        text = at(value, path).get(layout.text)
        if isinstance(text, str) and (*path, layout.text)[: len(damaged)] != damaged:
            yield text.replace("\\", "")


def has(draft: StoryDraft, texts: Iterator[str]) -> bool:
    there = [node.text for node in draft.nodes]
    return all(any(text in node for node in there) for text in texts)


def notices(draft: StoryDraft) -> list[str]:
    return draft.meta.get("notices", [])


CASES = [(file, path) for file in LAYOUTS for path in entries(file)]
NAMES = [f"{file}:{place(file, path)}" for file, path in CASES]


def test_every_layout_finds_entries() -> None:
    assert {file for file, _ in CASES} == set(LAYOUTS)


@pytest.mark.parametrize(("file", "path"), CASES, ids=NAMES)
@pytest.mark.parametrize("wrong", [None, 7, "x", []], ids=repr)
def test_an_entry_that_is_none(file: str, path: Path, wrong: Any) -> None:
    value = source(file)
    draft = read(file, changed(value, wrong, *path))
    assert any(words.startswith(f"{place(file, path)}: left out") for words in notices(draft)), notices(draft)
    assert has(draft, texts_outside(file, value, path))


@pytest.mark.parametrize(("file", "path"), CASES, ids=NAMES)
@pytest.mark.parametrize("wrong", [7, ["x"], {"x": 1}], ids=repr)
def test_an_entry_whose_text_is_none(file: str, path: Path, wrong: Any) -> None:
    value, key = source(file), LAYOUTS[file].text
    draft = read(file, changed(value, wrong, *path, key))
    assert any(words.startswith(f"{place(file, path)}.{key}: ") for words in notices(draft)), notices(draft)
    assert has(draft, texts_outside(file, value, (*path, key)))


WITH_IDS = [(file, path) for file, path in CASES if LAYOUTS[file].id]


@pytest.mark.parametrize(("file", "path"), [case for case in WITH_IDS if case[1] != entries(case[0])[0]])
def test_an_entry_with_the_id_of_another(file: str, path: Path) -> None:
    value, key = source(file), LAYOUTS[file].id
    draft = read(file, changed(value, at(value, entries(file)[0])[key], *path, key))
    assert any("occurs twice" in words for words in notices(draft)), notices(draft)
    assert has(draft, _all_texts(file, value))


def _all_texts(file: str, value: Any) -> Iterator[str]:
    return texts_outside(file, value, ("no such place",))


@pytest.mark.parametrize(("file", "path"), WITH_IDS)
def test_an_entry_without_an_id(file: str, path: Path) -> None:
    value = source(file)
    draft = read(file, without(value, *path, LAYOUTS[file].id))
    if LAYOUTS[file].parent:  # nesting does without
        assert f"{place(file, path)}.{LAYOUTS[file].id}: expected an id; it is given one" in notices(draft)
    assert has(draft, _all_texts(file, value))


WITH_PARENTS = [(file, path) for file, path in CASES if LAYOUTS[file].parent]


@pytest.mark.parametrize(("file", "path"), WITH_PARENTS)
def test_an_entry_whose_parent_is_missing(file: str, path: Path) -> None:
    value = source(file)
    draft = read(file, changed(value, "gone", *path, LAYOUTS[file].parent))
    assert any(words.startswith(place(file, path)) for words in notices(draft)), notices(draft)
    assert has(draft, _all_texts(file, value))


@pytest.mark.parametrize("file", sorted({file for file, _ in WITH_PARENTS}))
def test_entries_that_are_their_own_ancestors(file: str) -> None:
    """Every top-level node below the last one of the file."""
    value, layout = source(file), LAYOUTS[file]
    ways = entries(file)
    last = at(value, ways[-1]).get(layout.id, ways[-1][-1])
    for way in ways:
        if at(value, way).get(layout.parent) is None:
            value = changed(value, last, *way, layout.parent)
    draft = read(file, value)
    assert any("its own ancestor" in words or "has a parent" in words for words in notices(draft))
    assert has(draft, _all_texts(file, value))


@settings(max_examples=examples(600), deadline=None)
@given(st.data())
def test_anything_wrong_in_an_entry_costs_no_more_than_it(data: st.DataObject) -> None:
    file, path = data.draw(st.sampled_from(CASES))
    value = source(file)
    inner = [way for way in places(value) if way[: len(path)] == path]
    way = data.draw(st.sampled_from(inner))
    damaged = without(value, *way) if data.draw(st.booleans()) else changed(value, data.draw(WRONG), *way)
    if isinstance(at(value, way[:-1]), list) and len(at(damaged, way[:-1])) < len(at(value, way[:-1])):
        return  # a list without one of its members is not damaged
    draft = read(file, damaged)
    check_draft(draft)
    assert has(draft, texts_outside(file, value, way))
    for name in ("srbwriter", "loom", "loomsidian", "mikupad", "text"):
        formats.write(draft, name)


@pytest.mark.parametrize("file", sorted(LAYOUTS))
def test_what_was_left_out_is_kept(file: str) -> None:
    """The value stands among the foreign fields, and is in the story's own JSON."""
    value = changed(source(file), "a lost thing", *entries(file)[0])
    assert "a lost thing" in json.dumps(read(file, value).meta["foreign"])


def test_only_the_first_of_many_faults_are_told_one_by_one() -> None:
    draft = read("loom_simple.json", {"text": "a", "children": [7] * 50})
    assert len(notices(draft)) == 21
    assert notices(draft)[-1] == "and 30 more like these"
