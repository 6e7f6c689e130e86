"""The text of a branch, against a slow reference that looks at the whole text after every token."""

from __future__ import annotations

import codecs
import re
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.engine.text import BranchText, Pieces
from srbwriter.engine.types import FinishReason, Stop
from srbwriter.engine.watchers import Finish

FRAGMENTS = (
    *"aAbIé界😀 \t\u3000\n.!?…。！,\"'”)」",
    "...", "Mr.", "e.g.", "U.S.", "p.m.", "\n\n", "\n \n", ". ", '." ', "User:", "<|im_end|>", "ab", "abc",
)  # fmt: skip
BROKEN = (b"\xff", b"\xc3", b"\xe7\x95", b"\xf0\x9f\x98")
STRINGS = ("a", "ab", "abc", "bca", "User:", "\n", "\n\n", "<|im_end|>", "e.g. ", ".", '"', "界", "😀")


# ---- the reference


def decode(tokens: list[bytes]) -> str:
    return codecs.getincrementaldecoder("utf-8")("replace").decode(b"".join(tokens))


def first_match(text: str, strings: tuple[str, ...]) -> tuple[int, str] | None:
    found = [(text.find(s), -len(s), s) for s in strings if s in text]
    return (min(found)[0], min(found)[2]) if found else None


def string_hold(text: str, strings: tuple[str, ...]) -> int:
    prefixes = {s[:k] for s in strings for k in range(1, len(s))}
    return max((len(p) for p in prefixes if text.endswith(p)), default=0)


def line_ends(text: str) -> tuple[set[int], int]:
    lines = text.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:k]) for k in range(len(lines))]
    return {at + len(line) for at, line in zip(starts, lines[:-1], strict=False) if line.strip()}, 0


def paragraph_ends(text: str) -> tuple[set[int], int]:
    breaks = [(m.start(), m.end()) for m in re.finditer(r"\n[^\S\n]*\n", text)]
    spans = pairwise([(0, 0), *breaks])
    ends = {start for (_, before), (start, _) in spans if text[before:start].strip()}
    rest = text[breaks[-1][1] if breaks else 0 :]
    open_break = re.search(r"\S\s*?(\n[^\S\n]*)\Z", rest)
    return ends, len(open_break[1]) if open_break else 0


def sentence_ends(text: str) -> tuple[set[int], int]:
    ends: set[int] = set()
    held = 0
    for m in re.finditer(r"[.!?…。！][.!?…。！\"'”)」]*", text):
        rest = text[m.end() :]
        gap = re.match(r"[^\S\n]*", rest)
        assert gap is not None
        following = rest[gap.end() : gap.end() + 1]
        words = re.findall(r"[^\W\d_]+(?:\.[^\W\d_]+)*$", text[: m.start()])
        word = words[0] if words else ""
        initial = re.fullmatch(r"(.*\.)?[A-HJ-Z]|.*\.I", word)
        if not rest:
            continue
        if re.search("[。！]", m[0]) or rest[0] == "\n":
            ends.add(m.end())
        elif not gap[0] or (m[0] == "." and (initial or word in ("Mr", "e.g"))):
            continue
        elif not re.fullmatch(r"[.!?]+", m[0]) or ".." in m[0] or "." in word:
            if not following:
                held = len(gap[0])
            elif not following.islower():
                ends.add(m.end())
        else:
            ends.add(m.end())
    return ends, held


BOUNDARIES = {"line": line_ends, "sentence": sentence_ends, "paragraph": paragraph_ends}


def reference(tokens: list[bytes], stop: Stop) -> tuple[list[str], Finish | None]:
    """What is published after every token, up to the hit, if any."""
    published: list[str] = []
    known: set[int] = set()
    before = ""
    for count in range(1, len(tokens) + 1):
        text = decode(tokens[:count])
        hits: list[Finish] = []
        match = first_match(text, stop.strings)
        if match is not None:
            keep = match[0] + len(match[1]) * stop.include_string
            hits.append(Finish(FinishReason.STOP, keep, match[1]))
        hold = string_hold(text, stop.strings)
        if stop.boundary:
            ends, boundary_hold = BOUNDARIES[stop.boundary](text)
            hold = max(hold, boundary_hold)
            if ends - known and count >= stop.min_tokens:
                hits.append(Finish(FinishReason(stop.boundary), min(ends - known), None))
            known = ends
        new = text[len(before) :]
        if count > stop.after_min_tokens and count >= stop.min_tokens and not hits:
            hits += [Finish(FinishReason.STOP, len(text), s) for s in stop.after_any if s in new]
        if hits:
            hit = min(hits, key=lambda h: h.keep)
            return [*published, text[: hit.keep]], hit
        published.append(text[: len(text) - hold])
        before = text
    return published, None


# ---- properties

raw = st.lists(
    st.one_of(st.sampled_from(FRAGMENTS).map(str.encode), st.sampled_from(FRAGMENTS).map(str.encode),
              st.sampled_from(FRAGMENTS).map(str.encode), st.sampled_from(BROKEN)),
    max_size=24,
)  # fmt: skip


@st.composite
def split(draw: st.DrawFn) -> list[bytes]:
    """A text cut into tokens anywhere, also inside characters."""
    data = b"".join(draw(raw))
    cuts = draw(st.lists(st.integers(0, len(data)), max_size=20))
    return [data[a:b] for a, b in pairwise([0, *sorted(cuts), len(data)])]


stops = st.builds(
    Stop,
    strings=st.lists(st.sampled_from(STRINGS), max_size=3).map(tuple),
    boundary=st.sampled_from([None, "line", "sentence", "paragraph"]),
    min_tokens=st.integers(0, 6),
    after_any=st.lists(st.sampled_from(STRINGS), max_size=1).map(tuple),
    after_min_tokens=st.integers(0, 6),
    include_string=st.booleans(),
)


actions = st.lists(
    st.one_of(
        st.sampled_from(range(len(FRAGMENTS) + len(BROKEN))),
        st.sampled_from(FRAGMENTS),
        stops,
        st.just("finish"),
    ),
    max_size=30,
)
VOCABULARY = Pieces([*(f.encode() for f in FRAGMENTS), *BROKEN])


@given(actions, stops)
def test_nothing_is_taken_back_whatever_happens(acts: list[int | str | Stop], stop: Stop) -> None:
    branch = BranchText(VOCABULARY, stop)
    out = ""
    for act in acts:
        if isinstance(act, Stop):
            branch.set_stop(act)
        elif act == "finish":
            out += branch.finish()
        elif isinstance(act, str):
            out += branch.finish() + act
            branch.restart(out, branch.tokens)
        else:
            piece, hit = branch.feed(act)
            out += piece
            if hit is not None:
                assert len(out) == hit.keep
                branch.restart(out, branch.tokens)
        assert branch.published == len(out)
    out += branch.finish()
    assert branch.decoded == len(out)


@given(split(), st.integers(1, 6), stops)
def test_what_stands_in_the_prompt_is_not_cut(tokens: list[bytes], ahead: int, stop: Stop) -> None:
    branch = BranchText(Pieces(tokens), stop)
    branch.restart("", pending=ahead)
    out = ""
    for token in range(len(tokens)):
        piece, hit = branch.feed(token)
        out += piece
        assert len(out) >= min(ahead, branch.decoded)
        if hit is not None:
            assert hit.keep == len(out) >= ahead
            assert hit.reason is FinishReason.STOP or out[ahead:].strip()
            return
    assert out + branch.finish() == b"".join(tokens).decode("utf-8", "replace")


# ---- examples


def run(stop: Stop, *pieces: str | bytes) -> tuple[list[str], Finish | None]:
    tokens = [p.encode() if isinstance(p, str) else p for p in pieces]
    branch = BranchText(Pieces(tokens), stop)
    out: list[str] = []
    for token in range(len(tokens)):
        piece, hit = branch.feed(token)
        out.append(piece)
        if hit is not None:
            return out, hit
    return [*out, branch.finish()], None


def test_an_empty_stop_string_means_nothing() -> None:
    assert run(Stop(strings=("",), after_any=("",)), "a", "b") == (["a", "b", ""], None)


@pytest.mark.parametrize(
    ("boundary", "pieces", "kept"),
    [
        ("sentence", ['"Go', '."', " She"], '"Go."'),
        ("sentence", ["Pi is 3", ".", "14", ".", " Yes"], "Pi is 3.14."),
        ("sentence", ["Mr", ".", " and Mrs. J. R. Hill, ", "left.", "\n"], "Mr. and Mrs. J. R. Hill, left."),
        ("sentence", ["Well..", ".", " maybe", "…", " Or", " not"], "Well... maybe…"),
        ("sentence", ['"Wait!"', " ", "he", " said.", " Then"], '"Wait!" he said.'),
        ("sentence", ["\n ", "「はい。", "」", "と"], "\n 「はい。」"),
        ("sentence", ["It was I", ". ", "Who"], "It was I."),
        ("line", ["\n\n", "a line", "\n", "b"], "\n\na line"),
        ("paragraph", ["\n\n", "one\ntwo\n", " \t", "\nthree"], "\n\none\ntwo"),
    ],
)
def test_boundaries(boundary: Literal["line", "sentence", "paragraph"], pieces: list[str], kept: str) -> None:
    out, hit = run(Stop(boundary=boundary), *pieces)
    assert "".join(out) == kept
    assert hit == Finish(FinishReason(boundary), len(kept), None)


@pytest.mark.parametrize("boundary", ["line", "sentence", "paragraph"])
def test_going_on_after_an_end_ends_with_the_next(boundary: Literal["line", "sentence", "paragraph"]) -> None:
    pieces = ["One.", "\n", "\n", "Two.", "\n", "\n", "Three"]
    branch = BranchText(Pieces([piece.encode() for piece in pieces]), Stop(boundary=boundary))
    branch.restart("One.")
    hits = [branch.feed(token)[1] for token in range(1, len(pieces))]
    found = [hit for hit in hits if hit is not None]
    assert found == [Finish(FinishReason(boundary), len("One.\n\nTwo."), None)]


def test_a_healed_full_stop_ends_no_sentence() -> None:
    branch = BranchText(
        Pieces([b". S", b"he left", b".", b" Then"]), Stop(boundary="sentence", strings=(".",))
    )
    branch.restart("", pending=1)
    assert branch.feed(0) == (". S", None)
    assert branch.feed(1) == ("he left", None)
    assert branch.feed(2) == ("", Finish(FinishReason.STOP, 10, "."))


def test_new_rules_release_what_only_the_old_ones_held() -> None:
    branch = BranchText(Pieces([b"Us", b"e", b"\n"]), Stop(strings=("User:",)))
    assert branch.feed(0) == ("", None)
    branch.set_stop(Stop(boundary="line"))
    assert branch.feed(1) == ("Use", None)
    assert branch.feed(2) == ("", Finish(FinishReason.LINE, 3, None))


def test_no_rules_release_all() -> None:
    branch = BranchText(Pieces([b"Us", b"er:", b"x"]), Stop(strings=("User:",)))
    branch.feed(0)
    branch.set_stop(Stop())
    assert [branch.feed(token) for token in (1, 2)] == [("User:", None), ("x", None)]
