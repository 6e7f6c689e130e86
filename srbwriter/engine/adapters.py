"""The loaded LoRA adapters and control vectors, and the requests that use them.

An adapter changes every value in the cache, so each set of adapters has a root of the token tree of its own,
and a step is decoded with one set only.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from srbwriter.paths import expanded

from .disk import state_key
from .model_files import base_shapes, check_adapter, read_directions
from .parameters import is_number
from .tree import SHARED, Demand, Namespace
from .types import EngineOptions, InvalidRequest, ModelError

if TYPE_CHECKING:
    from .model import Model

log = logging.getLogger(__name__)

AdapterSet: TypeAlias = "tuple[tuple[int, float], ...]"
"""Adapters by number and how much of each, in order of their numbers; none of them 0."""

MOST_ADAPTERS = 64
MOST_SETS = 256
NO_ADAPTERS = "this server was started without LoRA adapters; give it some with --lora"
MOST_SCALE = 1000.0

D = TypeVar("D", bound=Demand)


class Adapter(NamedTuple):
    """One LoRA adapter that is loaded; ``scale`` is how much of it a request gets that names none."""

    id: int
    path: str
    scale: float


# ---- control vectors


ControlVector: TypeAlias = "tuple[NDArray[np.float32], int, int]"
"""A row for each layer from the first on, and the numbers of the first and the last that it acts on."""


def control_vector(options: EngineOptions, model: Model) -> ControlVector | None:
    """Return the sum of the scaled control vectors; None without files. Raises ModelError, InvalidRequest."""
    width, layers = model.n_embd, model.n_layer
    first, last = options.control_vector_layers or (1, layers)
    if not 1 <= first <= last <= layers:
        raise InvalidRequest(
            "control_vector_layers", f"{first} to {last} are not layers of this model, which has {layers}"
        )
    if not options.control_vectors:
        return None
    total = np.zeros((max(layers, 1), width), np.float32)
    for name, scale in options.control_vectors:
        path = expanded(name)
        for layer, tensor in read_directions(path):
            if len(tensor.shape) != 1 or tensor.size != width or not 1 <= layer < max(layers, 2):
                raise ModelError(
                    str(path),
                    f"{tensor.name} of {tensor.size} numbers does not fit {layers} layers of {width}",
                    "give the control vector that was made for this model",
                )
            numbers = np.fromfile(path, "<f4", tensor.size, offset=tensor.offset)
            if numbers.size != tensor.size:
                raise ModelError(str(path), "this control vector is cut short", "download it again")
            total[layer - 1] += np.float32(scale) * numbers
    if not np.isfinite(total).all():
        path = options.control_vectors[0][0]
        raise ModelError(path, "the control vector is no number somewhere", "make it again")
    return total, first, last


def key_of(options: EngineOptions) -> tuple[str, ...]:
    """Names what a context's values depend on beside the model, for caches that outlive the program."""
    parts = [(state_key(expanded(name)), scale) for name, scale in options.control_vectors]
    return (repr((parts, options.control_vector_layers)),) if parts else ()


# ---- sets of adapters


class Adapters:
    """The adapters of one model. Made and read from any thread; the root of a set never changes."""

    def __init__(self, model: Model, files: Sequence[tuple[str, float]]) -> None:
        """Raise ModelError for a file that cannot be used, InvalidRequest for a scale that cannot be."""
        if len(files) > MOST_ADAPTERS:
            raise InvalidRequest("lora", f"{len(files)} adapters, {MOST_ADAPTERS} are possible")
        from .native.adapters import load_adapter  # loads llama.cpp, which a server's start does without

        self._pointers: list[int] = []
        self._paths = [str(expanded(name)) for name, _ in files]
        base = base_shapes(model.path) if files else {}
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
        if not isinstance(asked, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequest(
                "lora", f"expected pairs of an adapter's number and its scale, not {asked!r}"
            )
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
        """Return the root of the token tree for tokens evaluated with a set.

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
        """Whether requests with this set can share evaluated tokens; the number of such sets is bounded."""
        return chosen in self._roots or len(self._roots) < MOST_SETS

    def set_of(self, root: int) -> AdapterSet:
        """Return the set of adapters that everything below a root is evaluated with."""
        return self._sets.get(root, self._sets[SHARED.root])

    def names(self, namespace: Namespace) -> str:
        """Names what a namespace is evaluated with, by the contents of files, for caches that outlive us."""
        parts = sorted((self._keys[number], scale) for number, scale in self.set_of(namespace.root))
        return repr(parts) if parts else ""

    @cached_property
    def _keys(self) -> Sequence[str]:
        return [state_key(Path(path)) for path in self._paths]

    def forget(self, root: int) -> None:
        """Forget a request's own root, which is no longer used. For any thread."""
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
        waiting = sorted({self._adapters.set_of(root) for root in roots})
        if not waiting:
            return self.set(self._adapters.set_of(SHARED.root))
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

    def demands_of_set(self, demands: Iterable[D], chosen: AdapterSet) -> list[D]:
        """Return those of ``demands`` that are evaluated with a set."""
        return [demand for demand in demands if self._adapters.set_of(demand.namespace.root) == chosen]
