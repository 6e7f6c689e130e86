"""An instruction-tuned model gets its own template around the story; a base model gets nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import ModelInfo
from srbwriter.session import prompting

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def with_info(engine: Engine, monkeypatch: pytest.MonkeyPatch, **changes: object) -> ModelInfo:
    info = replace(engine.info, **changes)  # type: ignore[arg-type]
    monkeypatch.setattr(type(engine), "info", property(lambda _: info))
    monkeypatch.setattr(engine.model, "chat_template", info.chat_template)
    return info


@pytest.mark.parametrize(
    ("name", "tuned"),
    [("Llama 3.2 Instruct", True), ("gemma-2-2b-it", True), ("storyteller", False), ("Mistral 7B", False)],
)
def test_the_name_tells_what_the_model_was_tuned_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str, tuned: bool
) -> None:
    info = with_info(engine, monkeypatch, name=name, chat_template=CHATML, metadata={})
    assert prompting.is_instruct(info) is tuned
    assert (prompting.detect(engine) is not None) is tuned


def test_memory_and_instruction_are_the_users_turn_and_the_story_begins_the_answer(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_info(engine, monkeypatch, name="X Instruct", chat_template=CHATML, metadata={})
    found = prompting.detect(engine)
    assert found is not None
    assert found.before == "<|im_start|>user\n"
    assert found.between == f"\n\n{prompting.INSTRUCTION}<|im_end|>\n<|im_start|>assistant\n"
    assert found.after == ""


def test_a_template_that_cannot_be_rendered_is_not_used(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_info(engine, monkeypatch, name="X Chat", chat_template="{{ raise_exception('no') }}", metadata={})
    assert prompting.detect(engine) is None
