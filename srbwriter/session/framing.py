"""The prompt of an instruction model: a request in the user's turn, and the story as its answer.

The text around both comes from the model's own chat template. All of it comes before the story, so a growing
story only adds tokens at the end of the prompt. A wish for one round is another user's turn near the end of
the story; for a model without a chat template, a note in brackets.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter.engine.types import EngineError, NotSupported
from srbwriter.story.context import Segment, place_near_end
from srbwriter.story.model import Settings, Template

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend
    from srbwriter.story.context import Source, Tokenizer

log = logging.getLogger(__name__)

REQUEST = (
    "Continue the story that your answer begins with, from exactly where it stops. "
    "Answer with the story's text alone, without an introduction or comments."
)
"""The default request, for stories without one."""

WISH = "Continue the story from exactly where it stops, with this change: {wish}. Answer with the text alone."
"""The user's turn for a wish. The answer to it begins with the last words of the story."""

REWRITE = (
    "Write the next passage of the story in another way, from exactly where it stops, with this change: "
    "{wish}. Answer with the text alone. The passage as it was: {passage}"
)
"""The same for another version of a passage."""

_NOTE = "[{about}: {text}]\n"
_TURN = "\u2063turn\u2063"  # invisible separators, which no template contains, trims or changes
_TUNED = re.compile(r"(?:^|[^a-z])(instruct|chat|it|assistant|rp|thinking)(?:[^a-z]|$)")
_BASE = re.compile(r"(?:^|[^a-z])(base|pt|pretrained)(?:[^a-z]|$)")
_TAGGED = re.compile(r"\b(instruct|chat|conversational)\b")
_PROSE_CHANNEL = (("<think>", "\n\n</think>\n\n"), ("<|start|>assistant", "<|channel|>final<|message|>"))
"""The end of an opened answer → the text that ends the model's thinking there, so that prose follows.

The first is of DeepSeek-R1 and Qwen's templates, the second of gpt-oss (the harmony format).
"""


def wish_prompt(before: str, wish: str, passage: str = "", after: str = "") -> str:
    """Return a prompt without a chat template that continues ``before`` under ``wish``.

    The model writes the next text, or, with ``passage``, another version of that passage, which ``after``
    follows. The notes are put near the end, so that a long ``before`` stays cached.
    """
    at = place_near_end(before)
    notes = (
        ("What comes later", after),
        ("The passage as it was", passage),
        ("Editor's note for the next passage", wish),
    )
    text = "".join(_NOTE.format(about=about, text=" ".join(text.split())) for about, text in notes if text)
    return before[:at] + text + before[at:]


def is_tuned(names: Iterable[str]) -> bool:
    """Whether one of a model's names says that it was tuned to follow instructions."""
    return any(_TUNED.search(name.lower()) for name in names)


def is_instruct(engine: Backend) -> bool:
    """Whether the model has a chat template and was tuned to follow instructions.

    A chat template alone proves nothing: converters put one into many base models too. The names decide, then
    the file's tags, then the name of the model it was made from.
    """
    if not engine.capabilities.has("chat_template"):
        return False
    info, metadata = engine.info, engine.info.metadata
    names = [metadata.get("general.finetune", ""), info.name, metadata.get("general.basename", "")]
    if info.path.lower().endswith(".gguf"):
        names.append(Path(info.path).stem)
    if is_tuned(names):
        return True
    if any(_BASE.search(name.lower()) for name in names):
        return False
    parent = metadata.get("general.base_model.0.name", "")
    return bool(_TAGGED.search(metadata.get("general.tags", "").lower()) or _BASE.search(parent.lower()))


def _begin_prose(opened: str) -> str:
    """Return the opening of an answer, with the end of the model's thinking if it begins with thoughts."""
    for opening, ended in _PROSE_CHANNEL:
        if opened.rstrip().endswith(opening):
            return opened.rstrip() + ended
    return opened


class ChatFrame:
    """The text that a model's chat template puts around a story, and whether the model needs it."""

    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self._problem = ""
        self.instruct = is_instruct(engine) and self.template is not None
        """Whether stories are framed unless their settings say otherwise."""

    @cached_property
    def template(self) -> Template | None:
        """The chat template as text around the user's turn; None without a usable one."""
        self._problem = self._engine.capabilities.reason_for("chat_template")
        if self._problem:
            return None
        try:
            return self._read_template()
        except NotSupported as error:
            self._problem = str(error)
        except EngineError as error:
            self._problem = f"the chat template cannot be used ({error})"
        return None

    def _read_template(self) -> Template:
        """Return the model's chat template. Raises NotSupported for one without a user's turn."""
        engine, turn = self._engine, [{"role": "user", "content": _TURN}]
        text = engine.apply_template(turn, enable_thinking=False)
        before, found, after = text.partition(_TURN)
        if not found:
            raise NotSupported("the chat template leaves the user's turn out")
        bos = engine.detokenize([engine.bos], special=True) if engine.bos is not None else ""
        return Template(name=engine.info.name, before=before.removeprefix(bos), between=_begin_prose(after))

    @cached_property
    def _second_turn(self) -> tuple[str, str] | None:
        """The text around a second user's turn, with the end of the answer before it."""
        roles = ("user", "assistant", "user")
        turns = [{"role": role, "content": _TURN} for role in roles]
        try:
            parts = self._engine.apply_template(turns, enable_thinking=False).split(_TURN)
        except EngineError as error:
            log.info("wishes are notes, the chat template has no second turn: %s", error)
            return None
        return (parts[2], _begin_prose(parts[3])) if len(parts) == 4 else None

    def segments_of_wish(
        self, wish: str, settings: Settings, tokenizer: Tokenizer, passage: str = "", after: str = ""
    ) -> tuple[Segment, ...]:
        """Return ``wish`` as a user's turn, or as a note where the model's chat template frames no turn.

        It is about new text, or about ``passage``, which ``after`` follows in the story.
        """

        def segment(source: Source, text: str) -> Segment:
            special = tokenizer.tokenize_template if source == "template" else None
            return Segment(source, text, tuple((special or tokenizer.tokenize)(text)))

        framed = self.apply(settings).template is not None and settings.template is None
        turn = self._second_turn if framed else None
        if turn is None:
            return (segment("wish", wish_prompt("", wish, passage, after)),)
        asked = REWRITE.format(wish=wish, passage=passage) if passage else WISH.format(wish=wish)
        return (
            segment("template", turn[0]),
            segment("wish", asked),
            segment("template", turn[1]),
        )

    def apply(self, settings: Settings) -> Settings:
        """Return ``settings`` with the template and the request that frame the story, or without a template.

        A template that the story names itself goes before the model's.
        """
        wanted = self.instruct if settings.framed is None else settings.framed
        template = settings.template or (self.template if wanted else None)
        if template is None or settings.framed is False:
            return replace(settings, template=None)
        usual = REQUEST if settings.template is None else template.request
        return replace(settings, template=replace(template, request=settings.request or usual))

    def describe(self, settings: Settings) -> str:
        """Whether a request frames the story, and why not, in a sentence."""
        if settings.framed is False:
            return "The frame is off for this story: the model continues the text alone."
        if self.apply(settings).template is not None:
            return "The model is asked for a story, and the story is the beginning of its answer."
        if problem := self._problem or self._engine.capabilities.reason_for("chat_template"):
            return f"No frame: {problem}."
        return "No frame: this model continues text and was not tuned to follow requests."
