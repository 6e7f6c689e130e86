"""Grammars, JSON schemas and regular expressions as constraints.

All three notations run on llguidance and not on llama.cpp's grammars. Those end the process when a token does
not fit, loop for ever where a rule comes back to itself past something empty (``root ::= x root "a" | "c"``
with ``x ::= "b"?``), write their errors to the terminal and have no limit on their work. At a vocabulary of
128k tokens a mask costs 0.1 ms, or 5 ms for a recursive GBNF grammar (as in llama.cpp), and a check of one
token 10 µs.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper, regex_to_lark
from numpy.typing import NDArray

from .gbnf import to_lark
from .parameters import BY_NAME, read_schema
from .types import InvalidRequest

if TYPE_CHECKING:
    from .model import Model

# Without this, llguidance would only allow the usual tokenization of text that is certain. The model chooses.
_HEADER = '%llguidance {"no_forcing": true}\n'
# A space, or up to two line ends and an indent, as in llama.cpp: a doubtful model pads its JSON for ever.
_WHITESPACE = r"\x20|\x0A{1,2}[\x20\x09]{0,20}"
# All branches wait while one looks at its grammar. An ambiguous one makes the rows of the parser longer with
# each token: a look takes tens of milliseconds at 500 items, and seconds at llguidance's own limit of 2,000.
# Schemas are not ambiguous, but their optional keys take four items each.
# Its limit of 50,000 items a step stops rules as plain as `("." | x)+`; a million take some 40 ms.
_MOST_IN_ROW = {"grammar": 500, "json_schema": 2000, "regex": 500}
_MOST_ITEMS = 1_000_000
_PLACE = re.compile(
    r"^(?:at )?(\d+)\(\d+\): (?:failed to compile JSON schema: |invalid regex .*\(in regex\): )?", re.DOTALL
)
_SPECIAL = b"\xff"  # llguidance's mark of tokens that are not text


def compile_grammar(name: str, text: str, model: Model) -> GrammarConstraint:
    """``text`` in the notation that the field ``name`` of Sampling holds. Raises InvalidRequest."""
    BY_NAME[name].check(text)
    error = ""
    for form in _COMPILERS[name](text, model):
        limits = LLParserLimits(
            max_items_in_row=_MOST_IN_ROW[name], step_max_items=_MOST_ITEMS, verbose_errors=False
        )
        matcher = LLMatcher(_tokenizer(model), _HEADER + form, log_level=0, limits=limits)
        made = GrammarConstraint(matcher, model.n_vocab, model.eog)
        if not made.exhausted:
            return made
        error = matcher.get_error().strip()
    # In one line, without what was made of it: only Lark is as the client wrote it.
    words = _PLACE.sub(r"line \1: " if name == "grammar" else "", re.split(r"\n +\d+ \|", error)[0])
    raise InvalidRequest(name, " ".join(words.rpartition("error: ")[2].split()))


def _from_gbnf(text: str, model: Model) -> list[str]:
    if text.startswith("%llguidance"):  # Lark, as llama.cpp takes it too; our own first line replaces this
        return [text.partition("\n")[2]]
    return to_lark(text, model.token)


def _from_json_schema(text: str, _: Model) -> list[str]:
    schema = read_schema(text)
    return [f"start: %json {json.dumps({'x-guidance': {'whitespace_pattern': _WHITESPACE}} | schema)}\n"]


def _from_regex(text: str, _: Model) -> list[str]:
    return [f"start: /{regex_to_lark(text)}/\n" if text else 'start: ""\n']


_COMPILERS = {"grammar": _from_gbnf, "json_schema": _from_json_schema, "regex": _from_regex}


class GrammarConstraint:
    """A state of llguidance's matcher."""

    def __init__(self, matcher: LLMatcher, n_vocab: int, eog: frozenset[int]) -> None:
        self._matcher = matcher
        self._n_vocab = n_vocab
        self._eog = eog
        self._allowed: int | None = None  # the token that was last found to be allowed here

    @property
    def finished(self) -> bool:
        return self._matcher.is_stopped() and not self.exhausted

    @property
    def exhausted(self) -> bool:
        """Whether it ran into llguidance's limits."""
        return self._matcher.is_error()

    def mask(self, logits: NDArray[np.float32]) -> bool:
        if self.exhausted:
            return False
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if self.exhausted:
            return False
        logits[np.unpackbits(bits, count=logits.size, bitorder="little") == 0] = -np.inf
        return bool(logits.max() > -np.inf)

    def allows(self, token: int) -> bool:
        if token in self._eog:
            return self._matcher.is_accepting()
        if token == self._allowed:
            return True
        allowed = 0 <= token < self._n_vocab and self._matcher.validate_tokens([token]) == 1
        if allowed:
            self._allowed = token
        return allowed

    def accept(self, token: int) -> None:
        if token not in self._eog:
            self._matcher.consume_token(token)
            self._allowed = None

    def trouble(self) -> str:
        if self.exhausted:
            return "it is too large or too intricate to be followed"
        return "" if self._matcher.is_accepting() else "no token of this model can go on from here"

    def fork(self) -> GrammarConstraint:
        return GrammarConstraint(self._matcher.deep_copy(), self._n_vocab, self._eog)


class _Vocabulary:
    """A vocabulary in llguidance's form. Without forced tokens llguidance never tokenizes."""

    bos_token_id = None

    def __init__(self, model: Model) -> None:
        pieces = model.pieces.bytes
        special = model.special_pieces
        # A control token writes nothing; an empty piece of text could never be chosen.
        self.tokens = [piece or _SPECIAL + special[i] for i, piece in enumerate(pieces)]
        self.special_token_ids = [i for i, piece in enumerate(pieces) if not piece]
        self.ends = sorted(model.eog) or [len(self.tokens)]
        if not model.eog:
            self.tokens.append(_SPECIAL + b"<end>")
            self.special_token_ids.append(self.ends[0])
        self.eos_token_id = self.ends[0]

    def __call__(self, text: bytes) -> list[int]:
        return []


_tokenizers: WeakKeyDictionary[Model, LLTokenizer] = WeakKeyDictionary()


def _tokenizer(model: Model) -> LLTokenizer:
    """The vocabulary as a trie; built once per model."""
    if model not in _tokenizers:
        vocabulary = _Vocabulary(model)
        wrapper = TokenizerWrapper(vocabulary)
        _tokenizers[model] = LLTokenizer(wrapper, len(vocabulary.tokens), vocabulary.ends)
    return _tokenizers[model]
