"""The end of the story as text with its tokens, which can be cut and opened at any place.

It is taken from the spans of a path. Stored token ids are only sliced; text is tokenised only where no ids
are known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Literal, NamedTuple

from srbwriter.story.context.types import Position, Segment, Tokenizer
from srbwriter.story.model import Span

Begin = Literal["story", "cut", "anywhere"]
"""Where a tail begins: with the story, at the requested cut, or where it was long enough."""


class Placed(NamedTuple):
    """A span on a path, its node, and its offset in the node's text."""

    node_id: str
    start: int
    span: Span


@dataclass(frozen=True, slots=True)
class _Piece:
    """A span, or a part of one, with the ids it can be read with; ``start`` is its place in the node's text.

    The first ``lead`` characters belong to the span before and are here because of the tokens.
    """

    node_id: str
    start: int
    text: str
    ids: tuple[int, ...] = ()
    lead: int = 0


class StoryTail:
    """The last part of a path. Offsets are characters from its start."""

    def __init__(self, pieces: Sequence[_Piece], tokenizer: Tokenizer, begins: Begin) -> None:
        self._pieces = pieces
        self._tokenizer = tokenizer
        self.begins: Begin = begins
        self.text = "".join(piece.text for piece in pieces)
        self._starts = list(accumulate((len(piece.text) for piece in pieces), initial=0))
        self._offsets: dict[int, tuple[list[int], bool]] = {}

    @cached_property
    def size(self) -> int:
        """Tokens in the whole tail."""
        return sum(len(segment.tokens) for segment in self._whole)

    @cached_property
    def _whole(self) -> list[Segment]:
        return self.segments(0, len(self.text))

    def segments(self, start: int, end: int) -> list[Segment]:
        """Return the text from ``start`` to ``end`` as story segments, with stored ids where known."""
        segments: list[Segment] = []
        untokenised: list[str] = []
        first_id = ""
        for index, low, high in self._overlapping(start, end):
            piece = self._pieces[index]
            if not piece.ids:
                first_id = first_id if untokenised else piece.node_id
                untokenised.append(piece.text[low:high])
                continue
            segments.extend(self._tokenise(untokenised, first_id))
            untokenised = []
            ids = self._slice(index, low, high)
            segments.append(Segment("story", piece.text[low:high], ids, piece.node_id, True))
        segments.extend(self._tokenise(untokenised, first_id))
        return segments

    def clean(self, offset: int) -> bool:
        """Whether the tail can be opened at ``offset`` without breaking a stored token.

        Never inside a lead or at its end: as a position that is the start of the whole piece.
        """
        index, inner = self._at(offset)
        piece = self._pieces[index] if index < len(self._pieces) else None
        if piece is None or not piece.ids or inner == 0:
            return True
        if inner <= piece.lead:
            return False
        offsets, exact = self._token_offsets(index)
        place = bisect_left(offsets, inner)
        return exact and place < len(offsets) and offsets[place] == inner

    def offset_from_end(self, tokens: int) -> int:
        """Return the first token start with at most ``tokens`` tokens up to the end."""
        left, end = tokens, len(self.text)
        for segment in reversed(self._whole):
            start = end - len(segment.text)
            if len(segment.tokens) > left:
                offsets, _ = token_offsets(segment.text, segment.tokens, self._tokenizer)
                return start + offsets[-left] if left else end
            left, end = left - len(segment.tokens), start
        return 0

    def position(self, offset: int) -> Position:
        """Return ``offset`` as a position that a later tail can locate."""
        index, inner = self._at(offset)
        if not self._pieces:
            return Position("", 0)
        if index == len(self._pieces):
            index, inner = index - 1, len(self._pieces[-1].text)
        piece = self._pieces[index]
        return Position(piece.node_id, piece.start + max(inner, piece.lead))

    def locate(self, position: Position) -> int | None:
        """Return the offset of ``position`` in this tail, ``None`` if it is outside."""
        for index in range(len(self._pieces) - 1, -1, -1):
            piece = self._pieces[index]
            inner = position.offset - piece.start
            if piece.node_id == position.node_id and piece.lead <= inner <= len(piece.text):
                return self._starts[index] + (0 if inner == piece.lead else inner)
        return None

    @property
    def lead(self) -> int:
        """Characters at the start of the tail that belong to the text before :meth:`position` 0."""
        return self._pieces[0].lead if self._pieces else 0

    def line_start(self, lines: int) -> int:
        """Return the clean offset of the last ``lines`` lines that are not blank; 0 for too few lines."""
        end = len(self.text.rstrip())
        while end > 0:
            start = self.text.rfind("\n", 0, end) + 1
            lines -= self.text[start:end].strip() != ""
            if lines <= 0 and self.clean(start):
                return start
            end = start - 1
        return 0

    def _at(self, offset: int) -> tuple[int, int]:
        """Return the piece that contains ``offset``, and the offset in it.

        The number of pieces past the end.
        """
        index = bisect_right(self._starts, offset) - 1
        return (index, offset - self._starts[index]) if index < len(self._pieces) else (index, 0)

    def _overlapping(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        index = self._at(start)[0]
        while index < len(self._pieces) and self._starts[index] < end:
            base = self._starts[index]
            yield index, max(start - base, 0), min(end - base, len(self._pieces[index].text))
            index += 1

    def _tokenise(self, texts: list[str], node_id: str) -> list[Segment]:
        text = "".join(texts)
        if not text:
            return []
        return [Segment("story", text, tuple(self._tokenizer.tokenize(text)), node_id)]

    def _slice(self, index: int, low: int, high: int) -> tuple[int, ...]:
        piece = self._pieces[index]
        if low == 0 and high == len(piece.text):
            return piece.ids
        offsets, _ = self._token_offsets(index)
        last = len(piece.ids) if high == len(piece.text) else bisect_left(offsets, high)
        return piece.ids[bisect_left(offsets, low) if low else 0 : last]

    def _token_offsets(self, index: int) -> tuple[list[int], bool]:
        if index not in self._offsets:
            piece = self._pieces[index]
            self._offsets[index] = token_offsets(piece.text, piece.ids, self._tokenizer)
        return self._offsets[index]


def token_offsets(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> tuple[list[int], bool]:
    """Return the character at which each token starts, and whether that is exact.

    A token that starts inside a character gets the offset of that character.  When the bytes of the
    tokens are not the text (byte repair, an added space), offsets are spread evenly and not exact.
    """
    pieces = tokenizer.pieces(ids)
    if b"".join(pieces) != text.encode("utf-8", "surrogatepass"):
        return [index * len(text) // len(ids) for index in range(len(ids))], False
    offsets: list[int] = []
    characters = 0
    for piece in pieces:
        inside = bool(piece) and _continues(piece[0])
        offsets.append(characters - 1 if inside else characters)
        characters += sum(not _continues(byte) for byte in piece)
    return offsets, True


def _continues(byte: int) -> bool:
    """Whether a UTF-8 byte is inside a character (RFC 3629: 10xxxxxx)."""
    return byte & 0xC0 == 0x80


def tail_of(spans: Sequence[Placed], tokenizer: Tokenizer, *, cut: Position | None, enough: int) -> StoryTail:
    """Return the tail from ``cut`` on, or a shorter one with certainly more than ``enough`` tokens.

    A cut that is not on the path counts as the beginning of the story.
    """
    characters_per_token = 8  # a first guess on the high side; doubled until the tail is long enough
    while True:
        tail = _collect(spans, tokenizer, cut, enough + 1, characters_per_token)
        if tail.begins != "anywhere" or tail.size > enough:
            return tail
        characters_per_token *= 2


def _collect(
    spans: Sequence[Placed],
    tokenizer: Tokenizer,
    cut: Position | None,
    enough: int,
    characters_per_token: int,
) -> StoryTail:
    pieces: list[_Piece] = []
    tokens = 0.0
    trim = 0
    for whole in _from_the_end(spans, tokenizer):
        if tokens >= enough:
            return StoryTail(pieces[::-1], tokenizer, "anywhere")
        piece, here = _shortened(whole, trim, tokenizer, cut)
        trim = piece.lead
        room = int((enough - tokens) * characters_per_token) + 1
        if not piece.ids and len(piece.text) > room:
            start = len(piece.text) - room
            pieces.append(_Piece(piece.node_id, piece.start + start, piece.text[start:]))
            return StoryTail(pieces[::-1], tokenizer, "anywhere")
        if piece.text:
            pieces.append(piece)
        if here:
            return StoryTail(pieces[::-1], tokenizer, "cut")
        tokens += len(piece.ids) or len(piece.text) / characters_per_token
    return StoryTail(pieces[::-1], tokenizer, "story")


def _from_the_end(spans: Sequence[Placed], tokenizer: Tokenizer) -> Iterator[_Piece]:
    """Yield the spans, last first, each with its usable ids.

    If the text before no longer ends with a span's lead, the tokens that reach into the lead become text; the
    others stay.
    """
    for index in range(len(spans) - 1, -1, -1):
        node, start, span = spans[index]
        lead = len(span.lead)
        if not (span.text and _known(span, tokenizer)):
            yield _Piece(node, start, span.text)
        elif not lead or _gives_up(spans, index, tokenizer):
            yield _Piece(node, start - lead, span.lead + span.text, span.ids, lead)
        else:
            offsets, exact = token_offsets(span.lead + span.text, span.ids, tokenizer)
            first = bisect_left(offsets, lead) if exact else len(offsets)
            size = offsets[first] - lead if first < len(offsets) else len(span.text)
            if rest := span.text[size:]:
                yield _Piece(node, start + size, rest, span.ids[first:])
            yield _Piece(node, start, span.text[:size])


def _known(span: Span, tokenizer: Tokenizer) -> bool:
    return bool(span.ids and span.vocab) and span.vocab == tokenizer.vocabulary


def _gives_up(spans: Sequence[Placed], index: int, tokenizer: Tokenizer) -> bool:
    """Whether the text before span ``index`` ends with its lead, and no stored token is broken there."""
    lead = spans[index].span.lead
    before = next((spans[place].span for place in range(index - 1, -1, -1) if spans[place].span.text), None)
    if before is None or not before.text.endswith(lead):
        return False
    if not _known(before, tokenizer):
        return True
    offsets, exact = token_offsets(before.lead + before.text, before.ids, tokenizer)
    edge = len(before.lead) + len(before.text) - len(lead)
    return exact and (edge == 0 or edge in offsets)


def _shortened(piece: _Piece, trim: int, tokenizer: Tokenizer, cut: Position | None) -> tuple[_Piece, bool]:
    """Return the piece without its last ``trim`` characters, which are the lead of the next span.

    And whether the cut is in it; then it begins there.
    """
    text, own, end = piece.text, piece.start + piece.lead, len(piece.text) - trim
    at = cut.offset if cut is not None and cut.node_id == piece.node_id else -1
    here = own <= at <= piece.start + len(text)
    low = at - piece.start if here and at > own else 0
    if not piece.ids:
        return _Piece(piece.node_id, piece.start + low, text[low:end]), here
    if low == 0 and trim == 0:
        return piece, here
    offsets, _ = token_offsets(text, piece.ids, tokenizer)
    first = bisect_left(offsets, low) if low else 0
    last = bisect_left(offsets, end) if trim else len(piece.ids)
    low = low if first == 0 else offsets[first] if first < len(offsets) else end
    kept = 0 if low else piece.lead
    return _Piece(piece.node_id, piece.start + low, text[low:end], piece.ids[first:last], kept), here
