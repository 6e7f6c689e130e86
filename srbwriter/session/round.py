"""Rounds: N branches below one node, and how much of each is in the story.

The nodes of a round say in their ``meta`` which branch of which round they hold, so that the round can be
read from the story again. Nothing here steers the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from typing import NamedTuple

from srbwriter.engine.generation import Branch, BranchCommand, Buffer, Generation
from srbwriter.engine.types import BranchState, Done, FinishReason, InvalidRequest, Request, Sampling, Stop
from srbwriter.story import ROOT, Node, NodeId, Story
from srbwriter.story.model import State

from .prefix import Prefix

BRANCH, WRITTEN_FOR, WISH, NOTE = "branch", "written for", "wish", "steered"
"""Fields of a node's ``meta``: [round, index]; the text before it, a :class:`Prefix`; what the
writer asked for; the note that the branch alone follows."""

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

    def __init__(self, story: Story, parent: NodeId, n: int, wish: str = "") -> None:
        self.story, self.parent, self.n = story, parent, n
        self.identity = object()
        self.generation: Generation | None = None
        self.number: NodeId = 0  # its first node; 0 before there is one
        self.prefix: Prefix | None = None  # the text before the branches when they were requested, once known
        self.taken = False  # a branch was picked, and the writer is after it
        self.model = self.vocab = ""
        self.tracks: list[Track] = []
        self.taken_up = True  # False for a round that was read from the story, which no engine has
        self.wish = wish  # what the writer asked of all its branches
        self.wishes: dict[int, str] = {}  # and of single ones, by their index
        self.notes: dict[int, str] = {}
        self._takes: dict[int, list[Buffer]] = {}

    @property
    def branches(self) -> list[Branch]:
        return self.generation.branches if self.generation is not None else []

    def wish_of(self, index: int) -> str:
        """Return what the writer asked of branch ``index``; empty if nothing."""
        return self.wishes.get(index, self.wish)

    @property
    def error(self) -> Exception | None:
        return self.generation.error if self.generation is not None else None

    @property
    def over(self) -> bool:
        """Whether all branches have ended and are saved."""
        return self.generation is not None and self.generation.done and not self.news

    @property
    def news(self) -> bool:
        """Whether there is unsaved text or an unsaved end."""
        return len(self.branches) > len(self.tracks) or any(track.news for track in self.tracks)

    def fits(self, text: str) -> bool:
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

    def take_up(self, generation: Generation) -> None:
        """Put the branches of ``generation``, which begin as its own end, in their place."""
        self.generation, self.taken_up, self._takes = generation, True, {}
        for track, branch in zip(self.tracks, generation.branches, strict=True):
            track.branch, track.buffer, track.take = branch, branch.buffer, 0
            track.pieces, track.ids = len(branch.buffer.pieces), len(branch.buffer.ids)

    def find(self, index: int, shown: int) -> tuple[NodeId, int] | None:
        """Return the node and the offset at which the first ``shown`` characters of branch ``index`` end.

        For a node edited since, that is the unedited version beside it. None if the story no longer has these
        characters in one node, after a split or a deletion.
        """
        story, track = self.story, self.tracks[index]
        node, at = track.node_at(min(shown, track.chars))
        wanted, text, above = track.text[:shown], story.node(node).text[:at], story.node(node).parent
        if story.is_living(node):
            while above is not None and above != self.parent:
                text, above = story.node(above).text + text, story.node(above).parent
            if above is not None and text == wanted:
                return node, at
        takes = story.nodes(story.children(self.parent)) if wanted else []
        kept = [take for take in takes if take.author == "model" and take.text.startswith(wanted)]
        return (kept[0].id, shown) if kept else None


def kept_node(story: Story, node: NodeId) -> NodeId:
    """Return ``node``, or the node that it was joined to."""
    while story.node(node).state is State.ABSORBED:
        node = story.node(node).parent or ROOT
    return node


def text_meta(node: Node, name: str) -> str:
    """Return a text of a node's ``meta``; empty if there is none."""
    value = node.meta.get(name)
    return value if isinstance(value, str) else ""


def wish_of(node: Node) -> str:
    """Return the wish with which the text of ``node`` was requested; empty if nothing."""
    return text_meta(node, WISH)


def read_round(story: Story, parent: NodeId, number: NodeId | None = None) -> Round | None:
    """Read the last round that a model wrote below ``parent`` for the present text, or round ``number``.

    Its branches have ended; to be steered, they must be submitted to an engine first. None if there is none.
    """
    rounds: dict[NodeId, dict[int, Node]] = {}
    for node in story.nodes(story.children(parent)):
        if node.author == "model" and node.text.strip() and node.finish_reason != "cut":
            match node.meta.get(BRANCH):
                case [int(of), int(index)]:
                    rounds.setdefault(of, {})[index] = node  # the last version of a branch
                case _:  # of a program without rounds
                    rounds.setdefault(0, {})[node.id] = node
    if number is None:
        now = Prefix.of(story.text(parent)) if rounds else None
        fitting = [of for of, nodes in rounds.items() if of and _prefix(nodes) == now]
        number = max(fitting or rounds, default=0)
    if number not in rounds:
        return None
    firsts = [node for _, node in sorted(rounds[number].items())][-_KEPT_BRANCHES:]
    found = Round(story, parent, len(firsts))
    found.number, found.prefix, found.taken_up = number, _prefix(rounds[number]), False
    generation = found.generation = Generation(0, Request("", n=len(firsts)), _refuse)
    generation.publish([Done(0, 0, 0)])
    for index, first in enumerate(firsts):
        nodes = _parts(story, first)
        branch = _ended_branch(generation, index, nodes)
        generation.branches.append(branch)
        starts = accumulate((len(node.text) for node in nodes), initial=0)
        places = [(node.id, start) for node, start in zip(nodes, starts, strict=False)]
        track = Track(branch, first.id, branch.buffer, places, finished=True)
        track.pieces, track.chars, track.ids = 1, len(branch.text), len(branch.buffer.ids)
        track.killed = branch.finish_reason is FinishReason.KILLED
        found.tracks.append(track)
        if note := text_meta(first, NOTE):
            found.notes[index] = note
    wishes = [wish_of(first) for first in firsts]
    found.wish = wishes[0] if len(set(wishes)) == 1 else ""
    found.wishes = {index: wish for index, wish in enumerate(wishes) if wish != found.wish}
    return found


def _prefix(branches: dict[int, Node]) -> Prefix | None:
    return Prefix.from_json(next(iter(branches.values())).meta.get(WRITTEN_FOR))


def _parts(story: Story, node: Node) -> list[Node]:
    """Return the nodes of a branch that begins in ``node``: one that was cut, or went on, has several."""
    nodes, known = [node], node.meta.get(BRANCH)
    while known is not None:
        below = story.nodes(story.children(nodes[-1].id))
        rest = next((n for n in below if n.author == "model" and n.meta.get(BRANCH) == known), None)
        if rest is None:
            break
        nodes.append(rest)
    return nodes


def _refuse(command: BranchCommand) -> None:
    """Refuse all steering but ending: no engine has these branches."""
    if command.verb not in ("cancel", "stop"):
        raise InvalidRequest("branch", "there is no model that could go on with it")


def _ended_branch(generation: Generation, index: int, nodes: Sequence[Node]) -> Branch:
    """Return a branch with the text of ``nodes``, ended as the last one says."""
    known = {
        name: value
        for name, value in nodes[0].sampling.items()
        if name in _SCALARS and isinstance(value, (int, float, str))
    }
    sampling = replace(Sampling(), **known)  # type: ignore[arg-type]
    branch = Branch(generation, index, sampling, Stop(), nodes[0].seed or 0)
    for node in nodes:
        branch.buffer.ids += [token for span in node.spans for token in span.ids]
    branch.buffer.pieces = ["".join(node.text for node in nodes)]
    branch.state = BranchState.DONE
    reasons = {str(reason): reason for reason in FinishReason}
    branch.finish_reason = reasons.get(nodes[-1].finish_reason, FinishReason.STOPPED)
    return branch
