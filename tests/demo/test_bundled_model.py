"""The model that ships: small enough for the wheel, and complete in what a program asks a file for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from llama_cpp import Llama

from srbwriter.demo import bundled_model


@pytest.fixture(scope="module")
def vocabulary() -> Iterator[Llama]:
    """The file opened without its weights."""
    model = Llama(str(bundled_model()), vocab_only=True, verbose=False)
    yield model
    model.close()


def test_it_fits_into_the_wheel() -> None:
    assert 1_000_000 < bundled_model().stat().st_size <= 24_000_000


@pytest.mark.parametrize("key", ["name", "author", "license", "description", "version", "size_label"])
def test_it_says_what_it_is(vocabulary: Llama, key: str) -> None:
    assert vocabulary.metadata[f"general.{key}"].strip()


def test_its_context_holds_two_thousand_tokens(vocabulary: Llama) -> None:
    assert int(vocabulary.metadata["llama.context_length"]) >= 2048


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
