"""The tokens of a node's prompt, and their count by source."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from srbwriter.engine.types import Stop, TokenRun
from srbwriter.story import NodeId, Story
from srbwriter.story.context import Assembly, Layout, Segment, Tokenizer, Window, assemble
from srbwriter.story.model import Settings, Span

from .framing import ChatFrame

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend

CHARS_PER_TOKEN = 12  # characters of text read for each token of the window; more than any prose needs
LEAST_TOKENS = 4  # fewest tokens of a branch that continues after the model ended its text
LEAST_RESERVE, MOST_RESERVE = 32, 1024  # tokens kept free for generated text


@dataclass(frozen=True, slots=True)
class Part:
    """One source of the context; ``fits`` is False for text without room (its tokens are 0).

    ``ident`` is the id of a lorebook entry or of a node.
    """

    source: str
    text: str
    tokens: int
    fits: bool
    ident: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """The account of a prompt, in tokens; ``frame`` says in a sentence whether a request frames the story."""

    parts: list[Part]
    used: int
    total: int
    reserve: int = 0
    cache_break: int = 0
    problems: list[str] = field(default_factory=list[str])
    frame: str = ""
    framed: bool = False


def with_words(stop: Stop) -> Stop:
    """Return ``stop`` with a least length, for branches after an end."""
    return replace(stop, min_tokens=max(stop.min_tokens, min(LEAST_TOKENS, stop.max_tokens or LEAST_TOKENS)))


class Prompter:
    """Lays out prompts, each of which continues the previous one if possible."""

    def __init__(self, story: Story, engine: Backend, n_ctx: int | None = None) -> None:
        """Prepare prompts for ``engine``, in windows of ``n_ctx`` tokens; by default those of the engine."""
        self.story, self.engine = story, engine
        self._n_ctx = n_ctx or engine.n_ctx
        self._tokenizer = Tokenizer(
            tokenize=engine.tokenize_continuation,
            pieces=engine.pieces,
            vocabulary=engine.info.vocab,
            tokenize_template=lambda text: engine.tokenize(text, parse_special=True),
        )
        self._bos = (engine.bos,) if engine.add_bos and engine.bos is not None else ()
        self.frame = ChatFrame(engine)
        self._layouts: dict[NodeId, Layout] = {}
        self._previous: tuple[int, ...] = ()
        saved = cast(Any, story.value("layout"))
        if saved:
            self._layouts[saved["node"]] = Layout.from_json(saved["layout"])

    def layout(self, node: NodeId) -> Layout:
        """Return the layout of the last prompt at ``node``."""
        return self._layouts.get(node, Layout())

    def assemble(
        self, node: NodeId, settings: Settings, stop: Stop, at: int | None = None,
        layout: Layout | None = None, wish: str = "", passage: str = "", after: str = "",
    ) -> Assembly:  # fmt: skip
        """Assemble the prompt at ``node``, or after its first ``at`` characters, with ``wish`` near its end.

        The wish is about new text, or about ``passage``, which stands there now with ``after`` behind it.
        ``settings`` are those in force there; ``layout`` is by default that of the last prompt on the path.
        Raises ContextError if the window is too small.
        """
        path = self.story.path(node)
        window = Window(self._n_ctx, self._reserve(stop), self._bos)
        if layout is None:
            layout = next((self._layouts[n] for n in reversed(path) if n in self._layouts), None)
        framed = self.frame.apply(settings)
        asked: tuple[Segment, ...] = ()
        if wish:
            asked = self.frame.segments_of_wish(wish, settings, self._tokenizer, passage, after)
        return assemble(self._end(path, at), framed, self._tokenizer, window, layout, self._previous, asked)

    def remember(self, node: NodeId, assembly: Assembly) -> None:
        """Store the layout of a used prompt for the next ones."""
        self._previous = assembly.tokens
        if self._layouts.get(node) != assembly.layout:
            self._layouts[node] = assembly.layout
            if self.story.read_only is None and assembly.layout != Layout():
                self.story.put_value("layout", {"node": node, "layout": assembly.layout.to_json()})

    def prompt(self, assembly: Assembly) -> tuple[TokenRun, ...]:
        """Return the tokens of the prompt; words typed at its end stay text, so that they can be healed."""
        last = assembly.segments[-1] if assembly.segments else None
        if last is None or last.source != "story" or last.stored:
            return (TokenRun("", assembly.tokens),)
        head = assembly.tokens[: len(assembly.tokens) - len(last.tokens)]
        return (TokenRun("", head), TokenRun(last.text))

    def account(self, node: NodeId, stop: Stop) -> Context:
        """Return the sizes of the prompt by source, for display."""
        settings = self.story.settings(node)
        assembly = self.assemble(node, settings, stop)
        parts = [Part(s.source, s.text, len(s.tokens), True, s.ident) for s in assembly.segments]
        parts = [Part(f.source, f.text, 0, False, f.ident) for f in assembly.dropped] + parts
        return Context(
            parts,
            len(assembly.tokens),
            self._n_ctx,
            self._reserve(stop),
            assembly.cache_break,
            [str(p) for p in assembly.problems],
            self.frame.describe(settings),
            self.frame.apply(settings).template is not None,
        )

    def _reserve(self, stop: Stop) -> int:
        wanted = stop.max_tokens if stop.max_tokens is not None else MOST_RESERVE
        return max(LEAST_RESERVE, min(wanted, MOST_RESERVE, self._n_ctx // 4))

    def _end(self, path: list[NodeId], at: int | None) -> list[tuple[str, tuple[Span, ...]]]:
        """Return the last nodes of the path, enough to fill the window, each with its spans.

        The last one is cut at character ``at``, if that is given.
        """
        wanted = self._n_ctx * CHARS_PER_TOKEN
        count = 8
        while True:
            nodes = self.story.nodes(path[-count:])
            if count >= len(path) or sum(len(n.text) for n in nodes) >= wanted:
                spans = [node.spans for node in nodes]
                if at is not None and at < len(nodes[-1].text):
                    spans[-1] = self.story.head(path[-1], at)
                return [(str(node.id), own) for node, own in zip(nodes, spans, strict=True)]
            count *= 2
