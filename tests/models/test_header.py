"""Headers are read from the front, believed only as far as the file reaches, and never crash the list."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from srbwriter.demo import bundled_model
from srbwriter.models.files import Header, ModelsError, read_header
from tests.models.gguf_files import SHAPE, gguf, put, text


def parse(data: bytes) -> Header:
    return read_header(put(Path.home() / "m.gguf", data))


def test_a_header_says_what_the_model_is() -> None:
    assert parse(gguf()) == Header(
        architecture="llama", context=4096, layers=2, width=64, hidden=128, heads=4,
        vocabulary=0, kv_widths=((32, 32), (32, 32)),
    )  # fmt: skip


def test_the_bundled_model_is_read_as_the_engine_reads_it(engine: object) -> None:
    header = read_header(bundled_model())
    model = engine.model  # type: ignore[attr-defined]
    assert (header.context, header.vocabulary, header.width) == (
        model.n_ctx_train, model.n_vocab, model.n_embd
    )  # fmt: skip


def test_reading_stops_at_the_vocabulary() -> None:
    tokens = {"tokenizer.ggml.tokens": ["a"] * 1000}
    data = gguf({**SHAPE, **tokens, "general.file_type": 7})
    cut = data.index(text("tokenizer.ggml.tokens")) + len(text("tokenizer.ggml.tokens")) + 16
    assert parse(data[:cut]).vocabulary == 1000


def test_heads_may_differ_from_layer_to_layer() -> None:
    changed = {
        "llama.attention.head_count_kv": [2, 0], "llama.attention.key_length": 10,
        "llama.attention.value_length": 6,
    }  # fmt: skip
    assert parse(gguf({**SHAPE, **changed})).kv_widths == ((20, 12), (0, 0))


def test_an_adapter_is_no_model() -> None:
    assert parse(gguf({**SHAPE, "general.type": "adapter"})).kind == "adapter"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cut short"),
        (b"<html>not here</html>", "not a GGUF file"),
        (gguf(version=1), "version 1 is not known"),
        (gguf()[:40], "cut short"),
        (gguf({}), "what kind of model"),
        (gguf({**SHAPE, "llama.block_count": 1 << 20}), "1048576 layers"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "entries"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 62), "cut short"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 99), "unknown type 99"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 8, 1 << 50),
            "a list of 1125899906842624",
        ),
    ],
)
def test_a_damaged_file_is_said_in_words(data: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(ModelsError, match=words) as caught:
        read_header(put(tmp_path / "m.gguf", data))
    assert str(tmp_path / "m.gguf") in str(caught.value)


def test_a_missing_file_and_a_folder_are_said_in_words(tmp_path: Path) -> None:
    for path in (tmp_path / "none.gguf", tmp_path):
        with pytest.raises(ModelsError, match="cannot be read"):
            read_header(path)
