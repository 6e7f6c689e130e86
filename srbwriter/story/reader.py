"""The reading half of a story: nodes, text, spans, settings, and walks through the tree.

Nothing here changes a story, but that a search first updates the search index.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import cast

from srbwriter.story import chapters
from srbwriter.story.chapters import Chapter
from srbwriter.story.document import Document
from srbwriter.story.languages import default_language
from srbwriter.story.model import (
    ROOT,
    Author,
    Hit,
    JsonObject,
    Marks,
    Node,
    NodeId,
    Progress,
    Properties,
    ReadOnly,
    Settings,
    Span,
    State,
    as_object,
    has_secondary_keys,
    settings_from,
)
from srbwriter.story.progress import by_author, day_of, days
from srbwriter.story.search import search as find
from srbwriter.story.spans import cut
from srbwriter.story.store import Body
from srbwriter.story.tree import BOOKMARK, CHAPTER, SETTINGS, VISITED

LOCAL = "local-"
"""How the names of values begin that belong to this file alone, such as what its screen showed last."""


class Reader:
    """All methods that read a story. Returned values are frozen: later changes do not appear in them."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._lock = document.lock

    # -- the story ---------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        with self._lock:
            return str(self._document.value("title", ""))

    @property
    def properties(self) -> Properties:
        """Title, author and language; without a language of its own, the story has that of the locale."""
        with self._lock:
            came = self._came_with()
            author = str(self._document.value("author", came.get("byline", "")))
            language = str(self._document.value("language", came.get("language", "")))
            return Properties(self.title, author, language or default_language())

    @property
    def id(self) -> str:
        """The UUID of the story, which exported books carry; empty if it was lost with damage."""
        with self._lock:
            return str(self._came_with().get("id") or self._document.value("uuid", ""))

    def _came_with(self) -> JsonObject:
        """Return the story-wide fields of the draft that the story was made from."""
        return as_object(self._document.value("draft", {}))

    @property
    def current(self) -> NodeId:
        """The node at which the writer is."""
        with self._lock:
            return self._document.current

    @property
    def read_only(self) -> ReadOnly | None:
        """Why the story cannot be written to; None if it can."""
        return self._document.read_only

    @property
    def streaming(self) -> dict[NodeId, NodeId]:
        """The branches being written: the first node of each → the node that gets its text now."""
        with self._lock:
            return {name: written.node for name, written in self._document.live.items()}

    def __len__(self) -> int:
        """Count all nodes, including the root and those in the bin."""
        return len(self._document.tree)

    # -- one node ----------------------------------------------------------------------------------

    def node(self, node: NodeId) -> Node:
        """Return a node with its text, also one in the bin. Raises NoSuchNode."""
        with self._lock:
            return self._node(node, self._document.body(node))

    def nodes(self, nodes: list[NodeId]) -> list[Node]:
        """Return many nodes, as :meth:`node` does one."""
        with self._lock:
            bodies = self._document.some_bodies(nodes)
            return [self._node(node, bodies[node]) for node in nodes]

    def _node(self, node: NodeId, body: Body) -> Node:
        entry = self._document.tree[node]
        model, sampling = self._document.recipes.get(body.recipe or 0, ("", "{}"))
        return Node(
            id=node,
            parent=entry.parent,
            state=State(entry.state),
            author=entry.author,
            spans=self._document.decode(node, body),
            marks=entry.marks,
            created=entry.created,
            model=model,
            seed=body.seed,
            sampling=json.loads(sampling),
            finish_reason=body.finish,
            streaming=self._document.written_at(node) is not None,
            meta=json.loads(body.meta) if body.meta else {},
        )

    def head(self, node: NodeId, at: int) -> tuple[Span, ...]:
        """Return the spans of the first ``at`` characters of ``node``, as a split there would leave them."""
        with self._lock:
            return cut(self._document.spans(node), at, self._document.token_sizes)[0]

    def marks(self, node: NodeId) -> Marks:
        """Return the marks of ``node``, without reading its text."""
        with self._lock:
            return self._document.tree[node].marks

    def is_living(self, node: NodeId) -> bool:
        """Whether ``node`` is part of the readable tree: neither it nor an ancestor is in the bin."""
        with self._lock:
            return self._document.tree.living(node)

    # -- text --------------------------------------------------------------------------------------

    def text(self, node: NodeId, chars: int | None = None) -> str:
        """Return the text from the root to ``node``; with ``chars``, at least that many from its end."""
        with self._lock:
            tree, path = self._document.tree, list[NodeId]()
            for above in tree.upward(node):
                path.append(above)
                if chars is not None and (chars := chars - tree[above].chars) <= 0:
                    break
            texts = self._document.texts(path)
            return "".join(texts.get(part, "") for part in reversed(path))

    def chars(self, node: NodeId | None = None) -> int:
        """Count the characters from the root to ``node`` (the current one) without reading them."""
        with self._lock:
            tree = self._document.tree
            return sum(tree[above].chars for above in tree.upward(self.current if node is None else node))

    def words(self, node: NodeId) -> int:
        """Count the words from the root to ``node`` exactly, without reading them."""
        with self._lock:
            return self._document.tree.count(node).words

    # -- settings ----------------------------------------------------------------------------------

    def own_settings(self, node: NodeId) -> Settings:
        """Return the settings on ``node`` itself."""
        with self._lock:
            return settings_from(self._document.body(node).settings)

    @property
    def has_secondary_keys(self) -> bool:
        """Whether the lorebook has secondary keys of an earlier version, which are not used."""
        with self._lock:
            return has_secondary_keys(self._document.body(ROOT).settings)

    def settings(self, node: NodeId) -> Settings:
        """Return the settings in force at ``node``: its own over those of its ancestors."""
        with self._lock:
            tree = self._document.tree
            speaking = [above for above in tree.path(node) if tree[above].flags & SETTINGS]
            bodies = self._document.some_bodies(speaking)
            total = Settings()
            for above in speaking:
                total = settings_from(bodies[above].settings).inherit(total)
            return total

    # -- walks through the tree --------------------------------------------------------------------

    def parent(self, node: NodeId) -> NodeId | None:
        with self._lock:
            return self._document.tree.parent(node)

    def children(self, node: NodeId) -> list[NodeId]:
        """Return the living children in order."""
        with self._lock:
            return self._document.tree.children(node)

    def siblings(self, node: NodeId) -> list[NodeId]:
        """Return the living children of the parent, including ``node``."""
        with self._lock:
            tree = self._document.tree
            return tree.children(tree.parent(node) or ROOT)

    def path(self, node: NodeId) -> list[NodeId]:
        """Return the nodes from the root to ``node``."""
        with self._lock:
            return self._document.tree.path(node)

    def reading_order(self, top: NodeId = ROOT) -> Iterator[NodeId]:
        """Return the living nodes of the subtree of ``top``, depth first."""
        with self._lock:
            return iter(list(self._document.tree.reading_order(top)))

    def bookmarks(self) -> list[NodeId]:
        with self._lock:
            return self._document.tree.where(lambda entry: bool(entry.flags & BOOKMARK))

    def chapters(self) -> list[NodeId]:
        with self._lock:
            return self._document.tree.where(lambda entry: bool(entry.flags & CHAPTER))

    def outline(self) -> list[Chapter]:
        """Chapters and scenes of the text up to the current node, with their words."""
        with self._lock:
            return chapters.outline(self._document, self._document.current)

    def unread(self) -> list[NodeId]:
        with self._lock:
            return self._document.tree.where(lambda entry: not entry.flags & VISITED)

    def tags(self) -> list[str]:
        """Return all tags in use, sorted."""
        with self._lock:
            return sorted({tag for entry in self._document.tree if entry.tags for tag in entry.marks.tags})

    def bin(self) -> list[NodeId]:
        """Return the topmost nodes in the bin, newest first."""
        with self._lock:
            return self._document.tree.binned()

    def value(self, key: str) -> object:
        """Return a story-wide value that an interface keeps under ``key``, or None."""
        with self._lock:
            return cast(object, self._document.value(f"x-{key}"))

    def local_value(self, key: str) -> object:
        """Return a value that :meth:`~.story.Story.put_local_value` kept in this file, or None."""
        with self._lock:
            return cast(object, self._document.value(f"{LOCAL}{key}"))

    # -- search and statistics ---------------------------------------------------------------------

    def search(self, query: str, limit: int = 50, *, with_bin: bool = False) -> list[Hit]:
        """Return the nodes that contain all words of ``query``, best first.

        ``"…"`` is a phrase; the last word may be unfinished.
        """
        with self._document.writing:  # the search may first add new texts to the index
            return find(self._document, query, limit, with_bin)

    def words_by_author(self, node: NodeId | None = None) -> dict[Author, int]:
        """Count words by author, on the path to ``node`` or in the whole living tree."""
        with self._lock:
            tree = self._document.tree
            return by_author(tree, list(tree.reading_order()) if node is None else tree.path(node))

    def days(self) -> dict[str, Progress]:
        """Return the progress by calendar day (ISO 8601), oldest first."""
        with self._lock:
            return days(self._document.store)

    def today(self) -> Progress:
        """Return the progress of this calendar day; see :mod:`srbwriter.story.progress`."""
        return self.days().get(day_of(self._document.day_log.now()), Progress())

    def recipe(self, number: int) -> tuple[str, JsonObject]:
        """Return the model and the sampling parameters of a recipe; empty for an unknown number."""
        with self._lock:
            model, sampling = self._document.recipes.get(number, ("", "{}"))
            return model, as_object(json.loads(sampling))
