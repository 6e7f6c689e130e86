"""logitloom trees: one token per node; runs without a fork are joined into one node."""

from __future__ import annotations

from srbwriter.story.formats.base import Document, Format
from srbwriter.story.formats.build import Grower, with_foreign
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.model import DraftNode, Generation, JsonObject, Marks, StoryDraft, keep_foreign

NAME = "logitloom"
VERSION = "logit-loom-tree-v1"


def matches(document: Document) -> bool:
    return "isLogitLoomTreeVersion" in document.keys


def read(document: Document) -> StoryDraft:
    whole = top(document)
    if whole.raw("isLogitLoomTreeVersion") != VERSION:
        raise whole.error(f"{VERSION!r}, the only version known", "isLogitLoomTreeVersion")
    model = whole.text("modelName")
    settings = whole.object("modelSettings")
    grower = _start(settings)
    _grow(grower, whole.good_objects("roots", needed=True), model)
    draft = grower.draft()
    rest = whole.rest()
    if settings and settings.rest():
        rest["modelSettings"] = settings.rest()
    keep_foreign(draft.meta, NAME, rest)
    return draft


def _start(settings: Cursor | None) -> Grower:
    """The text the tree continues; instructions of a chat become the memory."""
    if settings is None:
        return Grower()
    prompt, prefill = settings.text("prompt"), settings.text("prefill")
    if settings.peek("kind") != "chat":
        return Grower(prompt + prefill)
    grower = Grower(prefill)
    grower.root.settings.memory = "\n\n".join(filter(None, [settings.text("systemPrompt"), prompt])) or None
    return grower


def _grow(grower: Grower, roots: list[Cursor], model: str) -> None:
    stack = [(grower.root, cursor) for cursor in reversed(roots)]
    while stack:
        parent, cursor = stack.pop()
        node, children = _join(cursor, model)
        grower.add(parent, node)
        stack.extend((node, child) for child in reversed(children))


def _join(cursor: Cursor, model: str) -> tuple[DraftNode, list[Cursor]]:
    """The tokens from ``cursor`` up to the next fork as one node, and what follows the fork."""
    texts: list[str] = []
    tokens: list[JsonObject] = []
    while True:
        texts.append(cursor.good_text("text"))
        children = cursor.good_objects("children")
        finished = cursor.peek("branchFinished")
        tokens.append({"text": texts[-1], **cursor.rest()})
        if len(children) != 1:
            break
        cursor = children[0]
    node = DraftNode(
        "",
        text="".join(texts),
        author="model",
        generation=Generation(model=model, finish_reason=finished if isinstance(finished, str) else ""),
        marks=Marks(visited=True),
    )
    return with_foreign(node, NAME, {"tokens": tokens}), children


FORMAT = Format(NAME, "logitloom tree", ".json", matches, read)
