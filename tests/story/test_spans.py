"""Cutting and joining spans loses neither characters nor tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from srbwriter.story.diff import Edit
from srbwriter.story.encoding import change, decode, edit_encoded, encode
from srbwriter.story.model import Span
from srbwriter.story.spans import Spans, cut, cut_at, seam_of, text_of, tidy


def sizes(vocab: str, ids: Sequence[int]) -> list[int] | None:
    return [n % 4 for n in ids] if vocab == "known" else None


@st.composite
def a_span(draw: st.DrawFn) -> Span:
    author = draw(st.sampled_from(["writer", "model"]))
    if draw(st.booleans()):
        return Span(draw(st.text("ab ", min_size=1, max_size=8)), author)
    ids = draw(st.lists(st.integers(0, 20), min_size=1, max_size=6))
    text = "".join("xyz"[: n % 4] for n in ids)
    scored = draw(st.booleans())
    return Span(
        text,
        author,
        tuple(ids),
        draw(st.sampled_from(["known", "unknown"])),
        tuple(-float(n) if n % 5 else None for n in ids) if scored else (),
    )


SPANS = st.lists(a_span(), max_size=5).map(tidy)


def tokens(spans: Iterable[Span]) -> list[int]:
    return [token for span in spans for token in span.ids]


@given(SPANS, st.data())
def test_a_cut_can_be_joined_again(spans: Spans, data: st.DataObject) -> None:
    text = text_of(spans)
    at = data.draw(st.integers(0, len(text)))
    head, tail = cut(spans, at, sizes)
    assert (text_of(head), text_of(tail)) == (text[:at], text[at:])
    assert tidy([*head, *tail]) == spans
    assert tokens([*head, *tail]) == tokens(spans)


@given(SPANS, st.data())
def test_cuts_in_one_token_can_be_joined_again_in_any_order(spans: Spans, data: st.DataObject) -> None:
    left, rest = cut(spans, data.draw(st.integers(0, len(text_of(spans)))), sizes)
    middle, right = cut(rest, data.draw(st.integers(0, len(text_of(rest)))), sizes)
    assert tidy([*middle, *right]) == rest
    assert tidy([*left, *middle, *right]) == spans
    assert tidy([*tidy([*left, *middle]), *right]) == spans


@given(SPANS, st.data())
def test_without_the_vocabulary_a_path_still_keeps_its_tokens(spans: Spans, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text_of(spans))))
    head, tail = cut(spans, at)
    assert tidy([*head, *tail]) == spans


@given(SPANS, SPANS)
def test_joined_spans_come_apart_as_they_were(head: Spans, tail: Spans) -> None:
    joined = tidy([*head, *tail])
    again = cut_at(joined, len(text_of(head)), seam_of(head, joined))
    assert again[0] == head
    assert text_of(again[1]) == text_of(tail)
    assert tidy([*again[0], *again[1]]) == joined


@given(SPANS, st.text("abxyz ", max_size=12))
def test_a_change_says_the_new_text(spans: Spans, text: str) -> None:
    made = change(spans, text, "writer", sizes)
    assert text_of(made) == text
    for span in made:
        if span.ids and span.vocab == "known" and not span.lead:
            assert sum(sizes(span.vocab, span.ids) or ()) == len(span.text)


def test_a_change_keeps_the_tokens_around_it() -> None:
    spans = (Span("xyzxyxyz", "model", (3, 2, 3), "known", (-1.0, -2.0, -3.0)),)
    made = change(spans, "xyzQxyz", "writer", sizes)
    assert [(span.text, span.ids) for span in made] == [("xyz", (3,)), ("Q", ()), ("xyz", (3,))]


def test_two_changes_keep_the_tokens_between_them() -> None:
    spans = (Span("a fox and a hen met a dog at noon. ", "model", (2, 4, 4, 2, 4, 4, 2, 4, 3, 6), "known"),)
    assert sum((2, 4, 4, 2, 4, 4, 2, 4, 3, 6)) == len(spans[0].text)
    made = change(spans, "a cat and a hen met a cow at noon. ", "writer", lambda _, ids: ids)
    assert [span.ids for span in made if span.ids] == [(2,), (4, 2, 4, 4, 2), (3, 6)]


def test_a_cut_inside_a_token_leaves_a_lead() -> None:
    head, tail = cut((Span("xyzxyz", "model", (3, 3), "known"),), 4, sizes)
    assert head == (Span("xyz", "model", (3,), "known"), Span("x", "model"))
    assert tail == (Span("yz", "model", (3,), "known", lead="x"),)


@given(SPANS)
def test_spans_survive_the_file(spans: Spans) -> None:
    assert decode(encode(spans, "writer"), text_of(spans), "writer") == spans


@given(SPANS, st.binary(max_size=40))
def test_unreadable_ids_never_cost_text(spans: Spans, noise: bytes) -> None:
    assert text_of(decode(noise, text_of(spans), "writer")) == text_of(spans)


def test_tokens_without_text_stay_where_they_were() -> None:
    head = (Span("", "model", (0,), "known"),)
    for tail in ((Span("a", "writer"),), (Span("x", "model", (1,), "known"),)):
        joined = tidy([*head, *tail])
        assert cut_at(joined, 0, seam_of(head, joined)) == (head, tail)


@given(SPANS, st.data())
def test_many_edits_at_once_leave_what_one_after_another_leaves(spans: Spans, data: st.DataObject) -> None:
    """Authors, ids, logprobs and vocabularies alike, to the byte."""
    text = text_of(spans)
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=10)))
    words = st.sampled_from(["", "b", "a b", "xyz"])
    edits = [Edit(a, b, data.draw(words)) for a, b in zip(places[::2], places[1::2], strict=False)]
    before = encode(spans, "model")
    at_once = edit_encoded(before, text, edits, "writer", "model", sizes)
    one_by_one = text, before
    for edit in reversed(edits):
        one_by_one = edit_encoded(one_by_one[1], one_by_one[0], [edit], "writer", "model", sizes)
    assert at_once == one_by_one
    made = decode(at_once[1], at_once[0], "model")
    assert tidy(made) == made and text_of(made) == at_once[0]
