"""The model that ships: small enough for the wheel, and complete in what a program asks a file for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from llama_cpp import Llama
from numpy.typing import NDArray

import srbwriter.demo
from srbwriter import Engine, Request
from srbwriter.demo import bundled_model
from srbwriter.engine import EngineOptions, Stop
from srbwriter.models.suited import ENDLESS, suited_to_file

SHIPPED = Path(srbwriter.demo.__file__).with_name("storyteller.gguf")


@pytest.fixture(scope="module")
def vocabulary() -> Iterator[Llama]:
    """The file opened without its weights."""
    model = Llama(str(SHIPPED), vocab_only=True, verbose=False)
    yield model
    model.close()


def test_it_fits_into_the_wheel() -> None:
    assert 40_000_000 < SHIPPED.stat().st_size <= 46_000_000


@pytest.mark.parametrize("key", ["name", "author", "license", "description", "version", "size_label"])
def test_it_says_what_it_is(vocabulary: Llama, key: str) -> None:
    assert vocabulary.metadata[f"general.{key}"].strip()


def test_its_context_holds_four_thousand_tokens(vocabulary: Llama) -> None:
    assert int(vocabulary.metadata["llama.context_length"]) == 4096


def test_fill_in_the_middle_and_chat_are_declared(vocabulary: Llama) -> None:
    marks = {
        int(vocabulary.metadata[f"tokenizer.ggml.fim_{part}_token_id"]) for part in ("pre", "suf", "mid")
    }
    assert len(marks) == 3
    assert vocabulary.token_eos() not in marks
    assert "message" in vocabulary.metadata["tokenizer.chat_template"]


@pytest.mark.parametrize("text", ["Once upon a time,", "Zoë’s 雨 \t🐸\n\n\n!", ""])
def test_any_text_survives_its_vocabulary(vocabulary: Llama, text: str) -> None:
    ids = vocabulary.tokenize(text.encode(), add_bos=False, special=False)
    assert vocabulary.detokenize(ids).decode() == text


def test_no_mark_of_a_gap_is_written_where_the_end_is_barred() -> None:
    with Engine.load(SHIPPED, EngineOptions(n_ctx=512, gpu_layers=0)) as engine:
        marks = list(engine.model.fim or ())

        def prefer_marks(logits: NDArray[np.float32], view: object) -> None:
            logits[[*marks, engine.eos]] += 1000.0

        request = Request("Tom", stop=Stop(max_tokens=8, ignore_eog=True), logits_callback=prefer_marks)
        [branch] = engine.submit(request).wait(60).branches
        assert len(marks) == 3 and len(branch.ids) == 8
        assert not {*branch.ids} & {*marks, engine.eos}


def test_it_has_settings_of_its_own() -> None:
    suited = suited_to_file(SHIPPED)
    assert suited["sampling.dry_multiplier"] == 0.8 and suited[ENDLESS]


def test_no_other_file_has(tmp_path: Path) -> None:
    (tmp_path / "words.gguf").write_bytes(b"GGUF nothing")
    others = [bundled_model(), tmp_path / "words.gguf", tmp_path / "absent.gguf"]
    assert [suited_to_file(path) for path in others] == [{}] * 3
