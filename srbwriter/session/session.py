"""The session: an open story and an engine that may still be loading, and the verbs that connect them.

Each verb returns at once; the engine works afterwards. Every round begins in :meth:`Session.begin_round` and
is left in :meth:`Session.leave_round`: its branches stop, and all generated text is in the story before the
verb that leaves it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from srbwriter import launch
from srbwriter.config import Settings, keys
from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import (
    Cancelled,
    EngineError,
    EngineOptions,
    FinishReason,
    ModelInfo,
    NoModel,
    Priority,
    Request,
    Sampling,
    Stop,
    Take,
)
from srbwriter.engine.verbs import VERBS, BranchVerb
from srbwriter.models.suited import ENDLESS, suited_to
from srbwriter.story import ROOT, Edit, NodeId, Refused, Story, StoryError
from srbwriter.story.context import Assembly, ContextError
from srbwriter.story.model import JsonObject, as_object

from .ahead import LookAhead, budget_of
from .book import Book
from .drafts import Draft
from .instrument import Instrument
from .open import open_story, token_sizes
from .prefix import Prefix
from .prompting import PromptAccount, Prompter, is_named_instruct, with_words
from .recorder import Recorder, settle
from .rewriting import Rewriting
from .round import Round, Turn, read_round
from .sampling import Usual, Variety, follow_usual, sample_branches, usual_of
from .scoring import Paths
from .steering import Steering
from .tokens import Tokens
from .typing import joint, name_action, node_at

if TYPE_CHECKING:
    from srbwriter.engine.backend import Backend

log = logging.getLogger(__name__)

Result = TypeVar("Result")

SCREEN = "workspace"
"""The local value of the story with the last state of the screen."""

_END_SECONDS = 10.0  # a running step of the engine cannot be interrupted
_LAST_SECONDS = 0.25  # for such a step when the system ends the program
_KEPT_ROUNDS = 24


class Session:
    """An open story and an engine. Close it when done. ``state_lock`` is held while a round, the model or the
    story is changed; what concerns single branches is done by its instruments."""

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
        self.state_lock = threading.RLock()
        self.n, self.sampling, self.stop = n, sampling or Sampling(), stop or Stop(max_tokens=64)
        self.variety = variety or Variety()
        self.usual = Usual(self.sampling, self.stop, self.variety, n)
        self.round: Round | None = None
        self.view: JsonObject = {}
        """The view stored by :meth:`keep_view`, or by an earlier run at the same node."""
        self.scored = Paths()
        """Log-probabilities of tokens that are known for this model, for all instruments."""
        self._settings: Settings | None = None
        self._loader, self._options = loader, options
        self._prompter: Prompter | None = None
        self._failure: Exception | None = None
        self._cancelled: Cancelled | None = None
        self._closed = False
        self.unsaved = ""
        """What was not saved when the session was closed, in words."""
        self._rounds: dict[tuple[NodeId, Prefix | None], Round] = {}  # the last ones, by node and text
        self._stale: tuple[int, Round | None, bool] = 0, None, False
        self._recorder = Recorder(self.state_lock, self._known_rounds)
        self.look_ahead, self.tokens = LookAhead(self), Tokens(self)
        self.rewriting, self.steering = Rewriting(self), Steering(self)
        self.book = Book(self)
        self.instruments: tuple[Instrument, ...] = (
            self.look_ahead, self.tokens, self.rewriting, self.steering, self.book,
        )  # fmt: skip
        self._restore_screen()
        self._await(loader)

    @classmethod
    def open(
        cls, settings: Settings, story: Path | None = None, loader: EngineLoader | None = None
    ) -> Session:
        """Open ``story`` (created if missing; None: the last one) and begin to load the model.

        ``loader`` is another session's load, running or finished; None begins a new one.
        Raises StoryError if the file is not a story or its folder is not writable.
        """
        loader = loader or launch.loader(settings)
        settings = launch.suit_model(settings, loader.path, in_app=True)
        usual = usual_of(settings)
        opened = cls(
            open_story(story), loader, n=usual.n, sampling=usual.sampling, stop=usual.stop,
            options=loader.options or launch.engine_options(settings), variety=usual.variety,
        )  # fmt: skip
        opened._settings, opened.usual = settings, usual
        opened.look_ahead.budget, opened.book.share = budget_of(settings), settings[keys.SO_FAR] / 100
        return opened

    def prepare_close(self) -> None:
        """Stop the branches and a running load, so that :meth:`close` waits less; return at once."""
        self.stop_all()
        self._loader.cancel()

    def close(self, keep_model: bool = False) -> None:
        """Stop the branches, save everything, free the model.

        With ``keep_model`` the model stays loaded, or continues to load, for the session that gets
        :attr:`loader` next; the caller has to close that loader.
        """
        if self._closed:
            return
        self._closed = True
        for instrument in self.instruments:
            instrument.close()
            instrument.end_worker()
        self.stop_all()
        try:
            self.save()  # closing the model may take a while: save first
        except StoryError as error:
            log.warning("not written down yet: %s", error)
        if keep_model:
            self._let_end(_END_SECONDS)
        else:
            self._loader.close()
        self._recorder.close()
        kept = self.story.save_state.rescue is not None
        try:
            self.story.close()
        except StoryError as error:
            log.error("not saved: %s", error)
            how = "are kept until it is opened again" if kept else "could not be kept anywhere"
            self.unsaved = f"the last words of {self.story.file} {how}"

    # ---- the model

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
        return self.engine.info if self.engine is not None else None

    @property
    def capabilities(self) -> Capabilities:
        """The engine's capabilities; all of them before it is loaded."""
        return self.engine.capabilities if self.engine is not None else Capabilities()

    @property
    def instruct(self) -> bool:
        """Whether it is an instruction model; judged by its name until it is loaded."""
        prompter = self._prompter
        return prompter.frame.instruct if prompter is not None else is_named_instruct(self._loader.name)

    @property
    def prompter(self) -> Prompter:
        """The prompter for the model in use. Raises NoModel without one."""
        if self._prompter is None:
            raise NoModel(self._why_no_model)
        return self._prompter

    @property
    def _why_no_model(self) -> str:
        if self.engine_state == "FAILED":
            return "there is no model; the command `model` (ctrl+g m) chooses one"
        return "the model is still loading"

    def load_model(self, path: Path) -> None:
        """Load another model, with the settings that suit it where none are set. Running branches stop."""
        if self._settings is not None:
            before, settings = self.usual, launch.suit_model(self._settings, path, in_app=True)
            self.usual = usual_of(settings)
            self.sampling = follow_usual(self.sampling, before.sampling, self.usual.sampling)
            self.stop = follow_usual(self.stop, before.stop, self.usual.stop)
        self._load(EngineLoader(path, self._options, fit=launch.fit_options))

    def load_again(self) -> None:
        """Load the last model again, also one that failed."""
        self._load(self._loader.again())

    def cancel_load(self) -> bool:
        """Cancel a running load, and a round that waits for it; return False if there is none.

        Returns at once with the state FAILED; the native library lets go of the file when it next can.
        """
        with self.state_lock:
            if self.engine_state not in ("INIT", "LOADING"):
                return False
            self._loader.cancel()
            if self._loader.state == "READY":  # it finished first
                return False
            self._cancelled = Cancelled(f"loading {self._loader.place} was stopped")
            self._forget_waiting()
            return True

    def _load(self, new: EngineLoader) -> None:
        with self.state_lock:
            self.stop_all()
            old, self._loader = self._loader, new
            self._prompter = None
            self._failure = self._cancelled = None
            self.scored.clear()
            for instrument in self.instruments:
                instrument.model_changed()

        def swap() -> None:
            old.close()  # first: two models may not fit the memory
            self.keep()
            self._await(new)

        threading.Thread(target=swap, name="srbwriter-swap", daemon=True).start()

    def _await(self, loader: EngineLoader) -> None:
        loader.start()
        threading.Thread(target=self._when_ready, args=(loader,), name="srbwriter-ready", daemon=True).start()

    def _when_ready(self, loader: EngineLoader) -> None:
        try:
            engine = loader.wait()
        except Exception as error:
            log.warning("no model: %s", error)
            return
        with self.state_lock:
            if loader is not self._loader or self._closed:
                return
            self._prompter = Prompter(self.story, engine)
            self._prompter.tell = self.book.tell
            self.story.token_sizes = token_sizes(engine)
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

    # ---- into a round

    def generate(self, n: int | None = None, wish: str = "") -> Round:
        """Request ``n`` branches (by default the session's n) from the current node, with ``wish`` if given.

        A running round is stopped; its text stays. Before the model is loaded the round waits for it. Raises
        StoryError if branches cannot be saved, and NoModel if no model is loading; the shown round stays
        then.
        """
        self.may_write()
        with self.state_lock:
            self.leave_round(self.story.end_typing)
            return self._ask(n or self.n, wish)

    def write_from(self, place: int) -> Round:
        """Generate branches from character ``place`` of the text; the text behind it becomes another branch.

        Raises Refused at the beginning, where there is no text to continue.
        """
        self.may_write()
        with self.state_lock:
            self.leave_round(lambda: self.cut_at(place))
            return self._ask(self.n)

    def may_write(self) -> None:
        """Raise StoryError if branches cannot be saved, and NoModel if no model is loaded or loading."""
        if self.story.read_only is not None:
            raise StoryError(self.story.read_only.message)
        if self.engine_state == "FAILED":
            raise NoModel(f"{self._why_no_model}; the branches stay as they are")

    def _ask(self, n: int, wish: str = "") -> Round:
        """Begin a round at the current node, or let it wait for the model."""
        current = self.round = Round(self.story, self.story.current, n, wish)
        if self._prompter is not None:
            self.begin_round(current)
        return current

    def begin_round(self, current: Round, turn: Turn | None = None) -> None:
        """Submit the branches of ``current`` to the engine, and show them.

        With ``turn`` they fork at a token. If the request fails, no branches are shown. Raises EngineError,
        ContextError or StoryError.
        """
        prompter, engine = self.prompter, self.engine
        assert engine is not None
        self._failure = None
        try:
            request, assembly = self._question(current.parent, current.n, current.wish, turn=turn)
            generation = self.look_ahead.find_written(request) if turn is None else None
            current.generation = generation or engine.submit(request)
        except (EngineError, ContextError, StoryError) as error:
            self.round, self._failure = None, error
            raise
        if not current.wish:
            prompter.remember(current.parent, assembly)
        current.prefix = Prefix.of(self.story.text(current.parent))
        self._show(current)

    def _show(self, current: Round) -> None:
        """Show a submitted round: it is saved to the story and kept in the history from now on."""
        engine = self.engine
        assert engine is not None
        current.model, current.vocab = engine.info.name, engine.info.vocab
        self.round = current
        self._remember(current.parent, current)
        self._recorder.follow(current)
        self._keep_screen()
        for instrument in self.instruments:
            instrument.round_begins(current)

    def _question(
        self, parent: NodeId, n: int, wish: str = "", *, at: int | None = None, turn: Turn | None = None,
        takes: tuple[Take, ...] = (), samplings: tuple[Sampling, ...] = (),
    ) -> tuple[Request, Assembly]:  # fmt: skip
        """Return the request for branches that continue ``parent``, or its first ``at`` characters.

        They begin, ended, with ``takes`` if there are any, and are sampled with ``samplings``, by default by
        the settings of the session and of the story there.
        """
        prompter, settings = self.prompter, self.story.settings(parent)
        framed = bool(wish) or prompter.frame.apply(settings).template is not None
        stop = with_words(self.stop_of_answer(self.stop) if framed else self.stop)
        samplings = samplings or sample_branches(self.sampling, settings.sampling, n)
        assembly = prompter.assemble(parent, settings, stop, at, wish)
        request = self.tokens.shape(
            Request(
                prompter.prompt(assembly), n=n, sampling=samplings, stop=stop, takes=takes,
                priority=Priority.NORMAL, heal=True, add_bos=False,
            )
        )  # fmt: skip
        if turn is not None:
            turned = replace(request, prompt=turn.prompt, begin=turn.begin, without=turn.without, heal=False)
            return turned, assembly
        return replace(request, **self.variety.request_fields(samplings, self.capabilities)), assembly

    def stop_of_answer(self, stop: Stop) -> Stop:
        """Return ``stop`` for text that answers a request or a wish: it ends where the model ends it.

        A plain continuation does not, where the model ends its stories too soon.
        """
        endless = self.model is not None and ENDLESS in suited_to(self.model.metadata)
        return replace(stop, ignore_eog=False) if endless else stop

    def would_ask(self, index: int | None, upto: int | None) -> Request | None:
        """Return the request of :meth:`generate` at the current node, or after a pick, or None."""
        if self._prompter is None:
            return None
        node, at = self.story.current, None
        if index is not None:
            current = self.round
            if current is None or self.stale or index >= len(current.tracks):
                return None
            found = self._find(current, index, current.tracks[index].text[:upto])
            if found is None:
                return None
            node, at = found
        return self._question(node, self.n, at=at)[0]

    # ---- branches

    @property
    def stale(self) -> bool:
        """Whether the text before the branches has changed since they were requested."""
        current, now = self.round, self.story.changes
        changes, known, stale = self._stale
        if changes != now or known is not current:
            stale = current is not None and not current.fits(self.text())
            self._stale = now, current, stale
        return stale

    def _join(self, current: Round | None, text: str) -> str:
        prefix = current.prefix if current is not None else None
        return text if prefix is None else prefix.join(self.story.text(self.node), text)

    def steer(self, index: int, verb: BranchVerb, **arguments: Any) -> None:
        """Call a verb of :data:`.engine.verbs.VERBS` on a branch; what it replaces stays in the tree."""
        asleep = "ended" not in VERBS[verb].states  # ended branches of an earlier session have no engine
        getattr(self._branch(index) if asleep else self.steered(index), verb)(**arguments)

    def steered(self, index: int) -> Branch:
        """Return branch ``index`` for a verb, after submitting it to the engine if necessary."""
        self._branch(index)
        self.take_up()
        return self._branch(index)

    def add_branches(self, count: int = 1) -> None:
        generation = self.take_up()
        if generation is not None:
            generation.add_branch(count, stop=with_words(self.stop))

    def _branch(self, index: int) -> Branch:
        if self.round is None or not 0 <= index < len(self.round.branches):
            raise IndexError(f"there is no branch {index + 1}")
        return self.round.branches[index]

    def take_up(self) -> Generation | None:
        """Submit the branches of an earlier session to the engine, each ended after its saved text.

        Return the request of the shown round; None if there is none. Raises EngineError without an engine.
        """
        with self.state_lock:
            old = self.round
            if old is None or old.taken_up:
                return old.generation if old is not None else None
            if self._prompter is None or self.engine is None:
                raise NoModel(f"{self._why_no_model}; the branches stay as they are")
            takes = tuple(
                Take(branch.text, branch.ids, branch.finish_reason or FinishReason.STOPPED)
                for branch in old.branches
            )
            samplings = tuple(branch.sampling for branch in old.branches)
            request, _ = self._question(old.parent, len(takes), old.wish, takes=takes, samplings=samplings)
            old.take_up(self.engine.submit(request))
            self._show(old)
            return old.generation

    # ---- out of a round

    @property
    def long_work(self) -> Book | None:
        """The instrument with long work in progress; None if there is none."""
        return self.book if self.book.progress else None

    def stop_all(self) -> None:
        """Stop the branches; they remain shown."""
        with self.state_lock:
            if self.round is not None and self.round.generation is not None:
                self.round.generation.cancel()
            else:
                self._forget_waiting()

    def leave_round(self, act: Callable[[], Result], wait: float = 0.0) -> Result:
        """Stop the branches, and run ``act``, a verb, after all generated text is in the story.

        The engine gets ``wait`` seconds to end them before.
        """
        with self.state_lock:
            self.stop_all()
            self._let_end(wait)
            left = self.round
            if left is not None and left.generation is not None and not left.taken:
                self._remember(self.node, left)
            self.keep()
            return act()

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
        with self.state_lock:
            current = self.round
            assert current is not None
            node = self.leave_round(lambda: self._take(current, index, upto, text))
            current.taken = True
            self._keep_screen()
            if go_on:
                self.may_write()
                self._ask(self.n)
            return node

    def _take(self, current: Round, index: int, upto: int | None, text: str | None) -> NodeId:
        settle(current, index)  # later text stays in the branch
        story, own = self.story, current.tracks[index].text[: None if upto is None else max(0, upto)]
        found = self._find(current, index, own)
        joined = self._join(current, own) if text is None else text
        if found is None:
            return story.pick_as(story.current, joined, own)
        node, at = found
        if text is not None or joined != own:
            return story.pick_as(current.parent, joined, own, node)
        return story.pick(node, at or None)

    def _find(self, current: Round, index: int, own: str) -> tuple[NodeId, int] | None:
        """Return the node and the offset at which ``own``, the beginning of branch ``index``, ends.

        None if it does not follow the text up to the current node.
        """
        story, here, parent = self.story, self.node, current.parent
        same = story.is_living(parent) and (here == parent or story.text(here) == story.text(parent))
        return current.find(index, len(own)) if same else None

    def _let_end(self, seconds: float) -> None:
        """Wait until the engine has ended the round, so that all of its text can be saved."""
        if seconds and self.round is not None and self.round.generation is not None:
            try:
                self.round.generation.wait(seconds)
            except (EngineError, TimeoutError) as error:
                log.warning("the last branches did not end well: %s", error)

    def keep(self) -> None:
        """Bring everything generated so far into the story."""
        self._recorder.write()

    def save(self) -> None:
        """Bring everything into the story and wait until it is on the disk.

        Raises NotSaved if saving fails; nothing is lost then, and the journal retries.
        """
        self.keep()
        self.story.flush()

    def keep_last(self, act: Callable[[], object]) -> None:
        """Stop the branches and save all text and the change of ``act``, as the system ends the program.

        Raises StoryError as :meth:`save` does.
        """
        self.leave_round(act, _LAST_SECONDS)
        self.story.flush()

    # ---- rounds of before

    def _known_rounds(self) -> list[Round]:
        shown = [self.round] if self.round is not None else []
        return [current for current in self._rounds.values() if current not in shown] + shown

    def _remember(self, node: NodeId, current: Round) -> None:
        self._rounds.pop((node, current.prefix), None)
        self._rounds[node, current.prefix] = current
        while len(self._rounds) > _KEPT_ROUNDS:
            del self._rounds[next(iter(self._rounds))]

    def recall(self) -> None:
        """Show the branches that were generated at the current node, if there are any."""
        shown = self.round
        if shown is None or shown.generation is not None:
            if shown is None or shown.parent != self.node or self.stale:
                shown = self.round = self._round_at(self.node)
            if shown is not None:
                shown.taken = False
            self._keep_screen()
        self._text_changed()

    def _round_at(self, node: NodeId) -> Round | None:
        """Return the last round that was shown at ``node``, or read it from the story.

        A round for the present text is preferred.
        """
        known = [current for (place, _), current in self._rounds.items() if place == node]
        text = self.story.text(node)
        fitting = [current for current in known if current.fits(text)]
        if fitting:
            return fitting[-1]
        found = read_round(self.story, node)
        return known[-1] if known and (found is None or not found.fits(text)) else found

    # ---- the screen

    @property
    def _screen(self) -> JsonObject:
        return as_object(cast(Any, self.story.value(SCREEN, local=True)))

    def keep_view(self, view: JsonObject) -> None:
        """Store the interface's view for the next opening of the story."""
        if view != self.view:
            self.view = view
            self._keep_screen()

    def _keep_screen(self) -> None:
        """Store where the writer is, what the screen shows, and its branches."""
        if self.story.read_only is None:
            shown = self.round
            record: JsonObject = {"at": self.node, "view": self.view}
            if shown is not None:
                record["round"] = [shown.parent, shown.number, shown.taken]
            if record != self._screen:
                self.story.put_value(SCREEN, record, local=True)

    def _restore_screen(self) -> None:
        """Show the branches that were on the screen last, otherwise those of the current node."""
        screen = self._screen if self._screen.get("at") == self.node else {}
        self.view = as_object(screen.get("view"))
        match screen.get("round"):
            case [int(parent), int(number), bool(taken)] if number:
                if self.story.is_living(parent) and (found := read_round(self.story, parent, number)):
                    found.taken, self.round = taken, found
                    self._remember(parent, found)
                    return
            case _:
                pass
        self.recall()

    # ---- the text

    @property
    def node(self) -> NodeId:
        return self.story.current

    @property
    def save_state(self) -> str:
        """Whether everything is on the disk, in a word or two."""
        return "read only" if self.story.read_only is not None else str(self.story.save_state)

    def text(self) -> str:
        """The text from the beginning to the current node."""
        return self.story.text(self.node)

    def context(self) -> PromptAccount:
        """Return the sizes of the model's context at the current node. Empty before a model is loaded."""
        with self.state_lock:
            if self._prompter is None:
                return PromptAccount([], 0, 0)
            return self._prompter.account(self.node, self.stop)

    def draft(self, sheet: str) -> Draft:
        """Return the draft that keeps the words of the sheet called ``sheet``."""
        return Draft(self.story, sheet)

    def set_text(self, text: str) -> None:
        """Change the text to ``text``."""
        self.story.replace(Edit(0, self.story.chars(self.node), text))
        self._keep_screen()
        self._text_changed()

    def edit(self, *edits: Edit, pasted: bool = False) -> None:
        """Change the text by ``edits``, which are in order and disjoint, with places of the text before.

        They are on the disk within a second, with the place of the cursor, behind the last one. Words that
        were ``pasted`` are not words of today.
        """
        if not edits:
            return
        shift = sum(len(e.text) - (e.end - e.start) for e in edits[:-1])
        cursor = edits[-1].start + shift + len(edits[-1].text)
        with self.story.together():
            if pasted:
                with self.story.verb("paste", self.node) as action:
                    self.story.replace(*edits)
                    action.words = 0
            else:
                self.story.replace(*edits)
            if self.view:
                self.view = self.view | {"cursor": cursor}
            self._keep_screen()
        self._text_changed()

    def joint(self, place: int, letter: str) -> str:
        """Return what separates a ``letter`` typed at ``place`` from a sentence that a model has ended there.

        It is what a branch would begin with: space, or a new line; empty anywhere else.
        """
        return joint(self.story, self.round, place, letter)

    def _text_changed(self) -> None:
        for instrument in self.instruments:
            instrument.text_changed()

    # ---- verbs of the story

    def together(self, act: Callable[[], Result]) -> Result:
        """Run ``act``, a verb of the story, as one change, after all generated text is in the story."""
        try:
            self.keep()
            with self.story.together():
                return act()
        finally:
            self._text_changed()

    def undo(self) -> str:
        """Undo the last pick, edit or verb; return its name, empty if there is none."""
        before, action = self.round, self._move(self.story.undo)
        return name_action(action, before, self.round) if action is not None else ""

    def redo(self) -> str:
        """Redo the last undone action; return its name, empty if there is none."""
        before, action = self.round, self._move(self.story.redo)
        return name_action(action, before, self.round) if action is not None else ""

    def revisit(self, node: NodeId) -> None:
        """Move to another node; the cached tokens of its path are not evaluated again."""
        self._move(lambda: self.story.visit(node))

    def _move(self, act: Callable[[], Result]) -> Result:
        """Run ``act``, which may move to another node, and show the branches generated there."""
        with self.state_lock:
            done = self.leave_round(act)
            self.recall()
            return done

    def move_chapter(self, place: int, *, later: bool) -> int:
        """Move the chapter that holds character ``place`` of the text; see :meth:`Story.move_chapter`.

        Branches stop first. Returns the character at which the chapter starts now.
        """
        return self._move(lambda: self.story.move_chapter(place, later=later))

    def cut_at(self, place: int) -> NodeId:
        """Move to character ``place`` of the text; the rest becomes a branch. Raises Refused at place 0."""
        node, at = node_at(self.story, place)
        if node == ROOT:
            raise Refused("this is the beginning of the story; there is nothing before it")
        with self.story.verb("split", node):
            return self.story.pick(node, at)
