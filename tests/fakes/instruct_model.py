"""Makes an instruction model for tests: the bundled model's weights under another name and chat template."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

from srbwriter.demo import bundled_model

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TURNS = CHATML.replace("<|im_end|>", "<|endoftext|>")
"""Turns that end with the token that ends a text of the bundled model: it has none for turns."""
_ALIGNMENT = 32
_STRING, _ARRAY = 8, 9  # enum gguf_type
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def make_instruct(path: Path, name: str = "Storyteller Instruct", template: str = TURNS) -> Path:
    """Write the bundled model to ``path`` as a model that follows instructions."""
    return with_texts(path, {"general.name": name, "tokenizer.chat_template": template})


def with_texts(path: Path, texts: Mapping[str, str]) -> Path:
    """Write the bundled model to ``path`` with other ``texts`` in its header."""
    data = bundled_model().read_bytes()
    _, _, tensors, keys = struct.unpack_from("<4sIQQ", data)
    at, pairs = 24, bytearray()
    for _ in range(keys):
        begin, key_end = at, _after_text(data, at)
        at = _after_value(data, key_end + 4, *struct.unpack_from("<I", data, key_end))
        key = data[begin + 8 : key_end].decode()
        pairs += data[begin:key_end] + _text_value(texts[key]) if key in texts else data[begin:at]
    infos = at
    for _ in range(tensors):
        at = _after_text(data, at)
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 4 + 8
    head = data[:24] + bytes(pairs) + data[infos:at]
    path.write_bytes(head + bytes(-len(head) % _ALIGNMENT) + data[at + -at % _ALIGNMENT :])
    return path


def _text_value(text: str) -> bytes:
    return struct.pack("<IQ", _STRING, len(text.encode())) + text.encode()


def _after_text(data: bytes, at: int) -> int:
    return at + 8 + int(struct.unpack_from("<Q", data, at)[0])


def _after_value(data: bytes, at: int, kind: int) -> int:
    if kind == _STRING:
        return _after_text(data, at)
    if kind != _ARRAY:
        return at + _SIZES[kind]
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    for _ in range(count):
        at = _after_value(data, at, inner)
    return at
