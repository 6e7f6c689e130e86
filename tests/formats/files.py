"""The example files, and short names for what tests look at in a draft."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from srbwriter import formats
from srbwriter.story.model import DraftNode, StoryDraft, children_by_parent

FIXTURES = Path(__file__).parent / "fixtures"

Shape = tuple[str, list["Shape"]]


def load(name: str) -> StoryDraft:
    return formats.read((FIXTURES / name).read_bytes(), name)


def fixture_json(name: str) -> Any:
    return json.loads((FIXTURES / name).read_text("utf-8"))


def read_json(value: Any, name: str = "story.json") -> StoryDraft:
    return formats.read(json.dumps(value).encode(), name)


def tale(*texts: str, **fields: Any) -> StoryDraft:
    """A draft of one path: an empty root, and a node for each text below the one before."""
    nodes = [DraftNode("r")]
    for number, text in enumerate(texts):
        nodes.append(DraftNode(f"n{number}", nodes[-1].id, text=text))
    return StoryDraft(nodes, nodes[-1].id, **fields)


def shape(draft: StoryDraft) -> Shape:
    """Texts and structure, and nothing else.  For small trees."""
    children = children_by_parent(draft)

    def below(node: DraftNode) -> Shape:
        return node.text, [below(child) for child in children[node.id]]

    return below(draft.root)


def path_text(draft: StoryDraft) -> str:
    by_id = {node.id: node for node in draft.nodes}
    texts: list[str] = []
    node: DraftNode | None = by_id[draft.current_id]
    while node is not None:
        texts.append(node.text)
        node = by_id[node.parent_id] if node.parent_id is not None else None
    return "".join(reversed(texts))


def by_text(draft: StoryDraft, text: str) -> DraftNode:
    (node,) = [node for node in draft.nodes if node.text == text]
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


def noticed(draft: StoryDraft, *words: str) -> bool:
    """Whether one notice says all of these."""
    return any(all(word in text for word in words) for text in notices(draft))
