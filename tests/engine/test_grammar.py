"""Grammars, JSON schemas and regular expressions let through what they mean, and nothing else.

llama.cpp's own grammars are the measure of GBNF: at every step of a text both allow the same tokens.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from srbwriter.engine.constraints import compile_constraint
from srbwriter.engine.engine import Engine
from srbwriter.engine.gbnf import MAX_DEPTH
from srbwriter.engine.grammar import GrammarConstraint
from srbwriter.engine.limits import CONSTRAINT_CHARS
from srbwriter.engine.model import Model
from srbwriter.engine.native.library import L, library
from srbwriter.engine.types import InvalidRequest, Sampling

STEPS = 8


@pytest.fixture(scope="module")
def model(engine: Engine) -> Model:
    return engine.model


def compiled(model: Model, **notation: str) -> GrammarConstraint:
    constraint = compile_constraint(Sampling(**notation), model)  # pyright: ignore[reportArgumentType]
    assert isinstance(constraint, GrammarConstraint)
    return constraint


def allowed(constraint: GrammarConstraint, n_vocab: int) -> set[int]:
    logits = np.zeros(n_vocab, np.float32)
    assert constraint.mask(logits) == bool((logits == 0).any()) or constraint.exhausted
    return set(np.flatnonzero(logits == 0).tolist())


def writes(
    model: Model, constraint: GrammarConstraint, choose: Callable[[list[int]], int], limit: int
) -> tuple[bytes, bool]:
    """Text that follows the constraint, and whether it came to an end."""
    written = b""
    for _ in range(limit):
        token = choose(sorted(allowed(constraint, model.n_vocab)))
        constraint.accept(token)
        if token in model.eog:
            return written, True
        written += model.pieces.bytes[token]
        if constraint.finished:
            return written, True
    return written, False


class Native:
    """llama.cpp's grammar: accept nothing here that ``allowed`` does not hold, or the process ends.

    Compared are tokens of whole characters: llama.cpp lets bytes through that UTF-8 does not know, and
    nothing that begins with NUL.
    """

    def __init__(self, model: Model, grammar: str) -> None:
        self.lib = library()
        self.n_vocab = model.n_vocab
        self.whole = {token for token, text in enumerate(model.pieces.text) if text and text[0] != "\0"}
        self.whole |= model.eog
        self.pointer = self.lib.llama_sampler_init_grammar(model.vocab, grammar.encode(), b"root")

    def allowed(self) -> set[int]:
        candidates = np.zeros(self.n_vocab, [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
        candidates["id"] = np.arange(self.n_vocab)
        data = ctypes.cast(candidates.ctypes.data, ctypes.POINTER(L.llama_token_data))
        array = L.llama_token_data_array(data, self.n_vocab, -1, False)
        self.lib.llama_sampler_apply(self.pointer, ctypes.byref(array))
        return self.whole & set(np.flatnonzero(candidates["logit"] == 0).tolist())

    def accept(self, token: int) -> None:
        self.lib.llama_sampler_accept(self.pointer, token)

    def close(self) -> None:
        if self.pointer:
            self.lib.llama_sampler_free(self.pointer)


_CLASSES = st.sampled_from(
    ["[a-e]", "[^a-z]", "[é-ü]", "[^\\n]", "[ab]", "[-x]", ".", "[\\x41-\\u005a]", "[\\]\\[]"]
)
_LITERALS = st.sampled_from(['"a"', '"ab"', '"the"', '" "', '"é"', '"\\""', '"\\u00e9n"', '"\\n"', '"abc"'])
_SIGNS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "{1,3}"])


_RULES = ("root", "x", "y-z", "Long1")


def _bodies(names: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Right-hand sides that may begin with the rules ``names`` and refer to all after a bracket.

    Only so can every reference be followed: llama.cpp loops for ever where a rule comes back to itself
    past something that may be empty.
    """
    guarded = st.sampled_from(_RULES).map(lambda name: f'"<" {name} ">"')
    solid = _CLASSES | _LITERALS | guarded  # never empty, so that it may repeat
    atoms = solid | st.just('""') | (st.sampled_from(names) if names else st.nothing())
    repeated = st.tuples(_group(solid), _SIGNS).map("".join) | st.tuples(_CLASSES, _SIGNS).map("".join)
    return st.lists(atoms | _group(atoms) | repeated, min_size=1, max_size=4).map(" ".join)


def _group(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(items, min_size=1, max_size=3).map(lambda found: f"({' | '.join(found)})")


@st.composite
def grammars(draw: st.DrawFn) -> str:
    bodies = [draw(_bodies(_RULES[i + 1 :])) for i in range(len(_RULES))]
    return "\n".join(f'{name} ::= {body} | "." # a rule' for name, body in zip(_RULES, bodies, strict=True))


@given(grammars(), st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_gbnf_means_what_llama_cpp_takes_it_to_mean(
    engine: Engine, grammar: str, data: st.DataObject
) -> None:
    model = engine.model
    native = Native(model, grammar)
    try:
        assert native.pointer
        ours = compiled(model, grammar=grammar)
        for _ in range(STEPS):
            expected = native.allowed()
            found = allowed(ours, model.n_vocab)
            assume(not ours.exhausted)
            assert found & native.whole == expected
            going_on = sorted(expected - model.eog)
            if not going_on:
                break
            token = data.draw(st.sampled_from(going_on))
            native.accept(token)
            ours.accept(token)
            if ours.finished:
                assert native.allowed() <= model.eog
                break
    finally:
        native.close()


@given(st.randoms(use_true_random=False))
@settings(max_examples=5, deadline=None)
def test_a_regular_expression_matches_the_whole_text(engine: Engine, random: Any) -> None:
    pattern = r"(The|A) (fox|bear)s?( and (the|a) (fox|bear)){0,2}[.!]"
    text, ended = writes(engine.model, compiled(engine.model, regex=pattern), random.choice, 100)
    assert ended
    assert re.fullmatch(pattern, text.decode())


@given(st.randoms(use_true_random=False))
@settings(max_examples=5, deadline=None)
def test_json_is_json_of_its_schema(engine: Engine, random: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["fox", "bear"]}, "tame": {"type": "boolean"}},
        "required": ["kind", "tame"],
        "additionalProperties": False,
    }
    text, ended = writes(
        engine.model, compiled(engine.model, json_schema=json.dumps(schema)), random.choice, 400
    )
    assert ended
    value = json.loads(text)
    assert value["kind"] in ("fox", "bear")
    assert isinstance(value["tame"], bool)
    assert len(value) == 2


def test_a_token_can_be_written_out(model: Model) -> None:
    (end,) = model.eog
    name = model.special_pieces[end].decode()
    ids = [token for token in (300, 500)]
    constraint = compiled(model, grammar=f"root ::= <[{ids[0]}]> <[{ids[1]}]>*")
    assert allowed(constraint, model.n_vocab) == {ids[0]}
    assert compiled(model, grammar=f'root ::= "a" {name}').fork()
    with pytest.raises(InvalidRequest, match="not one token"):
        compiled(model, grammar="root ::= <no such token>")


@pytest.mark.parametrize(
    ("notation", "problem"),
    [
        ({"grammar": ""}, "no rule 'root'"),
        ({"grammar": 'x ::= "a"'}, "no rule 'root'"),
        ({"grammar": 'root ::= "a"\n  y'}, "line 2: '::=' is expected after 'y'"),
        ({"grammar": 'root ::= "a"\n= "b"'}, "line 2: a rule name is expected here"),
        ({"grammar": "root ::= a\n"}, "line 1: rule 'a' is not defined"),
        ({"grammar": "\n\nroot ::= [a"}, "line 3: a quote or bracket"),
        ({"grammar": 'root ::= "a'}, "a quote or bracket"),
        ({"grammar": "root ::= (x"}, "')' is missing"),
        ({"grammar": 'root ::= "\\q"'}, "is not an escape"),
        ({"grammar": "root ::= [z-a]"}, "ends before it begins"),
        ({"grammar": "root ::= * x"}, "nothing stands before"),
        ({"grammar": 'root ::= "a"{x}'}, "is expected here"),
        ({"grammar": 'root ::= "a"{3,2}'}, "never met"),
        ({"grammar": 'root ::= "a"{2001}'}, "at most 2000"),
        ({"grammar": "root ::= !<[1]>"}, "cannot be had"),
        ({"grammar": "root ::= <1"}, "a token is written"),
        ({"grammar": "root ::= $"}, "has no meaning here"),
        ({"grammar": "root ::= " + "(" * (MAX_DEPTH + 1)}, "stand within each other"),
        ({"grammar": "#" * (CONSTRAINT_CHARS + 1)}, "characters"),
        ({"regex": "("}, "unclosed group"),
        ({"regex": r"\bword\b"}, r"lookarounds not supported yet; WordUnicode in regex /\bword\b/"),
        ({"grammar": '%llguidance {}\nstart: "a" b'}, 'line 2: unknown name: "b"'),
        ({"regex": "a" * 300_000}, "characters"),
        ({"json_schema": '{"type": "nothing"}'}, "nothing"),
        ({"json_schema": "{"}, "not JSON"),
        ({"json_schema": "[]"}, "a JSON object"),
    ],
)
def test_what_cannot_be_compiled_says_why(model: Model, notation: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        compiled(model, **notation)
    assert caught.value.field in notation
    assert problem in caught.value.problem and "\n" not in caught.value.problem
    assert not re.search(r"%llguidance|in regex\)|\d\(\d", caught.value.problem)
