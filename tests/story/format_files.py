"""The example files, and short names for what tests look at in a draft."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srbwriter.story import formats
from srbwriter.story.formats import FormatError
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


def by_id(draft: StoryDraft, node_id: str) -> DraftNode:
    (node,) = [node for node in draft.nodes if node.id == node_id]
    return node


def rejects(value: Any, place: str, expected: str = "") -> None:
    """Reading ``value`` must fail, naming the file, the place and what was expected there."""
    with pytest.raises(FormatError) as caught:
        read_json(value, "bad.json")
    error = caught.value
    assert (error.file, error.place) == ("bad.json", place)
    assert expected in error.expected
    assert "bad.json" in str(error) and place in str(error)


def tells(value: Any, place: str, words: str = "") -> StoryDraft:
    """Reading ``value`` must succeed, with a notice that names the place and says what was done."""
    draft = read_json(value, "bad.json")
    notices = draft.meta.get("notices", [])
    assert any(note.startswith(f"{place}: ") and words in note for note in notices), notices
    return draft


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
    return draft.meta.get("notices", [])


def noticed(draft: StoryDraft, *words: str) -> bool:
    """Whether one notice says all of these."""
    return any(all(word in text for word in words) for text in notices(draft))


def is_left_out(draft: StoryDraft, place: str) -> bool:
    """Whether the writer is told of ``place``."""
    return noticed(draft, place)


def story_and_lore(draft: StoryDraft) -> str:
    """All that a story says but notices, what was left out, and the ids of lorebook entries."""
    told_of = ("notices", "foreign")
    about = {key: value for key, value in draft.meta.items() if key not in told_of}
    nodes: list[Any] = []
    for node in draft.nodes:
        settings = node.settings
        lore = [(entry.name, entry.text, entry.keys, entry.enabled, entry.meta) for entry in settings.lore]
        fields = (node.text, node.author, node.created, settings.memory, settings.author_note, node.meta)
        nodes.append((node.id, node.parent_id, node.marks.tags, lore, fields))
    return json.dumps((draft.title, draft.byline, draft.current_id, about, nodes))
