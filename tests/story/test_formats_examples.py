"""Files of other writing programs: what each reads as, and what a fault in it costs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.story import formats
from srbwriter.story.formats import FormatError
from srbwriter.story.model import check_draft, path_to
from tests.story.format_files import (
    Shape,
    by_text,
    changed,
    fixture_json,
    load,
    noticed,
    notices,
    path_text,
    read_json,
    rejects,
    shape,
    tells,
    without,
)


@dataclass(frozen=True)
class Example:
    """The tree of texts in a file, the text that is shown, and values of the story and of nodes by text."""

    tree: Shape
    path: str
    story: dict[str, Any] = field(default_factory=dict[str, Any])
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


def value_at(value: Any, place: str) -> Any:
    """What stands at a dotted place, such as ``root.settings.lore.0.keys``."""
    for step in place.split("."):
        if isinstance(value, list | tuple):
            value = value[int(step)]
        else:
            value = value[step] if isinstance(value, dict) else getattr(value, step)
    return value


MEMORY, NOTE, LORE = "root.settings.memory", "root.settings.author_note", "root.settings.lore"

EXAMPLES = {
    "loom.json": Example(
        ("", [("The ferry was late", [(", as always.\n", []), (", and  the fog ", [])])]),
        "The ferry was late, and  the fog ",
        {MEMORY: "A harbour."},
        {
            "The ferry was late": {
                "author": "writer", "created": 1683195072, "marks.bookmark": True, "marks.tags": ("draft",),
                "marks.chapter": True, "marks.title": "The crossing",
            },
            ", as always.\n": {
                "author": "model", "marks.visited": False, "generation.model": "davinci",
                "generation.finish_reason": "length", "settings.memory": "Another.",
            },
            ", and  the fog ": {
                "author": "edited", "marks.visited": True, "generation.finish_reason": "stop"
            },
        },
    ),
    "loom_old.json": Example(
        ("Once", [(" upon", []), (" again", [])]), "Once upon",
        nodes={" upon": {"marks.bookmark": True}, " again": {"marks.tags": ("archived",)}},
    ),
    "loom_simple.json": Example(("Once", [(" upon", []), (" again", [("!", [])])]), "Once upon"),
    "loomsidian.json": Example(
        ("It was <late>", [(" a [note]", []), (" and cold", [])]), "It was <late> a [note]",
        {"current_id": "n3"},
        {" a [note]": {"marks.bookmark": True, "marks.visited": False}},
    ),
    "loomsidian_data.json": Example(
        ("", [("Ferry", [(" one", [])]), ("Mill", [])]), "Ferry one",
        {}, {"Mill": {"marks.title": "Tales/mill.md"}},
    ),
    "kobold_v1.json": Example(
        ("", [("You wake.", [(" It is dark.", [(" You stand.", [])]), (" It is cold.", [])])]),
        "You wake. It is dark. You stand.",
        {
            MEMORY: "A cell.", NOTE: "[Author's note: tense]", f"{LORE}.0.keys": ["cell", "prison"],
            f"{LORE}.0.name": "Cell",
            f"{LORE}.0.text": "The cell is narrow.", f"{LORE}.0.enabled": True,
        },
        {" It is cold.": {"marks.bookmark": True}},
    ),
    "kobold_lite.json": Example(
        ("", [("A.", [(" B.", [(" D.", []), (" C.", [])]), (" E.", [])])]), "A. B. C.",
        {
            f"{LORE}.0.keys": ["/cel+/i"],
            f"{LORE}.0.enabled": False,
        },
    ),
    "mikupad.json": Example(
        ("", [("The sea", [(" was grey", [(", I said", [])])])]), "The sea was grey, I said",
        {
            "title": "My story", MEMORY: "<<A harbour.>>", NOTE: "[\ngrim]",
            "root.settings.author_note_depth": 3,
            "root.settings.sampling": {
                "temperature": 0.9, "top_k": 40, "min_p": 0.05, "dry_penalty_last_n": -1
            },
            f"{LORE}.0.name": "Harbour", f"{LORE}.0.keys": ["/harbou?r/i", r"/a\/b/i"],
            f"{LORE}.0.scan_depth": 1650,
        },
        {
            "The sea": {"author": "writer"}, " was grey": {"author": "model"},
            ", I said": {"author": "writer"},
        },
    ),
    "mikupad_db.json": Example(
        ("", [("", [("The sea", [(" was", [])])]), ("", [("The ferry was late.", [])]), ("", [])]),
        "The ferry was late.",  # the one that was shown
        {
            "nodes.1.marks.title": "MikuPad #1", "nodes.1.settings.memory": "A harbour.",
            "nodes.1.settings.sampling": {"temperature": 0.9}, "nodes.4.marks.title": "The ferry",
            "nodes.4.settings.sampling": {"top_k": 40},
            "nodes.4.settings.lore.0.keys": ["/ferr(y|ies)/i"], "nodes.6.marks.title": "An old one",
        },
        {
            "The sea": {"author": "writer"}, " was": {"author": "model"},
            "The ferry was late.": {"author": "writer"},
        },
    ),
    "story.md": Example(
        ("", [("Before.\n\n", [
            ("# One\n\nThe ferry was late.\n\n```\n# not a heading\n```\n\n", [("## Two ##\nEnd", [])])
        ])]),
        "Before.\n\n# One\n\nThe ferry was late.\n\n```\n# not a heading\n```\n\n## Two ##\nEnd",
        {
            "title": "The ferry", "byline": "Ada", "modified": 1714953600, "nodes.1.marks.chapter": False,
            "nodes.2.marks.title": "One", "nodes.3.marks.title": "Two",
        },
    ),
    "sillytavern.jsonl": Example(
        ("", [
            ("Hi.", []),
            ("Hello there.", [("\n\nWhere are we?", [
                ("\n\nThey are at the pier.", [("\n\nNever mind.", [])]),
                ("\n\nAt the old pier.", [("\n\nGood.", [])]), ("\n\nAt the pier.", []),
            ])]),
            ("Yes?", []),
        ]),
        "Hello there.\n\nWhere are we?\n\nAt the old pier.\n\nGood.",
        {"title": "Mira", "byline": "Ada", NOTE: "tense", "root.settings.author_note_depth": 4},
        {
            "Hi.": {"generation.model": "llama-7b", "created": 1709528700.0},
            "Hello there.": {"author": "model", "generation.model": "llama-8b"},
            "Yes?": {"generation": None, "created": None},
            "\n\nWhere are we?": {"author": "writer"},
            "\n\nAt the old pier.": {"author": "edited"}, "\n\nAt the pier.": {"author": "model"},
            "\n\nThey are at the pier.": {"marks.tags": ("hidden", "Note")},
            "\n\nNever mind.": {"marks.tags": ("hidden", "Ada")},
        },
    ),
    "sillytavern_group.jsonl": Example(
        ("", [("Who is there?", [("\n\nOnly me.", [("\n\nAnd me.", [])]), ("\n\nNobody.", [])])]),
        "Who is there?\n\nOnly me.\n\nAnd me.",
        {"title": "Mira, Tom, the mate", "byline": "Ada"},
        {
            "Who is there?": {"marks.tags": ("Mira",)}, "\n\nAnd me.": {"marks.tags": ("Ada",)},
            "\n\nNobody.": {"marks.tags": ("Tom the mate",)},
            "\n\nOnly me.": {"marks.tags": ("Tom the mate",)},
        },
    ),
    "worldinfo.json": Example(
        ("", []), "",
        {
            "title": "Harbour", f"{LORE}.0.id": "7", f"{LORE}.0.name": "Harbour",
            f"{LORE}.0.keys": ["harbour", "/ships?/i"],
            f"{LORE}.0.depth": 6, f"{LORE}.0.order": 50,
            f"{LORE}.0.case_sensitive": True, f"{LORE}.0.whole_words": True, f"{LORE}.0.enabled": True,
            f"{LORE}.1.constant": True, f"{LORE}.1.enabled": False, f"{LORE}.1.depth": None,
           
        },
    ),
    "lorebook_v3.json": Example(
        ("", []), "",
        {
            "title": "Lighthouse", "root.settings.lore_budget": 512,
            f"{LORE}.0.keys": ["/the l[iy]ght/", "/lamp|lantern/"],
            f"{LORE}.0.depth": 2, f"{LORE}.0.whole_words": True,
            f"{LORE}.1.name": "Sea", f"{LORE}.1.constant": True, f"{LORE}.1.enabled": False,
           
        },
    ),
    "card.json": Example(
        ("", [('Mira looks up. "{{user}}?"', []), ("The door is open.", [])]), 'Mira looks up. "{{user}}?"',
        {
            MEMORY: "Mira keeps the light.\n\nwry\n\nA storm.", NOTE: "Mira is tired.",
            "root.settings.author_note_depth": 4, "root.marks.note": "Best at night.",
            "root.marks.tags": ("sea", "wry"), f"{LORE}.0.text": "Mira's light is failing.",
            f"{LORE}.0.keys": ["light"], f"{LORE}.0.enabled": False,
            f"{LORE}.0.order": 3, "root.settings.lore_budget": 300, "title": "Mira", "byline": "Ada",
        },
    ),
    "card_v1.json": Example(("", [("Tom nods.", [])]), "Tom nods.", {MEMORY: "Tom mends nets."}),
    "card_v3.json": Example(
        ("", [("Mira waits.", []), ("Mira waves to all.", [])]), "Mira waits.",
        {"title": "Mira Vane", "created": 1700000000, "modified": 1700000100},
        {"Mira waves to all.": {"marks.tags": ("group",)}},
    ),
    "novelai.story": Example(
        ("", [("The ferry was late.", [(" Very late. I waited.", [])])]),
        "The ferry was late. Very late. I waited.",
        {
            MEMORY: "A river.", NOTE: "[ Style: plain ]", "root.settings.author_note_depth": 3,
            "title": "The ferry", "created": 1650000000, "modified": 1650000001,
            "root.marks.note": "A late ferry.", "root.marks.tags": ("river",),
        },
        {" Very late. I waited.": {"author": "edited"}},
    ),
    "novelai_document.story": Example(
        ("", [("Write of a ferry.\nThe ferry was late.", [
            ("\n“It is always late,” said Ada 🏮, and the lanterns came on.\nShe counted the bells.",
             [(" Nine.", [])]),
        ])]),
        "Write of a ferry.\nThe ferry was late.\n“It is always late,” said Ada 🏮, and the lanterns came on."
        "\nShe counted the bells. Nine.",
        {
            MEMORY: "A river between two towns.", "root.marks.note": "A river, at night.",
            f"{LORE}.0.enabled": True, f"{LORE}.1.enabled": False,  # its category is off
        },
        {
            "Write of a ferry.\nThe ferry was late.": {"author": "writer"},
            " Nine.": {"author": "writer"}
        },
    ),
    "novelai.scenario": Example(
        ("", [("You stand on the quay of ${town}. ${name[Ada]:Who are you?} is late.", [])]),
        "You stand on the quay of ${town}. ${name[Ada]:Who are you?} is late.",
        {
            "title": "The ferry", "byline": "Ada", "root.marks.note": "Wait for a ferry at ${town}.",
            "root.marks.tags": ("river", "night"), MEMORY: "You are ${name}.",
            f"{LORE}.0.keys": ["town", "/quays?/i"], f"{LORE}.0.scan_depth": 2000,
        },
    ),
    "novelai.lorebook": Example(
        ("", []), "",
        {
            f"{LORE}.0.id": "f1", f"{LORE}.0.name": "Ferry", f"{LORE}.0.keys": ["ferry", "/boats?/"],
            f"{LORE}.0.text": "----\nThe ferry is old.\n", f"{LORE}.0.depth": 0,
            f"{LORE}.0.scan_depth": 1000, f"{LORE}.0.token_budget": 200, f"{LORE}.0.order": 400,
            f"{LORE}.1.constant": True, f"{LORE}.1.enabled": False, f"{LORE}.1.token_budget": None,
            f"{LORE}.1.depth": None, f"{LORE}.2.enabled": False,
        },
    ),
    "loomsidian_list.json": Example(
        ("It", [(" was", [])]), "It was", {"root.author": "writer"}, {" was": {"author": "model"}}
    ),
    "story.txt": Example(
        ("", [("The ferry was late.\n\n  I waited. ", [])]), "The ferry was late.\n\n  I waited. "
    ),
    "aidungeon_cards.json": Example(
        ("", []), "",
        {
            f"{LORE}.0.name": "Fairy", f"{LORE}.0.text": "A fairy of Larion.",
            f"{LORE}.0.keys": ["Fairy", "fay"],
            f"{LORE}.1.enabled": False, f"{LORE}.1.keys": [],
            f"{LORE}.2.text": "A town of clay.",  # its text is empty, and the note says it
        },
    ),
    "aidungeon_worldinfo.json": Example(
        ("", []), "",
        {f"{LORE}.0.id": "5f1", f"{LORE}.0.text": "The ferry is old.", f"{LORE}.0.keys": ["ferry", "boat"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("file", EXAMPLES)
def test_an_example_reads_as_it_says(file: str) -> None:
    draft, example = load(file), EXAMPLES[file]
    check_draft(draft)
    assert (shape(draft), path_text(draft)) == (example.tree, example.path)
    assert {place: value_at(draft, place) for place in example.story} == example.story
    for text, values in example.nodes.items():
        node = by_text(draft, text)
        assert {place: value_at(node, place) for place in values} == values, text


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("aidungeon_cards.json", ["Larion", "no keys"]),
        ("worldinfo.json", ["Gulls", "no keys", "switched off"]),
        ("lorebook_v3.json", ["secondary_keys: not used; the entry applies by its first keys"]),
        ("sillytavern.jsonl", ["2 hidden messages"]),
        ("card.json", ["example messages", "system prompt", "instructions after the history"]),
        ("novelai.scenario", ["${town}", "${name}"]),
        *((file, []) for file in (
            "aidungeon_worldinfo.json", "card_v1.json", "card_v3.json", "novelai.story",
            "novelai_document.story", "novelai.lorebook",
        )),
    ],
)  # fmt: skip
def test_the_writer_is_told_what_is_not_used_of_a_file_and_nothing_else(file: str, words: list[str]) -> None:
    assert noticed(load(file), *words) if words else notices(load(file)) == []


# -- faults ----------------------------------------------------------------------------------------------

GONE = object()
LOOM_CHILDREN = [(", as always.\n", []), (", and  the fog ", [])]

FAULTS: list[tuple[str, tuple[str | int, ...], Any, str, Shape | str | None]] = [
    # a file, a place in it, what stands there instead, what the notice says, and the tree or the text then
    ("loom.json", ("root", "children", 0, "text"), 3, "expected a text", ("", [("", LOOM_CHILDREN)])),
    ("loom.json", ("root", "children", 0, "children"), {}, "a list", ("", [("The ferry was late", [])])),
    ("loom.json", ("chapters", "c1"), ["x"], "an object", EXAMPLES["loom.json"].tree),
    ("loom.json", ("chapters",), [], "an object", None),
    ("loomsidian.json", ("nodes", "n2", "parentId"), ["x"], "the id of a node", None),
    ("loomsidian_data.json", ("state", "Tales/mill.md"), 1, "an object", ("Ferry", [(" one", [])])),
    (
        "kobold_v1.json", ("actions", 0), 4, "a text",
        ("", [("You wake.", [(" You stand.", []), (" It is cold.", [])])]),
    ),
    ("kobold_v1.json", ("prompt",), GONE, "a text", " It is dark. You stand."),
    ("kobold_v1.json", ("worldinfo", 0), 4, "an object", EXAMPLES["kobold_v1.json"].tree),
    *(
        ("kobold_v1.json", ("actions_metadata", "0", "Alternative Text"), wrong, "texts",
         "You wake. It is dark. You stand.")
        for wrong in (4, [4], [{"Pinned": True}])
    ),
    ("kobold_v1.json", ("actions_metadata", "0"), 7, "an object", None),
    ("kobold_v1.json", ("actions",), {}, "a list", None),
    ("kobold_lite.json", ("altbranches",), {}, "a list", "A. B. C."),
    (
        "kobold_lite.json", ("altbranches", 2), 1, "a list of texts",
        ("", [("A.", [(" B.", [(" D.", []), (" C.", [])])])]),
    ),
    (
        "kobold_lite.json", ("altbranches", 2, 0), 1, "a text",
        ("", [("A.", [(" B.", [(" D.", []), (" C.", [])])]), (" E.", [])]),
    ),
    (
        "mikupad_db.json", ("Sessions", 0), 3, "an object",
        ("", [("", [("The ferry was late.", [])]), ("", [])]),
    ),
    ("mikupad_db.json", ("Sessions", 0, "value"), "x", "a session", None),
    ("mikupad_db.json", ("Names", 0), 3, "an object", None),
]  # fmt: skip


@pytest.mark.parametrize(("file", "path", "wrong", "words", "then"), FAULTS)
def test_what_is_broken_in_a_file_is_told_and_the_rest_is_read(
    file: str, path: tuple[str | int, ...], wrong: Any, words: str, then: Shape | str | None
) -> None:
    value = fixture_json(file)
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    draft = tells(without(value, *path) if wrong is GONE else changed(value, wrong, *path), place, words)
    if isinstance(then, str):
        assert path_text(draft) == then
    elif then is not None:
        assert shape(draft) == then


REFUSED: list[tuple[str, tuple[str | int, ...], Any, str, str]] = [
    ("loomsidian.json", ("nodes",), 3, "the top level", ""),
]


@pytest.mark.parametrize(("file", "path", "wrong", "place", "words"), REFUSED)
def test_a_file_whose_frame_is_broken_is_refused(
    file: str, path: tuple[str | int, ...], wrong: Any, place: str, words: str
) -> None:
    value = fixture_json(file)
    rejects(without(value, *path) if wrong is GONE else changed(value, wrong, *path), place, words)


def test_what_only_looks_like_cards_of_ai_dungeon_is_refused() -> None:
    with pytest.raises(FormatError):
        read_json([{"keys": "a"}], "x.json")


# -- loom ------------------------------------------------------------------------------------------------


def test_loom_is_written_with_chapters_memory_and_tags() -> None:
    written = json.loads(formats.write(load("loom.json"), "loom"))
    assert written["selected_node_id"] == fixture_json("loom.json")["selected_node_id"]
    node = written["root"]["children"][0]
    assert node["meta"]["source"] == "prompt" and sorted(node["tags"]) == ["bookmark", "draft"]
    assert [chapter["root_id"] for chapter in written["chapters"].values()] == ["a"]
    assert written["chapters"][node["chapter_id"]]["root_id"] == "a"
    assert written["root"]["frame"]["generation_settings"]["global_context"] == "A harbour."
    old = json.loads(formats.write(load("loom_old.json"), "loom"))
    assert old["tags"]["archived"]["scope"] == "node", "every tag on a node is defined"


@pytest.mark.parametrize(
    ("data", "tree", "places"),
    [
        (
            b'{"id":1,"text":"a","parent_id":null}\n\n{"id":2,"text":"b","parent_id":9}',
            ("", [("a", []), ("b", [])]), ["line 3"],
        ),
        (
            b'{"id":1,"text":"a"}\n{"text":"b","parent_id":1}\n{"id":3,',
            ("a", [("b", [])]), ["line 3, line 1, column 9", "line 2.id"],
        ),
        (b'{"id": "r", "text": ""}\n{"id": "x", "text": "Once", "parent_id": "r"}\n',
         ("", [("Once", [])]), []),
        (  # nested nodes of one id keep their own children
            b'{"text": "", "children": [{"id": "t", "text": "a", "children": [{"text": "a!"}]},'
            b' {"id": "t", "text": "b", "children": [{"text": "b!"}]}]}',
            ("", [("a", [("a!", [])]), ("b", [("b!", [])])]), ["children[1]"],
        ),
        (  # the program opens a list of the nodes below an empty root
            b'[{"text": "a", "children": [{"text": "b", "children": []}]}, {"text": "c", "children": []}]',
            ("", [("a", [("b", [])]), ("c", [])]), [],
        ),
        (b'[{"id": "1", "text": "a"}, {"id": "2", "text": "b", "parent_id": "1"}]', ("a", [("b", [])]), []),
    ],
)  # fmt: skip
def test_lines_and_lists_are_loom_too(data: bytes, tree: Shape, places: list[str]) -> None:
    draft = formats.read(data, "tree.jsonl")
    assert formats.detect(data).name == "loom"
    assert shape(draft) == tree
    assert [note.split(":")[0] for note in notices(draft)] == places


def test_a_loom_chapter_is_named_by_its_node_or_names_it() -> None:
    draft = load("loom_chapters.json")
    assert [(node.text, node.marks.title) for node in draft.nodes if node.marks.chapter] == [
        ("Once", "Named by its node"), (" upon", "Named by its root")
    ]  # fmt: skip
    again = formats.read(formats.write(draft, "loom"), "x")
    assert [node.marks.title for node in again.nodes] == [node.marks.title for node in draft.nodes]


# -- loomsidian ------------------------------------------------------------------------------------------


def test_notes_of_loomsidian_stand_side_by_side_and_one_alone_is_itself() -> None:
    data = fixture_json("loomsidian_data.json")
    alone = read_json(without(data, "state", "Tales/mill.md"))
    assert (shape(alone), alone.title) == (("Ferry", [(" one", [])]), "Tales/ferry")
    note = data["state"]["Tales/ferry.md"]  # twice, so that their ids are the same
    twins = read_json({"settings": {}, "state": {"a.md": note, "copy of a.md": note}})
    assert shape(twins) == ("", [("Ferry", [(" one", [])]), ("Ferry", [(" one", [])])])


def test_a_node_without_its_parent_does_not_take_others_with_it() -> None:
    value = fixture_json("loomsidian.json")
    draft = tells(changed(value, "n9", "nodes", "n2", "parentId"), "nodes.n2", "'n9' is not in the file")
    assert shape(draft) == ("", [("It was <late>", [(" a [note]", [])]), (" and cold", [])])
    draft = tells(changed(value, "n2", "nodes", "n1", "parentId"), "nodes.n1", "its own ancestor")
    assert shape(draft) == EXAMPLES["loomsidian.json"].tree, "it is the root again"
    value = fixture_json("loomsidian_data.json")
    orphan = {"text": "alone", "parentId": "gone", "unread": False, "bookmarked": False}
    place = ("state", "Tales/mill.md", "nodes", "b9")
    draft = tells(changed(value, orphan, *place), ".".join(place))
    assert shape(draft) == ("", [("Ferry", [(" one", [])]), ("Mill", []), ("alone", [])])


# -- KoboldAI --------------------------------------------------------------------------------------------


def test_a_kobold_save_without_a_story_is_empty() -> None:
    assert shape(read_json({"gamestarted": False, "prompt": "", "actions": []})) == ("", [])


def test_turns_of_kobold_lite_are_prose_with_their_authors() -> None:
    draft = load("kobold_instruct.json")
    first = "Write about a storm, Mira."
    path = path_to(draft, draft.current_id)[1:]
    assert [(node.text, node.author) for node in path] == [
        (first, "writer"), ("\n\nThe storm came.", "model"), ("\n", "model"), ("\nGo on.", "writer"),
        ("\n\n It stayed.", "model"),
    ]  # fmt: skip
    assert by_text(draft, " And went.").author == "model", "the other branch goes on with the same turn"
    assert by_text(draft, "\n\nNo storm.").author == "model"
    assert by_text(draft, "\n\nPlease?").author == "writer"
    settings = draft.root.settings
    assert (settings.memory, settings.author_note) == ("You tell tales.\n\nGladly.", "[Note: Ask Ada.]")
    assert settings.lore[0].text == "It is old."


def test_a_chunk_that_is_only_a_picture_is_left_out() -> None:
    value = changed(fixture_json("kobold_lite.json"), [" B.", "[<|p|AAAA|p|>]", " C."], "actions")
    draft = read_json(value)
    assert path_text(draft) == "A. B. C."


def test_tags_of_an_instruction_format_are_marks_too_in_instruct_mode() -> None:
    saved = {"opmode": 4, "instruct_starttag": "\\n### Instruction:\\n", "instruct_endtag": "### Response:"}
    value: dict[str, Any] = {
        "gamestarted": True, "prompt": "\n### Instruction:\nSing.\n\n### Response:\n", "actions": ["La."],
        "savedsettings": saved,
    }  # fmt: skip
    draft = read_json(value)
    assert [(n.text, n.author) for n in draft.nodes[1:]] == [("Sing.", "writer"), ("\n\nLa.", "model")]
    draft = read_json(changed(value, 1, "savedsettings", "opmode"))
    assert path_text(draft) == value["prompt"] + "La.", "in a story they are text"


TURN = st.text(st.characters(codec="utf-8", exclude_characters="{}[]<>"), min_size=1, max_size=12).filter(
    lambda text: text == text.strip("\n") and not text.isspace()
)


@settings(max_examples=50, deadline=None)
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


# -- mikupad ---------------------------------------------------------------------------------------------


def test_mikupad_is_written_with_every_value_as_json_text() -> None:
    draft = load("mikupad.json")
    session = json.loads(formats.write(draft, "mikupad"))
    assert all(isinstance(value, str) for value in session.values())
    values = {key: json.loads(value) for key, value in session.items()}
    assert (values["name"], values["temperature"]) == ("My story", 0.9)
    assert values["memoryTokens"]["text"] == "<<A harbour.>>"
    assert values["worldInfo"]["entries"][0]["search"] == 500
    assert values["worldInfo"]["entries"][0]["keys"] == ["harbou?r", "a/b"]
    chunks = values["prompt"]
    assert [chunk["content"] for chunk in chunks] == ["The sea", " was grey", ", I said"]
    assert [chunk.get("type") for chunk in chunks] == ["user", None, "user"]


def test_what_is_broken_in_a_mikupad_session_is_told_and_the_rest_is_read() -> None:
    value = fixture_json("mikupad.json")
    draft = tells(changed(value, "[{", "prompt"), "prompt, line 1, column 3", "JSON")
    assert (shape(draft), draft.root.settings.memory) == (("", []), "<<A harbour.>>")
    draft = tells(changed(value, "{bad", "worldInfo"), "worldInfo, line 1, column 2", "JSON")
    assert path_text(draft) == path_text(load("mikupad.json"))
    world = {**json.loads(value["worldInfo"]), "entries": [5]}
    tells(changed(value, json.dumps(world), "worldInfo"), "worldInfo.entries[0]", "an object")


def test_chunks_without_text_are_left_out() -> None:
    chunks = [
        {"type": "user", "content": ""},
        {"content": "a", "n": 1},
        {"content": "", "n": 2},
        {"content": "b"},
    ]
    draft = read_json({"prompt": json.dumps(chunks)})
    assert [(node.text, node.author) for node in draft.nodes[1:]] == [("ab", "model")]


# -- AI Dungeon ------------------------------------------------------------------------------------------


def test_keys_may_be_a_list() -> None:
    (card,) = read_json([{"keys": ["elf", "elv"], "value": "Elves."}]).root.settings.lore
    assert card.keys == ["elf", "elv"]
