"""What a branch may write: grammars, JSON schemas, regular expressions, and prefixes that tokens must spell.

All three notations run on llguidance, which cannot end the process: its errors are values, its work per token
has a limit, and its mask of a large vocabulary takes well under a millisecond where llama.cpp's own grammars
take six. Knows no chains and no scheduling; a constraint stays outside the sampler chain.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper, regex_to_lark
from numpy.typing import NDArray

from .gbnf import to_lark
from .types import InvalidRequest, Sampling

MAX_SIZE = 262144  # characters of a JSON schema or regular expression

# Without this, llguidance would only allow the usual tokenization of text that is certain. The model chooses.
_HEADER = '%llguidance {"no_forcing": true}\n'
_WHITESPACE = r"[\x20\x0A\x0D\x09]{1,20}"  # a bound, or a doubtful model pads its JSON for ever
_NEGATIVE_INFINITY = np.float32(-np.inf)
_SPECIAL = b"\xff"  # llguidance's mark of tokens that are not text


class Constraint(Protocol):
    """State of one branch under one rule."""

    @property
    def finished(self) -> bool:
        """Nothing can follow any more."""
        ...

    def mask(self, logits: NDArray[np.float32]) -> bool:
        """Set the logits of forbidden tokens to minus infinity, in place; False when none is left."""
        ...

    def allows(self, token: int) -> bool:
        """Whether this token may come next. Much cheaper than a mask."""
        ...

    def accept(self, token: int) -> None:
        """Advance by a token that :meth:`allows` or :meth:`mask` left; raises ValueError for others."""
        ...

    def fork(self) -> Constraint:
        """An independent copy in the same state."""
        ...


class ConstraintModel(Protocol):
    """What constraints need to know of a model."""

    @property
    def n_vocab(self) -> int: ...
    @property
    def eog(self) -> frozenset[int]: ...
    @property
    def special_pieces(self) -> Sequence[bytes]: ...  # text of every token, control tokens written out
    @property
    def pieces(self) -> _Bytes: ...  # the same with nothing for control tokens
    def token(self, text: str) -> int | None: ...


_Piece: TypeAlias = bytes


class _Bytes(Protocol):
    @property
    def bytes(self) -> Sequence[_Piece]: ...


def compile_constraint(sampling: Sampling, model: ConstraintModel) -> Constraint | None:
    """The constraint that ``sampling`` asks for, at its beginning; fork it for every branch.

    The first one of a model costs up to a second for a large vocabulary. Raises InvalidRequest when there
    is more than one or when it cannot be compiled.
    """
    given = [name for name in _COMPILERS if getattr(sampling, name) is not None]
    if not given:
        return None
    if len(given) > 1:
        raise InvalidRequest(given[1], f"only one constraint is possible, and {given[0]} is given")
    name = given[0]
    text: str = getattr(sampling, name)
    if len(text) > MAX_SIZE:
        raise InvalidRequest(name, f"it has {len(text)} characters, {MAX_SIZE} are possible")
    lark = _HEADER + _COMPILERS[name](text, model)
    matcher = LLMatcher(_tokenizer(model), lark, log_level=0, limits=LLParserLimits(verbose_errors=False))
    if matcher.is_error():
        raise InvalidRequest(name, matcher.get_error().strip())
    return GrammarConstraint(matcher, model.n_vocab, model.eog)


def _from_gbnf(text: str, model: ConstraintModel) -> str:
    return to_lark(text, model.token)


def _from_json_schema(text: str, _: ConstraintModel) -> str:
    try:
        schema: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("json_schema", f"it is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise InvalidRequest("json_schema", "a schema is a JSON object")
    return f"start: %json {json.dumps({'x-guidance': {'whitespace_pattern': _WHITESPACE}} | schema)}\n"


def _from_regex(text: str, _: ConstraintModel) -> str:
    if not text:
        return 'start: ""\n'
    return f"start: /{regex_to_lark(text)}/\n"


_COMPILERS = {"grammar": _from_gbnf, "json_schema": _from_json_schema, "regex": _from_regex}


class GrammarConstraint:
    """A state of llguidance's matcher. Running into its limits ends the text like a dead end."""

    def __init__(self, matcher: LLMatcher, n_vocab: int, eog: frozenset[int]) -> None:
        self._matcher = matcher
        self._n_vocab = n_vocab
        self._eog = eog

    @property
    def finished(self) -> bool:
        return self._matcher.is_stopped()

    def mask(self, logits: NDArray[np.float32]) -> bool:
        if self._matcher.is_error():
            return False
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if self._matcher.is_error():
            return False
        allowed = np.unpackbits(bits, count=self._n_vocab, bitorder="little")
        logits[allowed == 0] = _NEGATIVE_INFINITY
        return bool(logits.max() > _NEGATIVE_INFINITY)

    def allows(self, token: int) -> bool:
        if token in self._eog:
            return self._matcher.is_accepting()
        return 0 <= token < self._n_vocab and self._matcher.validate_tokens([token]) == 1

    def accept(self, token: int) -> None:
        if not self.allows(token):
            raise ValueError(f"token {token} breaks the grammar")
        if token not in self._eog:
            self._matcher.consume_token(token)

    def fork(self) -> GrammarConstraint:
        return GrammarConstraint(self._matcher.deep_copy(), self._n_vocab, self._eog)


class _Vocabulary:
    """A vocabulary as llguidance wants it. Without forcing it never tokenizes."""

    bos_token_id = None

    def __init__(self, model: ConstraintModel) -> None:
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


_tokenizers: WeakKeyDictionary[ConstraintModel, LLTokenizer] = WeakKeyDictionary()


def _tokenizer(model: ConstraintModel) -> LLTokenizer:
    """The vocabulary as a trie; built once per model."""
    if model not in _tokenizers:
        vocabulary = _Vocabulary(model)
        wrapper = TokenizerWrapper(vocabulary)
        _tokenizers[model] = LLTokenizer(wrapper, len(vocabulary.tokens), vocabulary.ends)
    return _tokenizers[model]


class PieceIndex:
    """The pieces of a vocabulary in byte order, to find those that begin alike. Built once per model."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces
        self._order = np.array(sorted(range(len(pieces)), key=pieces.__getitem__), dtype=np.int64)
        self._sorted = [pieces[i] for i in self._order]

    def beginning_with(self, prefix: bytes) -> NDArray[np.int64]:
        """Ids of the tokens whose bytes begin with ``prefix``."""
        end = _successor(prefix)
        last = bisect_left(self._sorted, end) if end else len(self._sorted)
        return self._order[bisect_left(self._sorted, prefix) : last]

    def spelling(self, piece: bytes) -> NDArray[np.int64]:
        """Ids of the tokens whose bytes are exactly ``piece``."""
        first = bisect_left(self._sorted, piece)
        last = first
        while last < len(self._sorted) and self._sorted[last] == piece:
            last += 1
        return self._order[first:last]


def _successor(prefix: bytes) -> bytes:
    """The first byte string after all that begin with ``prefix``; empty when there is none."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else b""


class PrefixConstraint:
    """The next tokens spell ``prefix`` and may go beyond it; then everything is allowed.

    This is token healing: the end of what someone typed is given back to the model, which completes it with
    the token it would have written there itself.
    """

    def __init__(self, index: PieceIndex, prefix: bytes) -> None:
        self._index = index
        self._rest = prefix

    @property
    def finished(self) -> bool:
        """The prefix stands there; the constraint has nothing more to say."""
        return not self._rest

    def mask(self, logits: NDArray[np.float32]) -> bool:
        if self._rest:
            shorter = (self._index.spelling(self._rest[:k]) for k in range(1, len(self._rest)))
            allowed = np.concatenate([self._index.beginning_with(self._rest), *shorter])
            kept = logits[allowed]
            logits.fill(_NEGATIVE_INFINITY)
            logits[allowed] = kept
        return bool(logits.max() > _NEGATIVE_INFINITY)

    def allows(self, token: int) -> bool:
        if not self._rest:
            return True
        piece = self._index.pieces[token]
        return bool(piece) and (piece.startswith(self._rest) or self._rest.startswith(piece))

    def accept(self, token: int) -> None:
        if not self.allows(token):
            raise ValueError(f"token {token} does not spell {self._rest!r}")
        if self._rest:
            self._rest = self._rest[len(self._index.pieces[token]) :]

    def fork(self) -> PrefixConstraint:
        return PrefixConstraint(self._index, self._rest)
