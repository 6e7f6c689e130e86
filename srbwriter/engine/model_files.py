"""Model files, checked by their headers before anything is loaded.

Loads no native library, so that a program can refuse a file at once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from srbwriter.gguf import Damaged, Scalar, Tensor, contents

from .types import ModelError

_DIGEST = 16  # bytes of BLAKE2b
_SAMPLES, _SAMPLE_BYTES = 32, 1 << 16


def sample_digest(path: Path, kind: str = "") -> str:
    """Return a digest of a file's size, ``kind``, and samples from all over the file.

    Reading all of a model would take long. Raises OSError.
    """
    digest = hashlib.blake2b(digest_size=_DIGEST)
    with path.open("rb") as source:
        size = source.seek(0, os.SEEK_END)
        digest.update(f"{size}{kind}".encode())
        for part in range(_SAMPLES):
            source.seek(size * part // _SAMPLES)
            digest.update(source.read(_SAMPLE_BYTES))
        source.seek(max(size - _SAMPLE_BYTES, 0))
        digest.update(source.read())
    return digest.hexdigest()


def check_file(path: Path) -> None:
    """Refuse what cannot be a GGUF file before llama.cpp sees it. Raises ModelError."""
    if not path.exists():
        raise ModelError(str(path), "no such file", "correct the path, or see `srbwriter models`")
    if path.is_dir():
        raise ModelError(str(path), "this is a folder", "name the .gguf file in it")
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ModelError(str(path), f"cannot be read ({error.strerror})", "check its permissions") from error
    if magic != b"GGUF":
        raise ModelError(str(path), "not a GGUF file", "download or convert the model in GGUF format")


def check_headers(model: Path, adapters: Sequence[Path]) -> None:
    """Refuse files that loading would refuse, as far as their headers show it. Raises ModelError."""
    for path in adapters:  # also where the model cannot be read
        check_file(path)
    _, tensors = read_contents(model)
    size = model.stat().st_size
    if any(tensor.offset + tensor.size // 8 > size for tensor in tensors):  # no type takes less than a bit
        raise ModelError(str(model), "the model: its tensors are cut short", "download it again")


def read_contents(path: Path) -> tuple[dict[str, Scalar], list[Tensor]]:
    """Return the values and tensors that the header of a model lists. Raises ModelError."""
    check_file(path)
    try:
        return contents(path)
    except Damaged as error:
        raise ModelError(str(path), f"the model: {error.problem}", error.cure) from None
