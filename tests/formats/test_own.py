"""The program's own JSON: nothing is lost, and a broken file is refused by its place."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from srbwriter import formats
from srbwriter.formats import FormatError
from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import LoreEntry, Progress, Span, State, StorySettings, Template
from srbwriter.story.node import Node
from tests.formats.files import changed, read_json, without

LORE = LoreEntry("l", "Sea", "It is old.", ["sea", "/ships?/i"], depth=2, order=-3)
NODES = [
    Node(1, None),
    Node(
        2, 1, 1, State.BINNED, "edited", model="m", sampling={"temperature": 0.5}, seed=2**63, bookmark=True,
        finish_reason="stop", visited=False, title="T", note="n", tags=("x",), meta={"steered": ["a"]},
        created=1.5,
    ),
    Node(3, 1, 0, author="writer", text="夜 🌙\n"),
]  # fmt: skip
NODES[0].settings = StorySettings(memory="A \\ sea.", lore=[LORE], template=Template("t", "<", "|", ">"))
NODES[1].spans = Span("One", "model", (5, 7), "v", (-0.5, None), " "), Span(" two", "writer")
NODES[1].settings = StorySettings(author_note="grim", sampling={"top_k": 40})
WHOLE = StoryDraft(
    {node.id: node for node in NODES}, 3, "Title", "Ada", "de",
    "12345678-1234-5678-1234-567812345678", {"view": {"a": 1}}, {"2024-05-06": Progress(3, 1.5)},
)  # fmt: skip


def test_nothing_is_lost() -> None:
    assert formats.read(formats.write(WHOLE, "srbwriter"), "a.json") == WHOLE


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("version",), 3, "a newer program"),
        (("version",), "1", "1 to 2"),
        (("story",), None, "expected a story"),
        (("story", "nodes", 1, "author"), "x", "'x'"),
        (("story", "nodes", 1, "parent_id"), "zz", "'zz' does not come before"),
        (("story", "current_id"), "zz", "current node"),
        (("story", "nodes", 1, "text"), "y", "runs do not join"),
        (("story", "nodes"), [], "at least a root"),
        (("story", "nodes", 1, "id"), "1", "twice"),
    ],
)
def test_a_broken_file_is_refused(path: tuple[str | int, ...], value: Any, words: str) -> None:
    file = json.loads(formats.write(WHOLE, "srbwriter"))
    with pytest.raises(FormatError, match=re.escape(words)):
        read_json(without(file, *path) if value is None else changed(file, value, *path))


def test_a_chapter_that_an_older_file_marks_becomes_a_line() -> None:
    def marked(key: str, parent: str | None, text: str, title: str | None = None) -> dict[str, Any]:
        marks = {} if title is None else {"chapter": True, "title": title}
        return {"id": key, "parent_id": parent, "text": text, "marks": marks}

    nodes = [
        marked("r", None, ""), marked("a", "r", "It rained.", "One"), marked("b", "a", "\n\nMore.\n\n", ""),
        marked("c", "b", "# Two\n\nSnow.", "Two"),
    ]  # fmt: skip
    nodes[2]["runs"] = [{"text": "\n\nMore.\n\n", "author": "model"}]
    story = {"nodes": nodes, "current_id": "c"}
    draft = read_json({"format": "srbwriter", "version": 2, "story": story})
    assert draft.text == "# One\n\nIt rained.\n\n* * *\n\nMore.\n\n# Two\n\nSnow."
    assert [node.title for node in draft.nodes.values()] == [""] * 4
