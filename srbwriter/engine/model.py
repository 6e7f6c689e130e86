"""A loaded model: weights, vocabulary, metadata. Knows no context and no branches."""

from __future__ import annotations

import ctypes as C
import logging
import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from .constraints import PieceIndex
from .limits import check_ids
from .native import weights
from .native.context import recurrent
from .native.library import library
from .native.weights import Progress
from .text import Pieces, fingerprint
from .types import EngineClosed, EngineOptions, ModelInfo

log = logging.getLogger(__name__)

_SLICE = (
    16_384  # pieces joined in one call: a million take 50 ms, in which no other thread has the interpreter
)


class Model:
    """Weights and vocabulary of one GGUF file. Reading methods may be called from any thread."""

    def __init__(self, path: Path, options: EngineOptions, on_progress: Progress | None = None) -> None:
        self.path = path
        self.pointer = weights.load(path, options, on_progress)
        self.in_use = _Use()
        lib = library()
        self._lib = lib
        self.vocab: int = lib.llama_model_get_vocab(self.pointer)
        self.n_vocab = int(lib.llama_vocab_n_tokens(self.vocab))
        self.n_ctx_train = int(lib.llama_model_n_ctx_train(self.pointer))
        self.n_layer = int(lib.llama_model_n_layer(self.pointer))
        self.n_embd = int(lib.llama_model_n_embd(self.pointer))
        self.n_params = int(lib.llama_model_n_params(self.pointer))
        self.size = int(lib.llama_model_size(self.pointer))
        self.recurrent, self.hybrid = recurrent(self.pointer)
        self.metadata = weights.metadata(self.pointer)
        self.description = weights.description(self.pointer).replace(" ?B", "")  # a size without a name
        self.add_bos = bool(lib.llama_vocab_get_add_bos(self.vocab))
        self.add_eos = bool(lib.llama_vocab_get_add_eos(self.vocab))
        self.bos = _known(lib.llama_vocab_bos(self.vocab))
        self.eos = _known(lib.llama_vocab_eos(self.vocab))
        self.eog = frozenset(t for t in range(self.n_vocab) if lib.llama_vocab_is_eog(self.vocab, t))
        self.eog_ids = np.array(sorted(self.eog), np.int64)
        self.suppress = tuple(weights.suppressed_tokens(self.vocab))
        marks = (lib.llama_vocab_fim_pre, lib.llama_vocab_fim_suf, lib.llama_vocab_fim_mid)
        pre, suf, mid = (int(mark(self.vocab)) for mark in marks)
        self.fim = (pre, suf, mid) if min(pre, suf, mid) >= 0 else None
        template = lib.llama_model_chat_template(self.pointer, None)
        self.chat_template = template.decode("utf-8", "replace") if template else None
        self.architecture = self.metadata.get("general.architecture", "")
        self.name = self.metadata.get("general.name") or path.stem
        self.partial_removal = not (self.recurrent or self.hybrid)
        """Whether the tail of a sequence can be dropped; only attention memories can."""
        self.pieces = Pieces(self._all_pieces(special=False))
        self.special_pieces = self._all_pieces(special=True)  # control tokens written out
        self.fingerprint = fingerprint(self.special_pieces)
        self.adapters: list[tuple[int, float]] = []  # loaded LoRA adapters, and how much of each

    def info(self, n_ctx: int, device: str = "") -> ModelInfo:
        """Return the ModelInfo of the model, run in windows of ``n_ctx`` tokens on ``device``."""
        return ModelInfo(
            path=str(self.path), name=self.name, description=self.description, architecture=self.architecture,
            n_params=self.n_params, size=self.size, n_vocab=self.n_vocab, n_ctx_train=self.n_ctx_train,
            n_ctx=n_ctx, n_embd=self.n_embd, vocab=self.fingerprint, chat_template=self.chat_template,
            metadata=self.metadata, device=device,
        )  # fmt: skip

    def tokenize(self, text: str, add_bos: bool = False, parse_special: bool = False) -> list[int]:
        """Return the token ids of ``text``; ``add_bos`` puts the BOS token first if the model has one.

        Raises EngineClosed once the model is freed.
        """
        data = text.encode("utf-8", "replace")
        with self.in_use:
            ids = weights.tokenize(self.vocab, data, False, parse_special) if data else []
        if add_bos and self.add_bos and self.bos is not None and ids[:1] != [self.bos]:
            ids.insert(0, self.bos)
        return ids

    def tokenize_continuation(self, text: str) -> list[int]:
        """Return the token ids of ``text`` after other text.

        SentencePiece vocabularies put a space before any text; a line break in front takes the space, and its
        tokens are removed again.
        """
        if not self._adds_space:
            return self.tokenize(text)
        lead = self.tokenize("\n")
        ids = self.tokenize("\n" + text)
        return ids[len(lead) :] if ids[: len(lead)] == lead else self.tokenize(text)

    @cached_property
    def _adds_space(self) -> bool:
        ids = self.tokenize("a")
        return b"".join(self.pieces.bytes[t] for t in ids).startswith(b" ")

    @cached_property
    def piece_index(self) -> PieceIndex:
        """Finds tokens by how they begin. Takes a tenth of a second for a large vocabulary, once."""
        return PieceIndex(self.pieces.bytes)

    def check_ids(self, ids: Iterable[int]) -> None:
        """Raise InvalidRequest for an id that is not in the vocabulary."""
        check_ids("prompt", ids, self.n_vocab)

    def token_bytes(self, token: int) -> bytes:
        self.check_ids((token,))
        return self.special_pieces[token]

    def token_pieces(self, ids: Sequence[int]) -> list[bytes]:
        """Return what each token adds to a text. Raises InvalidRequest."""
        self.check_ids(ids)
        return [self.pieces.bytes[token] for token in ids]

    def special_text(self, token: int | None) -> str:
        """How a control token is written out; nothing for one the vocabulary lacks."""
        return "" if token is None else self.special_pieces[token].decode("utf-8", "replace")

    def detokenize(self, ids: Sequence[int], special: bool = False) -> str:
        self.check_ids(ids)
        table = self.special_pieces if special else self.pieces.bytes
        parts = (b"".join([table[t] for t in ids[k : k + _SLICE]]) for k in range(0, len(ids), _SLICE))
        return b"".join(parts).decode("utf-8", "replace")

    def token(self, text: str) -> int | None:
        """Id of the one token that ``text`` is (special tokens included), or None."""
        ids = self.tokenize(text, parse_special=True)
        return ids[0] if len(ids) == 1 else None

    def close(self) -> None:
        """Free the weights once no thread reads the vocabulary. Closing twice does nothing."""
        self.in_use.end()
        if self.pointer:
            self._lib.llama_model_free(self.pointer)
            self.pointer = 0

    def _all_pieces(self, special: bool) -> list[bytes]:
        buffer = C.create_string_buffer(256)
        return [weights.token_piece(self.vocab, token, special, buffer) for token in range(self.n_vocab)]


class _Use:
    """Lets threads read while the model is there; its end waits for those that still do."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._over = False

    def __enter__(self) -> None:
        with self._changed:
            if self._over:
                raise EngineClosed("the engine was closed")
            self._readers += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._readers -= 1
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._over = True
            self._changed.wait_for(lambda: self._readers == 0)


def _known(token: int) -> int | None:
    return token if token >= 0 else None
