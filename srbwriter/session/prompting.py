"""From a node to the exact tokens of its prompt, and the account of where they went."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from srbwriter.engine.types import EngineError, ModelInfo, Stop, TokenRun
from srbwriter.story import NodeId, Story
from srbwriter.story.context import Assembly, Layout, Tokenizer, Window, assemble
from srbwriter.story.model import Span, Template

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend

CHARS_PER_TOKEN = 12  # text fetched per token of the window; more than any prose needs
LEAST_TOKENS = 4  # of a branch: who asks for more where the model saw an end wants words all the same
LEAST_RESERVE, MOST_RESERVE = 32, 1024  # tokens kept free for what will be written

INSTRUCTION = (
    "Write the next part of the story below. Answer with the story's text alone, "
    "and go on exactly where it stops."
)
_MEMORY = "\u2063memory\u2063"  # invisible separators: nothing a template would change or contain
_TUNED = re.compile(r"(?:^|[^a-z])(instruct|chat|it|assistant|rp|thinking)(?:[^a-z]|$)")


@dataclass(frozen=True, slots=True)
class Part:
    """One source of the context; ``fits`` is False for text that found no room (its tokens are 0)."""

    source: str
    text: str
    tokens: int
    fits: bool


@dataclass(frozen=True, slots=True)
class Context:
    """The account of a prompt, in tokens."""

    parts: list[Part]
    used: int
    total: int
    reserve: int = 0
    cache_break: int = 0
    problems: list[str] = field(default_factory=list[str])


def with_words(stop: Stop) -> Stop:
    """``stop`` for branches that do not end before they have begun."""
    return replace(stop, min_tokens=max(stop.min_tokens, min(LEAST_TOKENS, stop.max_tokens or LEAST_TOKENS)))


class Prompter:
    """Lays prompts out one after the other, so that each continues the last where it can."""

    def __init__(self, story: Story, engine: Backend) -> None:
        self.story, self.engine = story, engine
        self._tokenizer = Tokenizer(
            tokenize=engine.tokenize_continuation,
            pieces=engine.pieces,
            vocabulary=engine.info.vocab,
            tokenize_template=lambda text: engine.tokenize(text, parse_special=True),
        )
        self._bos = (engine.bos,) if engine.add_bos and engine.bos is not None else ()
        self.template = detect(engine)
        """What frames the story unless it names a template of its own; None for base models."""
        self._layouts: dict[NodeId, Layout] = {}
        self._previous: tuple[int, ...] = ()
        saved = cast(Any, story.value("layout"))
        if saved:
            self._layouts[saved["node"]] = Layout.from_json(saved["layout"])

    def assemble(self, node: NodeId, stop: Stop, at: int | None = None) -> Assembly:
        """What the model is to read at ``node``, or after its first ``at`` characters.

        Raises ContextError when the window is too small.
        """
        path = self.story.path(node)
        settings = self.story.settings(node)
        if settings.template is None and self.template is not None:
            settings = replace(settings, template=self.template)
        window = Window(self.engine.n_ctx, self._reserve(stop), self._bos)
        layout = next((self._layouts[n] for n in reversed(path) if n in self._layouts), None)
        return assemble(self._end(path, at), settings, self._tokenizer, window, layout, self._previous)

    def remember(self, node: NodeId, assembly: Assembly) -> None:
        """The prompt was used: the next ones should stand where it stands."""
        self._previous = assembly.tokens
        if self._layouts.get(node) != assembly.layout:
            self._layouts[node] = assembly.layout
            if self.story.read_only is None and assembly.layout != Layout():
                self.story.put_value("layout", {"node": node, "layout": assembly.layout.to_json()})

    def prompt(self, assembly: Assembly) -> tuple[TokenRun, ...]:
        """The tokens; text that was typed last stays text, so that its end can be healed."""
        last = assembly.segments[-1] if assembly.segments else None
        if last is None or last.source != "story" or last.stored:
            return (TokenRun("", assembly.tokens),)
        head = assembly.tokens[: len(assembly.tokens) - len(last.tokens)]
        return (TokenRun("", head), TokenRun(last.text))

    def account(self, node: NodeId, stop: Stop) -> Context:
        """Where the window goes, for a person to look at."""
        assembly = self.assemble(node, stop)
        parts = [Part(s.source, s.text, len(s.tokens), True) for s in assembly.segments]
        parts = [Part(f.source, f.text, 0, False) for f in assembly.dropped] + parts
        return Context(
            parts,
            len(assembly.tokens),
            self.engine.n_ctx,
            self._reserve(stop),
            assembly.cache_break,
            [str(p) for p in assembly.problems],
        )

    def _reserve(self, stop: Stop) -> int:
        wanted = stop.max_tokens if stop.max_tokens is not None else MOST_RESERVE
        return max(LEAST_RESERVE, min(wanted, MOST_RESERVE, self.engine.n_ctx // 4))

    def _end(self, path: list[NodeId], at: int | None) -> list[tuple[str, tuple[Span, ...]]]:
        """The last nodes of the path, enough of them to fill the window, each with its spans.

        Of the last one only those up to character ``at``, if that is given.
        """
        wanted = self.engine.n_ctx * CHARS_PER_TOKEN
        count = 8
        while True:
            nodes = self.story.nodes(path[-count:])
            if count >= len(path) or sum(len(n.text) for n in nodes) >= wanted:
                spans = [node.spans for node in nodes]
                if at is not None and at < len(nodes[-1].text):
                    spans[-1] = self.story.head(path[-1], at)
                return [(str(node.id), own) for node, own in zip(nodes, spans, strict=True)]
            count *= 2


# -- the frame that an instruction-tuned model needs, from its own chat template ---------------------------


def is_instruct(info: ModelInfo) -> bool:
    """Whether the file says that the model expects conversations.

    A chat template alone proves nothing: converters put one into many base models too.
    """
    if info.chat_template is None:
        return False
    names = [info.metadata.get("general.finetune", ""), info.name, info.metadata.get("general.basename", "")]
    return any(_TUNED.search(name.lower()) for name in names)


def detect(engine: Backend) -> Template | None:
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
