"""Importers of NovelAI's stories, scenarios and lorebooks."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story.formats import takes
from srbwriter.story.model import StoryDraft, check_draft, children_by_parent, foreign, path_to
from tests.sizes import examples
from tests.story.format_files import (
    changed,
    fixture_json,
    is_left_out,
    load,
    noticed,
    notices,
    path_text,
    read_json,
    rejects,
    shape,
    without,
)
from tests.story.packing import UNDEFINED, Extension, Record, Set, pack


def ways(draft: StoryDraft) -> set[str]:
    """The text of every path from the root to an end."""
    ends = [node_id for node_id, below in children_by_parent(draft).items() if not below]
    return {"".join(node.text for node in path_to(draft, end)) for end in ends}


def test_the_context_is_taken_as_it_is_inserted() -> None:
    value = fixture_json("novelai.story")
    value["content"]["context"][0]["contextConfig"] |= {"prefix": "[ ", "suffix": " ]\n"}
    value["content"]["context"].append({"text": "More.", "contextConfig": {}})
    draft = read_json(value)
    assert draft.root.settings.memory == "[ A river. ]\n"
    assert foreign(draft.meta, "novelai")["context"][2]["text"] == "More."


def test_a_text_that_is_not_its_fragments_is_taken_whole() -> None:
    draft = read_json(changed(fixture_json("novelai.story"), "Another text.", "content", "story", "text"))
    assert path_text(draft) == "Another text."
    assert "The ferry was late.\nNobody waited." in ways(draft)


def test_a_block_that_does_not_fit_costs_what_follows_it() -> None:
    value = fixture_json("novelai.story")
    for wrong in (900, -1, "x", None):
        draft = read_json(changed(value, wrong, "content", "story", "datablocks", 5, "startIndex"))
        assert path_text(draft) == "The ferry was late. Very late. I waited."
        assert "The ferry was late.\nNobody waited." in ways(draft)
        assert not any("The river rose" in way for way in ways(draft))
        assert noticed(draft, "2 steps", "history")
    for wrong in (None, 3, "x"):
        draft = read_json(changed(value, wrong, "content", "story", "datablocks"))
        assert ways(draft) == {"The ferry was late. Very late. I waited."}


def test_blocks_may_say_by_what_they_removed_how_far_they_reach() -> None:
    value = fixture_json("novelai.story")
    expected = ways(load("novelai.story"))
    blocks = value["content"]["story"]["datablocks"]
    for block in blocks:
        block["endIndex"] = block["startIndex"] + len(block["dataFragment"]["data"])
    assert ways(read_json(value)) == expected
    for block in blocks:
        del block["endIndex"], block["removedFragments"]
    assert ways(read_json(value)) == {way for way in expected if "boat" not in way} | {
        "The boatferry was late. Very late. I waited."
    }


@pytest.mark.parametrize("document", ["k8Q=", "!", "§", "", base64.b64encode(pack({"a": 1})).decode(), 7])
def test_a_document_that_cannot_be_read_costs_the_text_only(document: Any) -> None:
    value = changed(fixture_json("novelai_document.story"), document, "content", "document")
    draft = read_json(value)
    assert shape(draft) == ("", [])
    assert draft.root.settings.memory == "A river between two towns."
    assert len(draft.root.settings.lore) == 2
    assert noticed(draft, "plain text")
    assert foreign(draft.meta, "novelai")["document"] == document


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
    assert is_left_out(draft, ".".join(field), "x")
    assert (path_text(draft) == "") == (field[-1] == "story")


def test_a_part_of_the_context_that_is_none_moves_no_other() -> None:
    draft = read_json(changed(fixture_json("novelai.story"), 7, "content", "context", 0))
    assert is_left_out(draft, "content.context[0]", 7)
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
WORDS = st.lists(st.sampled_from(["ferry", "lamp 🏮", "é", "\n", " ", "late."]), max_size=3).map("".join)


@dataclass
class Told:
    """A history that a test makes up: the texts of its points, which each follows, and where the story is."""

    texts: list[str] = field(default_factory=lambda: [""])
    parents: list[int] = field(default_factory=lambda: [-1])
    current: int = 0

    @property
    def ends(self) -> set[str]:
        """The texts of the ends that say something their points before do not."""
        found: set[str] = set()
        for index in range(len(self.texts)):
            if index not in self.parents:
                before, here = set[str](), self.parents[index]
                while here >= 0:
                    before.add(self.texts[here])
                    here = self.parents[here]
                found |= {self.texts[index]} - before
        return found


def holds_together(draft: StoryDraft, history: Told, live: str) -> None:
    check_draft(draft)
    assert path_text(draft) == live
    assert notices(draft) == []
    for end in history.ends:
        assert any(way.startswith(end) for way in ways(draft)), end


@settings(max_examples=examples(200), deadline=None)
@given(data=st.data())
def test_every_end_of_a_history_of_blocks_is_a_path(data: st.DataObject) -> None:
    history = Told()
    blocks = [
        {"prevBlock": -1, "startIndex": 0, "endIndex": 0, "dataFragment": {"data": "", "origin": "root"}}
    ]
    for _ in range(data.draw(st.integers(1, 8))):
        parent = data.draw(st.integers(0, len(blocks) - 1))
        text, new = history.texts[parent], data.draw(WORDS)
        start = data.draw(st.integers(0, len(text)) | st.just(len(text)))
        end = data.draw(st.integers(start, len(text)))
        origin = data.draw(st.sampled_from(["ai", "user", "edit", "prompt"]))
        block = {"startIndex": UNITS(text[:start]), "endIndex": UNITS(text[:end])}
        blocks.append(block | {"prevBlock": parent, "dataFragment": {"data": new, "origin": origin}})
        history.texts.append(text[:start] + new + text[end:])
        history.parents.append(parent)
    history.current = data.draw(st.integers(0, len(blocks) - 1))
    live = history.texts[history.current]
    story = {
        "fragments": [{"data": live, "origin": "ai"}],
        "datablocks": blocks,
        "currentBlock": history.current,
    }
    draft = read_json({"storyContainerVersion": 1, "content": {"story": story}})
    holds_together(draft, history, live)


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


@settings(max_examples=examples(200), deadline=None)
@given(data=st.data())
def test_every_end_of_a_history_of_a_document_is_a_path(data: st.DataObject) -> None:
    history = Told()
    states: list[dict[int, str]] = [{}]
    changes: list[dict[int, Record]] = [{}]
    for number in range(1, data.draw(st.integers(1, 8)) + 1):
        parent = data.draw(st.integers(0, len(states) - 1))
        state, change = _step(data, states[parent], number)
        states.append(state)
        changes.append(change)
        history.texts.append("\n".join(state.values()))
        history.parents.append(parent)
    history.current = data.draw(st.integers(0, len(states) - 1))
    packed = document(states, changes, history.parents, history.current, {})
    holds_together(with_document(packed), history, history.texts[history.current])


def _step(
    data: st.DataObject, state: dict[int, str], number: int
) -> tuple[dict[int, str], dict[int, Record]]:
    """A new, a changed or a removed paragraph, or a new one in place of another."""
    kind = data.draw(st.sampled_from(["create", "update", "remove", "replace"])) if state else "create"
    key = data.draw(st.sampled_from(list(state))) if state else 0
    text, change = data.draw(WORDS), dict[int, Record]()
    items = list(state.items())
    if kind in ("create", "replace"):
        at = list(state).index(key) + 1 if key else 0
        items.insert(at, (1000 + number, text))
        change[1000 + number] = create(text, key)
    if kind in ("remove", "replace") and key:
        change[key] = Record({"type": 2, "previous": section(state[key]), "after": 0})
        items = [item for item in items if item[0] != key]
    if kind == "update":
        old = state[key]
        start = data.draw(st.integers(0, len(old)))
        end = data.draw(st.integers(start, len(old)))
        change[key] = update(UNITS(old[:start]), old[start:end], text)
        items = [(one, old[:start] + text + old[end:] if one == key else words) for one, words in items]
    return dict(items), change


def test_changes_to_one_paragraph_count_from_the_end_of_the_one_before() -> None:
    first, second = {1: "abcdefghi"}, {1: "aXXcdYfghi"}
    change = update(1, "b", "XX", (Record({"from": 2, "insert": "Y", "delete": "e"}),))
    draft = with_document(
        document([first, second], [{1: create("abcdefghi", 0)}, {1: change}], [-1, 0], 0, {})
    )
    assert ways(draft) == {"abcdefghi", "aXXcdYfghi"}


def test_new_paragraphs_may_follow_one_another_in_any_order() -> None:
    change = {3: create("third", 2), 2: create("second", 1), 1: create("first", 0), 4: create("last", 77)}
    states: list[dict[int, str]] = [{}, {1: "first", 2: "second", 3: "third", 4: "last"}]
    draft = with_document(document(states, [{}, change], [-1, 0], 0, {}))
    assert "first\nsecond\nthird\nlast" in ways(draft)


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


@settings(max_examples=examples(200), deadline=None)
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


def test_an_edit_far_above_that_was_undone_is_no_copy_of_the_story() -> None:
    text = "The ferry was late. " * 200
    blocks = [
        {"prevBlock": -1, "startIndex": 0, "endIndex": 0, "dataFragment": {"data": text, "origin": "ai"}},
        {"prevBlock": 0, "startIndex": 4, "endIndex": 9, "dataFragment": {"data": "boat", "origin": "edit"}},
        {
            "prevBlock": 0,
            "startIndex": 4000,
            "endIndex": 4000,
            "dataFragment": {"data": "End.", "origin": "ai"},
        },
    ]
    story = {"text": text, "fragments": [], "datablocks": blocks, "currentBlock": 0}
    draft = read_json({"storyContainerVersion": 1, "content": {"story": story}})
    assert ways(draft) == {text, text + "End."} - {text}


def test_a_history_that_is_too_large_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takes, "MOST_BRANCH_TEXT", 20)
    draft = load("novelai_document.story")
    assert path_text(draft).endswith("Nine.")
    assert len(ways(draft)) == 2
    assert noticed(draft, "3 steps")
