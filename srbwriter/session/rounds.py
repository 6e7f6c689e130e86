"""Rounds: N branches below one node, how far each has been saved, and earlier rounds.

The recorder's state of a branch is kept here as values; :mod:`srbwriter.session.recorder` saves it. Nothing
here steers the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from typing import NamedTuple

from srbwriter.engine.generation import Branch, Buffer, Command, Generation
from srbwriter.engine.types import (
    BranchState,
    Done,
    FinishReason,
    InvalidRequest,
    Request,
    Sampling,
    Stop,
)
from srbwriter.story import Node, NodeId, Story

from .likeness import Duplicates
from .prefix import Prefix, kept_prefixes

WISH = "wish"
"""The field of a node's ``meta`` with what the writer asked for when its text was requested."""

STEERED = "steered"
"""The field of a node's ``meta`` with what its branch is steered by: note, end."""

_KEPT_ROUNDS = 24
_KEPT_BRANCHES = 32
_SCALARS = {field.name for field in fields(Sampling)} - {"seed"}


@dataclass(slots=True)
class Track:
    """The saved part of a branch. ``nodes`` are (node, first character of the branch in it)."""

    branch: Branch
    name: NodeId  # the branch's id in the story while it is generated
    buffer: Buffer
    nodes: list[tuple[NodeId, int]] = field(default_factory=list["tuple[NodeId, int]"])
    take: int = 0  # the version of the branch in ``buffer``
    pieces: int = 0
    chars: int = 0
    ids: int = 0
    finished: bool = False
    killed: bool = False  # whether the story knows that the branch was killed

    @property
    def complete(self) -> bool:
        """Whether the branch has ended and is saved."""
        buffer = self.branch.buffer
        return self.finished and buffer is self.buffer and self.pieces == len(buffer.pieces)

    @property
    def news(self) -> bool:
        """Whether there is unsaved text or an unsaved end."""
        buffer = self.branch.buffer
        fresh = buffer is not self.buffer or self.pieces < len(buffer.pieces)
        return fresh or (not self.finished and not self.branch.live) or self.killed_late

    @property
    def killed_late(self) -> bool:
        """Whether the branch was killed after its end, which is not saved yet."""
        killed = self.branch.finish_reason is FinishReason.KILLED and not self.branch.live
        return killed and self.finished and not self.killed

    @property
    def text(self) -> str:
        """The saved text."""
        return "".join(self.buffer.pieces[: self.pieces])[: self.chars]

    def copy(self) -> Track:
        return replace(self, nodes=list(self.nodes))

    def node_at(self, char: int) -> tuple[NodeId, int]:
        """Return the node that holds the character before ``char``, and the offset after it."""
        for node, start in reversed(self.nodes):
            if start < char or start == 0:
                return node, char - start
        return self.nodes[0][0], char


class Turn(NamedTuple):
    """A fork at a token: the prompt, the forced first tokens, and the tokens barred after them."""

    prompt: tuple[int, ...]
    begin: tuple[int, ...]
    without: tuple[int, ...]


class Round:
    """N branches below one node. ``generation`` is None while the model is still loading."""

    def __init__(self, story: Story, parent: NodeId, n: int) -> None:
        self.story, self.parent, self.n = story, parent, n
        self.identity = object()  # shared with the round that continues these branches
        self.generation: Generation | None = None
        self.duplicates = Duplicates()
        self.forced: set[int] = set()  # branches whose first token the writer chose
        self.mean_logprobs: dict[int, float] = {}  # means over the tokens of ended branches, once requested
        self.prefix: Prefix | None = None  # the text before the branches when they were requested, once known
        self.taken = False  # a branch was picked, and the writer is after it
        self.model = self.vocab = ""
        self.tracks: list[Track] = []
        self._takes: dict[int, list[Buffer]] = {}
        self.taken_up = True  # False for a restored round, which no engine has
        self.wish = ""  # what the writer asked of all its branches
        self.wishes: dict[int, str] = {}  # and of single ones, by their index
        self._replacing: dict[int, Branch] = {}  # branches of other requests, by the index that they have

    @property
    def branches(self) -> list[Branch]:
        own = self.generation.branches if self.generation is not None else []
        return [self._replacing.get(branch.index, branch) for branch in own] if self._replacing else own

    @property
    def generations(self) -> list[Generation]:
        """The requests that write its branches; the first one writes most."""
        first = [self.generation] if self.generation is not None else []
        return [*first, *(branch.generation for branch in self._replacing.values())]

    def replace_branch(self, branch: Branch, wish: str) -> None:
        """Let ``branch``, of another request, take the place of the one with its index, for ``wish``.

        The text so far becomes an earlier version.
        """
        self.takes(self.branches[branch.index])
        self._replacing[branch.index] = branch
        self.wishes[branch.index] = wish
        if branch.index < len(self.tracks):
            self.tracks[branch.index].branch = branch

    def wish_of(self, index: int) -> str:
        """Return what the writer asked of branch ``index``; empty if nothing."""
        return self.wishes.get(index, self.wish)

    @property
    def error(self) -> Exception | None:
        return self.generation.error if self.generation is not None else None

    @property
    def over(self) -> bool:
        """Whether all branches have ended and are saved."""
        done = self.generation is not None and all(generation.done for generation in self.generations)
        return done and len(self.tracks) == len(self.branches) and all(t.complete for t in self.tracks)

    @property
    def news(self) -> bool:
        """Whether there is unsaved text or an unsaved end."""
        return len(self.branches) > len(self.tracks) or any(track.news for track in self.tracks)

    def prefix_fits(self, text: str) -> bool:
        """Whether the text before the branches, if known, is the beginning of ``text``."""
        return self.prefix is None or self.prefix.begins(text)

    def update_versions(self) -> None:
        """Update the versions of the branches; call it on the engine's thread, so that none is missed."""
        for branch in self.branches:
            self.takes(branch)

    def takes(self, branch: Branch) -> list[Buffer]:
        """Return the versions of ``branch``, oldest first; the last one is the present one."""
        takes = self._takes.setdefault(branch.index, [branch.buffer])
        if takes[-1] is not branch.buffer:
            takes.append(branch.buffer)
        return takes

    def node_of(self, index: int) -> NodeId:
        """Return the node that gets the text of branch ``index`` now. Raises IndexError before it has one."""
        return self.tracks[index].nodes[-1][0]

    def find(self, index: int, shown: int) -> tuple[NodeId, int] | None:
        """Return the node and the offset at which the first ``shown`` characters of branch ``index`` end.

        For a node edited since, that is the unedited version beside it. None if the story no longer has these
        characters in one node, after a split or a deletion.
        """
        track = self.tracks[index]
        node, at = track.node_at(min(shown, track.chars))
        wanted = track.text[:shown]
        if self._text_below(node, at) == wanted:
            return node, at
        takes = self.story.nodes(self.story.children(self.parent)) if wanted else []
        kept = [take for take in takes if take.author == "model" and take.text.startswith(wanted)]
        return (kept[0].id, shown) if kept else None

    def _text_below(self, node: NodeId, at: int) -> str | None:
        """Return the text from the round's parent to character ``at`` of ``node``; None if it is
        elsewhere."""
        text, above = self.story.node(node).text[:at], self.story.parent(node)
        if not self.story.is_living(node):
            return None
        while above != self.parent:
            if above is None:
                return None
            text = self.story.node(above).text + text
            above = self.story.parent(above)
        return text


def adopted(old: Round, generation: Generation) -> Round:
    """Return the restored round ``old`` with the branches of ``generation`` instead of its own."""
    found = Round(old.story, old.parent, old.n)
    found.generation = generation
    found.identity = old.identity
    found.wish = old.wish
    found.prefix, found.forced = old.prefix, old.forced
    found.duplicates.renewed.update(old.duplicates.renewed)
    for track, branch in zip(old.tracks, generation.branches, strict=True):
        fresh = Track(branch, track.name, branch.buffer, list(track.nodes), finished=True)
        fresh.killed = track.killed
        fresh.pieces, fresh.chars, fresh.ids = len(branch.buffer.pieces), track.chars, len(branch.buffer.ids)
        found.tracks.append(fresh)
    found.update_versions()
    return found


class RoundHistory:
    """The last rounds, so that going back to a node shows its branches.

    A node has a round for each text that it had when branches were requested.
    """

    def __init__(self, left_at: Callable[[NodeId], Round | None]) -> None:
        self._rounds: dict[tuple[NodeId, Prefix | None], Round] = {}
        self._left_at = left_at  # finds a round that an earlier session left

    def remember(self, current: Round) -> None:
        self._put(current.parent, current)

    def leave(self, story: Story, shown: Round | None) -> None:
        """Keep the shown round when the writer leaves its node."""
        if shown is not None and shown.generation is not None and not shown.taken:
            self._put(story.current, shown)

    def _put(self, node: NodeId, current: Round) -> None:
        self._rounds.pop((node, current.prefix), None)
        self._rounds[node, current.prefix] = current
        while len(self._rounds) > _KEPT_ROUNDS:
            del self._rounds[next(iter(self._rounds))]

    def at(self, story: Story, node: NodeId) -> Round | None:
        """Return the last round shown at ``node``, or saved below it; None if there is none.

        A round for the present text is preferred.
        """
        shown = [current for (place, _), current in self._rounds.items() if place == node]
        text = story.text(node) if shown else ""
        fitting = [current for current in shown if current.prefix_fits(text)]
        if fitting:
            return fitting[-1]
        found = self._left_at(node) or restore(story, node)
        return shown[-1] if shown and (found is None or not found.prefix_fits(text)) else found


def restore(story: Story, parent: NodeId) -> Round | None:
    """Return the last branches that the model wrote below ``parent``, ended; None if there are none.

    They can be read, marked and picked. To be steered, they must be submitted to an engine first.
    """
    children = story.nodes(story.children(parent))
    nodes = [n for n in children if n.author == "model" and n.text.strip() and not n.streaming]
    if not nodes:
        return None
    nodes, prefix = _of_one_text(story, parent, nodes)
    return ended_round(story, parent, prefix, [[(node, node.text)] for node in nodes[-_KEPT_BRANCHES:]])


def ended_round(
    story: Story, parent: NodeId, prefix: Prefix | None, branches: Sequence[Sequence[tuple[Node, str]]]
) -> Round:
    """Return a round of ended branches, which no engine has.

    ``branches`` are their nodes, first to last, each with the branch's text in it.
    """
    found = Round(story, parent, len(branches))
    found.taken_up, found.prefix = False, prefix
    generation = found.generation = _ended(Request("", n=len(branches)))
    for index, parts in enumerate(branches):
        branch = _branch(generation, index, parts)
        generation.branches.append(branch)
        starts = accumulate((len(text) for _, text in parts), initial=0)
        nodes = [(node.id, start) for (node, _), start in zip(parts, starts, strict=False)]
        track = Track(branch, nodes[0][0], branch.buffer, nodes, finished=True)
        track.pieces, track.chars, track.ids = 1, len(branch.text), len(branch.buffer.ids)
        track.killed = branch.finish_reason is FinishReason.KILLED
        found.tracks.append(track)
    wishes = [wish_of(parts[0][0]) for parts in branches]
    found.wish = wishes[0] if len(set(wishes)) == 1 else ""
    found.wishes = {index: wish for index, wish in enumerate(wishes) if wish != found.wish}
    return found


def _ended(request: Request) -> Generation:
    """Return the generation of a request of an earlier session, which has ended."""
    generation = Generation(0, request, _refuse)
    generation.publish([Done(0, 0, 0)])
    return generation


def wish_of(node: Node) -> str:
    """Return what the writer asked for when the text of ``node`` was requested; empty if nothing."""
    wish = node.meta.get(WISH)
    return wish if isinstance(wish, str) else ""


def _of_one_text(story: Story, parent: NodeId, nodes: list[Node]) -> tuple[list[Node], Prefix]:
    """Return those of ``nodes`` for the present text of ``parent``, otherwise for its last text.

    A node without a stored prefix counts as having the prefix of the others.
    """
    now = Prefix.of(story.text(parent))
    known = kept_prefixes(story, [node.id for node in nodes])
    prefixes = list(known.values())
    shown = now if now in prefixes or not prefixes else known[max(known)]
    return [node for node in nodes if known.get(node.id, shown) == shown], shown


def _refuse(command: Command) -> None:
    """Refuse all steering but ending: no engine has these branches."""
    if command.verb not in ("cancel", "stop"):
        raise InvalidRequest("branch", "there is no model that could go on with it")


def _branch(generation: Generation, index: int, parts: Sequence[tuple[Node, str]]) -> Branch:
    first, last = parts[0][0], parts[-1][0]
    known = {
        name: value
        for name, value in first.sampling.items()
        if name in _SCALARS and isinstance(value, (int, float, str))
    }
    sampling = replace(Sampling(), **known)  # type: ignore[arg-type]
    branch = Branch(generation, index, sampling, Stop(), first.seed or 0)
    branch.buffer = Buffer()
    for node, _ in parts:
        branch.buffer.ids += [token for span in node.spans for token in span.ids]
    branch.buffer.pieces = ["".join(text for _, text in parts)]
    branch.state = BranchState.DONE
    reasons = {str(reason): reason for reason in FinishReason}
    branch.finish_reason = reasons.get(last.finish_reason, FinishReason.STOPPED)
    return branch
