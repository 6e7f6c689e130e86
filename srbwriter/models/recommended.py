"""Free models that write prose, as a list that comes with the program: ``recommended.toml``.

Each fact of the list names the public page where it was confirmed; what no page confirms is absent. Reads
nothing from the network: ``pull.fetch`` brings a model here.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from srbwriter import paths
from srbwriter.models.fit import GPU_SPARE, VERDICTS, Gpu, Need, Verdict

_FILE = Path(__file__).with_name("recommended.toml")

READ_BY_CORE, MOST_CORES = 1_500_000_000, 8
"""Bytes of weights that a core computes with in a quarter of a second where eight branches are written:
each gets about three words a second then. More than eight cores wait for the memory."""


@dataclass(frozen=True, slots=True)
class RecommendedModel:
    """A model of the list; None where no page confirms a fact.

    ``memory`` is computed from the figures of the network in ``shape`` as ``srbwriter models`` computes it.
    """

    name: str
    repository: str  # OWNER/REPO at the hub
    file: str  # the GGUF file in it
    kind: Literal["base", "instruct"]  # continues a text, or answers a request
    machine: str  # the least that it suits: 4 GB, 8 GB, 16 GB, 32 GB or GPU
    size: int | None = None  # bytes of the file, as rounded by its page
    licence: str = ""  # its SPDX name
    context: int | None = None  # tokens that it was trained for
    memory: int | None = None  # bytes that it needs with eight panes
    pages: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)  # that confirm each fact
    note: str = ""  # a sentence about it
    shape: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)

    @property
    def step_size(self) -> int:
        """Bytes that a step of eight branches reads: of experts, those that they choose."""
        share = 8 * self.shape.get("experts_used", 1) / self.shape.get("experts", 1)
        return int((self.size or 0) * min(share, 1))

    @property
    def pull_name(self) -> str:
        """What ``srbwriter models pull`` takes."""
        return f"{self.repository}/{self.file}"

    @property
    def path(self) -> Path:
        """Where its file is, or will be."""
        return paths.models_dir() / self.pull_name


class RecommendedModels(NamedTuple):
    """The list and the date on which its facts were confirmed."""

    date: datetime.date
    models: tuple[RecommendedModel, ...]


def read_recommended() -> RecommendedModels:
    """Read the list that comes with the program."""
    document = tomllib.loads(_FILE.read_text("utf-8"))
    rows = cast("list[dict[str, Any]]", document["models"])
    return RecommendedModels(document["date"], tuple(RecommendedModel(**row) for row in rows))


@dataclass(frozen=True, slots=True)
class Machine:
    """What models have to get along with: bytes of memory, GPUs, cores."""

    memory: int
    gpus: tuple[Gpu, ...] = ()
    cores: int = 8


class Suitability(NamedTuple):
    """How a model suits a machine."""

    model: RecommendedModel
    verdict: Verdict


def recommend(
    models: Iterable[RecommendedModel], machine: Machine
) -> tuple[Suitability | None, list[Suitability]]:
    """Return the model for a machine, if there is one, and the others: those that fit first, the best first.

    The best is the last in the order of the list that fits and is not slow, and one that continues a text
    rather than one that answers requests. Left out are models whose memory is unknown and, without a GPU,
    those for one.
    """
    rows: list[Suitability] = []
    gpu_bytes = sum(max(gpu.free - GPU_SPARE, 0) for gpu in machine.gpus if not gpu.shared)
    for model in reversed([model for model in models if model.machine != "GPU" or machine.gpus]):
        if model.memory:
            on_host = 1 - min(gpu_bytes / model.memory, 1)
            verdict = Need(int(model.memory * on_host), 0, 0).verdict(machine.memory)
            slow = model.step_size * on_host > READ_BY_CORE * min(machine.cores, MOST_CORES)
            rows.append(Suitability(model, "slow" if slow and verdict == "fits" else verdict))
    rows.sort(key=lambda row: VERDICTS.index(row.verdict))
    fitting = [row for row in rows if row.verdict == "fits"]
    best = next((row for row in fitting if row.model.kind == "base"), next(iter(fitting), None))
    return best, [row for row in rows if row is not best]
