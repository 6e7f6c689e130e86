"""Importers of KoboldAI, Kobold Lite and KoboldAI United.

What is broken in a file is told, and everything else is read.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story import formats
from srbwriter.story.model import foreign, path_to
from tests.sizes import examples
from tests.story.format_files import (
    by_text,
    changed,
    fixture_json,
    load,
    path_text,
    read_json,
    rejects,
    shape,
    tells,
    without,
)


def test_kobold_v1() -> None:
    draft = load("kobold_v1.json")
    assert shape(draft) == (
        "",
        [("You wake.", [(" It is dark.", [(" You stand.", [])]), (" It is cold.", [])])],
    )
    assert path_text(draft) == "You wake. It is dark. You stand."
    assert by_text(draft, " It is cold.").marks.bookmark
    settings = draft.root.settings
    assert (settings.memory, settings.author_note) == ("A cell.", "[Author's note: tense]")
    (entry,) = settings.lore
    assert (entry.keys, entry.secondary, entry.logic) == (["cell", "prison"], ["door"], "any")
    assert (entry.name, entry.text, entry.enabled) == ("Cell", "The cell is narrow.", True)
    assert foreign(entry.meta, "kobold")["probability"] == 100


def test_kobold_lite_branches() -> None:
    draft = load("kobold_lite.json")
    assert shape(draft) == ("", [("A.", [(" B.", [(" D.", []), (" C.", [])]), (" E.", [])])])
    assert path_text(draft) == "A. B. C."
    (entry,) = draft.root.settings.lore
    assert (entry.keys, entry.secondary, entry.logic, entry.enabled) == (
        ["/cel+/i"],
        ["guard"],
        "not_any",
        False,
    )
    assert foreign(draft.meta, "kobold")["personal_notes"] == "mine"


def test_kobold_share_file() -> None:
    draft = load("kobold_share.json")
    assert path_text(draft) == "You wake. It rains."
    assert (draft.root.settings.memory, draft.root.settings.author_note) == ("A cell.", "[tense]")
    assert [entry.keys for entry in draft.root.settings.lore] == [["cell"]]


def test_a_kobold_save_without_a_story_is_empty() -> None:
    draft = read_json({"gamestarted": False, "prompt": "", "actions": []})
    assert shape(draft) == ("", [])


def test_what_is_broken_in_a_kobold_save_is_told_and_the_rest_is_read() -> None:
    value = fixture_json("kobold_v1.json")
    draft = tells(changed(value, 4, "actions", 0), "actions[0]", "a text")
    assert shape(draft) == ("", [("You wake.", [(" You stand.", []), (" It is cold.", [])])])
    assert shape(tells(without(value, "prompt"), "prompt", "a text"))[1][0][0] == " It is dark."
    draft = tells(changed(value, 4, "worldinfo", 0), "worldinfo[0]", "an object")
    assert shape(draft) == shape(load("kobold_v1.json"))
    place = ("actions_metadata", "0", "Alternative Text")
    for wrong in (4, [4], [{"Pinned": True}]):
        draft = tells(changed(value, wrong, *place), "actions_metadata.0.Alternative Text", "texts")
        assert path_text(draft) == "You wake. It is dark. You stand."
    tells(changed(value, 7, "actions_metadata", "0"), "actions_metadata.0", "an object")
    tells(changed(value, {}, "actions"), "actions", "a list")
    lite = fixture_json("kobold_lite.json")
    assert path_text(tells(changed(lite, {}, "altbranches"), "altbranches", "a list")) == "A. B. C."
    draft = tells(changed(lite, 1, "altbranches", 2), "altbranches[2]", "a list of texts")
    assert shape(draft) == ("", [("A.", [(" B.", [(" D.", []), (" C.", [])])])])
    draft = tells(changed(lite, 1, "altbranches", 2, 0), "altbranches[2][0]", "a text")
    assert shape(draft)[1][1] == (" E.", [])
    share = fixture_json("kobold_share.json")
    assert path_text(tells(changed(share, 1, "ga", 0), "ga[0]", "a text")) == " It rains."
    tells(changed(share, "x", "ga"), "ga", "a list")


def test_kobold_united() -> None:
    draft = load("kobold_united.json")
    assert shape(draft) == (
        "",
        [("You wake.", [(" It is dark.", [(" You stand.", [])]), (" It is cold.", []), (" It rains.", [])])],
    )
    assert path_text(draft) == "You wake. It is dark. You stand."
    assert draft.title == "Cell"
    assert by_text(draft, " It is cold.").marks.bookmark
    assert foreign(by_text(draft, " It is dark.").meta, "kobold-united")["Time"] == 1
    (entry,) = draft.root.settings.lore
    assert (entry.id, entry.keys, entry.constant) == ("0", ["cell"], True)
    assert draft.root.settings.author_note == "[tense]"


def test_what_is_broken_in_a_united_save_is_told_and_the_rest_is_read() -> None:
    value = fixture_json("kobold_united.json")
    rejects(changed(value, 3, "file_version"), "file_version", "2, the only version")
    rejects(changed(value, [], "actions"), "actions", "an object")
    step = ("actions", "actions", "0")
    assert path_text(tells(without(value, "prompt"), "prompt", "a text")) == " It is dark. You stand."
    draft = tells(changed(value, None, *step, "Selected Text"), "actions.actions.0.Selected Text", "a text")
    assert path_text(draft) == "You wake. You stand."
    assert {" It is dark.", " It is cold."} <= {node.text for node in draft.nodes}, "the options are there"
    draft = tells(
        changed(value, {"Selected Text": "?"}, "actions", "actions", "x"), "actions.actions.x", "a number"
    )
    assert path_text(draft) == "You wake. It is dark. You stand."
    tells(
        without(value, "worldinfo_v2", "entries", "0", "content"), "worldinfo_v2.entries.0.content", "a text"
    )
    tells(changed(value, 1, "worldinfo_v2", "entries", "0"), "worldinfo_v2.entries.0", "an object")


def test_turns_of_kobold_lite_are_prose_with_their_authors() -> None:
    draft = load("kobold_instruct.json")
    first = "Write about a storm, Mira."
    assert path_text(draft) == f"{first}\n\nThe storm came.\n\nGo on.\n\n It stayed."
    assert [(node.text, node.author) for node in path_to(draft, draft.current_id)[1:]] == [
        (first, "writer"), ("\n\nThe storm came.", "model"), ("\n", "model"), ("\nGo on.", "writer"),
        ("\n\n It stayed.", "model"),
    ]  # fmt: skip
    assert by_text(draft, " And went.").author == "model", "the other branch goes on with the same turn"
    assert by_text(draft, "\n\nNo storm.").author == "model"
    assert by_text(draft, "\n\nPlease?").author == "writer"
    lore = draft.root.settings.lore[0]
    assert (draft.root.settings.memory, draft.root.settings.author_note) == (
        "You tell tales.\n\nGladly.", "[Note: Ask Ada.]"
    )  # fmt: skip
    assert lore.text == "It is old."


def test_the_chunks_of_kobold_lite_are_kept_as_they_were() -> None:
    value, draft = fixture_json("kobold_instruct.json"), load("kobold_instruct.json")
    path = path_to(draft, draft.current_id)
    kept = [foreign(node.meta, "kobold") for node in path[1:]]
    assert [node.get("text") for node in kept] == [value["prompt"], *value["actions"]]
    whole = foreign(draft.meta, "kobold")
    assert (whole["memory"], whole["authorsnote"]) == (value["memory"], value["authorsnote"])
    assert foreign(draft.root.settings.lore[0].meta, "kobold")["content"] == value["worldinfo"][0]["content"]
    assert whole["completed_imgs_meta"] == value["completed_imgs_meta"]


def test_a_chunk_that_is_only_a_picture_is_kept_with_the_text_before() -> None:
    value = changed(fixture_json("kobold_lite.json"), [" B.", "[<|p|AAAA|p|>]", " C."], "actions")
    draft = read_json(value)
    assert path_text(draft) == "A. B. C."
    assert foreign(by_text(draft, " B.").meta, "kobold")["unseen"] == ["[<|p|AAAA|p|>]"]


def test_keys_for_services_are_left_out_of_a_kobold_save() -> None:
    draft = load("kobold_instruct.json")
    assert draft.meta["notices"] == [
        "the top level: saved_oai_key: left out; a key for a service does not belong into a story"
    ]
    assert "saved_oai_key" not in foreign(draft.meta, "kobold")["savedsettings"]
    assert b"sk-1" not in formats.write(draft, "srbwriter")


def test_tags_of_an_instruction_format_are_marks_too_in_instruct_mode() -> None:
    saved = {"opmode": 4, "instruct_starttag": "\\n### Instruction:\\n", "instruct_endtag": "### Response:"}
    value: dict[str, Any] = {
        "gamestarted": True, "prompt": "\n### Instruction:\nSing.\n\n### Response:\n", "actions": ["La."],
        "savedsettings": saved,
    }  # fmt: skip
    draft = read_json(value)
    assert [(node.text, node.author) for node in draft.nodes[1:]] == [
        ("Sing.", "writer"),
        ("\n\nLa.", "model"),
    ]
    draft = read_json(changed(value, 1, "savedsettings", "opmode"))
    assert path_text(draft) == value["prompt"] + "La.", "in a story they are text"


TURN = st.text(st.characters(codec="utf-8", exclude_characters="{}[]<>"), min_size=1, max_size=12).filter(
    lambda text: text == text.strip("\n") and not text.isspace()
)


@settings(max_examples=examples(200), deadline=None)
@given(
    turns=st.lists(st.tuples(TURN, TURN), min_size=1, max_size=4), ends=st.booleans(), cut=st.integers(0, 3)
)
def test_any_dialogue_as_kobold_lite_writes_it(turns: list[tuple[str, str]], ends: bool, cut: int) -> None:
    """Asked and answered in turn; the answer may have come in two chunks, and turns may have end marks."""
    chunks: list[str] = []
    for asked, answered in turns:
        end = ("\n{{[INPUT_END]}}\n", "\n{{[OUTPUT_END]}}\n") if ends else ("", "")
        chunks.append("\n{{[INPUT]}}\n" + asked + end[0] + "\n{{[OUTPUT]}}\n")
        chunks += [answered[:cut], answered[cut:] + end[1]]
    draft = read_json({"gamestarted": True, "prompt": chunks[0], "actions": chunks[1:]})
    assert path_text(draft) == "\n\n".join(text for turn in turns for text in turn)
    for author, side in (("writer", 0), ("model", 1)):
        texts = [node.text.removeprefix("\n\n") for node in draft.nodes if node.author == author]
        assert "".join(texts) == "".join(turn[side] for turn in turns)
