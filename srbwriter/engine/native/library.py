"""llama.cpp's C functions, bound twice.

Calls that compute for long go through ``ctypes.CDLL``, which releases the GIL. Short calls go
through ``ctypes.PyDLL``, which keeps it: a busy Python thread then cannot put itself between the
calls of a decode step. A PyDLL call must not wait for anything, so it is only safe once
``llama_synchronize`` has returned, and never for a call that logs from another native thread.
"""

from __future__ import annotations

import ctypes as C
import logging
import re
import threading
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ..types import LibraryError
from .spin import load_variables

_DISTRIBUTION = "llama-cpp-python"
TESTED = ((0, 3, 36), (0, 3, 36))
"""The first and the last version that the tests run with. Structures and rules of llama.cpp change between
versions without notice, and what does not fit ends the process."""


def _check_version() -> None:
    """Raise LibraryError for a llama-cpp-python that is missing, or of an untested version."""
    first, last = (".".join(map(str, one)) for one in TESTED)
    cure = f"pip install 'llama-cpp-python>={first},<={last}'"
    try:
        installed = version(_DISTRIBUTION)
    except PackageNotFoundError:
        raise LibraryError(f"llama-cpp-python is not installed — {cure}") from None
    numbers = tuple(int(part) for part in re.findall(r"\d+", installed)[: len(TESTED[0])])
    if not TESTED[0] <= numbers <= TESTED[1]:
        known = first if first == last else f"{first} to {last}"
        raise LibraryError(
            f"llama-cpp-python {installed} is installed, and srbwriter is tested with {known} — {cure}"
        )


_check_version()
try:
    with load_variables():  # GCC's OpenMP reads its own here
        import llama_cpp.llama_cpp as _bindings
except (ImportError, OSError, RuntimeError) as error:  # its shared library, or what that needs, is not there
    raise LibraryError(f"llama-cpp-python cannot be loaded: {error} — install it again") from error

L: Any = _bindings
"""llama_cpp's own bindings: structs, defaults and rare calls."""

log = logging.getLogger("srbwriter.native")

LONG = frozenset(
    "llama_backend_init llama_model_load_from_file llama_model_free llama_init_from_model llama_free "
    "llama_decode llama_synchronize llama_tokenize llama_memory_clear llama_sampler_init_dry "
    "llama_state_seq_get_size llama_state_seq_get_data llama_state_seq_set_data llama_state_get_size "
    "llama_state_get_data llama_state_set_data llama_adapter_lora_init llama_set_adapters_lora".split()
)
"""Calls that compute for long, or read a file."""

_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}  # enum ggml_log_level
_HARMLESS = (
    "possible training context overflow", "using full-size SWA cache", "fallback to CPU",
    "graph_compute_async failed with error 1\n", "compute status: 1\n", "failed to decode, ret = 2\n",
    "removing memory module entries",
)  # fmt: skip
"""Warnings about what is done on purpose: the cache has more cells than any one branch may use, and
sliding layers keep all of them, so that a branch can go back; a LoRA adapter does not lie in the layout
that its model's weights are in; and a decode was aborted."""
_partial = ""
_last_level = logging.INFO


@C.CFUNCTYPE(None, C.c_int, C.c_char_p, C.c_void_p)
def _to_logging(level: int, text: bytes | None, _: Any) -> None:
    """llama.cpp's log lines, joined when they come in parts (level 5 continues the one before)."""
    global _partial, _last_level
    if level in _LEVELS:
        # The load prints hundreds of INFO lines that say nothing to a writer.
        _last_level = logging.DEBUG if level == 2 else _LEVELS[level]
    _partial += (text or b"").decode("utf-8", "replace")
    if _partial.endswith("\n"):
        harmless = any(words in _partial for words in _HARMLESS)
        log.log(logging.DEBUG if harmless else _last_level, "%s", _partial.rstrip("\n"))
        _partial = ""


@C.CFUNCTYPE(None, C.c_char_p)
def _on_abort(message: bytes | None) -> None:
    """ggml is about to abort(): the last words belong into the log."""
    log.critical("llama.cpp aborted: %s", (message or b"").decode("utf-8", "replace").strip())
    for handler in logging.getLogger().handlers + log.handlers:
        handler.flush()


class Library:
    """Bound functions as attributes, under their C names."""

    def __init__(self) -> None:
        native: C.CDLL = L._lib
        self._long, self._short = native, C.PyDLL(native._name)
        # releases the GIL, for rows that are drawn side by side
        self.llama_sampler_sample_unlocked = _bind(native, "llama_sampler_sample")
        L.llama_log_set(_to_logging, C.c_void_p(0))
        native.ggml_set_abort_callback(_on_abort)
        with load_variables():  # and clang's here, before the first call that computes
            self.llama_backend_init()
            native.ggml_backend_reg_count()
            if hasattr(native, "omp_get_max_threads"):  # of a runtime that the library was linked with
                native.omp_get_max_threads()
        self.strlen = C.cast(C.CDLL(None).strlen, C.c_void_p).value

    def __getattr__(self, name: str) -> Any:
        """Bind a function at its first use. Raises AttributeError where there is none."""
        function = _bind(self._long if name in LONG else self._short, name)
        setattr(self, name, function)
        return function


def _bind(handle: C.CDLL, name: str) -> Any:
    """A function pointer of our own, typed as llama_cpp types it."""
    known = getattr(L, name)
    function = handle[name]  # indexing makes a new function object, attribute access would not
    function.argtypes, function.restype = known.argtypes, known.restype
    return function


_lock = threading.Lock()
_library: Library | None = None


def library() -> Library:
    """The process's one library, bound and initialised at the first call."""
    global _library
    if _library is None:
        with _lock:
            _library = _library or Library()
    return _library
