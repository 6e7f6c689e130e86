"""One bad entry in a file of another program: it is told by its place, and everything else is there.

The entries of the example files (nodes, chunks, actions, messages, entries of lorebooks) are damaged one at a
time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story import formats
from srbwriter.story.model import StoryDraft, check_draft
from tests.sizes import examples
from tests.story.format_files import (
    FIXTURES,
    changed,
    is_left_out,
    notices,
    read_json,
    story_and_lore,
    without,
)
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
    """Return ``path`` as a notice names it."""
    if file.endswith(".jsonl"):
        return ".".join([f"line {int(path[0]) + 1}", *map(str, path[1:])])
    place = ""
    for step in path:
        place += f"[{step}]" if isinstance(step, int) else f".{step}"
    return place.removeprefix(".")


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


def begins(draft: StoryDraft, words: str) -> bool:
    return any(notice.startswith(words) for notice in notices(draft))


CASES = [(file, path) for file in LAYOUTS for path in entries(file)]
OF = {file: [path for name, path in CASES if name == file] for file in LAYOUTS}
"""The ways to the entries of each example file."""

each_file = pytest.mark.parametrize("file", LAYOUTS)
with_ids = pytest.mark.parametrize("file", [file for file in LAYOUTS if LAYOUTS[file].id])
with_parents = pytest.mark.parametrize("file", [file for file in LAYOUTS if LAYOUTS[file].parent])


def _all_texts(file: str, value: Any) -> Iterator[str]:
    return texts_outside(file, value, ("no such place",))


@each_file
def test_an_entry_that_is_none_is_left_out(file: str) -> None:
    value = source(file)
    assert OF[file]
    for path, wrong in product(OF[file], [None, 7, "x", []]):
        draft = read(file, changed(value, wrong, *path))
        assert begins(draft, f"{place(file, path)}: left out"), (path, wrong, notices(draft))
        assert has(draft, texts_outside(file, value, path)), (path, wrong)


@each_file
def test_an_entry_whose_text_is_none_is_told(file: str) -> None:
    value, key = source(file), LAYOUTS[file].text
    for path, wrong in product(OF[file], [7, ["x"], {"x": 1}]):
        draft = read(file, changed(value, wrong, *path, key))
        assert begins(draft, f"{place(file, path)}.{key}: "), (path, wrong, notices(draft))
        assert has(draft, texts_outside(file, value, (*path, key))), (path, wrong)


@with_ids
def test_an_entry_with_the_id_of_another(file: str) -> None:
    value, key = source(file), LAYOUTS[file].id
    for path in OF[file][1:]:
        draft = read(file, changed(value, at(value, OF[file][0])[key], *path, key))
        assert any("occurs twice" in words for words in notices(draft)), (path, notices(draft))
        assert has(draft, _all_texts(file, value)), path


@with_ids
def test_an_entry_without_an_id(file: str) -> None:
    value = source(file)
    for path in OF[file]:
        draft = read(file, without(value, *path, LAYOUTS[file].id))
        if LAYOUTS[file].parent:  # nesting does without
            assert begins(draft, f"{place(file, path)}.{LAYOUTS[file].id}: expected an id; it is given one")
        assert has(draft, _all_texts(file, value)), path


@with_parents
def test_an_entry_whose_parent_is_missing(file: str) -> None:
    value = source(file)
    for path in OF[file]:
        draft = read(file, changed(value, "gone", *path, LAYOUTS[file].parent))
        assert begins(draft, place(file, path)), (path, notices(draft))
        assert has(draft, _all_texts(file, value)), path


@with_parents
def test_entries_that_are_their_own_ancestors(file: str) -> None:
    """Every top-level node below the last one of the file."""
    value, layout = source(file), LAYOUTS[file]
    last = at(value, OF[file][-1]).get(layout.id, OF[file][-1][-1])
    for way in OF[file]:
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


@each_file
def test_what_was_left_out_is_kept(file: str) -> None:
    """The value stands among the foreign fields, and is in the story's own JSON."""
    value = changed(source(file), "a lost thing", *entries(file)[0])
    assert "a lost thing" in json.dumps(read(file, value).meta["foreign"])


def test_only_the_first_of_many_faults_are_told_one_by_one() -> None:
    draft = read("loom_simple.json", {"text": "a", "children": [7] * 50})
    assert len(notices(draft)) == 21
    assert notices(draft)[-1] == "and 30 more like these"


# -- chats, cards, lorebooks and adventures ------------------------------------------------------------

Step = str | int


@dataclass(frozen=True)
class Entries:
    """A list in an example (or an object of entries): the way to it, and a field without which there is no
    entry; a list without such a field is one of texts."""

    file: str
    path: tuple[Step, ...]
    needed: str = ""
    first: int = 0

    @property
    def value(self) -> Any:
        text = (FIXTURES / self.file).read_text("utf-8")
        if self.file.endswith(".jsonl"):
            return [json.loads(line) for line in text.splitlines()]
        return json.loads(text)

    def read(self, value: Any) -> formats.StoryDraft:
        if self.file.endswith(".jsonl"):
            return formats.read("\n".join(json.dumps(line) for line in value).encode(), self.file)
        return read_json(value, self.file)

    def steps(self, value: Any) -> list[Step]:
        for step in self.path:
            value = value[step]
        return list(value) if isinstance(value, dict) else list(range(self.first, len(value)))

    def place(self, step: Step) -> str:
        """What a notice calls the entry."""
        if self.file.endswith(".jsonl"):
            return f"line {int(step) + 1}"
        if isinstance(step, str):
            return f"{self.path[-1]}.{step}"
        return f"{self.path[-1] if self.path else ''}[{step}]"


LISTS = [
    Entries("sillytavern.jsonl", (), "mes", first=1),
    Entries("sillytavern_group.jsonl", (), "mes", first=1),
    Entries("worldinfo.json", ("entries",), "content"),
    Entries("lorebook_v3.json", ("data", "entries"), "content"),
    Entries("card.json", ("data", "character_book", "entries"), "content"),
    Entries("card.json", ("data", "alternate_greetings")),
    Entries("card_v3.json", ("data", "group_only_greetings")),
    Entries("novelai.lorebook", ("entries",), "text"),
    Entries("novelai.story", ("content", "lorebook", "entries"), "text"),
    Entries("novelai.story", ("content", "story", "fragments"), "data"),
    Entries("novelai_document.story", ("content", "lorebook", "entries"), "text"),
    Entries("novelai.scenario", ("lorebook", "entries"), "text"),
    Entries("aidungeon_cards.json", (), "value", first=1),
    Entries("aidungeon_worldinfo.json", (), "entry", first=1),
    Entries("aidungeon_adventure.json", ("data", "adventure", "actionWindow"), "text"),
    Entries("aidungeon_adventure.json", ("data", "adventure", "storyCards"), "value"),
    Entries("aidungeon_scenario.json", ("data", "scenario", "options")),
]

NO_OBJECT = st.none() | st.integers(-3, 3) | st.booleans() | st.just("x") | st.just([])
NO_TEXT = st.none() | st.integers(-3, 3) | st.booleans() | st.just([]) | st.just({"a": 1})


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_a_bad_entry_is_left_out_and_everything_else_is_there(data: st.DataObject) -> None:
    entries = data.draw(st.sampled_from(LISTS))
    value = entries.value
    step = data.draw(st.sampled_from(entries.steps(value)))
    whole = (*entries.path, step)
    is_text = isinstance(at(value, whole), str)
    if is_text or not entries.needed or data.draw(st.booleans()):
        bad = changed(value, data.draw(NO_TEXT if is_text else NO_OBJECT), *whole)
    elif data.draw(st.booleans()):
        bad = changed(value, data.draw(NO_TEXT), *whole, entries.needed)
    else:
        bad = without(value, *whole, entries.needed)
    draft = entries.read(bad)
    check_draft(draft)
    assert is_left_out(draft, entries.place(step), at(bad, whole))
    assert story_and_lore(draft) == story_and_lore(entries.read(without(value, *whole)))


INNER_LISTS = [entries for entries in LISTS if entries.path not in ((), ("entries",), ("data", "entries"))]
"""Without the other lists, a file is not what it is."""


@pytest.mark.parametrize("entries", INNER_LISTS, ids=lambda entries: f"{entries.file}:{entries.path[-1]}")
@pytest.mark.parametrize("wrong", [3, "x", True])
def test_a_list_that_is_none_is_left_out(entries: Entries, wrong: Any) -> None:
    value = entries.value
    if entries.path == ("content", "story", "fragments"):
        value = without(value, "content", "story", "text")
    draft = entries.read(changed(value, wrong, *entries.path))
    assert is_left_out(draft, str(entries.path[-1]), wrong)
    assert story_and_lore(draft) == story_and_lore(entries.read(without(value, *entries.path)))


def test_of_many_bad_entries_some_are_named_and_the_rest_are_counted() -> None:
    value = [{"keys": "a", "value": "A."}, *range(40)]
    draft = read_json(value)
    assert [entry.text for entry in draft.root.settings.lore] == ["A."]
    assert is_left_out(draft, "[1]", 0)
    assert is_left_out(draft, "more", 39)
    assert len(draft.meta["notices"]) < 40


def test_nothing_is_said_of_a_sound_file() -> None:
    draft = read_json([{"keys": "a", "value": "A."}])
    assert draft.meta == {}
