"""What tokens are computed with: the model's file, the build of llama.cpp, and how steps are computed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Self

from srbwriter.paths import expanded

from .model_files import sample_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .backend import Backend


@dataclass(frozen=True, slots=True)
class Provenance:
    """Facts that decide which token a seed chooses; ``model`` and ``adapters`` are digests of samples."""

    model: str
    adapters: str  # LoRA files and control vectors, each with its scale; empty for none
    build: str
    processor: str  # its features that llama.cpp uses
    device: str
    n_ctx: int
    threads: int  # at most; fewer while other programs use the cores
    threads_batch: int
    n_batch: int
    n_ubatch: int
    flash_attn: str
    cache_types: str

    def differences(self, other: Provenance) -> tuple[str, ...]:
        """Return what differs in ``other``, in words: "threads: 2, here 1"."""
        return tuple(
            "another processor"  # the features of one are a long line
            if field.name == "processor"
            else f"{field.name.replace('_', ' ')}: {mine}, here {theirs}"
            for field in fields(self)
            if (mine := getattr(self, field.name)) != (theirs := getattr(other, field.name))
        )

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Self | None:
        """Return the provenance in a JSON object; None if a field is missing or of another type."""
        found = {field.name: values.get(field.name) for field in fields(cls)}
        whole = all(type(found[field.name]).__name__ == field.type for field in fields(cls))
        return cls(**found) if whole else None  # type: ignore[arg-type]


def read_provenance(engine: Backend) -> Provenance | None:
    """Return the provenance of an engine in this process; None for one elsewhere, where seeds bind nothing.

    Reads samples of the model's file, some megabytes. Raises OSError.
    """
    from .engine import Engine
    from .native.devices import read_build

    if not isinstance(engine, Engine):
        return None
    options, setup, build = engine.options, engine.setup, read_build()
    files = [*options.lora, *options.control_vectors]
    return Provenance(
        model=sample_digest(engine.model.path),
        adapters=" ".join(f"{sample_digest(Path(expanded(name)))}:{scale:g}" for name, scale in files),
        build=f"llama-cpp-python {build.binding}, ggml {build.ggml}",
        processor=build.features,
        device=engine.info.device,
        n_ctx=engine.n_ctx,
        threads=setup.threads,
        threads_batch=setup.threads_batch,
        n_batch=setup.n_batch,
        n_ubatch=setup.n_ubatch,
        flash_attn=setup.flash_attn,
        cache_types=f"{options.cache_type_k} {options.cache_type_v}",
    )
