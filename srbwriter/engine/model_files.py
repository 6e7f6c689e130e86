"""Files of models and LoRA adapters, checked by their headers before anything is loaded.

Loads no native library, so that a program can refuse a file at once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from srbwriter.gguf import Damaged, Scalar, Tensor, contents

from .types import ModelError

UNSAFE = {24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64"}  # enum ggml_type
_AGAIN = "download it again"
_MADE_FOR = "give the adapter that was made for this model"
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
    if not path.is_file():
        raise ModelError(str(path), "this is no file but a device or pipe", "name a .gguf file")
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ModelError(str(path), f"cannot be read ({error.strerror})", "check its permissions") from error
    if magic != b"GGUF":
        raise ModelError(str(path), "not a GGUF file", "download or convert the model in GGUF format")


# ---- LoRA adapters


def check_adapter(path: Path, architecture: str) -> None:
    """Refuse a file that is no LoRA adapter for such a model, or would end the process. Raises ModelError."""
    values, tensors = read_contents(path, "this LoRA adapter")

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
        _check_half(path, tensor, halves)


def _check_half(path: Path, tensor: Tensor, halves: Mapping[str, Tensor]) -> None:
    """Refuse a tensor that llama.cpp would end the process over; the shape of a matrix it checks itself."""
    if tensor.name.endswith("_norm.weight"):
        return  # llama.cpp leaves these out too
    name, dot, half = tensor.name.rpartition(".lora_")
    if not dot or half not in ("a", "b"):
        raise ModelError(str(path), f"its tensor {tensor.name} is neither half of a LoRA", _MADE_FOR)
    if tensor.kind in UNSAFE:
        kind = UNSAFE[tensor.kind]
        raise ModelError(str(path), f"tensor {tensor.name} is of type {kind}", "convert it again")
    other = halves.get(f"{name}.lora_{'b' if half == 'a' else 'a'}")
    if other is None:
        raise ModelError(str(path), f"tensor {tensor.name} has no other half", _AGAIN)
    if min(tensor.shape) < 1 or len(tensor.shape) < 2 or tensor.shape[2:] != other.shape[2:]:
        raise ModelError(str(path), f"tensor {tensor.name} has not the shape that the model needs", _MADE_FOR)


def read_contents(path: Path, what: str) -> tuple[dict[str, Scalar], list[Tensor]]:
    """Return the values and tensors that a header lists; ``what`` names the file. Raises ModelError."""
    try:
        return contents(path)
    except OSError as error:
        raise ModelError(str(path), f"{what} cannot be read ({error.strerror})", "check the path") from error
    except Damaged as error:
        raise ModelError(str(path), f"{what}: {error.problem}", error.cure) from None
