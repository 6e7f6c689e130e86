"""Loading a model file and asking it what it is. Knows no context and no sequences."""

from __future__ import annotations

import ctypes as C
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from srbwriter.gguf import Damaged, Texts, pairs

from ..model_files import check_file
from ..types import Cancelled, EngineOptions, ModelError, NativeError
from .amx import weights_may_be_repacked
from .library import L, library

log = logging.getLogger("srbwriter.engine")

Progress = Callable[[float], bool | None]
_LOAD_MODES = {(True, False): 1, (True, True): 3, (False, True): 2, (False, False): 0}  # (mmap, mlock)
_KIND, _TOKENS, _NONE = "tokenizer.ggml.model", "tokenizer.ggml.tokens", "no_vocab"


def check_vocabulary(path: Path) -> None:
    """Raise ModelError for a vocabulary over which llama.cpp ends the process: none, or a token twice.

    What cannot be followed here is left to llama.cpp, which refuses such files in words.
    """
    with suppress(OSError, Damaged):
        for key, value in pairs(path):
            if key == _KIND and value == _NONE:
                problem, cure = "it has no vocabulary, so it writes no text", "choose one that generates text"
                raise ModelError(str(path), problem, cure)
            if key == _TOKENS and isinstance(value, Texts):
                tokens = [token for token in value if token]  # empty ones get names of their own
                if len(set(tokens)) < len(tokens):
                    problem = "its vocabulary has a token twice"
                    raise ModelError(str(path), problem, "download or convert it again")
                return


def load(path: Path, options: EngineOptions, on_progress: Progress | None) -> int:
    """Load weights; returns the model pointer.

    ``on_progress`` gets a fraction and cancels the load by returning False. Raises ModelError,
    or Cancelled.
    """
    check_vocabulary(path)
    lib = library()
    params = L.llama_model_default_params()
    params.n_gpu_layers = -1 if options.gpu_layers is None else options.gpu_layers
    params.main_gpu = options.main_gpu
    params.use_extra_bufts = weights_may_be_repacked()
    params.load_mode = _LOAD_MODES[options.mmap, options.mlock]
    split: Any = None
    if options.tensor_split:
        split = (C.c_float * 128)(*options.tensor_split)
        params.tensor_split = split
    cancelled = False
    failure: BaseException | None = None

    @L.llama_progress_callback
    def progress(fraction: float, _: Any) -> bool:
        nonlocal cancelled, failure
        try:
            cancelled = cancelled or (on_progress is not None and on_progress(fraction) is False)
        except BaseException as error:  # must not get lost in C
            cancelled, failure = True, error
        return not cancelled

    params.progress_callback = progress
    pointer = lib.llama_model_load_from_file(os.fsencode(path), params)
    if cancelled:
        if pointer:
            lib.llama_model_free(pointer)
        if failure is not None:
            raise failure
        raise Cancelled(f"loading {path.name} was cancelled")
    if not pointer:
        raise ModelError(
            str(path),
            "llama.cpp could not load it; the log says why",
            "the file may be cut short or made for a newer llama.cpp: download it again or update srbwriter",
        )
    if lib.llama_model_has_encoder(pointer):  # its decoder would end the process: nothing was encoded
        lib.llama_model_free(pointer)
        raise ModelError(
            str(path),
            "this model encodes one text and decodes another; it cannot go on from a prompt",
            "choose a model that generates text",
        )
    return int(pointer)


def _read(function: Any, *args: Any) -> str:
    """Call a C function that fills a buffer and returns the length it needs."""
    size = 1024
    while True:
        buffer = C.create_string_buffer(size)
        wanted = function(*args, buffer, size)
        if wanted < 0:
            return ""
        if wanted < size:
            return buffer.value.decode("utf-8", "replace")
        size = wanted + 1


def metadata(model: int) -> dict[str, str]:
    """Key-value pairs of the file; arrays are given as llama.cpp prints them."""
    lib = library()
    found: dict[str, str] = {}
    for index in range(lib.llama_model_meta_count(model)):
        key = _read(lib.llama_model_meta_key_by_index, model, index)
        found[key] = _read(lib.llama_model_meta_val_str_by_index, model, index)
    return found


def description(model: int) -> str:
    return _read(library().llama_model_desc, model)


def token_piece(vocab: int, token: int, special: bool, buffer: Any) -> bytes:
    """Bytes of one token. ``token`` must be in range: llama.cpp terminates otherwise."""
    lib = library()
    length = lib.llama_token_to_piece(vocab, token, buffer, len(buffer), 0, special)
    if length < 0:
        larger = C.create_string_buffer(-length)
        length = lib.llama_token_to_piece(vocab, token, larger, len(larger), 0, special)
        return bytes(larger.raw[:length])
    return bytes(buffer.raw[:length])


def tokenize(vocab: int, text: bytes, add_special: bool, parse_special: bool) -> list[int]:
    """Token ids of UTF-8 ``text``."""
    lib = library()
    size = len(text) + 8
    while True:
        ids = (C.c_int32 * size)()
        count = lib.llama_tokenize(vocab, text, len(text), ids, size, add_special, parse_special)
        if count >= 0:
            return ids[:count]
        if -count <= size:
            raise NativeError("llama_tokenize", count)
        size = -count


def suppressed_tokens(vocab: int) -> Sequence[int]:
    """Tokens that the model's file says are never to be sampled."""
    count = C.c_int32(0)
    pointer: Any = library().llama_vocab_get_suppress_tokens(vocab, C.byref(count))
    return [int(pointer[i]) for i in range(count.value)] if pointer else ()


def load_adapter(model: int, path: Path) -> int:
    """Load a LoRA adapter for ``model``, which frees it in its own time. Raises ModelError."""
    check_file(path)
    pointer = library().llama_adapter_lora_init(model, os.fsencode(path))
    if not pointer:
        raise ModelError(
            str(path),
            "llama.cpp could not load this LoRA adapter; the log says why",
            "give the adapter that was made for this model, or download it again",
        )
    return C.cast(pointer, C.c_void_p).value or 0
