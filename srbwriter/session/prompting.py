"""Prompts: the tokens of the text up to a node, within the frame of an instruction model, and their account.

For an instruction model the story is the answer to a request in the user's turn; the text around both comes
from the model's own chat template. All of it comes before the story, so a growing story only adds tokens at
the end of the prompt. A wish for one round is another user's turn near the end of the story; for a model
without a chat template, a note in brackets.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from srbwriter.engine.types import EngineError, NotSupported, Stop, TokenRun
from srbwriter.story import NodeId, Story
from srbwriter.story.context import Assembly, Layout, Segment, Tokenizer, assemble
from srbwriter.story.model import Span, StorySettings, Template
from srbwriter.story.outline import outline
from srbwriter.story.spans import part_of

from .open import token_sizes
from .outlining import note_for

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend

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

CHARS_PER_TOKEN = 12  # characters of text read for each token of the window; more than any prose needs
LEAST_TOKENS = 4  # fewest tokens of a branch that continues after the model ended its text
LEAST_RESERVE, MOST_RESERVE = 32, 1024  # tokens kept free for generated text

_TURN = "\u2063turn\u2063"  # invisible separators, which no template contains, trims or changes
_TUNED = re.compile(r"(?:^|[^a-z])(instruct|chat|it|assistant|rp|thinking)(?:[^a-z]|$)")
_PROSE_CHANNEL = (("<think>", "\n\n</think>\n\n"), ("<|start|>assistant", "<|channel|>final<|message|>"))
"""The end of an opened answer → the text that ends the model's thinking there, so that prose follows.

The first is of DeepSeek-R1 and Qwen's templates, the second of gpt-oss (the harmony format).
"""


@dataclass(frozen=True, slots=True)
class PromptPart:
    """One source of the context; ``fits`` is False for text without room (its tokens are 0)."""

    source: str
    text: str
    tokens: int
    fits: bool


@dataclass(frozen=True, slots=True)
class PromptAccount:
    """The account of a prompt, in tokens; ``frame`` says in a sentence whether a request frames the story."""

    parts: list[PromptPart]
    used: int
    total: int
    problems: list[str] = field(default_factory=list[str])
    frame: str = ""
    framed: bool = False


def with_words(stop: Stop) -> Stop:
    """Return ``stop`` with a least length, for branches after an end."""
    return replace(stop, min_tokens=max(stop.min_tokens, min(LEAST_TOKENS, stop.max_tokens or LEAST_TOKENS)))


def wish_note(wish: str, passage: str = "", after: str = "") -> str:
    """Return the notes for a wish where no chat template frames it: for new text, or for ``passage``."""
    notes = (
        ("What comes later", after),
        ("The passage as it was", passage),
        ("Editor's note for the next passage", wish),
    )
    return "".join(f"[{about}: {' '.join(text.split())}]\n" for about, text in notes if text)


def is_named_instruct(name: str) -> bool:
    """Whether the name of a model says that it was tuned to follow instructions."""
    return _TUNED.search(name.lower()) is not None


class ChatFrame:
    """The text that a model's chat template puts around a story, and whether the model needs it."""

    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self._problem = ""

    @cached_property
    def instruct(self) -> bool:
        """Whether the model answers requests: then stories are framed unless their settings say otherwise.

        A chat template alone proves nothing, converters put one into base models too. It is one if the token
        after an answer in the template is the one with which its file says that the model ends, or ends a
        turn. An engine elsewhere does not say that, and its model is judged by its name.
        """
        if self.template is None or self._second_turn is None:
            return False
        if not self._engine.capabilities.has("token_ids"):
            return is_named_instruct(self._engine.info.name)
        closing = self._engine.tokenize(self._second_turn[0].lstrip(), parse_special=True)[:1]
        turn = self._engine.info.metadata.get("tokenizer.ggml.eot_token_id", "")
        return closing == [self._engine.eos] or [str(token) for token in closing] == [str(turn)]

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
        engine = self._engine
        text = self._render("user")
        before, found, after = text.partition(_TURN)
        if not found:
            raise NotSupported("the chat template leaves the user's turn out")
        before = self._without_own_words(before)
        if engine.add_bos and engine.bos is not None:  # it stands before all of a prompt
            before = before.removeprefix(engine.detokenize([engine.bos], special=True))
        return Template(name=engine.info.name, before=before, between=_begin_prose(after))

    def _without_own_words(self, before: str) -> str:
        """Return the text before the user's turn with an empty system message for the template's own one.

        Templates put "You are a helpful AI assistant" there without a system text.
        """
        try:
            opening, _, rest = self._render("system", "user").partition(_TURN)
        except EngineError:  # it takes no system message
            return before
        closing = rest.partition(_TURN)[0]
        own = len(before) > len(opening + closing) and before.startswith(opening)
        return opening + closing if own and closing and before.endswith(closing) else before

    def _render(self, *roles: str) -> str:
        turns = [{"role": role, "content": _TURN} for role in roles]
        return self._engine.apply_template(turns, enable_thinking=False)

    @cached_property
    def _second_turn(self) -> tuple[str, str] | None:
        """The text around a second user's turn, with the end of the answer before it."""
        try:
            parts = self._render("user", "assistant", "user").split(_TURN)
        except EngineError as error:
            log.info("wishes are notes, the chat template has no second turn: %s", error)
            return None
        return (parts[2], _begin_prose(parts[3])) if len(parts) == 4 else None

    def segments_of_wish(
        self, wish: str, settings: StorySettings, tokenizer: Tokenizer, passage: str = "", after: str = ""
    ) -> tuple[Segment, ...]:
        """Return ``wish`` as a user's turn, or as a note where the model's chat template frames no turn.

        It is about new text, or about ``passage``, which ``after`` follows in the story.
        """

        framed = self.apply(settings).template is not None and settings.template is None
        turn, segment = self._second_turn if framed else None, tokenizer.segment
        if turn is None:
            return (segment("wish", wish_note(wish, passage, after)),)
        asked = REWRITE.format(wish=wish, passage=passage) if passage else WISH.format(wish=wish)
        return segment("template", turn[0]), segment("wish", asked), segment("template", turn[1])

    def apply(self, settings: StorySettings) -> StorySettings:
        """Return ``settings`` with the template and the request that frame the story, or without a template.

        A template that the story names itself goes before the model's.
        """
        wanted = self.instruct if settings.framed is None else settings.framed
        template = settings.template or (self.template if wanted else None)
        if template is None or settings.framed is False:
            return replace(settings, template=None)
        usual = REQUEST if settings.template is None else template.request
        return replace(settings, template=replace(template, request=settings.request or usual))

    def describe(self, settings: StorySettings) -> str:
        """Whether a request frames the story, and why not, in a sentence."""
        if settings.framed is False:
            return "The frame is off for this story: the model continues the text alone."
        if self.apply(settings).template is not None:
            return "The model is asked for a story, and the story is the beginning of its answer."
        if problem := self._problem or self._engine.capabilities.reason_for("chat_template"):
            return f"No frame: {problem}."
        return "No frame: this model continues text and was not tuned to follow requests."


def _begin_prose(opened: str) -> str:
    """Return the opening of an answer, with the end of the model's thinking if it begins with thoughts."""
    for opening, ended in _PROSE_CHANNEL:
        if opened.rstrip().endswith(opening):
            return opened.rstrip() + ended
    return opened


class Prompter:
    """Lays out prompts, each of which continues the previous one if possible."""

    def __init__(self, story: Story, engine: Backend) -> None:
        self.story, self.engine = story, engine
        self.tokenizer = Tokenizer(
            tokenize=engine.tokenize_continuation,
            tokenize_template=lambda text: engine.tokenize(text, parse_special=True),
            sizes=token_sizes(engine),
            vocabulary=engine.info.vocab,
            bos=(engine.bos,) if engine.add_bos and engine.bos is not None else (),
        )
        self.frame = ChatFrame(engine)
        self._layouts: dict[NodeId, Layout] = {}
        self.lost, self.told = 0, ""
        """Characters of the story that the last prompt left out. What it told of them stays until then."""
        self.tell: Callable[[int], str] = lambda lost: ""
        """Returns what a prompt tells of the first characters of the story; see :class:`.book.Book`."""
        self._outlined: tuple[object, str] = None, ""
        saved = cast(Any, story.value("layout"))
        if saved:
            places = saved["layout"].items()
            self._layouts[saved["node"]] = {key: (at[0], at[1]) for key, at in places if isinstance(at, list)}

    def assemble(
        self, node: NodeId, settings: StorySettings, stop: Stop, at: int | None = None,
        wish: str = "", passage: str = "", after: str = "",
    ) -> Assembly:  # fmt: skip
        """Assemble the prompt at ``node``, or after its first ``at`` characters, with ``wish`` near its end.

        The wish is about new text, or about ``passage``, which stands there now with ``after`` behind it.
        ``settings`` are those in force there. Raises ContextError if the window is too small.
        """
        path = self.story.path(node)
        n_ctx, reserve = self.engine.n_ctx, self._reserve(stop)
        layout = next((self._layouts[n] for n in reversed(path) if n in self._layouts), None)
        framed = self.frame.apply(settings)
        asked: tuple[Segment, ...] = ()
        if wish:
            asked = self.frame.segments_of_wish(wish, settings, self.tokenizer, passage, after)
        end = self._end(path, at)
        if note := self._note_of_outline(node, settings):
            framed = replace(framed, author_note="\n".join(filter(None, (settings.author_note, note))))
        given = replace(framed, so_far=self.told or None)
        found = assemble(end, given, self.tokenizer, n_ctx, reserve, layout, asked)
        lost = self._lost_in(node, at, found)
        if lost != self.lost and (told := self.tell(lost)) != self.told:  # read anew from here on anyway
            given = replace(framed, so_far=told or None)
            found = assemble(end, given, self.tokenizer, n_ctx, reserve, found.layout, asked)
        return found

    def retell(self) -> None:
        """Let the next prompt look up the summaries again."""
        self.lost = 0

    def _lost_in(self, node: NodeId, at: int | None, assembly: Assembly) -> int:
        """Return how many characters of the story up to ``node`` a prompt leaves out."""
        behind = 0 if at is None else max(0, len(self.story.node(node).text) - at)
        shown = sum(len(segment.text) for segment in assembly.segments if segment.source == "story")
        return max(0, self.story.chars(node) - behind - shown)

    def _note_of_outline(self, node: NodeId, settings: StorySettings) -> str:
        """Return the lines of the outline that are read at ``node``."""
        if not settings.outline:
            return ""
        key = node, self.story.last_action, settings.outline
        if self._outlined[0] != key:
            text = self.story.text(node)
            self._outlined = key, note_for(settings.outline, outline(text), len(text))
        return self._outlined[1]

    def segments_of_wish(self, node: NodeId, wish: str) -> tuple[Segment, ...]:
        """Return ``wish`` as a prompt at ``node`` has it."""
        return self.frame.segments_of_wish(wish, self.story.settings(node), self.tokenizer)

    def remember(self, node: NodeId, assembly: Assembly) -> None:
        """Store the layout of a used prompt for the next ones."""
        self.lost = self._lost_in(node, None, assembly)
        self.told = "".join(one.text for one in assembly.segments if one.source == "so far")
        if self._layouts.get(node) != assembly.layout:
            self._layouts[node] = assembly.layout
            if self.story.read_only is None and assembly.layout:
                self.story.put_value("layout", {"node": node, "layout": assembly.layout})

    def prompt(self, assembly: Assembly) -> tuple[TokenRun, ...]:
        """Return the tokens of the prompt; words typed at its end stay text, so that they can be healed."""
        last = assembly.segments[-1] if assembly.segments else None
        if last is None or last.source != "story" or last.stored:
            return (TokenRun("", assembly.tokens),)
        head = assembly.tokens[: len(assembly.tokens) - len(last.tokens)]
        return (TokenRun("", head), TokenRun(last.text))

    def account(self, node: NodeId, stop: Stop) -> PromptAccount:
        """Return the sizes of the prompt by source, for display."""
        settings = self.story.settings(node)
        assembly = self.assemble(node, settings, stop)
        parts = [PromptPart(f.source, f.text, 0, False) for f in assembly.dropped]
        parts += [PromptPart(s.source, s.text, len(s.tokens), True) for s in assembly.segments]
        return PromptAccount(
            parts, len(assembly.tokens), self.engine.n_ctx, list(assembly.problems),
            self.frame.describe(settings), self.frame.apply(settings).template is not None,
        )  # fmt: skip

    def _reserve(self, stop: Stop) -> int:
        wanted = stop.max_tokens if stop.max_tokens is not None else MOST_RESERVE
        return max(LEAST_RESERVE, min(wanted, MOST_RESERVE, self.engine.n_ctx // 4))

    def _end(self, path: list[NodeId], at: int | None) -> list[tuple[str, tuple[Span, ...]]]:
        """Return the last nodes of the path, enough to fill the window, each with its spans.

        The last one is cut at character ``at``, if that is given.
        """
        wanted, count = self.engine.n_ctx * CHARS_PER_TOKEN, 8
        while True:
            nodes = self.story.nodes(path[-count:])
            if count >= len(path) or sum(len(n.text) for n in nodes) >= wanted:
                spans = [node.spans for node in nodes]
                if at is not None and at < len(nodes[-1].text):
                    spans[-1] = part_of(spans[-1], 0, at, self.story.token_sizes)
                return [(str(node.id), own) for node, own in zip(nodes, spans, strict=True)]
            count *= 2
