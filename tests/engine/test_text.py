"""The text of a branch whose tokens are given, against a reference that looks at all of it each time."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch
from srbwriter.engine.types import Cut, FinishReason, Stop, Text
from srbwriter.prose import Scanner

from .support import dictated, drive, finish, fixture_of, published, stepped

engine = fixture_of(lambda: stepped(n_ctx=1024))

FRAGMENTS = (
    *"aAbIé界😀 \t\u3000\n.!?…。！,\"'”)」",
    "...", "Mr.", "e.g.", "U.S.", "p.m.", "\n\n", "\n \n", ". ", '." ', "User:", "<|im_end|>", "ab", "abc",
)  # fmt: skip
STRINGS = ("a", "ab", "abc", "bca", "User:", "\n", "\n\n", "<|im_end|>", "e.g. ", ".", '"', "界", "😀")
Boundary = Literal["line", "sentence", "paragraph"]


def write(engine: Engine, text: str, stop: Stop, **sampling: Any) -> Branch:
    generation = dictated(engine, engine.tokenize_continuation(text), stop, **sampling)
    finish(engine, generation)
    [branch] = generation.branches
    [(told, ids)] = published(generation)
    assert told == branch.text and ids == list(branch.ids)
    assert engine.detokenize(branch.ids) + branch.buffer.tail == branch.text
    return branch


def expected(engine: Engine, ids: list[int], stop: Stop) -> tuple[str, FinishReason]:
    """What a branch keeps of the text of ``ids``, and how it ends."""
    pieces = engine.pieces(ids)
    texts = [whole.decode("utf-8", "ignore") for whole in accumulate(pieces)]
    known: set[int] = set()
    for count, (before, text) in enumerate(zip(["", *texts], texts, strict=False), 1):
        hits: list[tuple[int, FinishReason]] = []
        strings = [(text.find(s), -len(s)) for s in stop.strings if s in text]
        if strings:
            place, length = min(strings)
            hits.append((place - length * stop.include_string, FinishReason.STOP))
        if stop.boundary:
            ends = set(Scanner(stop.boundary).feed(text))
            if ends - known and count >= stop.min_tokens:
                hits.append((min(ends - known), FinishReason(stop.boundary)))
            known = ends
        if count > stop.after_min_tokens and count >= stop.min_tokens:
            hits += [(len(text), FinishReason.STOP) for s in stop.after_any if s in text[len(before) :]]
        if hits:
            keep, reason = min(hits, key=lambda hit: hit[0])
            return text[:keep], reason
    return (texts[-1] if texts else ""), FinishReason.EOG


stops = st.builds(
    Stop,
    max_tokens=st.just(100),
    strings=st.lists(st.sampled_from(STRINGS), max_size=3).map(tuple),
    boundary=st.sampled_from([None, "line", "sentence", "paragraph"]),
    after_any=st.lists(st.sampled_from(STRINGS), max_size=1).map(tuple),
    after_min_tokens=st.integers(0, 6),
    include_string=st.booleans(),
)
TEXTS = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=16).map("".join)


@pytest.mark.parametrize("guarded", [False, True], ids=["alone", "beside bans"])
@given(text=TEXTS, stop=stops)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_text_ends_where_its_rules_say(engine: Engine, guarded: bool, text: str, stop: Stop) -> None:
    guards: dict[str, Any] = {"banned_phrases": ("ab zebra", "User: he", "e.g. 😀")}
    branch = write(engine, text, stop, **(guards if guarded else {}))
    ids = engine.tokenize_continuation(text)
    assert (branch.text, branch.finish_reason) == expected(engine, ids, stop)
    assert not any(
        isinstance(event, Cut) and event.chars < len(branch.text) for event in branch.generation.log
    )


@pytest.mark.parametrize(
    ("boundary", "text", "kept"),
    [
        ("sentence", '"Go." She', '"Go."'),
        ("sentence", "Pi is 3.14. Yes", "Pi is 3.14."),
        ("sentence", "Mr. and Mrs. J. R. Hill, left.\n", "Mr. and Mrs. J. R. Hill, left."),
        ("sentence", "Well... maybe… Or not", "Well... maybe…"),
        ("sentence", '"Wait!" he said. Then', '"Wait!" he said.'),
        ("line", "\n\na line\nb", "\n\na line"),
        ("paragraph", "\n\none\ntwo\n \t\nthree", "\n\none\ntwo"),
    ],
)
def test_boundaries(engine: Engine, boundary: Boundary, text: str, kept: str) -> None:
    branch = write(engine, text, Stop(boundary=boundary))
    assert (branch.text, branch.finish_reason) == (kept, FinishReason(boundary))


@pytest.mark.parametrize("boundary", ["line", "sentence", "paragraph"])
def test_going_on_after_an_end_ends_with_the_next(engine: Engine, boundary: Boundary) -> None:
    ids = engine.tokenize_continuation("One.\n\nTwo.\n\nThree")
    generation = dictated(engine, ids, Stop(boundary=boundary))
    finish(engine, generation)
    [branch] = generation.branches
    assert branch.text == "One."
    branch.extend()
    finish(engine, generation)
    assert branch.text == "One.\n\nTwo." and branch.finish_reason is FinishReason(boundary)


def test_a_stop_text_is_never_half_published(engine: Engine) -> None:
    ids = [token for char in "He went. User: no" for token in engine.tokenize_continuation(char)]
    generation = dictated(engine, ids, Stop(strings=("User:",)))
    finish(engine, generation)
    shown = [event.text for event in generation.log if isinstance(event, Text)]
    assert "".join(shown) == "He went. " == generation.branches[0].text
    assert generation.branches[0].stop_text == "User:"


@pytest.mark.parametrize("rule", [Stop(), Stop(boundary="line")], ids=["none", "a line"])
def test_new_rules_release_what_only_the_old_ones_held(engine: Engine, rule: Stop) -> None:
    ids = [token for char in "Use\nand" for token in engine.tokenize_continuation(char)]
    generation = dictated(engine, ids, Stop(strings=("User:",)))
    [branch] = generation.branches
    drive(engine, lambda: len(branch.ids) >= 3)
    assert branch.text == ""
    branch.change(stop=rule)
    finish(engine, generation)
    assert branch.text == ("Use" if rule.boundary else "Use\nand")


def test_a_character_that_breaks_off_is_shown_as_such(engine: Engine) -> None:
    ids = engine.tokenize_continuation("😀")
    assert len(ids) > 1
    generation = dictated(engine, ids[:-1], Stop())
    finish(engine, generation)
    assert generation.branches[0].text == "\ufffd"
