"""Importers of NovelAI's stories, scenarios and lorebooks."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story.model import StoryDraft, check_draft
from tests.story.format_files import (
    changed,
    fixture_json,
    is_left_out,
    noticed,
    notices,
    path_text,
    read_json,
    rejects,
    shape,
    without,
)
from tests.story.packing import UNDEFINED, Extension, Record, Set, pack


def test_the_context_is_taken_as_it_is_inserted() -> None:
    value = fixture_json("novelai.story")
    value["content"]["context"][0]["contextConfig"] |= {"prefix": "[ ", "suffix": " ]\n"}
    draft = read_json(value)
    assert draft.root.settings.memory == "[ A river. ]\n"


def test_a_text_that_is_not_its_fragments_is_taken_whole() -> None:
    draft = read_json(changed(fixture_json("novelai.story"), "Another text.", "content", "story", "text"))
    assert path_text(draft) == "Another text."


@pytest.mark.parametrize("document", ["k8Q=", "!", "§", "", base64.b64encode(pack({"a": 1})).decode(), 7])
def test_a_document_that_cannot_be_read_costs_the_text_only(document: Any) -> None:
    value = changed(fixture_json("novelai_document.story"), document, "content", "document")
    draft = read_json(value)
    assert shape(draft) == ("", [])
    assert draft.root.settings.memory == "A river between two towns."
    assert len(draft.root.settings.lore) == 2
    assert noticed(draft, "plain text")


def test_a_story_with_both_texts_is_the_newer_or_the_one_that_can_be_read() -> None:
    value = fixture_json("novelai_document.story")
    value["content"]["story"] = fixture_json("novelai.story")["content"]["story"]
    assert path_text(read_json(value)).startswith("Write of a ferry.")
    empty = base64.b64encode(pack(Record({"sections": {}, "order": []}))).decode()
    for document in ("!", empty):
        draft = read_json(changed(value, document, "content", "document"))
        assert path_text(draft).startswith("The ferry was late.")


def test_stories_that_are_none() -> None:
    value = fixture_json("novelai.story")
    rejects(changed(value, 9, "storyContainerVersion"), "storyContainerVersion", "1, the only version")
    rejects(without(value, "content"), "content", "an object")
    rejects(without(value, "content", "story"), "content.story", "a story, or a document")


@pytest.mark.parametrize(
    "field", [("metadata",), ("content", "lorebook"), ("content", "context"), ("content", "story")]
)
def test_a_part_of_the_wrong_kind_is_left_out(field: tuple[str, ...]) -> None:
    draft = read_json(changed(fixture_json("novelai.story"), "x", *field))
    assert is_left_out(draft, ".".join(field))
    assert (path_text(draft) == "") == (field[-1] == "story")


def test_a_part_of_the_context_that_is_none_moves_no_other() -> None:
    draft = read_json(changed(fixture_json("novelai.story"), 7, "content", "context", 0))
    assert is_left_out(draft, "content.context[0]")
    assert (draft.root.settings.memory, draft.root.settings.author_note) == (None, "[ Style: plain ]")


def test_a_scenario_without_places_says_nothing_and_may_be_nearly_empty() -> None:
    draft = read_json({"scenarioVersion": 0, "prompt": "", "title": "x"})
    assert (shape(draft), draft.title, notices(draft)) == (("", []), "x", [])


def test_a_lorebook_is_its_entries() -> None:
    value = fixture_json("novelai.lorebook")
    rejects(without(value, "entries"), "entries", "a list")
    rejects(changed(value, 3, "entries"), "entries", "a list")


@pytest.mark.parametrize("spoilt", [[], {}, None])
def test_a_category_without_a_name_switches_nothing_off(spoilt: Any) -> None:
    value = changed(fixture_json("novelai.lorebook"), [{"id": spoilt, "enabled": False}], "categories")
    value["entries"][0]["category"] = spoilt
    assert read_json(value, "a.lorebook").root.settings.lore[0].enabled


# --- any history


UNITS: Callable[[str], int] = lambda text: len(text.encode("utf-16-le")) // 2  # noqa: E731


def section(text: str) -> Record:
    origins = [Record({"position": 0, "data": 2, "length": UNITS(text)})] if text else []
    return Record({"type": 1, "text": text, "meta": {1: origins, 2: []}, "source": UNDEFINED})


def document(
    states: list[dict[int, str]], changes: list[Any], parents: list[int], current: int, dirty: Any
) -> str:
    nodes = {
        2**40 + index: Extension(
            31,
            Record(
                {
                    "id": 2**40 + index,
                    "parent": 2**40 + parents[index] if parents[index] >= 0 else UNDEFINED,
                    "children": Set(
                        [2**40 + child for child, parent in enumerate(parents) if parent == index]
                    ),
                    "route": UNDEFINED,
                    "changes": changes[index],
                    "date": UNDEFINED,
                    "genPosition": UNDEFINED,
                }
            ),
        )
        for index in range(len(states))
    }
    live = states[current]
    fields = {
        "sections": {key: section(text) for key, text in live.items()},
        "order": list(live),
        "history": Extension(30, Record({"root": 2**40, "current": 2**40 + current, "nodes": nodes})),
        "dirtySections": dirty,
        "step": len(states),
    }
    return base64.b64encode(pack(Extension(20, Record(fields)), most_bundled=100)).decode()


def create(text: str, after: int) -> Record:
    return Record({"type": 0, "section": section(text), "after": after})


def update(start: int, old: str, new: str, more: tuple[Record, ...] = ()) -> Record:
    parts = [Record({"from": start, "insert": new, "delete": old}), *more]
    diff = Extension(40, Extension(41, Record({"parts": parts, "metas": {}, "source": 0})))
    return Record({"type": 1, "diff": diff})


def with_document(packed: str) -> StoryDraft:
    return read_json({"storyContainerVersion": 1, "content": {"document": packed}})


@pytest.mark.parametrize("has_them", [True, False])
def test_changes_that_no_point_of_the_history_has_yet(has_them: bool) -> None:
    """They may be in the paragraphs already, or not; either way they are there once."""
    dirty = {1: update(3, "", "!"), 2: create("Two", 1)}
    states = [{1: "One"}] if not has_them else [{1: "One!", 2: "Two"}]
    packed = document(states, [{1: create("One", 0)}], [-1], 0, dirty)
    assert path_text(with_document(packed)) == "One!\nTwo"


def test_a_document_without_a_history_is_its_paragraphs() -> None:
    fields = {"sections": {5: section("b"), 4: section("a"), 9: section("c")}, "order": [4, 5, 6]}
    draft = with_document(base64.b64encode(pack(Record(fields))).decode())
    assert path_text(draft) == "a\nb\nc"


def test_paragraphs_that_are_no_text_are_told() -> None:
    picture = Record({"type": 2, "source": "x"})
    fields = {
        "sections": {4: section("a"), 5: picture, 6: Record({"type": 1, "text": 7}), 7: 3},
        "order": [4, 5, 6, 7],
    }
    draft = with_document(base64.b64encode(pack(Record(fields))).decode())
    assert path_text(draft) == "a"
    assert (
        noticed(draft, "paragraph 6") and noticed(draft, "paragraph 7") and noticed(draft, "1 of its parts")
    )


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_any_damage_to_a_document_is_survived(data: st.DataObject) -> None:
    value = fixture_json("novelai_document.story")
    raw = base64.b64decode(value["content"]["document"])
    at = data.draw(st.integers(0, len(raw) - 1))
    damaged = (
        raw[:at] + data.draw(st.binary(min_size=1, max_size=3)) + raw[at + data.draw(st.integers(0, 3)) :]
    )
    draft = read_json(changed(value, base64.b64encode(damaged).decode(), "content", "document"))
    check_draft(draft)
    assert len(draft.root.settings.lore) == 2
    json.dumps(draft.meta)
