"""A story outside its file: what every format reads and writes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from os import environ
from typing import Any
from uuid import uuid4

from srbwriter.story.model import ROOT, JsonObject, NodeId, Progress
from srbwriter.story.node import Node
from srbwriter.story.tree import Rows

_TAG = re.compile(r"[a-z]{2,3}(-[a-z0-9]{1,8})*", re.IGNORECASE)


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


def rows_of(draft: StoryDraft) -> Rows:
    """Return the rows of a story for ``draft``."""
    values: JsonObject = {
        "title": draft.title, "author": draft.byline, "language": draft.language or default_language(),
        "current": draft.current, "uuid": str(uuid4()), "draft": {"id": draft.id},
    } | {f"x-{key}": value for key, value in draft.values.items()}  # fmt: skip
    tables = {"value": values, "day": draft.days, "node": draft.nodes}
    return {(table, key): row for table, rows in tables.items() for key, row in rows.items()}


def language_tag(words: str) -> str | None:
    """Return the tag (BCP 47) for a tag or a locale (``pt_BR.UTF-8``); None for anything else."""
    tag = re.sub(r"[.@].*", "", words.strip()).replace("_", "-")
    return tag if _TAG.fullmatch(tag) else None


def default_language() -> str:
    """Return the language of the locale; English if it has none."""
    names = map(environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))  # the first that is set counts
    return language_tag(next(filter(None, names), "")) or "en"
