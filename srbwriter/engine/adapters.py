"""LoRA adapters and control vectors: their files, looked at before llama.cpp sees them, and who uses which.

What an adapter changes is every value in the cache, so each set of adapters has a root of the token tree of
its own, and a step is decoded with one set only.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from srbwriter.gguf import Damaged, Scalar, Tensor, contents
from srbwriter.paths import expanded

from .disk import state_key
from .model import Model
from .native.adapters import load_adapter
from .parameters import is_number
from .tree import SHARED, Namespace
from .types import EngineOptions, InvalidRequest, ModelError

log = logging.getLogger(__name__)

AdapterSet: TypeAlias = "tuple[tuple[int, float], ...]"
"""Adapters by number and how much of each, in order of their numbers; none of them 0."""

MOST_ADAPTERS = 64
MOST_SETS = 256
MOST_SCALE = 1000.0
_F32 = 0  # enum ggml_type
_UNSAFE = {24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64"}
_AGAIN = "download it again"
_MADE_FOR = "give the adapter that was made for this model"

T = TypeVar("T")


class Adapter(NamedTuple):
    """One LoRA adapter that is loaded; ``scale`` is how much of it a request gets that names none."""

    id: int
    path: str
    scale: float


# ---- LoRA files


def check_adapter(path: Path, architecture: str, base: Mapping[str, tuple[int, ...]]) -> None:
    """Raises ModelError for a file that is no LoRA adapter for such a model, or would end the process.

    ``base`` are shapes of the model's tensors, as far as they are known.
    """
    values, tensors = _contents(path, "this LoRA adapter")

    def text(key: str) -> str:
        value = values.get(key, "")
        return value if isinstance(value, str) else ""

    if text("general.type") != "adapter" or text("adapter.type") != "lora":
        raise ModelError(str(path), "this is no LoRA adapter in GGUF format", "convert it, or name another")
    if text("general.architecture") != architecture:
        made_for = text("general.architecture") or "unknown"
        raise ModelError(
            str(path),
            f"this LoRA adapter is made for {made_for} models, and the model is {architecture}",
            _MADE_FOR,
        )
    if type(values.get("adapter.lora.alpha", 0.0)) is not float:
        raise ModelError(str(path), "its adapter.lora.alpha is no number", _AGAIN)
    if "adapter.alora.invocation_tokens" in values:
        raise ModelError(str(path), "an aLoRA acts from certain words on, which is not done here", _MADE_FOR)
    halves = {tensor.name: tensor for tensor in tensors}
    for tensor in tensors:
        _check_half(path, tensor, halves, base)


def _check_half(
    path: Path, tensor: Tensor, halves: Mapping[str, Tensor], base: Mapping[str, tuple[int, ...]]
) -> None:
    if tensor.name.endswith("_norm.weight"):
        return  # llama.cpp leaves these out too
    name, dot, half = tensor.name.rpartition(".lora_")
    if not dot or half not in ("a", "b"):
        raise ModelError(str(path), f"its tensor {tensor.name} is neither half of a LoRA", _MADE_FOR)
    if tensor.kind in _UNSAFE:
        kind = _UNSAFE[tensor.kind]
        raise ModelError(str(path), f"tensor {tensor.name} is of type {kind}", "convert it again")
    other = halves.get(f"{name}.lora_{'b' if half == 'a' else 'a'}")
    if other is None:
        raise ModelError(str(path), f"tensor {tensor.name} has no other half", _AGAIN)
    a, b = (tensor, other) if half == "a" else (other, tensor)
    whole = base.get(name)
    if base and whole is None:
        raise ModelError(str(path), f"the model has no tensor {name}", _MADE_FOR)
    fits = len(a.shape) == len(b.shape) == (2 if whole is None else len(_trimmed(whole)))
    fits = fits and min(a.shape + b.shape) > 0
    if name == "token_embd.weight":  # whose halves llama.cpp takes the other way round
        a, b = b, a
        fits = fits and (whole is None or (whole[0], whole[1]) == (a.shape[1], b.shape[1]))
        fits = fits and a.shape[0] == b.shape[0]
    else:
        fits = fits and (whole is None or (whole[0], whole[1]) == (a.shape[0], b.shape[1]))
        fits = fits and a.shape[1] == b.shape[0] and a.shape[2:] == b.shape[2:]
        fits = fits and (whole is None or a.shape[2:] == _trimmed(whole)[2:])
    if not fits:
        raise ModelError(str(path), f"tensor {tensor.name} has not the shape that the model needs", _MADE_FOR)


def _trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without the ones at the end, but two at least."""
    while len(shape) > 2 and shape[-1] == 1:
        shape = shape[:-1]
    return shape


def _contents(path: Path, what: str) -> tuple[dict[str, Scalar], list[Tensor]]:
    """Raises ModelError."""
    try:
        with path.open("rb") as file:
            return contents(file, path.stat().st_size)
    except OSError as error:
        raise ModelError(str(path), f"{what} cannot be read ({error.strerror})", "check the path") from error
    except Damaged as error:
        raise ModelError(str(path), f"{what}: {error.problem}", error.cure) from None


def _base_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of a model's tensors; none are known of a model in several files."""
    values, tensors = _contents(path, "the model")
    whole = values.get("split.count", 0) in (0, 1)
    return {tensor.name: tensor.shape for tensor in tensors} if whole else {}


# ---- control vectors


def control_vector(files: Sequence[tuple[str, float]], width: int, layers: int) -> NDArray[np.float32] | None:
    """The sum of scaled control vectors, a row for each layer from the first on; None without files.

    ``width`` and ``layers`` are the model's. Raises ModelError. The format is that of llama.cpp's
    ``cvector-generator``: tensors ``direction.N`` of 32-bit numbers, N from 1.
    """
    if not files:
        return None
    total = np.zeros((max(layers, 1), width), np.float32)
    for name, scale in files:
        path = expanded(name)
        _, tensors = _contents(path, "this control vector")
        if not tensors:
            raise ModelError(str(path), "this is no control vector: it is empty", "name another file")
        for tensor in tensors:
            row = _direction(path, tensor, width, layers)
            total[row] += np.float32(scale) * _numbers(path, tensor)
    if not np.isfinite(total).all():
        raise ModelError(files[0][0], "the control vector is no number somewhere", "make it again")
    return total


def _direction(path: Path, tensor: Tensor, width: int, layers: int) -> int:
    word, _, number = tensor.name.partition(".")
    if word != "direction" or not number.isdecimal() or tensor.kind != _F32:
        raise ModelError(
            str(path), f"this is no control vector: it holds a tensor {tensor.name}", "name another file"
        )
    if len(tensor.shape) != 1 or tensor.size != width or not 1 <= int(number) < max(layers, 2):
        raise ModelError(
            str(path),
            f"{tensor.name} of {tensor.size} numbers does not fit a model of {layers} layers of {width}",
            "give the control vector that was made for this model",
        )
    return int(number) - 1


def _numbers(path: Path, tensor: Tensor) -> NDArray[np.float32]:
    found = np.fromfile(path, "<f4", tensor.size, offset=tensor.offset)
    if found.size != tensor.size:
        raise ModelError(str(path), "this control vector is cut short", _AGAIN)
    return found.astype(np.float32)


def layer_range(options: EngineOptions, layers: int) -> tuple[int, int]:
    """The first and the last layer that a control vector acts on. Raises InvalidRequest."""
    first, last = options.control_vector_layers or (1, layers)
    if not 1 <= first <= last <= layers:
        raise InvalidRequest(
            "control_vector_layers", f"{first} to {last} are not layers of this model, which has {layers}"
        )
    return first, last


def key_of(options: EngineOptions) -> tuple[str, ...]:
    """Names what a context's values depend on beside the model, for caches that outlive the program."""
    parts = [(state_key(expanded(name)), scale) for name, scale in options.control_vectors]
    return (repr((parts, options.control_vector_layers)),) if parts else ()


# ---- sets of adapters


class Adapters:
    """The adapters of one model. Made and read from any thread; the root of a set never changes."""

    def __init__(self, model: Model, files: Sequence[tuple[str, float]]) -> None:
        """Raises ModelError for a file that cannot be used, InvalidRequest for a scale that cannot be."""
        if len(files) > MOST_ADAPTERS:
            raise InvalidRequest("lora", f"{len(files)} adapters, {MOST_ADAPTERS} are possible")
        self._pointers: list[int] = []
        self._paths = [str(expanded(name)) for name, _ in files]
        base = _base_shapes(model.path) if files else {}
        for index, (path, (_, scale)) in enumerate(zip(self._paths, files, strict=True)):
            _check_scale(index, scale)
            check_adapter(Path(path), model.architecture, base)
            self._pointers.append(load_adapter(model.pointer, Path(path)))
        self._defaults = _tidy(dict(enumerate(scale for _, scale in files)))
        self._lock = threading.Lock()
        self._roots: dict[AdapterSet, int] = {self._defaults: SHARED.root}
        self._sets: dict[int, AdapterSet] = {SHARED.root: self._defaults}

    def __len__(self) -> int:
        return len(self._pointers)

    def list(self) -> list[Adapter]:
        scales = dict(self._defaults)
        return [Adapter(k, path, scales.get(k, 0.0)) for k, path in enumerate(self._paths)]

    @property
    def defaults(self) -> AdapterSet:
        """What a request gets that does not say."""
        return self._defaults

    @defaults.setter
    def defaults(self, scales: Iterable[tuple[int, float]]) -> None:
        """Adapters that are not named are not used any more. Raises InvalidRequest."""
        self._defaults = self.resolve(tuple(scales))

    def resolve(self, asked: Iterable[tuple[int, float]] | None) -> AdapterSet:
        """The set that a request asks for; None leaves it to the engine. Raises InvalidRequest."""
        if asked is None:
            return self._defaults
        chosen: dict[int, float] = {}
        for entry in asked:
            if not isinstance(entry, tuple) or len(entry) != 2:  # pyright: ignore[reportUnnecessaryIsInstance, reportUnnecessaryComparison]
                raise InvalidRequest("lora", "expected pairs of an adapter's number and its scale")
            number, scale = entry
            if type(number) is not int or not 0 <= number < len(self):
                have = f"there are 0 … {len(self) - 1}" if len(self) else "load one with --lora"
                raise InvalidRequest("lora", f"there is no adapter {number!r}: {have}")
            _check_scale(number, scale)
            chosen[number] = float(scale)
        return _tidy(chosen)

    def root(self, chosen: AdapterSet, own: int = SHARED.root) -> int:
        """Return the root of the token tree for what is evaluated with a set.

        ``own`` is for a request that shares nothing with others, and :meth:`forget` for its end.
        """
        if own != SHARED.root:
            self._sets[own] = chosen
            return own
        with self._lock:
            root = self._roots.setdefault(chosen, -len(self._roots))
            self._sets[root] = chosen
        return root

    def shared(self, chosen: AdapterSet) -> bool:
        """Whether requests with this set can share what is evaluated; only so many sets are remembered."""
        return chosen in self._roots or len(self._roots) < MOST_SETS

    def of(self, root: int) -> AdapterSet:
        """Return the set that what lies below a root is evaluated with."""
        return self._sets.get(root, self._sets[SHARED.root])

    def names(self, namespace: Namespace) -> str:
        """Names what a namespace is evaluated with, by the contents of files, for caches that outlive us."""
        parts = sorted((self._keys[number], scale) for number, scale in self.of(namespace.root))
        return repr(parts) if parts else ""

    @cached_property
    def _keys(self) -> Sequence[str]:
        return [state_key(Path(path)) for path in self._paths]

    def forget(self, root: int) -> None:
        """Nobody uses a request's own root any more. From any thread."""
        if root > SHARED.root:
            self._sets.pop(root, None)

    def pointers(self, chosen: AdapterSet) -> list[tuple[int, float]]:
        """A set as native contexts take it."""
        return [(self._pointers[number], scale) for number, scale in chosen]


def _tidy(scales: Mapping[int, float]) -> AdapterSet:
    return tuple(sorted((number, float(scale)) for number, scale in scales.items() if scale))


def _check_scale(number: int, scale: object) -> None:
    if not is_number(scale) or math.fabs(scale) > MOST_SCALE:
        raise InvalidRequest(
            "lora", f"the scale of adapter {number} is not in -{MOST_SCALE:g} … {MOST_SCALE:g}: {scale!r}"
        )


# ---- one set at a time


QUANTUM = 0.05
"""Seconds for which a set stays while others wait: changing it makes llama.cpp plan its memory anew."""


class Turns:
    """Which set of adapters the next step is decoded with. Belongs to the engine's thread.

    ``use`` hands a set to the native context; ``clock`` gives seconds.
    """

    def __init__(
        self, adapters: Adapters, use: Callable[[Sequence[tuple[int, float]]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._adapters, self._use, self._clock = adapters, use, clock
        self._now: AdapterSet | None = None
        self._since = -math.inf

    def pick(self, roots: Collection[int]) -> AdapterSet:
        """Choose the set for a step in which something of ``roots`` waits, and let the context use it."""
        waiting = sorted({self._adapters.of(root) for root in roots})
        if not waiting:
            return self.set(self._adapters.of(SHARED.root))
        now = self._now
        if now in waiting and (len(waiting) == 1 or self._clock() - self._since < QUANTUM):
            return now
        later = [one for one in waiting if now is not None and one > now]
        return self.set((later or waiting)[0])

    def set(self, chosen: AdapterSet) -> AdapterSet:
        """Let the context use a set from now on."""
        if chosen != self._now:
            self._use(self._adapters.pointers(chosen))
            self._now = chosen
        self._since = self._clock()
        return chosen

    def of_set(self, tracks: Iterable[T], root: Callable[[T], int], chosen: AdapterSet) -> list[T]:
        """Those of ``tracks`` that are evaluated with a set."""
        return [track for track in tracks if self._adapters.of(root(track)) == chosen]
