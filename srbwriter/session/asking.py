"""The rounds of a session: requesting branches, steering them, picking one, and leaving the round.

Every round begins in :meth:`Rounds.begin_round`, and ends in :meth:`Rounds.leave_round`: its branches stop,
and all typed and generated text is saved in one transaction with the verb that leaves the round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import (
    EngineError,
    EngineOptions,
    FinishReason,
    NoModel,
    Priority,
    Request,
    Sampling,
    Stop,
    Take,
)
from srbwriter.engine.verbs import VERBS, BranchVerb
from srbwriter.models.suited import suited_to
from srbwriter.story import NodeId, ReadOnlyStory, Refused, Story, StoryError
from srbwriter.story.context import Assembly, ContextError
from srbwriter.story.model import JsonObject

from . import typing
from .instrument import Instrument
from .models import Models
from .open import rescue_folder
from .picking import Picking
from .prompting import Prompter, with_words
from .recorder import Recorder
from .rounds import Round, RoundHistory, Turn, adopted
from .sampling import Variety, sample_branches
from .workspace import Workspace

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_END_SECONDS = 10.0  # a running step of the engine cannot be interrupted


class Rounds(Models):
    """The branches of a session, which continue from the current node."""

    def __init__(
        self, story: Story, loader: EngineLoader, options: EngineOptions | None, n: int,
        sampling: Sampling, stop: Stop, variety: Variety,
    ) -> None:  # fmt: skip
        super().__init__(story, loader, options)
        self.n, self.sampling, self.stop, self.variety = n, sampling, stop, variety
        self.round: Round | None = None
        self.typing = typing.Typing(story, story.set_text, rescue_folder(story))
        self._workspace = Workspace(story, lambda: self.round)
        self._history = RoundHistory(self._workspace.left_at)
        self._recorder = Recorder(story, self.typing, self._lock, workspace=self._workspace)
        self._picking = Picking(story, self.typing, self._recorder)

    def _text_changed(self) -> None:
        for instrument in self.instruments.values():
            instrument.text_changed()

    # ---- into a round

    def generate(self, n: int | None = None, wish: str = "") -> Round:
        """Request ``n`` branches (by default the session's n) from the current node, with ``wish`` if given.

        A running round is stopped; its text stays. Before the model is loaded the round waits for it. Raises
        ReadOnlyStory if branches cannot be saved, and NoModel if no model is loading; the shown round stays
        then.
        """
        self.may_write()
        with self._lock:
            self.leave_round(self.story.end_typing)
            return self._ask(n or self.n, wish)

    def may_write(self) -> None:
        """Raise ReadOnlyStory if branches cannot be saved, and NoModel if no model is loaded or loading."""
        if self.story.read_only is not None:
            raise ReadOnlyStory(self.story.read_only)
        if self.engine_state == "FAILED":
            raise NoModel(f"{self._why_no_model()}; the branches stay as they are")

    def _ask(self, n: int, wish: str = "") -> Round:
        """Begin a round at the current node, or let it wait for the model."""
        current = self.round = Round(self.story, self.story.current, n)
        current.wish = wish
        if self._prompter is not None:
            self.begin_round(current)
        return current

    def begin_round(self, current: Round, takes: tuple[Take, ...] = (), turn: Turn | None = None) -> None:
        """Submit the branches of ``current`` to the engine, and show them.

        With ``takes`` they begin, ended, with these texts; with ``turn`` they fork at a token. If the request
        fails, no branches are shown; with ``takes``, the previous ones. Raises EngineError, ContextError or
        StoryError.
        """
        try:
            current.generation = self._request(current, takes, turn)
        except (EngineError, ContextError, StoryError):
            if not takes:
                self.round = None
            raise
        self.round = current
        self._begun(current)

    def _request(
        self, current: Round, takes: tuple[Take, ...] = (), turn: Turn | None = None,
        samplings: tuple[Sampling, ...] = (),
    ) -> Generation:  # fmt: skip
        """Submit the branches of ``current``, which begin, ended, with ``takes`` if there are any."""
        engine, prompter = self.engine, self.prompter
        assert engine is not None
        self._failure = None
        try:
            parent, n, wish = current.parent, current.n, current.wish
            request, assembly = self._question(prompter, parent, n, takes, turn, samplings, wish=wish)
            generation = None if turn is not None or takes else self._find_written(request)
            generation = generation or engine.submit(request)
        except (EngineError, ContextError, StoryError) as error:
            self._failure = error
            raise
        if not wish:
            prompter.remember(parent, assembly)
        return generation

    def _find_written(self, request: Request) -> Generation | None:
        """Return the generation of ``request`` that an instrument has already, or None."""
        found = (instrument.find_written(request) for instrument in self.instruments.values())
        return next((generation for generation in found if generation is not None), None)

    def _question(
        self, prompter: Prompter, parent: NodeId, n: int, takes: tuple[Take, ...] = (),
        turn: Turn | None = None, samplings: tuple[Sampling, ...] = (), at: int | None = None,
        wish: str = "",
    ) -> tuple[Request, Assembly]:  # fmt: skip
        """Return the request for branches that continue ``parent``, or its first ``at`` characters.

        They are sampled with ``samplings``, by default by the settings of the session and of the story there.
        """
        engine = self.engine
        assert engine is not None
        settings = self.story.settings(parent)
        framed = bool(wish) or prompter.frame.apply(settings).template is not None
        stop = with_words(self._stop_of_answer(self.stop) if framed else self.stop)
        samplings = samplings or sample_branches(self.sampling, settings.sampling, n)
        assembly = prompter.assemble(parent, settings, stop, at, wish=wish)
        request = Request(
            prompter.prompt(assembly),
            n=n,
            sampling=samplings,
            stop=stop,
            takes=takes,
            priority=Priority.NORMAL,
            heal=True,
            add_bos=False,
        )
        for instrument in self.instruments.values():
            request = instrument.shape(request)
        if turn is not None:
            turned = replace(request, prompt=turn.prompt, begin=turn.begin, without=turn.without, heal=False)
            return turned, assembly
        return replace(request, **self.variety.request_fields(samplings, engine.capabilities)), assembly

    def _stop_of_answer(self, stop: Stop) -> Stop:
        """Return ``stop`` for text that answers a request or a wish: it ends where the model ends it.

        A plain continuation does not, where the model ends its stories too soon.
        """
        writes_on = self.model is not None and suited_to(self.model.metadata).writes_on
        return replace(stop, ignore_eog=False) if writes_on else stop

    def would_ask(self, index: int | None, upto: int | None) -> Request | None:
        """Return the request of :meth:`generate` at the current node, or after a pick, or None."""
        if self._prompter is None:
            return None
        node, at = self.story.current, None
        if index is not None:
            current = self.round
            if current is None or self.stale or index >= len(current.tracks):
                return None
            found = self._picking.find(current, index, upto)
            if found is None:
                return None
            node, at = found
        return self._question(self._prompter, node, self.n, at=at)[0]

    def _begun(self, current: Round) -> None:
        """Record a submitted round: it is saved to the story and kept in the history from now on."""
        engine = self.engine
        assert engine is not None
        if current.prefix is None:
            self._picking.keep_prefix(current)
        current.model, current.vocab = engine.info.name, engine.info.vocab
        self._recorder.follow(current)
        self._history.remember(current)
        for instrument in self.instruments.values():
            instrument.round_begins(current)

    @property
    def view(self) -> JsonObject:
        """The view stored by :meth:`keep_view`, or by an earlier run at the same node; empty by default."""
        return self._workspace.view

    def keep_view(self, view: JsonObject) -> None:
        """Store the interface's view for the next opening of the story; return at once."""
        if view != self._workspace.view:
            self._workspace.view = view
            self._recorder.note_view()

    def restore_workspace(self) -> None:
        """Show the branches that were on the screen last, otherwise those of the current node."""
        shown = self._workspace.restore()
        if shown is None:
            self.recall()
            return
        self.round = shown
        self._history.remember(shown)
        self._recorder.follow(shown)
        self._text_changed()

    def recall(self) -> None:
        """Show the branches that were generated at the current node, if there are any."""
        self._text_changed()
        here = self.story.current
        shown = self.round
        if shown is not None and shown.generation is None:
            return
        if shown is None or shown.parent != here or self.stale:
            shown = self.round = self._history.at(self.story, here)
            if shown is not None:
                self._recorder.follow(shown)
        if shown is not None:
            shown.taken = False

    # ---- branches

    @property
    def stale(self) -> bool:
        """Whether the text before the branches has changed since they were requested."""
        return self._picking.is_stale(self.round)

    def joined(self, index: int) -> str:
        """Return the text of branch ``index`` as a pick would append it to the story as it is now."""
        text = self._branch(index).text
        return text if self.round is None else self._picking.joined(self.round, text)

    def steer(self, index: int, verb: BranchVerb, **arguments: Any) -> None:
        """Call a verb of :data:`.engine.verbs.VERBS` on a branch; what it replaces stays in the tree."""
        asleep = "ended" not in VERBS[verb].states  # ended branches of an earlier session have no engine
        getattr(self._branch(index) if asleep else self.steered(index), verb)(**arguments)

    def reroll_all(self) -> None:
        """Roll all branches again."""
        self.take_up()
        if self.round is not None:
            for branch in self.round.branches:
                branch.reroll()

    def reroll_with_wish(self, index: int, wish: str) -> None:
        """Write branch ``index`` again with ``wish`` near the end of its prompt; the others continue.

        Another request writes it from now on: its first branches, which have ended without text, give it its
        index. Raises Refused if the text before the branches has changed.
        """
        self.may_write()
        with self._lock:
            old = self.steered(index)
            current, stop = self.round, self._stop_of_answer(old.stop_rule)
            assert current is not None
            if self.stale:
                raise Refused("the text before these branches has changed; ask for new branches")
            none = (Take("", (), FinishReason.STOPPED),) * (index + 1)
            asked = Round(self.story, current.parent, index + 1)
            asked.wish = wish
            generation = self._request(asked, none, samplings=(old.sampling,) * (index + 1))
            branch = generation.branches[index]
            old.kill()
            current.replace_branch(branch, wish)
            self._recorder.follow_request(current, generation)
            branch.reroll(stop=stop)
        self._text_changed()

    def add_branches(self, count: int = 1) -> None:
        generation = self.take_up()
        if generation is not None:
            generation.add_branch(count, stop=with_words(self.stop))

    def _branch(self, index: int) -> Branch:
        if self.round is None or not 0 <= index < len(self.round.branches):
            raise IndexError(f"there is no branch {index + 1}")
        return self.round.branches[index]

    def steered(self, index: int) -> Branch:
        """Return branch ``index`` for a verb, after submitting it to the engine if necessary."""
        self._branch(index)
        self.take_up()
        if self.round is not None:
            self.round.duplicates.steered.add(index)
        return self._branch(index)

    def take_up(self) -> Generation | None:
        """Submit the branches of an earlier session to the engine, each ended after its saved text.

        Return the shown round; None if there is none. Raises EngineError without an engine.
        """
        with self._lock:
            old = self.round
            if old is None or old.taken_up:
                return old.generation if old is not None else None
            if self.engine is None or self._prompter is None:
                raise NoModel(f"{self._why_no_model()}; the branches stay as they are")
            takes = tuple(
                Take(branch.text, branch.ids, branch.finish_reason or FinishReason.STOPPED)
                for branch in old.branches
            )
            samplings = tuple(branch.sampling for branch in old.branches)
            self.round = adopted(old, self._request(old, takes, samplings=samplings))
            self._begun(self.round)
            return self.round.generation

    # ---- out of a round

    @property
    def long_work(self) -> Instrument | None:
        """The first instrument with long work in progress; None if there is none."""
        return next((one for one in self.instruments.values() if one.progress), None)

    def stop_all(self) -> None:
        """Stop the branches; they remain shown."""
        with self._lock:
            for instrument in self.instruments.values():
                instrument.round_ends()
            if self.round is not None and self.round.generation is not None:
                for generation in self.round.generations:
                    generation.cancel()
            else:
                self._forget_waiting()

    def leave_round(self, act: Callable[[], Result], wait: float = 0.0) -> Result:
        """Stop the branches; run ``act``, a verb, in one transaction with all typed and generated text.

        The engine gets ``wait`` seconds to end them before. Raises StoryError as :meth:`keep` does.
        """
        self.stop_all()
        if wait:
            self._let_end(wait)
        return self._in_story(act)

    def pick(
        self, index: int, upto: int | None = None, text: str | None = None, go_on: bool = False
    ) -> NodeId:
        """Pick branch ``index``, or its first ``upto`` characters, as part of the story.

        ``text`` replaces the picked text (edited before picking; the model's version stays beside it). The
        other branches stop and stay in the tree. If the story has changed since the branches began, a copy of
        the picked text is added to the present text, so that no word is lost; it begins as :meth:`joined`
        says. With ``go_on`` a new round begins after it, as by :meth:`generate`; if that raises, the pick
        remains.
        """
        self._branch(index)
        with self._lock:
            current = self.round
            assert current is not None
            node = self.leave_round(lambda: self._picking.take(current, index, upto, text))
            current.taken = True
            if go_on:
                self.may_write()
                self._ask(self.n)
            return node

    def _let_end(self, seconds: float = _END_SECONDS) -> None:
        """Wait until the engine has ended the round, so that all of its text can be saved."""
        for generation in self.round.generations if self.round is not None else ():
            try:
                generation.wait(seconds)
            except (EngineError, TimeoutError) as error:
                log.warning("the last branches did not end well: %s", error)

    # ---- onto the disk

    def keep(self) -> None:
        """Save everything typed and generated so far to the disk.

        Raises StoryError if saving fails; nothing is lost then, and the recorder retries.
        """
        self._recorder.write()

    def _in_story(self, act: Callable[[], Result]) -> Result:
        """Run ``act``, which may move to another node; the shown branches are kept for a return."""

        def leave() -> Result:
            left = self.round
            self._history.leave(self.story, left)
            result = act()
            if left is not None and self.story.current != left.parent:
                self._workspace.leave(left)
            return result

        try:
            return self._recorder.together(leave)
        finally:
            self._picking.text_may_differ()

    # ---- changes of the model

    def _leave_model(self) -> None:
        self.stop_all()

    def _meet_model(self) -> None:
        if self.round is not None and self.round.generation is None:
            try:
                self.begin_round(self.round)
            except (EngineError, ContextError, StoryError) as error:
                log.warning("the round that waited for the model is refused: %s", error)
        self._text_changed()

    def _forget_waiting(self) -> None:
        """Cancel a round that waits for a model, and show the previous branches again."""
        if self.round is not None and self.round.generation is None:
            self.round = None
            self.recall()
