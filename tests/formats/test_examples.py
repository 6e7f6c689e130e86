"""Files of other writing programs: what each reads as, and what a fault in it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.formats.files import (
    Shape,
    by_text,
    load,
    path_text,
    shape,
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

FERRY = (
    "Write of a ferry.\nThe ferry was late.\n“It is always late,” said Ada 🏮, and the lanterns came on."
    "\nShe counted the bells."
)

EXAMPLES = {
    "loom.json": Example(
        ("", [("The ferry was late", [(", as always.\n", []), (", and  the fog ", [])])]),
        "The ferry was late, and  the fog ",
        {MEMORY: "A harbour."},
        {
            "The ferry was late": {
                "author": "writer", "bookmark": True, "tags": ("draft",),
            },
            ", as always.\n": {
                "author": "model", "visited": False,
                "settings.memory": "Another.",
            },
            ", and  the fog ": {
                "author": "edited", "visited": True
            },
        },
    ),
    "loom_old.json": Example(
        ("", [("Once", [(" upon", []), (" again", [])])]), "Once upon",
        nodes={" upon": {"bookmark": True}},
    ),
    "loom_simple.json": Example(("", [("Once", [(" upon", []), (" again", [("!", [])])])]), "Once upon"),
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
            f"{LORE}.0.name": "Harbour", f"{LORE}.0.keys": ["/harbou?r/i", r"/a\/b/i"],
        },
        {
            "The sea": {"author": "writer"}, " was grey": {"author": "model"},
            ", I said": {"author": "writer"},
        },
    ),
    "story.md": Example(
        ("", [("Before.\n\n", [
            ("# One\n\nThe ferry was late.\n\n```\n# not a heading\n```\n\n", [("## Two ##\nEnd", [])])
        ])]),
        "Before.\n\n# One\n\nThe ferry was late.\n\n```\n# not a heading\n```\n\n## Two ##\nEnd",
        {
            "title": "The ferry", "byline": "Ada",
        },
    ),
    "sillytavern.jsonl": Example(
        ("", [
            ("Hi.", []),
            ("Hello there.", [("\n\nWhere are we?", [
                ("\n\nNever mind.", [
                    ("\n\nAt the old pier.", [("\n\nGood.", [])]), ("\n\nAt the pier.", []),
                ]),
            ])]),
            ("Yes?", []),
        ]),
        "Hello there.\n\nWhere are we?\n\nNever mind.\n\nAt the old pier.\n\nGood.",
        {"title": "Mira", "byline": "Ada", NOTE: "tense", "root.settings.author_note_depth": 4},
        {
            "Hello there.": {"author": "model", "model": "llama-8b"},
            "\n\nWhere are we?": {"author": "writer", "note": "They are at the pier."},
            "\n\nAt the old pier.": {"author": "edited"}, "\n\nAt the pier.": {"author": "model"},
            "\n\nNever mind.": {"tags": ("hidden", "Ada")},
        },
    ),
    "sillytavern_group.jsonl": Example(
        ("", [("Who is there?", [("\n\nOnly me.", [("\n\nAnd me.", [])]), ("\n\nNobody.", [])])]),
        "Who is there?\n\nOnly me.\n\nAnd me.",
        {"title": "Mira, Tom the mate", "byline": "Ada"},
        {
            "Who is there?": {"tags": ("Mira",)}, "\n\nAnd me.": {"tags": ("Ada",)},
            "\n\nNobody.": {"tags": ("Tom the mate",)},
            "\n\nOnly me.": {"tags": ("Tom the mate",)},
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
            "root.settings.author_note_depth": 4, "root.note": "Best at night.",
            "root.tags": ("sea", "wry"), f"{LORE}.0.text": "Mira's light is failing.",
            f"{LORE}.0.keys": ["light"], f"{LORE}.0.enabled": False,
            f"{LORE}.0.order": 3, "root.settings.lore_budget": 300, "title": "Mira", "byline": "Ada",
        },
    ),
    "card_v1.json": Example(("", [("Tom nods.", [])]), "Tom nods.", {MEMORY: "Tom mends nets."}),
    "card_v3.json": Example(
        ("", [("Mira waits.", []), ("Mira waves to all.", [])]), "Mira waits.",
        {"title": "Mira Vane"},
    ),
    "novelai.story": Example(
        ("", [("The ferry was late. Very late. I waited.", [])]), "The ferry was late. Very late. I waited.",
        {
            MEMORY: "A river.", NOTE: "[ Style: plain ]", "root.settings.author_note_depth": 3,
            "title": "The ferry",
            "root.note": "A late ferry.", "root.tags": ("river",),
        },
    ),
    "novelai.scenario": Example(
        ("", [("You stand on the quay of ${town}. ${name[Ada]:Who are you?} is late.", [])]),
        "You stand on the quay of ${town}. ${name[Ada]:Who are you?} is late.",
        {
            "title": "The ferry", "byline": "Ada", "root.note": "Wait for a ferry at ${town}.",
            "root.tags": ("river", "night"), MEMORY: "You are ${name}.",
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
    "story.txt": Example(
        ("", [("The ferry was late.\n\n  I waited. ", [])]), "The ferry was late.\n\n  I waited. "
    ),
}  # fmt: skip


@pytest.mark.parametrize("file", EXAMPLES)
def test_an_example_reads_as_it_says(file: str) -> None:
    draft, example = load(file), EXAMPLES[file]
    assert (shape(draft), path_text(draft)) == (example.tree, example.path)
    assert {place: value_at(draft, place) for place in example.story} == example.story
    for text, values in example.nodes.items():
        node = by_text(draft, text)
        assert {place: value_at(node, place) for place in values} == values, text


# -- KoboldAI --------------------------------------------------------------------------------------------


def test_turns_of_kobold_lite_are_prose() -> None:
    draft = load("kobold_instruct.json")
    words = path_text(draft).split()
    assert " ".join(words) == "Write about a storm, Mira. The storm came. Go on. It stayed."
    assert path_text(draft).startswith("Write about a storm, Mira.\n\nThe storm came.")
    assert by_text(draft, " And went."), "the other branch"
    settings = draft.root.settings
    assert (settings.memory, settings.author_note) == ("You tell tales.\n\nGladly.", "[Note: Ask Ada.]")
    assert settings.lore[0].text == "It is old."
