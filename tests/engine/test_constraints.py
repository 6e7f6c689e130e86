"""Token healing and its index of pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from srbwriter.engine.constraints import PieceIndex, PrefixConstraint
from srbwriter.engine.engine import Engine

SOME_BYTES = st.binary(max_size=4) | st.lists(
    st.sampled_from([b"a", b"b", b"\xff", b"\xfe"]), max_size=4
).map(b"".join)


def mask(constraint: PrefixConstraint, n_vocab: int) -> set[int]:
    logits: NDArray[np.float32] = np.zeros(n_vocab, np.float32)
    assert constraint.mask(logits) == bool((logits == 0).any())
    return set(np.flatnonzero(logits == 0).tolist())


@given(st.lists(SOME_BYTES, min_size=1, max_size=40), SOME_BYTES)
def test_the_index_finds_what_a_search_finds(pieces: list[bytes], prefix: bytes) -> None:
    index = PieceIndex(pieces)
    found = index.beginning_with(prefix).tolist()
    assert sorted(found) == [i for i, piece in enumerate(pieces) if piece.startswith(prefix)]
    assert sorted(index.spelling(prefix).tolist()) == [i for i, piece in enumerate(pieces) if piece == prefix]


@given(st.lists(SOME_BYTES, min_size=1, max_size=40), SOME_BYTES)
def test_mask_and_single_checks_agree(pieces: list[bytes], prefix: bytes) -> None:
    constraint = PrefixConstraint(PieceIndex(pieces), prefix)
    allowed = {i for i in range(len(pieces)) if constraint.allows(i)}
    assert mask(constraint, len(pieces)) == allowed
    if prefix:
        spells = {i for i, p in enumerate(pieces) if p and (p.startswith(prefix) or prefix.startswith(p))}
        assert allowed == spells


@given(st.data())
def test_whatever_is_chosen_spells_the_prefix(engine: Engine, data: st.DataObject) -> None:
    pieces = engine.model.pieces.bytes
    prefix = data.draw(st.text("abcdeE .\né", min_size=1, max_size=8)).encode()
    constraint = PrefixConstraint(PieceIndex(pieces), prefix)
    written = b""
    while not constraint.finished:
        token = data.draw(st.sampled_from(sorted(mask(constraint, len(pieces)))))
        constraint.accept(token)
        written += pieces[token]
        assert written.startswith(prefix) or prefix.startswith(written)
    assert written.startswith(prefix)
    assert len(mask(constraint, len(pieces))) == len(pieces)


def test_forks_go_their_own_way(engine: Engine) -> None:
    model = engine.model
    first = PrefixConstraint(PieceIndex(model.pieces.bytes), b"xyz")
    second = first.fork()
    x, y = model.tokenize("x")[0], model.tokenize("y")[0]
    first.accept(x)
    assert (first.allows(y), second.allows(y)) == (True, False)
    with pytest.raises(ValueError, match="does not spell"):
        second.accept(y)


def test_the_end_of_text_spells_nothing(engine: Engine) -> None:
    constraint = PrefixConstraint(PieceIndex(engine.model.pieces.bytes), b"a")
    assert not any(constraint.allows(token) for token in engine.model.eog)
