"""Ways that are followed by their probability, through trees of likely tokens that are made up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.demo import bundled_model
from srbwriter.engine.exploring import Exploration, Exploring, Way, _ends
from srbwriter.engine.types import Request
from tests.fakes.shared_model import load_engine

from .support import PROMPT, SMALL, decoded_rows, finish

END = 0
PIECES = [b"", b"a", b"b", b"ab", b" c", b".", b","]
"""What the tokens write; the first ends a text. Two ways can write the same."""


class Made:
    """A model whose next token depends on how many there were before it."""

    def __init__(self, chances: Sequence[Sequence[float]]) -> None:
        self._chances = chances

    def pieces(self, ids: Sequence[int]) -> list[bytes]:
        return [PIECES[token] for token in ids]

    def answer(self, asked: Request) -> Any:
        row = self._chances[len(asked.prompt) % len(self._chances)]
        likely = sorted(((t, math.log(p)) for t, p in enumerate(row)), key=lambda one: -one[1])
        return SimpleNamespace(next_logprobs=tuple(likely), prompt_ids=tuple(asked.prompt), healed="")


def explore(chances: Sequence[Sequence[float]], wanted: Exploring) -> tuple[list[Way], Exploration]:
    model: Any = Made(chances)
    exploration = Exploration(Request((9,)), wanted, {END})
    while asked := exploration.requests():
        assert len(asked) <= wanted.beams
        exploration.hear([model.answer(one) for one in asked], model)
    return exploration.ways, exploration


def shares(weights: Sequence[float]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


CHANCES = st.lists(
    st.lists(st.floats(0.01, 1), min_size=len(PIECES), max_size=len(PIECES)).map(shares),
    min_size=1,
    max_size=4,
)
WANTED = st.builds(
    Exploring, st.floats(0, 1), st.floats(0.2, 2), st.integers(1, 6), st.integers(1, 5),
    st.sampled_from(["sentence", "punctuation", "never"]),
)  # fmt: skip


@given(CHANCES, WANTED)
@settings(deadline=None)
def test_ways_are_few_different_and_as_likely_as_their_tokens(
    chances: list[list[float]], wanted: Exploring
) -> None:
    ways, exploration = explore(chances, wanted)
    assert len(ways) <= wanted.beams
    assert exploration.tokens <= wanted.depth
    assert len({(way.raw, way.ended) for way in ways}) == len(ways)
    assert sum(math.exp(way.logprob) for way in ways) <= 1 + 1e-9
    assert [way.logprob for way in ways] == sorted((way.logprob for way in ways), reverse=True)
    for way in ways:
        rows = [chances[(1 + place) % len(chances)] for place in range(len(way.ids))]
        own = math.prod(row[token] for row, token in zip(rows, way.ids, strict=True))
        assert way.raw == b"".join(PIECES[token] for token in way.ids)
        assert len(way.ids) <= wanted.depth
        if way.ended and not _ends(way.raw, wanted.ends):
            own *= chances[(1 + len(way.ids)) % len(chances)][END]
        assert way.logprob >= math.log(own) - 1e-9  # more, where others write the same
        for place, (row, token) in enumerate(zip(rows, way.ids, strict=True)):
            least = wanted.cutoff * wanted.multiplier**place
            assert row[token] >= least - 1e-12 or row[token] == max(row)


@given(CHANCES)
@settings(deadline=None)
def test_a_cut_off_of_one_follows_the_likeliest_token(chances: list[list[float]]) -> None:
    ways, _ = explore(chances, Exploring(cutoff=1.0, depth=4, beams=5, ends="never"))
    assert len(ways) <= 1


def test_all_ways_of_a_level_share_a_batch() -> None:
    roomy = replace(SMALL, max_branches=32)  # so that nothing leaves, and comes back or not as the clock says
    with load_engine(bundled_model(), roomy, thread=False) as engine:
        exploration = Exploration(Request(PROMPT), Exploring(0.05, 1.0, 8, 6, "never"), engine.eog)
        levels: list[tuple[int, list[int]]] = []
        while asked := exploration.requests():
            generations = [engine.submit(request) for request in asked]
            with decoded_rows(engine) as rows:
                finish(engine, *generations)
            levels.append((len(asked), list(rows)))
            exploration.hear(generations, engine)
    assert [ways for ways, _ in levels[2:]] == [6] * 6
    assert all(rows == [ways] for ways, rows in levels[1:])
