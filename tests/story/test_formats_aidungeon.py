"""Importers of AI Dungeon's story cards, adventures and scenarios."""

from __future__ import annotations

import json

import pytest

from srbwriter.story import formats
from srbwriter.story.formats import FormatError
from srbwriter.story.model import check_draft, foreign
from tests.story.format_files import by_text, changed, fixture_json, load, path_text, read_json, shape
from tests.story.left_out import is_left_out, notices, told


def test_story_cards_are_a_lorebook() -> None:
    draft = load("aidungeon_cards.json")
    fairy, larion, uruk = draft.root.settings.lore
    assert (fairy.name, fairy.text, fairy.keys) == ("Fairy", "A fairy of Larion.", ["Fairy", "fay"])
    assert foreign(fairy.meta, "aidungeon") == {
        "type": "class",
        "description": "Small and good at hiding.",
        "useForCharacterCreation": True,
    }
    assert (larion.enabled, larion.keys) == (False, [])
    assert told(draft, "Larion", "no keys")
    assert uruk.text == "A town of clay."  # its text is empty, and the note says it
    assert shape(draft) == ("", [])


def test_world_info_is_a_lorebook() -> None:
    draft = load("aidungeon_worldinfo.json")
    ferry, pier = draft.root.settings.lore
    assert (ferry.id, ferry.text, ferry.keys) == ("5f1", "The ferry is old.", ["ferry", "boat"])
    assert foreign(ferry.meta, "aidungeon")["attributes"] == {"name": "Ferry"}
    assert foreign(pier.meta, "aidungeon") == {"isNotHidden": True}
    assert notices(draft) == []


def test_keys_may_be_a_list() -> None:
    (card,) = read_json([{"keys": ["elf", "elv"], "value": "Elves."}]).root.settings.lore
    assert card.keys == ["elf", "elv"]


def test_an_adventure_in_the_order_in_which_it_was_played() -> None:
    draft = load("aidungeon_adventure.json")
    check_draft(draft)
    assert path_text(draft) == "The ferry is late.\n\n> You wait.\n\nThe engine stops."
    wait, stops = by_text(draft, "\n\n> You wait.\n"), by_text(draft, "\nThe engine stops.")
    assert (wait.author, stops.author) == ("writer", "model")
    assert wait.created == 1735725720
    assert foreign(wait.meta, "aidungeon")["type"] == "do"
    settings = draft.root.settings
    assert (settings.memory, settings.author_note) == ("A river.", "plain")
    assert [entry.name for entry in settings.lore] == ["Ferry"]
    assert (draft.title, draft.created, draft.root.marks.note) == ("The ferry", 1735725600, "A late ferry.")
    kept = foreign(draft.meta, "aidungeon")
    assert kept["details"]["instructions"] == {"scenario": "Write plainly."}
    assert kept["data"]["adventureState"]["details"] == {"storyCardInstructions": "short"}


def test_what_was_undone_or_deleted_is_beside_the_story() -> None:
    draft = load("aidungeon_adventure.json")
    undone, deleted = by_text(draft, "\nNobody comes."), by_text(draft, "\nThe bells ring.")
    assert undone.marks.tags == ("undone",)
    assert undone.parent_id == by_text(draft, "\n\n> You wait.\n").id
    assert deleted.marks.deleted and deleted.parent_id == by_text(draft, "\nThe engine stops.").id


def test_an_adventure_may_be_bare_and_the_oldest_first() -> None:
    adventure = fixture_json("aidungeon_adventure.json")["data"]["adventure"]
    adventure["actionWindow"].reverse()
    draft = read_json(adventure)
    assert path_text(draft) == "The ferry is late.\n\n> You wait.\n\nThe engine stops."


def test_several_adventures_are_branches_with_settings_of_their_own() -> None:
    draft = load("aidungeon_adventures.json")
    assert shape(draft) == (
        "",
        [
            ("", [("The ferry is late.", [(" You wait.", []), (" You leave.", [])])]),
            ("", [("The pier is long.", [])]),
        ],
    )
    ferry, pier = (node for node in draft.nodes if node.parent_id == draft.root.id)
    assert (ferry.marks.title, pier.marks.title) == ("The ferry", "The pier")
    assert (ferry.settings.memory, ferry.settings.author_note) == ("A river.", "plain")
    assert [entry.text for entry in ferry.settings.lore] == ["Old."]
    assert (pier.settings.memory, pier.settings.lore) == (None, [])
    assert foreign(ferry.meta, "aidungeon")["publicId"] == "p1"
    assert path_text(draft) == "The ferry is late. You wait."
    assert by_text(draft, " You leave.").marks.tags == ("undone",)


def test_one_bad_adventure_of_several_is_left_out() -> None:
    draft = read_json(changed(fixture_json("aidungeon_adventures.json"), "x", 1))
    assert is_left_out(draft, "adventures[1]", "x")
    assert path_text(draft) == "The ferry is late. You wait."


def test_a_scenario_with_its_options() -> None:
    draft = load("aidungeon_scenario.json")
    assert shape(draft) == ("", [("You are ${What is your name?}, late.", []), ("You carry papers.", [])])
    assert path_text(draft) == "You are ${What is your name?}, late."
    clerk = by_text(draft, "You carry papers.")
    assert (clerk.marks.title, clerk.settings.memory) == ("As a clerk", "Ink.")
    assert [entry.name for entry in clerk.settings.lore] == ["Ink"]
    assert told(draft, "${What is your name?}")
    assert foreign(draft.meta, "aidungeon")["gameCodeOnInput"] == "x"


@pytest.mark.parametrize(
    "value", [[{"keys": "a"}], {"data": {"adventure": {"title": "x"}}}, [{"actions": []}]]
)
def test_what_only_looks_like_it_is_refused(value: object) -> None:
    with pytest.raises(FormatError):
        formats.read(json.dumps(value).encode(), "x.json")
