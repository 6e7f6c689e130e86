"""One bad entry in a file of another program: it is told by its place, and everything else is there.

The entries of the example files (nodes, messages, entries of lorebooks) are damaged one at a time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story import formats
from srbwriter.story.model import check_draft
from tests.story.format_files import (
    FIXTURES,
    changed,
    is_left_out,
    notices,
    read_json,
    story_and_lore,
    without,
)


def test_only_the_first_of_many_faults_are_told_one_by_one() -> None:
    draft = read_json({"text": "a", "children": [7] * 50})
    assert len(notices(draft)) == 21
    assert notices(draft)[-1] == "and 30 more like these"


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
    Entries("loom.json", ("root", "children")),
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
]

NO_OBJECT = st.none() | st.integers(-3, 3) | st.booleans() | st.just("x") | st.just([])
NO_TEXT = st.none() | st.integers(-3, 3) | st.booleans() | st.just([]) | st.just({"a": 1})


@settings(max_examples=75, deadline=None)
@given(st.data())
def test_a_bad_entry_is_left_out_and_everything_else_is_there(data: st.DataObject) -> None:
    entries = data.draw(st.sampled_from(LISTS))
    value = entries.value
    step = data.draw(st.sampled_from(entries.steps(value)))
    whole = (*entries.path, step)
    is_text = isinstance(reduce(getitem, whole, value), str)
    if is_text or not entries.needed or data.draw(st.booleans()):
        bad = changed(value, data.draw(NO_TEXT if is_text else NO_OBJECT), *whole)
    elif data.draw(st.booleans()):
        bad = changed(value, data.draw(NO_TEXT), *whole, entries.needed)
    else:
        bad = without(value, *whole, entries.needed)
    draft = entries.read(bad)
    check_draft(draft)
    assert is_left_out(draft, entries.place(step))
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
    assert is_left_out(draft, str(entries.path[-1]))
    assert story_and_lore(draft) == story_and_lore(entries.read(without(value, *entries.path)))


def test_of_many_bad_entries_some_are_named_and_the_rest_are_counted() -> None:
    value = [{"keys": "a", "value": "A."}, *range(40)]
    draft = read_json(value)
    assert [entry.text for entry in draft.root.settings.lore] == ["A."]
    assert is_left_out(draft, "[1]")
    assert is_left_out(draft, "more")
    assert len(draft.meta["notices"]) < 40


def test_nothing_is_said_of_a_sound_file() -> None:
    draft = read_json([{"keys": "a", "value": "A."}])
    assert draft.meta == {}
