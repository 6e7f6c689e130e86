"""Session: the verbs that every face calls. Each returns at once; the engine's work follows."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from srbwriter import launch
from srbwriter.config import Settings
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import (
    Cancelled,
    EngineError,
    EngineOptions,
    FinishReason,
    ModelInfo,
    NoModel,
    NotSupported,
    Priority,
    Request,
    Sampling,
    Stop,
    Take,
)
from srbwriter.story import NodeId, ReadOnlyStory, Refused, Story, StoryError
from srbwriter.story.context import Assembly, ContextError

from . import judging, typing
from .ahead import LookAhead
from .exploring import Explorer, exploring_of
from .framing import is_tuned
from .open import open_story, rescue_folder, token_sizes
from .picking import Picking, cut
from .prefix import Prefix
from .prompting import Context, Prompter, with_words
from .recorder import Recorder
from .rounds import Round, RoundHistory, adopted
from .sampling import Sweep, swept, variety_of
from .tokens import Tokens, TokenText, Turn
from .variety import Variety, renew_alike

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend
    from srbwriter.engine.exploring import Way

log = logging.getLogger(__name__)

Result = TypeVar("Result")

_END_SECONDS = 10.0  # a step of the engine that is under way cannot be broken off
_LAST_SECONDS = 0.25  # of the same, where the system ends the program


class Session:
    """An open story and an engine that may still be loading. Close it when done."""

    def __init__(
        self,
        story: Story,
        loader: EngineLoader,
        *,
        n: int = 8,
        sampling: Sampling | None = None,
        stop: Stop | None = None,
        options: EngineOptions | None = None,
        variety: Variety | None = None,
    ) -> None:
        self.story = story
        self.n = n
        self.sampling = sampling or Sampling()
        self.stop = stop or Stop(max_tokens=64)
        self.sweep: Sweep | None = None
        self.variety = variety or Variety()
        self.round: Round | None = None
        self._history = RoundHistory()
        self._options = options
        self._lock = threading.RLock()
        folder = rescue_folder(story)
        self.typing = typing.Typing(story, story.set_text, folder)
        self._recorder = Recorder(story, self.typing, self._lock)
        self._picking = Picking(story, self.typing, self._recorder)
        self.look_ahead = LookAhead(self, self._lock, self._would_ask)
        """The rounds that picks would begin, written while the writer reads; none until it has a budget."""
        self.exploring = Explorer(
            self, self._lock, lambda: self._would_ask(None, None), self._show_ways, self._begin_with
        )  # fmt: skip
        """What none of the branches shows, and the ways on that are likely."""
        self._note, self.typing.on_key = self.typing.on_key, self._typed
        self._prompter: Prompter | None = None
        self._failure: Exception | None = None
        self._cancelled: Cancelled | None = None
        self._loader = loader
        self._closed = False
        self.taken_up = typing.take_up(story)
        """How many times words of an earlier run, which died, became nodes of the story."""
        self.rescued = typing.rescued(folder)
        """Words of an earlier run that the disk did not take; None if there are none."""
        self.tokens = Tokens(lambda: self.engine)
        self._recall()
        self._await(loader)

    @classmethod
    def open(
        cls, settings: Settings, story: Path | None = None, loader: EngineLoader | None = None
    ) -> Session:
        """Open ``story`` (made if it is missing; None: the one open last, or a first one) and begin to load.

        ``loader`` is the load, under way or done, that another session left behind; None begins a new one.
        Raises StoryError when the file is no story or its folder cannot be written.
        """
        loader = loader or launch.loader(settings)
        opened = cls(
            open_story(story),
            loader,
            n=launch.branches(settings),
            sampling=launch.sampling(settings),
            stop=launch.stop(settings),
            options=loader.options or launch.engine_options(settings),
            variety=variety_of(settings),
        )
        opened.exploring.wanted = exploring_of(settings)
        return opened

    def _typed(self) -> None:
        """A key that is not on the disk yet."""
        self._picking.text_may_differ()
        self._note()
        self.look_ahead.typed()

    # ---- the engine

    @property
    def loader(self) -> EngineLoader:
        """The load of the model in use; a server beside the terminal serves its engine."""
        return self._loader

    @property
    def engine(self) -> Backend | None:
        return self._loader.engine

    @property
    def engine_state(self) -> str:
        """INIT, LOADING, READY or FAILED."""
        return "FAILED" if self._cancelled is not None else self._loader.state

    @property
    def load_progress(self) -> float:
        return self._loader.progress

    @property
    def engine_error(self) -> Exception | None:
        return self._cancelled or self._loader.error or self._failure

    @property
    def model(self) -> ModelInfo | None:
        engine = self.engine
        return engine.info if engine is not None else None

    def lacks(self, name: str) -> str:
        """Why the engine cannot do what ``name`` asks for, in words; see :meth:`.backend.Backend.lacks`."""
        engine = self.engine
        return engine.lacks(name) if engine is not None else ""

    @property
    def instruct(self) -> bool:
        """Whether the model follows instructions; judged by its name until it is loaded."""
        prompter = self._prompter
        return prompter.frame.instruct if prompter is not None else is_tuned((self._loader.name,))

    def load_model(self, path: Path) -> None:
        """Use another model. What is being written stops; the story stays as it is."""
        self._load(EngineLoader(path, self._options, fit=launch.fit_options))

    def _load(self, new: EngineLoader) -> None:
        with self._lock:
            self.stop_all()
            self.look_ahead.drop()
            old, self._loader = self._loader, new
            self._prompter = None
            self._failure = self._cancelled = None
            self.tokens.forget()
        threading.Thread(target=self._swap, args=(old, new), name="srbwriter-swap", daemon=True).start()

    def load_again(self) -> None:
        """Load the model that was loaded last, or that could not be, from where it is once more."""
        self._load(self._loader.again())

    def cancel_load(self) -> bool:
        """Give up the load that is under way, with what waits for it; False if there is none.

        Returns at once with the state FAILED; the native library lets go of the file when it next can.
        """
        with self._lock:
            if self.engine_state not in ("INIT", "LOADING"):
                return False
            self._loader.cancel()
            if self._loader.state == "READY":  # it was faster
                return False
            self._cancelled = Cancelled(f"loading {self._loader.place} was stopped")
            self._forget_waiting()
            return True

    def _forget_waiting(self) -> None:
        """No round waits for a model any more; the branches that were there before are shown again."""
        if self.round is not None and self.round.generation is None:
            self.round = None
            self._recall()

    def _swap(self, old: EngineLoader, new: EngineLoader) -> None:
        old.close()  # first: two models may not fit the memory
        try:
            self.keep()
        except StoryError as error:
            log.warning("not written down yet: %s", error)
        self._await(new)

    def _await(self, loader: EngineLoader) -> None:
        loader.start()
        threading.Thread(target=self._when_ready, args=(loader,), name="srbwriter-ready", daemon=True).start()

    def _when_ready(self, loader: EngineLoader) -> None:
        try:
            engine = loader.wait()
        except Exception as error:
            log.warning("no model: %s", error)
            return
        with self._lock:
            if loader is not self._loader or self._closed:
                return
            self._prompter = Prompter(self.story, engine)
            self.story.use_token_sizes(token_sizes(engine))
            if self.round is not None and self.round.generation is None:
                try:
                    self._submit(self.round)
                except (EngineError, ContextError, StoryError) as error:
                    log.warning("the round that waited for the model is refused: %s", error)
        self.look_ahead.look()

    # ---- writing by the model

    def generate(self, n: int | None = None) -> Round:
        """Let ``n`` (the session's n by default) branches write on from the current node.

        A round that is still running is stopped; its text stays. Before the model is loaded the
        round waits for it. Raises ReadOnlyStory where no branch could be kept, and NoModel where there is
        none to wait for; what is shown stays then.
        """
        self._may_write()
        with self._lock:
            return self._generate(n or self.n)

    def _may_write(self) -> None:
        if self.story.read_only is not None:
            raise ReadOnlyStory(self.story.read_only)
        if self.engine_state == "FAILED":
            raise NoModel(f"{self._why_no_model()}; the branches stay as they are")

    def _generate(self, n: int, turn: Turn | None = None) -> Round:
        self.stop_all()
        self.keep()
        self.story.end_typing()
        current = self.round = Round(self.story, self.story.current, n)
        if self._prompter is not None:
            self._submit(current, turn)
        return current

    def _submit(self, current: Round, turn: Turn | None = None) -> None:
        if self.engine is None or self._prompter is None:
            return
        try:
            own = self.story.settings(self.story.current).sampling
            samplings = swept(self.sampling, own, self.sweep, current.n)
            current.generation = self._request(current.parent, current.n, samplings, turn=turn)
        except (EngineError, ContextError, StoryError):
            self.round = None
            raise
        current.lead = current.generation.healed
        self._begun(current)

    def _request(
        self, parent: NodeId, n: int, samplings: Sampling | tuple[Sampling, ...],
        takes: tuple[Take, ...] = (), turn: Turn | None = None,
    ) -> Generation:  # fmt: skip
        """Ask the engine for branches that go on from ``parent``, or stand at the end of ``takes``."""
        engine, prompter = self.engine, self._prompter
        assert engine is not None and prompter is not None
        self._failure = None
        try:
            request, assembly = self._question(prompter, parent, n, samplings, takes, turn=turn)
            generation = self.look_ahead.take(request) if turn is None and not takes else None
            generation = generation or engine.submit(request)
        except (EngineError, ContextError, StoryError) as error:
            self._failure = error
            raise
        prompter.remember(parent, assembly)
        return generation

    def _question(
        self, prompter: Prompter, parent: NodeId, n: int, samplings: Sampling | tuple[Sampling, ...],
        takes: tuple[Take, ...] = (), at: int | None = None, turn: Turn | None = None,
    ) -> tuple[Request, Assembly]:  # fmt: skip
        """What the engine is asked for branches that go on from ``parent``, or ``at`` characters into it."""
        engine = self.engine
        assert engine is not None
        stop = with_words(self.stop)
        assembly = prompter.assemble(parent, stop, at)
        request = Request(
            prompter.prompt(assembly),
            n=n,
            sampling=samplings,
            stop=stop,
            takes=takes,
            priority=Priority.FOREGROUND,
            logprobs=0 if self.tokens.gather and not engine.lacks("logprobs") else None,
            heal=True,
            add_bos=False,
        )
        if turn is not None:
            turned = replace(request, prompt=turn.prompt, begin=turn.begin, without=turn.without, heal=False)
            return turned, assembly
        each = samplings if isinstance(samplings, tuple) else (samplings,)
        return replace(request, **self.variety.asked(each, engine.lacks)), assembly

    def _would_ask(self, index: int | None, upto: int | None) -> Request | None:
        """What :meth:`generate` would ask for at the current node, or after a pick; None if nothing."""
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
        samplings = swept(self.sampling, self.story.settings(node).sampling, self.sweep, self.n)
        return self._question(self._prompter, node, self.n, samplings, at=at)[0]

    def _begun(self, current: Round) -> None:
        """The engine has the round: it is written down and remembered from now on."""
        engine = self.engine
        assert engine is not None
        if current.prefix is None:
            current.prefix = Prefix.of(self.story.text(current.parent))
        current.model, current.vocab = engine.info.name, engine.info.vocab
        self._recorder.follow(current)
        self._history.remember(current)
        self.look_ahead.look()

    def _recall(self) -> None:
        """Show the branches that were written where the writer stands now, if there are any."""
        self.look_ahead.look()
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
        """Whether the text before the branches is no longer the one they were written for."""
        return self._picking.is_stale(self.round)

    def joined(self, index: int) -> str:
        """Return the text of branch ``index`` as a pick would append it to the story as it is now."""
        text = self._branch(index).text
        return text if self.round is None else self._picking.joined(self.round, text)

    def stop_branch(self, index: int) -> None:
        self._branch(index).stop()

    def kill(self, index: int) -> None:
        self._steered(index).kill()

    def reroll(self, index: int) -> None:
        """Write a branch again with a new seed, also one that is paused."""
        self._steered(index).reroll()

    def extend(self, index: int, tokens: int | None = None) -> None:
        """Go on from where a branch ended, also beyond what the model took for the story's end."""
        self._steered(index).extend(tokens)

    def pause(self, index: int) -> None:
        self._branch(index).pause()

    def resume(self, index: int) -> None:
        self._branch(index).resume()

    def rewind(self, index: int, sentences: int = 1) -> None:
        """Drop the last sentences of a branch and write on from there; the old take stays in the tree."""
        self._steered(index).rewind(sentences=sentences)

    def append(self, index: int, text: str) -> None:
        """Type into a branch; it goes on from there. The words are on the disk when this returns."""
        branch = self._steered(index)
        with self._lock:
            current = self.round
            assert current is not None

            def hand_over() -> None:
                self._recorder.keep(current)
                typing.hand_over(self.story, current.node_of(index), text)

            self._recorder.together(hand_over)
            try:
                branch.append(text, go_on=True)
            except EngineError:  # whoever typed them is told, and has them still
                typing.arrived(self.story, text)
                raise

    def set_sampling(self, index: int, sampling: Sampling) -> None:
        self._steered(index).set_sampling(sampling)

    # ---- judging

    @property
    def rubric(self) -> str:
        """The questions of the story as its sheet shows them, one a line."""
        kept = self.story.value(judging.KEPT)
        return kept if isinstance(kept, str) and kept.strip() else judging.RUBRIC

    def put_rubric(self, text: str) -> None:
        """Ask other questions from now on; none are the ones that the program comes with."""
        judging.questions(text)
        self.together(lambda: self.story.put_value(judging.KEPT, text))

    def judge(self) -> judging.Judgement:
        """Judge all branches that have ended by the rubric. Returns at once; the answers come in.

        Raises EngineError where there is no model or it cannot, ValueError where there is nothing to judge.
        """
        with self._lock:
            self._take_up()
            if self.round is None or self.engine is None:
                raise ValueError("there are no branches yet")
            note = self.story.settings(self.round.parent).author_note or ""
            return judging.judge(self.engine, self.round, judging.questions(self.rubric, note), _aside)

    def lock(self, index: int) -> None:
        """Spare this branch when all are rolled again; a second time lets it go."""
        if self.round is not None:
            self.round.locked ^= {index}

    def stop_all(self) -> None:
        self.exploring.stop()
        with self._lock:
            if self.round is not None and self.round.generation is not None:
                self.round.generation.cancel()
            else:
                self._forget_waiting()

    def reroll_all(self) -> None:
        """Roll every branch again that is not locked."""
        self._take_up()
        if self.round is not None:
            for branch in self.round.branches:
                if branch.index not in self.round.locked:
                    branch.reroll()

    def add_branches(self, count: int = 1) -> None:
        self._take_up()
        if self.round is not None and self.round.generation is not None:
            self.round.generation.add_branch(count)

    def _begin_with(self, ids: tuple[int, ...]) -> int:
        """Let another branch of the round begin with these tokens; its index. Raises EngineError."""
        self._take_up()
        generation = self.round.generation if self.round is not None else None
        if generation is None:
            raise NoModel("there are no branches beside which another could begin")
        index = len(generation.branches)  # before: an engine elsewhere adds it at once
        generation.add_branch(1, begin=ids)
        return index

    def _show_ways(self, ways: Sequence[Way]) -> None:
        """Show ways on as a round of branches that have ended; they become nodes as those of any round."""
        if not ways:
            raise NoModel("no way on is as likely as that: the cut-off is too high")
        current = Round(self.story, self.story.current, len(ways))
        takes = tuple(
            Take(way.text, way.ids, FinishReason.SENTENCE if way.ended else FinishReason.LENGTH)
            for way in ways
        )
        sampling = swept(self.sampling, self.story.settings(self.story.current).sampling, None, len(ways))
        current.generation = self._request(current.parent, len(ways), sampling, takes)
        current.lead = current.generation.healed
        current.probabilities = {index: math.exp(way.logprob) for index, way in enumerate(ways)}
        self.round = current
        self._begun(current)

    # ---- token by token

    def branch_tokens(self, index: int) -> Future[TokenText]:
        """Branch ``index`` as it is now, as tokens. Raises EngineError where no engine knows them."""
        branch = self._steered(index)
        return self.tokens.later(lambda: self.tokens.of_branch(branch))

    def story_tokens(self) -> Future[TokenText]:
        """The story up to here, as far as the model reads it, as tokens. Raises NoModel, StoryError."""
        with self._lock:
            if self._prompter is None:
                raise NoModel(self._why_no_model())
            self.keep()
            prompter, here, length = self._prompter, self.story.current, len(self.text())
        return self.tokens.later(lambda: self.tokens.of_story(prompter.assemble(here, self.stop), length))

    def fork(self, text: TokenText, place: int, token: int) -> int:
        """Let a new branch begin like ``text`` up to ``place``, go on with ``token`` and write on; its index.

        In the story, a new round goes on from there, and what followed is another branch; then it is -1.
        """
        if text.of_story:
            self._turn_story(text, place, (token,), ())
            return -1
        with self._lock:
            branch = self._steered(text.index)
            generation = branch.generation
            begin = (*text.path(place)[len(text.prompt) :], token)
            sampling = replace(branch.sampling, seed=None)
            index = len(generation.branches)
            generation.add_branch(1, sampling, branch.stop_rule, begin=begin)
            if self.round is not None:
                self.round.duplicates.steered.add(index)  # it is meant to begin as another does
            return index

    def ban(self, text: TokenText, place: int) -> None:
        """Let a branch write on from before ``place`` without the token there, nor those banned there before.

        In the story, a new round goes on from there without it. Raises NotSupported where the engine cannot.
        """
        token = text.tokens[place].id
        if why := self.lacks("without"):
            raise NotSupported(why)
        if text.of_story:
            self._turn_story(text, place, (), (token,))
            return
        branch = self._steered(text.index)
        begin = text.path(place)[len(text.prompt) :]
        branch.reroll(begin=begin, without=self.tokens.without(text, place, token))

    def _turn_story(
        self, text: TokenText, place: int, chosen: tuple[int, ...], without: tuple[int, ...]
    ) -> None:
        self._may_write()
        start = place
        while text.tokens[start].inside:  # a character belongs to one node
            start -= 1
        prompt = text.path(start)
        begin = (*text.path(place)[len(prompt) :], *chosen)
        with self._lock:
            self.stop_all()
            char = text.tokens[start].start
            self.together(lambda: self.story.visit(cut(self.story, char)[0]))
            self._generate(self.n, Turn(prompt, begin, without))

    def _branch(self, index: int) -> Branch:
        if self.round is None or not 0 <= index < len(self.round.branches):
            raise IndexError(f"there is no branch {index + 1}")
        return self.round.branches[index]

    def _steered(self, index: int) -> Branch:
        """Branch ``index``, for a verb that needs an engine which knows it."""
        self._branch(index)
        self._take_up()
        if self.round is not None:
            self.round.duplicates.steered.add(index)
        return self._branch(index)

    def renew_alike(self, read: Collection[int] = ()) -> list[int]:
        """Look which branches are nearly the same, and write one of each two anew if that is wanted.

        Never one that is in ``read``, locked, bookmarked, rated or steered, or that ended a while ago; each
        twice at most. To be called now and then while a round is shown. Returns the indices.
        """
        return [] if self.round is None or self.stale else renew_alike(self.round, self.variety, read)

    def _take_up(self) -> None:
        """Give the branches of an earlier sitting to the engine, each standing where its node ends.

        Raises EngineError where there is none.
        """
        with self._lock:
            old = self.round
            if old is None or old.taken_up:
                return
            if self.engine is None or self._prompter is None:
                raise NoModel(f"{self._why_no_model()}; the branches stay as they are")
            takes = tuple(
                Take(branch.text, branch.ids, branch.finish_reason or FinishReason.STOPPED)
                for branch in old.branches
            )
            samplings = tuple(branch.sampling for branch in old.branches)
            self.round = adopted(old, self._request(old.parent, old.n, samplings, takes))
            self._begun(self.round)

    def _why_no_model(self) -> str:
        if self.engine_state == "FAILED":
            return "there is no model; the command `model` (ctrl+g m) chooses one"
        return "the model is still loading"

    # ---- the story

    @property
    def node(self) -> NodeId:
        return self.story.current

    @property
    def title(self) -> str:
        return self.story.title

    @property
    def words(self) -> int:
        """Words of the text up to here."""
        return self.story.words(self.story.current)

    @property
    def save_state(self) -> str:
        """In words: saved, read only, how old the oldest unsaved key is, or what is in the way."""
        return "read only" if self.story.read_only is not None else str(self.typing.state)

    def text(self) -> str:
        """The text from the beginning to the current node."""
        return self.story.text(self.story.current)

    def keep(self) -> None:
        """Everything typed and written so far is on the disk when this returns.

        Raises StoryError when the disk refuses; nothing is lost then, and it is tried again by itself.
        """
        self._recorder.write()

    def keep_last(self, act: Callable[[], object]) -> None:
        """Stop the branches; put everything typed and written, and what ``act`` does, into one transaction.

        Raises StoryError as :meth:`keep` does.
        """
        self.stop_all()
        self._let_end(_LAST_SECONDS)
        self._recorder.together(act)

    def together(self, act: Callable[[], Result]) -> Result:
        """Do ``act``, a verb of the story, in one transaction with everything typed before it."""
        try:
            return self._in_story(act)
        finally:
            self.look_ahead.look()

    def _in_story(self, act: Callable[[], Result]) -> Result:
        """Do ``act``, which may lead elsewhere: whoever comes back sees the branches that are shown now."""

        def leave() -> Result:
            self._history.leave(self.story, self.round)
            return act()

        try:
            return self._recorder.together(leave)
        finally:
            self._picking.text_may_differ()

    def draft(self, sheet: str) -> typing.Draft:
        """Where the words of an open sheet are safe; ``sheet`` names it in a word or two."""
        return typing.Draft(self.typing, self.story, sheet)

    def take_rescued(self) -> None:
        """Put :attr:`rescued` where it belongs: into the story, and on its sheets. Raises StoryError."""
        with self._lock:
            if (found := self.rescued) is not None:
                self.together(lambda: found.take(self.story))
                found.clear()
                self.rescued = None

    def set_text(self, text: str) -> None:
        """The writer changed the text to ``text``; it is on the disk when this returns."""
        if self.story.read_only is not None:
            raise ReadOnlyStory(self.story.read_only)
        self.typing.text(text)
        self.keep()

    def pick(self, index: int, upto: int | None = None, text: str | None = None) -> NodeId:
        """Take branch ``index``, or its first ``upto`` characters, into the story.

        ``text`` replaces what was taken (edited before picking; the model's own take stays beside
        it). The other branches stop and stay in the tree. Where the story has grown or changed since the
        branches began, a copy of what is taken follows the text as it is now, so that no word is lost; it
        begins as :meth:`joined` says.
        """
        self._branch(index)
        with self._lock:
            current = self.round
            assert current is not None
            self.stop_all()
            node = self._in_story(lambda: self._picking.take(current, index, upto, text))
            current.taken = True
            return node

    def undo(self) -> str:
        """Take back the last pick, edit or verb; returns which verb, empty when there is none."""
        action = self._moved(self.story.undo, stop=True)
        return action.verb if action is not None else ""

    def redo(self) -> str:
        """Do again what was taken back last; returns which verb, empty when there is none."""
        action = self._moved(self.story.redo)
        return action.verb if action is not None else ""

    def revisit(self, node: NodeId) -> None:
        """Stand at another node; what is resident of its path will not be evaluated again."""
        self._moved(lambda: self.story.visit(node), stop=True)

    def _moved(self, act: Callable[[], Result], stop: bool = False) -> Result:
        """Do ``act``, which may take the writer elsewhere, and show the branches that were written there."""
        with self._lock:
            if stop:
                self.stop_all()
            done = self.together(act)
            self._recall()
            return done

    def write_from(self, place: int) -> Round:
        """Let branches write on from character ``place`` of the text; what followed it is another branch.

        Raises Refused at the beginning, where there is nothing to go on from.
        """
        with self._lock:
            self.stop_all()
            self.together(lambda: self.story.visit(cut(self.story, place)[0]))
            return self.generate()

    def split_at(self, place: int) -> NodeId:
        """Make two nodes of the one that holds character ``place`` of the text; the second is returned.

        Raises Refused where a node ends anyway.
        """
        with self._lock:
            before, after = self.together(lambda: cut(self.story, place))
            if after is None:
                raise Refused(f"node {before} ends here; there is nothing to split")
            return after

    def context(self) -> Context:
        """Where the model's window goes at the current node. Empty before a model is loaded."""
        with self._lock:
            if self._prompter is None:
                return Context([], 0, 0)
            return self._prompter.account(self.story.current, self.stop)

    def close(self, keep_model: bool = False) -> None:
        """Stop everything, write everything down, free the model.

        With ``keep_model`` the model stays loaded, or goes on loading, for the session that is given
        :attr:`loader` next; closing that is the business of whoever asked for it.
        """
        if self._closed:
            return
        self._closed = True
        self.look_ahead.close()
        self.stop_all()
        if keep_model:
            self._let_end()
        else:
            self._loader.close()
        try:
            self._recorder.close()
        except StoryError as error:
            log.error("the last words are in %s: %s", self.typing.rescue(), error)
        self.story.close()

    def _let_end(self, seconds: float = _END_SECONDS) -> None:
        """Wait until the engine has left the round, so that all it wrote can be written down."""
        generation = self.round.generation if self.round is not None else None
        if generation is not None:
            try:
                generation.wait(seconds)
            except (EngineError, TimeoutError) as error:
                log.warning("the last branches did not end well: %s", error)


def _aside(act: Callable[[], None]) -> None:
    threading.Thread(target=act, name="srbwriter-judging", daemon=True).start()
