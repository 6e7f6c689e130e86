"""The frame that an instruction-tuned model needs around a story, taken from its own chat template."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from srbwriter.engine.types import EngineError, ModelInfo
from srbwriter.story.draft import Template

if TYPE_CHECKING:
    from srbwriter.engine.engine import Engine

INSTRUCTION = (
    "Write the next part of the story below. Answer with the story's text alone, "
    "and go on exactly where it stops."
)
_MEMORY = "\u2063memory\u2063"  # invisible separators: nothing a template would change or contain
_TUNED = re.compile(r"(?:^|[^a-z])(instruct|chat|it|assistant|rp|thinking)(?:[^a-z]|$)")


def is_instruct(info: ModelInfo) -> bool:
    """Whether the file says that the model expects conversations.

    A chat template alone proves nothing: converters put one into many base models too.
    """
    if info.chat_template is None:
        return False
    names = [info.metadata.get("general.finetune", ""), info.name, info.metadata.get("general.basename", "")]
    return any(_TUNED.search(name.lower()) for name in names)


def detect(engine: Engine) -> Template | None:
    """The model's template as text before memory, between memory and story, and after.

    Memory and the instruction are the user's turn, the story is the beginning of the answer. None
    for a base model, or a template that cannot be used like that.
    """
    if not is_instruct(engine.info):
        return None
    try:
        text = engine.apply_template([{"role": "user", "content": f"{_MEMORY}\n\n{INSTRUCTION}"}])
    except EngineError:
        return None
    before, found, rest = text.partition(_MEMORY)
    bos = engine.detokenize([engine.bos], special=True) if engine.bos is not None else ""
    if not found:
        return None
    return Template(name=engine.info.name, before=before.removeprefix(bos) if bos else before, between=rest)
