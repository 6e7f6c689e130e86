"""An instruction model gets its own template around the story; a base model gets nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import ModelInfo, Stop
from srbwriter.session import Session
from srbwriter.session.prompting import REQUEST, ChatFrame
from srbwriter.story import ROOT, Story
from srbwriter.story.model import LoreEntry, StorySettings, settings_from, settings_json
from tests.fakes.instruct_model import CHATML, make_instruct
from tests.session.conftest import OPTIONS, ready, write_round

OPENING = "The lamp had gone out twice that night, and Mara went up the stairs again."
ASKED = "Write a story about a lighthouse."


def with_info(engine: Engine, monkeypatch: pytest.MonkeyPatch, **changes: object) -> ModelInfo:
    info = replace(engine.info, **changes)  # type: ignore[arg-type]
    monkeypatch.setattr(type(engine), "info", property(lambda _: info))
    monkeypatch.setattr(engine.model, "chat_template", info.chat_template)
    return info


@pytest.mark.parametrize(
    ("closing", "metadata", "answers"),
    [
        ("<|endoftext|>", {}, True),  # the file says that the model ends with it
        ("<|im_end|>", {}, False),  # no token of this model, which ends otherwise
        ("{mid}", {}, False),
        ("{mid}", {"tokenizer.ggml.eot_token_id": "{mid_id}"}, True),
    ],
)
def test_the_end_of_an_answer_tells_what_the_model_was_tuned_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, closing: str, metadata: dict[str, str], answers: bool
) -> None:
    """Not its name, and not that it has a template."""
    assert engine.fim is not None
    mid = engine.fim[2]
    closing = closing.format(mid=engine.token_bytes(mid).decode())
    metadata = {key: value.format(mid_id=mid) for key, value in metadata.items()}
    template = CHATML.replace("<|im_end|>", closing)
    with_info(engine, monkeypatch, name="X Instruct", chat_template=template, metadata=metadata)
    assert ChatFrame(engine).instruct is answers
    assert (ChatFrame(engine).apply(StorySettings()).template is not None) is answers


def test_the_templates_own_words_about_an_assistant_are_left_out(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "<|im_start|>system\nYou are a helpful AI assistant<|im_end|>\n"
    template = "{% if messages[0].role != 'system' %}" + own + "{% endif %}" + CHATML
    with_info(engine, monkeypatch, name="X", chat_template=template, metadata={})
    found = ChatFrame(engine).template
    assert found is not None and found.before == "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n"


@pytest.mark.parametrize("adds", [True, False])
def test_a_beginning_that_the_engine_adds_is_not_there_twice(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, adds: bool
) -> None:
    with_info(engine, monkeypatch, name="X", chat_template="<|endoftext|>" + CHATML, metadata={})
    monkeypatch.setattr(engine, "add_bos", adds)
    found = ChatFrame(engine).template
    assert found is not None and found.before.startswith("<|endoftext|>") is not adds


def test_a_model_without_a_chat_template_gets_no_frame(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_info(engine, monkeypatch, name="X Instruct", chat_template=None, metadata={})
    frame = ChatFrame(engine)
    assert frame.apply(StorySettings(framed=True)).template is None
    assert "no chat template" in frame.describe(StorySettings(framed=True))


def test_a_template_that_cannot_be_rendered_is_not_used(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_info(engine, monkeypatch, name="X Chat", chat_template="{{ raise_exception('no') }}", metadata={})
    frame = ChatFrame(engine)
    assert frame.apply(StorySettings()).template is None
    assert "cannot be used" in frame.describe(StorySettings())


@pytest.mark.parametrize("ending", ["<think>\n", "<think>"])
def test_prose_does_not_begin_inside_the_models_thinking(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    template = CHATML.replace("assistant\n{% endif", f"assistant\n{ending}{{% endif")
    with_info(engine, monkeypatch, name="X Chat", chat_template=template, metadata={})
    found = ChatFrame(engine).template
    assert found is not None and found.between.endswith("assistant\n<think>\n\n</think>\n\n")


def test_the_settings_of_a_frame_are_kept_and_older_settings_are_read() -> None:
    own = StorySettings(request=ASKED, framed=False)
    assert settings_from(settings_json(own)) == own
    old = settings_from(
        {"memory": "m", "template": {"name": "x", "before": "a", "between": "b", "after": ""}}
    )
    assert (old.request, old.framed) == (None, None)
    assert old.template is not None and old.template.request == ""


# ---- with an engine on a model whose file has a chat template


@pytest.fixture(scope="module")
def instruct_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_instruct(tmp_path_factory.mktemp("instruct") / "toy.gguf")


@pytest.fixture
def chat(file: Path, instruct_model: Path) -> Iterator[Session]:
    loader = EngineLoader(instruct_model, OPTIONS)
    stop = Stop(max_tokens=12, ignore_eog=True)
    opened = Session(Story.create(file), loader, options=OPTIONS, n=2, stop=stop)
    ready(opened)
    yield opened
    opened.close()


def prompt_of(session: Session) -> str:
    return session.engine.detokenize(session.round.generation.prompt_ids, special=True)


def put(session: Session, **said: object) -> None:
    settings = replace(session.story.node(ROOT).settings, **said)  # type: ignore[arg-type]
    session.together(lambda: session.story.put_settings(ROOT, settings))


def test_the_request_is_the_users_turn_and_the_story_begins_the_answer(chat: Session) -> None:
    chat.set_text(OPENING)
    write_round(chat)
    turns = f"<|im_start|>user\n{REQUEST}<|endoftext|>\n<|im_start|>assistant\n"
    assert prompt_of(chat).endswith(turns + OPENING[:-1])  # the last token is healed
    assert chat.instruct


def test_memory_comes_before_the_request_and_the_note_stays_in_the_story(chat: Session) -> None:
    lore = [LoreEntry(id="1", text="Mara keeps the light.", keys=["Mara"])]
    put(chat, memory="A harbour town.", author_note="Slowly.", request=ASKED, lore=lore)
    chat.set_text(f"It rained.\n\n{OPENING}\n\nNobody came.\n\nThe sea was loud.")
    write_round(chat)
    user, answer = prompt_of(chat).rsplit("<|endoftext|>", 1)
    assert user.endswith(f"user\nA harbour town.\n\n{ASKED}")
    assert "Slowly." in answer and "Mara keeps the light." in answer and "The sea was loud" in answer


def test_names_of_special_tokens_in_a_request_are_plain_text(chat: Session) -> None:
    put(chat, request="Say <|endoftext|> twice.")
    context = chat.context()
    request = next(part for part in context.parts if part.source == "request")
    assert request.tokens == len(chat.engine.tokenize_continuation("Say <|endoftext|> twice."))


def test_a_growing_story_evaluates_nothing_of_frame_and_story_again(chat: Session) -> None:
    chat.set_text(OPENING)
    write_round(chat)
    for _ in range(3):
        before = chat.round.generation.prompt_ids
        chat.pick(0)
        after = write_round(chat).generation
        assert after.prompt_ids[: len(before)] == before
        assert after.cached_tokens >= len(after.prompt_ids) - 1, "the pick was evaluated while it was written"
    asked = chat.engine.stats().prompt_tokens
    chat.undo()
    assert chat.engine.stats().prompt_tokens == asked, "undoing shows what was written before"
    undone = write_round(chat).generation
    assert undone.cached_tokens >= len(undone.prompt_ids) - 1


def test_typed_words_are_all_that_a_round_evaluates(chat: Session) -> None:
    chat.set_text(OPENING)
    write_round(chat)
    chat.pick(0)
    known = len(write_round(chat).generation.prompt_ids)
    chat.set_text(f"{chat.text()} Nobody answered her.")
    assert write_round(chat).generation.cached_tokens >= known - 1


def test_a_frame_can_be_switched_off_and_on(chat: Session) -> None:
    chat.set_text(OPENING)
    assert chat.context().framed
    put(chat, framed=False)
    context = chat.context()
    assert not context.framed and "off for this story" in context.frame
    assert {part.source for part in context.parts} <= {"bos", "story"}
    put(chat, framed=None)
    assert chat.context().framed
