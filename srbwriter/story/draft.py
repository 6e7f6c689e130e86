"""A story outside its file: what every format reads and writes."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from srbwriter.story.languages import default_language, language_tag
from srbwriter.story.model import ROOT, JsonObject, NodeId, Progress, State
from srbwriter.story.node import Node
from srbwriter.story.tree import Rows

if TYPE_CHECKING:
    from srbwriter.story.story import Story


@dataclass(slots=True)
class StoryDraft:
    """A story: its nodes, parents first and siblings in order, the current one, and its properties.

    The root is empty. Texts are exact: nothing is trimmed. Settings of the whole story are the root's.
    """

    nodes: dict[NodeId, Node] = field(default_factory=lambda: {ROOT: Node(ROOT, None)})
    current: NodeId = ROOT
    title: str = ""
    byline: str = ""
    language: str = ""
    """A language tag (BCP 47) such as ``en`` or ``pt-BR``; empty if unknown."""
    id: str = ""
    """A UUID that is the same in every export of the story; empty if there is none."""
    values: JsonObject = field(default_factory=dict[str, Any])
    """Values that interfaces store with a story, such as settings and drafts of open dialogs."""
    days: dict[str, Progress] = field(default_factory=dict[str, Progress])
    """By calendar day (ISO 8601)."""
    notices: list[str] = field(default_factory=list[str])
    """What the writer should know of an import: what was left out, and what was changed."""

    @property
    def root(self) -> Node:
        return self.nodes[ROOT]

    @property
    def path(self) -> list[Node]:
        """The nodes from the root to the current one."""
        path = [self.nodes[self.current]]
        while (parent := path[-1].parent) is not None:
            path.append(self.nodes[parent])
        return path[::-1]

    @property
    def text(self) -> str:
        """The story from the root to the current node."""
        return "".join(node.text for node in self.path)


def draft_of(story: Story) -> StoryDraft:
    """Return a copy of the whole tree as it is now, with the bin, but without what only undo needs."""
    with story.lock:
        nodes, stack = dict[NodeId, Node](), [ROOT]
        while stack:
            node = story.node(stack.pop())
            below = story.all_children(node.id)
            if node.state == State.ABSORBED and all(n.state == State.ABSORBED for n in story.nodes(below)):
                continue  # other absorbed nodes are the parents of binned ones
            nodes[node.id] = copy(node)
            stack.extend(reversed(below))
        said = story.properties
        return StoryDraft(
            nodes, story.current, said["title"], said["author"], said["language"], story.id, story.values(),
            story.days(),
        )  # fmt: skip


def rows_of(draft: StoryDraft) -> Rows:
    """Return the rows of a story for ``draft``."""
    language = language_tag(draft.language) or draft.language or default_language()
    values: JsonObject = {
        "title": draft.title, "author": draft.byline, "language": language, "current": draft.current,
        "uuid": str(uuid4()),
        "draft": {"id": draft.id},
    } | {f"x-{key}": value for key, value in draft.values.items()}  # fmt: skip
    rows: Rows = {("value", key): value for key, value in values.items()}
    rows |= {("day", day): done for day, done in draft.days.items()}
    return rows | {("node", number): node for number, node in draft.nodes.items()}
