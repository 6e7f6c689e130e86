"""Takes of a story laid over one another: what two of them share is one path, and then they part.

Programs that keep a history know whole states of a text, and where one state was left for another.
This makes the tree of them, and knows no format.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Generic, Protocol, TypeVar

from srbwriter.story.diff import same_start
from srbwriter.story.formats.build import Grower
from srbwriter.story.model import Author, DraftNode, Span

Stretch = tuple[str, Author]
"""A stretch of text of one author."""

MOST_BRANCH_TEXT = 50_000_000
"""Characters that all branches together may have; takes that need more are not laid in."""

MOST_REPLAYED_TEXT = 5_000_000_000
"""Most characters compared while all versions are merged into the tree."""

LONGEST_COPY = 2_000
"""Characters that a take may repeat behind its last change: one that was changed far above was an edit that
was undone, and would only be the whole rest of the story once more."""

_LONGEST_WORD = 100


@dataclass(eq=False, slots=True)
class _Piece:
    """Text between two points where takes part, or where the author changes."""

    spans: list[Stretch]
    above: _Piece | None
    created: float | None = None
    below: list[_Piece] = field(default_factory=list["_Piece"])
    text: str = field(init=False)

    def __post_init__(self) -> None:
        self.text = text_of(self.spans)


class TakeTree:
    """Grows from one take, the story itself; the others leave it, or one another."""

    def __init__(self, story: Sequence[Stretch]) -> None:
        self._root = _Piece([], None)
        self._ends = [self._chain(self._root, story, None)]
        self.story = text_of(story)
        self._branch_text = 0
        self._replayed = 0

    def add(
        self,
        text: str,
        rest: Callable[[int], Sequence[Stretch]],
        leaves: int,
        at: int,
        created: float | None = None,
    ) -> int | None:
        """Add a take that branched off take ``leaves`` after its first ``at`` characters, -1 if unknown.

        ``rest`` returns its text after a number of characters.  Where the two differ before ``at``, because
        the text was changed since, the take branches off the path that agrees with it longest.
        Returns the take's own number, or ``None`` if there is no room.
        """
        path = self._path(self._ends[leaves])
        other = "".join(piece.text for piece in path) if leaves else self.story
        self._replayed += len(text) + len(other)
        if other.startswith(text):
            shared = len(text)
        elif at >= 0 and text[:at] == other[:at]:
            shared = at
        else:
            path, shared = self._longest(text)
        if shared == len(text):  # it says nothing of its own
            self._ends.append(path[-1])
            return len(self._ends) - 1
        parting = at if 0 <= at <= shared else _word_start(text, shared)
        branch_text = self._branch_text + len(text) - parting
        if branch_text > MOST_BRANCH_TEXT or self._replayed > MOST_REPLAYED_TEXT:
            return None
        self._branch_text = branch_text
        fork = self._fork(path, parting)
        twin = next((piece for piece in fork.below if not piece.below and piece.text == text[parting:]), None)
        self._ends.append(twin or self._chain(fork, rest(parting), created))
        return len(self._ends) - 1

    def _longest(self, text: str) -> tuple[list[_Piece], int]:
        """The path that agrees with a text longest, and how far it does."""
        path, at = [self._root], 0
        while True:
            agreeing = [
                (same_start(text[at : at + len(piece.text)], piece.text), piece) for piece in path[-1].below
            ]
            length, best = max(agreeing, key=lambda pair: pair[0], default=(0, None))
            if best is None or length == 0:
                return path, at
            path.append(best)
            at += length
            if length < len(best.text) or at == len(text):
                return path, at

    def grow(self) -> tuple[Grower, DraftNode]:
        """The tree as nodes, and the node at the end of the story."""
        grower = Grower()
        nodes = {id(self._root): grower.root}
        stack = list(reversed(self._root.below))
        while stack:
            piece = stack.pop()
            above = nodes[id(piece.above)]
            nodes[id(piece)] = grower.add(above, _node(piece))
            stack.extend(reversed(piece.below))
        return grower, nodes[id(self._ends[0])]

    def _chain(self, here: _Piece, spans: Iterable[Stretch], created: float | None) -> _Piece:
        for group in _groups(spans):
            piece = _Piece(group, here, created)
            here.below.append(piece)
            here = piece
        return here

    def _path(self, end: _Piece) -> list[_Piece]:
        path = [end]
        while path[-1].above is not None:
            path.append(path[-1].above)
        return path[::-1]

    def _fork(self, path: list[_Piece], at: int) -> _Piece:
        """The piece that ends after ``at`` characters of a path; the piece there is divided if need be."""
        for piece in path:
            if at == len(piece.text):
                return piece
            if at < len(piece.text):
                return self._divide(piece, at)
            at -= len(piece.text)
        return path[-1]

    def _divide(self, piece: _Piece, at: int) -> _Piece:
        """The new upper part of a piece, which itself keeps the lower."""
        first, rest = cut(piece.spans, at)
        assert piece.above is not None  # the root has no text to divide
        upper = _Piece(first, piece.above, piece.created, [piece])
        siblings = piece.above.below
        siblings[siblings.index(piece)] = upper
        piece.spans, piece.text, piece.above = rest, text_of(rest), upper
        return upper


State = TypeVar("State")
State_contra = TypeVar("State_contra", contravariant=True)
Key = TypeVar("Key", bound=Hashable)


class Reading(Protocol[State_contra]):
    """How to read a state."""

    def text(self, state: State_contra, /) -> str:
        """The whole text."""
        ...

    def end(self, state: State_contra, length: int, /) -> str:
        """The last characters of the text, as many as there are."""
        ...

    def rest(self, state: State_contra, at: int, /) -> Sequence[Stretch]:
        """Return the text after the first ``at`` characters."""
        ...


@dataclass(frozen=True, slots=True)
class Change(Generic[State, Key]):
    """A point of a history: which it follows, and how its state comes from that one's.

    ``apply`` raises :class:`ValueError` where the state does not fit.
    """

    parent: Key | None
    apply: Callable[[State], State]
    created: float | None = None


def lay_in(
    tree: TakeTree,
    history: Mapping[Key, Change[State, Key]],
    current: Key,
    start: State,
    reading: Reading[State],
) -> int:
    """Add every end of a history to the tree, whose story is the state at ``current``.

    ``start`` is the state before the first point.  Returns the number of points that could not be reached,
    because they or one before them do not fit, plus the number of ends without room.
    """
    children: dict[Key, list[Key]] = {}
    for key, change in history.items():
        if change.parent is not None:
            children.setdefault(change.parent, []).append(key)
    way = _way(history, current)
    waiting = [
        (key, start, _Taken(start, number=0 if key in way else None))
        for key, change in history.items()
        if change.parent is None
    ]
    seen = lost = 0
    while waiting:
        key, state, taken = waiting.pop()
        try:
            state = history[key].apply(state)
        except ValueError:
            continue
        seen += 1
        below = sorted(children.get(key, []), key=lambda child: child not in way)
        if not below:
            lost += not taken.lay(tree, state, reading, history[key].created)
            continue
        heirs = [taken] if key != current else []  # what follows the story's end, undone, is another take
        length = len(reading.text(state)) if len(below) > len(heirs) else 0
        heirs += [_Taken(state, left=taken, at=length) for _ in below[len(heirs) :]]
        waiting.extend(reversed([(child, state, heir) for child, heir in zip(below, heirs, strict=True)]))
    return len(history) - seen + lost


class _Taken(Generic[State]):
    """A take on its way through the history: its number once it is laid in, and where it left another."""

    def __init__(
        self, began: State, left: _Taken[State] | None = None, at: int = -1, number: int | None = None
    ) -> None:
        self._began = began
        self._left = left
        self._at = at
        self._number = number

    def lay(self, tree: TakeTree, state: State, reading: Reading[State], created: float | None) -> bool:
        """Whether there was room for it.  A take that wrote nothing since it left needs none."""
        if self._number is not None or state == self._began:
            return True
        before, after = (reading.end(one, LONGEST_COPY) for one in (self._began, state))
        if before == after and len(after) == LONGEST_COPY:
            return True
        text = reading.text(state)
        left, at = self._left, self._at
        while left is not None and left._number is None:
            left, at = left._left, min(at, left._at)
        leaves = (left and left._number) or 0
        self._number = tree.add(text, partial(reading.rest, state), leaves, at, created)
        return self._number is not None


def state_at(history: Mapping[Key, Change[State, Key]], point: Key | None, start: State) -> State:
    """The state at one point of a history.  Raises :class:`ValueError` where a change does not fit."""
    way: list[Key] = []
    while point is not None and point in history and len(way) <= len(history):
        way.append(point)
        point = history[point].parent
    state = start
    for here in reversed(way):
        state = history[here].apply(state)
    return state


def _way(history: Mapping[Key, Change[State, Key]], current: Key) -> set[Key]:
    way: set[Key] = set()
    here: Key | None = current
    while here is not None and here in history and here not in way:
        way.add(here)
        here = history[here].parent
    return way


def text_of(spans: Iterable[Stretch]) -> str:
    return "".join(text for text, _ in spans)


def joined(spans: Iterable[Stretch]) -> list[Stretch]:
    """The spans without empty ones, and neighbours of one author as one."""
    filled = (span for span in spans if span[0])
    found: list[Stretch] = []
    for author, group in groupby(filled, key=_author_of):
        found.append((text_of(group), author))
    return found


def _author_of(span: Stretch) -> Author:
    return span[1]


def _groups(spans: Iterable[Stretch]) -> list[list[Stretch]]:
    """Nodes: what the writer wrote and what the model wrote apart, words that were edited within either."""
    groups: list[list[Stretch]] = []
    last: Author | None = None
    for text, author in joined(spans):
        own = author in ("writer", "model")
        if groups and (not own or last in (None, author)):
            groups[-1].append((text, author))
        else:
            groups.append([(text, author)])
        last = author if own else last
    return groups


def _node(piece: _Piece) -> DraftNode:
    spans = joined(piece.spans)
    authors = {author for _, author in spans}
    if len(authors) == 1:
        return DraftNode("", text=piece.text, author=spans[0][1], created=piece.created)
    author: Author = "edited" if "edited" in authors or "model" in authors else "writer"
    made = [Span(text, author) for text, author in spans]
    return DraftNode("", text=piece.text, author=author, spans=made, created=piece.created)


def cut(spans: Iterable[Stretch], at: int) -> tuple[list[Stretch], list[Stretch]]:
    """The first ``at`` characters, and the rest."""
    first: list[Stretch] = []
    rest: list[Stretch] = []
    for text, author in spans:
        if at >= len(text):
            first.append((text, author))
        elif at <= 0:
            rest.append((text, author))
        else:
            first.append((text[:at], author))
            rest.append((text[at:], author))
        at -= len(text)
    return first, rest


def _word_start(text: str, at: int) -> int:
    """The start of the word that ``at`` is in, so that takes do not part inside it."""
    if at == len(text):
        return at
    start = at
    while start and not text[start - 1].isspace():
        start -= 1
        if at - start > _LONGEST_WORD:
            return at
    return start
