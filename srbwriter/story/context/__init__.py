"""Context assembly: the tokens of a prompt, with an account by source.

:func:`assemble` is pure.  It takes the spans of a path with their stored ids, the effective
settings, a tokenizer as functions and a window, and returns the prompt with an exact account.  What
must stay put between prompts is a :class:`Layout`, returned and passed back in; keep it on the node.
It knows nothing of the engine, the store or a screen.
"""

from srbwriter.story.context.assemble import assemble, place_near_end
from srbwriter.story.context.types import (
    Assembly,
    ContextError,
    Dropped,
    Layout,
    Position,
    Segment,
    Source,
    Tokenizer,
    Window,
)  # fmt: skip

__all__ = [
    "Assembly", "ContextError", "Dropped", "Layout", "Position", "Segment", "Source", "Tokenizer", "Window",
    "assemble", "place_near_end",
]  # fmt: skip
