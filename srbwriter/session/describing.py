"""Requests for words about a story, such as a summary, which are no part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.engine.types import Request, Sampling, Stop
from srbwriter.prose import sentence_ends

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend


def description_request(
    engine: Backend, question: str, example: str, stop: Stop, *, instruct: bool, repeat_penalty: float = 1.0
) -> Request:
    """Return a request for an answer to ``question``; where no one can be asked, the text after ``example``.

    ``example`` has an answer to such a question about another text, and then the present text.
    """
    sampling = Sampling(temperature=0.3, repeat_penalty=repeat_penalty)
    if not instruct:
        return Request(example, stop=stop, sampling=sampling)
    prompt = engine.apply_template([{"role": "user", "content": question}], enable_thinking=False)
    return Request(prompt, stop=stop, sampling=sampling, parse_special=True)


def whole_sentences(text: str, most: int | None = None) -> str:
    """Return the whole sentences of an answer, at most so many, as one paragraph."""
    words = " ".join(text.split())
    ends = sentence_ends(words)[:most]
    return words[: ends[-1]].strip() if ends else words
