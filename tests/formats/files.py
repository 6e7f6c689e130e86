"""The example files, and short names for what tests look at in a draft."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from srbwriter import formats
from srbwriter.formats.opening import open_document
from srbwriter.story.draft import StoryDraft
from srbwriter.story.model import ROOT
from srbwriter.story.node import Node

FIXTURES = Path(__file__).parent / "fixtures"

Shape = tuple[str, list["Shape"]]


def load(name: str) -> StoryDraft:
    return formats.read((FIXTURES / name).read_bytes(), name)


def format_of(data: bytes) -> str:
    """The name of the format that a file has by its content."""
    return next(form.name for form in formats.FORMATS if form.matches(open_document(data, "x")))


def fixture_json(name: str) -> Any:
    return json.loads((FIXTURES / name).read_text("utf-8"))


def read_json(value: Any, name: str = "story.json") -> StoryDraft:
    return formats.read(json.dumps(value).encode(), name)


def tale(*texts: str, **fields: Any) -> StoryDraft:
    """A draft of one path: an empty root, and a node for each text below the one before."""
    nodes = {ROOT: Node(ROOT, None)}
    for number, text in enumerate(texts, ROOT + 1):
        nodes[number] = Node(number, number - 1, text=text)
    return StoryDraft(nodes, len(nodes), **fields)


def shape(draft: StoryDraft) -> Shape:
    """Texts and structure, and nothing else.  For small trees."""

    def below(node: Node) -> Shape:
        children = [child for child in draft.nodes.values() if child.parent == node.id]
        return node.text, [below(child) for child in sorted(children, key=lambda child: child.place)]

    return below(draft.root)


def path_text(draft: StoryDraft) -> str:
    return draft.text


def by_text(draft: StoryDraft, text: str) -> Node:
    (node,) = [node for node in draft.nodes.values() if node.text == text]
    return node


def without(value: Any, *path: str | int) -> Any:
    return changed(value, None, *path, remove=True)


def changed(value: Any, new: Any, *path: str | int, remove: bool = False) -> Any:
    """A copy of ``value`` with the member at ``path`` replaced, or removed."""
    copy = json.loads(json.dumps(value))
    here = copy
    for step in path[:-1]:
        here = here[step]
    if remove:
        del here[path[-1]]
    else:
        here[path[-1]] = new
    return copy


# -- what an importer leaves out of a file


def notices(draft: StoryDraft) -> list[str]:
    return draft.notices
