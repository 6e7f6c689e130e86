"""What names say about models: quantisations, and files that were split into several.

Knows names only; reads no file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePath

SUFFIX = ".gguf"

_SPLIT = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$", re.IGNORECASE)
"""As llama.cpp's ``llama_split_path`` names them."""

_QUANTISATION = re.compile(
    r"(?:^|[^a-z0-9])((?:ud-)?(?:i?q\d(?:_[a-z0-9]+)*|tq\d_\d|mxfp4(?:_moe)?|nvfp4|bf16|f16|f32|fp16|fp32))"
    r"(?=$|[^a-z0-9_])",
    re.IGNORECASE,
)
"""The types that ``llama-quantize`` and the converters write into file names, and Unsloth's ``UD-``."""

_NO_WRITER = re.compile(r"(?:^|[-_.])(?:mmproj|imatrix)(?:[-_.]|$)", re.IGNORECASE)
"""Files beside a model that write nothing: projectors of images, and measurements for quantising."""


@dataclass(frozen=True, slots=True)
class Parts:
    """One file, or part ``number`` of ``count``; ``stem`` is the name without that."""

    stem: str
    number: int = 1
    count: int = 1


def parts_of(name: str) -> Parts:
    """What a file name says about parts."""
    if found := _SPLIT.match(name):
        return Parts(found["stem"], int(found["number"]), int(found["count"]))
    return Parts(name[: -len(SUFFIX)] if name.lower().endswith(SUFFIX) else name)


def part_names(name: str) -> list[str]:
    """All file names of the model that ``name`` is a part of, in order."""
    found = _SPLIT.match(name)
    if not found:
        return [name]
    count = int(found["count"])
    return [f"{found['stem']}-{number:05d}-of-{found['count']}{name[-5:]}" for number in range(1, count + 1)]


def quantisation(name: str) -> str:
    """The quantisation a file name speaks of, in capitals; empty if it speaks of none."""
    found = _QUANTISATION.findall(parts_of(PurePath(name).name).stem)
    return found[-1].upper() if found else ""


def is_model(name: str) -> bool:
    """Whether a file of this name may be a model that writes text."""
    return name.lower().endswith(SUFFIX) and not _NO_WRITER.search(PurePath(name).name)


def hub_folder(folder: Path, repo: str) -> Path:
    """Where models of a repository of the hub are kept: ``OWNER/REPO``, as LM Studio keeps its own."""
    return folder.joinpath(*repo.split("/"))
