"""The input and output types of context assembly.

Offsets into text are in characters, sizes in tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from srbwriter.story.lore import LoreProblem
from srbwriter.story.model import as_object

Source = Literal["bos", "template", "memory", "lore", "so far", "request", "note", "wish", "story"]
"""The kind of a part of the prompt."""


class ContextError(ValueError):
    """The window cannot hold the required parts; the message names the cure."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A vocabulary as two functions.

    ``tokenize`` turns text into ids and adds nothing (no BOS, no EOS, no leading space);
    ``pieces`` gives the bytes of each id; ``vocabulary`` is the fingerprint ids are stored with.
    ``tokenize_template`` is for template text, where names of special tokens mean those tokens;
    without it ``tokenize`` is used.
    """

    tokenize: Callable[[str], Sequence[int]]
    pieces: Callable[[Sequence[int]], Sequence[bytes]]
    vocabulary: str = ""
    tokenize_template: Callable[[str], Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """The model's window: ``n_ctx`` tokens, of which ``reserve`` stay free for generated text.

    ``bos`` are the ids that the model needs at the very start.
    """

    n_ctx: int
    reserve: int
    bos: Sequence[int] = ()

    @property
    def available(self) -> int:
        return self.n_ctx - self.reserve


class Position(NamedTuple):
    """A place in the story, valid until its node is edited."""

    node_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The places that have to stay the same from one assembly to the next so that the cached prefix survives.

    ``cut`` is the start of the story in the window (``None``: its beginning); ``anchors`` are the places
    of the note (key ``"note"``) and of lore entries (key ``"lore:<id>"``).  Pass back the layout
    of the nearest node up the path that has one; a place that is no longer on the path is ignored.
    """

    cut: Position | None = None
    anchors: Mapping[str, Position] = field(default_factory=dict[str, Position])

    def to_json(self) -> dict[str, Any]:
        return {"cut": self.cut, "anchors": dict(self.anchors)}

    @classmethod
    def from_json(cls, value: object) -> Layout:
        """Read :meth:`to_json`; unreadable fields are ignored, which costs one cold prefill."""
        fields = as_object(value)
        read = {key: _position(place) for key, place in as_object(fields.get("anchors")).items()}
        anchors = {key: place for key, place in read.items() if place is not None}
        return cls(_position(fields.get("cut")), anchors)


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of the prompt.  ``ident`` is the node id for story, the entry id for lore, else empty.

    ``stored``: the tokens are those that the story keeps, and not made of the text just now.
    Neighbouring story runs without stored ids are tokenised together and share a segment, which then
    bears the id of the first.
    """

    source: Source
    text: str
    tokens: tuple[int, ...]
    ident: str = ""
    stored: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """Text without room. For the story it is everything before the cut."""

    source: Source
    text: str
    ident: str = ""


@dataclass(frozen=True, slots=True)
class Assembly:
    """A prompt, its parts in order, and what had no room."""

    segments: tuple[Segment, ...]
    tokens: tuple[int, ...]
    dropped: tuple[Dropped, ...]
    layout: Layout
    problems: tuple[LoreProblem, ...] = ()

    @property
    def text(self) -> str:
        return "".join(segment.text for segment in self.segments)


def _position(value: object) -> Position | None:
    match value:
        case [str(node_id), int(offset)] if offset >= 0:
            return Position(node_id, offset)
        case _:
            return None
