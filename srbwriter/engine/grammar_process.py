"""Slow grammars are followed in a process of their own, while the other branches write on.

llguidance takes up to a tenth of a second for one token of an ambiguous grammar, and keeps the interpreter's
lock for half of that, so a thread would hold every branch up. The process is started when the first grammar
proves to be slow. What it knows of a text can be rebuilt at any time from the token ids that each question
brings along. Both ends of the pipe between the two are in this file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from .masks import ConstraintModel, PieceBytes

if TYPE_CHECKING:
    from .grammar import GrammarConstraint

log = logging.getLogger(__name__)

_NICE = 10  # branches that follow no slow grammar come first
_SLICE = 0.1  # seconds of reading what a text holds already, before another question has its turn
_TEXTS = 256  # whose states are kept
_GRAMMARS = 64


class Question(NamedTuple):
    """May ``token`` follow ``ids`` under the grammar ``form``? ``text`` names a text that grows."""

    form: str
    text: int
    ids: Sequence[int]
    token: int


class Answer(NamedTuple):
    """The answer to a question about a token.

    ``allowed``: the token may follow, and nothing after it if ``finished``. Otherwise ``mask`` holds a bit
    for each token that may. Without a mask no token may: the text is complete, or ``trouble`` has the reason.
    With a mask, ``trouble`` is the message for the case that none of its tokens can be sampled. ``unread`` is
    true when the text is long, and the question has to be asked again.
    """

    allowed: bool = False
    finished: bool = False
    mask: bytes | None = None
    trouble: str = ""
    unread: bool = False


@dataclass(eq=False)
class _Vocabulary:
    """What grammars need to know of a model, and can be sent."""

    n_vocab: int
    eog: frozenset[int]
    special_pieces: list[bytes]
    pieces: PieceBytes

    def token(self, text: str) -> int | None:
        raise NotImplementedError  # only compiling asks for it, and that has been done


class Follower:
    """Answers questions, and remembers how far it has followed each text."""

    def __init__(self, model: ConstraintModel) -> None:
        from .grammar import from_form  # loads llguidance, in the other process

        self._model = model
        self._grammar = lru_cache(_GRAMMARS)(partial(from_form, model=model))
        self._texts: OrderedDict[tuple[str, int], tuple[list[int], GrammarConstraint]] = OrderedDict()

    def answer(self, question: Question) -> Answer:
        """May take a tenth of a second, or as long as reading one token does if that is longer."""
        known, state = self._state(question)
        begun = time.monotonic()
        for token in question.ids[len(known) :]:
            if time.monotonic() - begun > _SLICE:
                return Answer(unread=True)
            if not state.allows(token):
                return Answer(trouble=state.trouble() if state.exhausted else "the text does not follow it")
            state.accept(token)
            known.append(token)
        if state.finished:
            return Answer()
        token = question.token
        if state.allows(token):
            state.accept(token)
            if token not in self._model.eog:
                known.append(token)
            trouble = state.trouble() if state.exhausted else ""
            return Answer(allowed=not trouble, finished=state.finished, trouble=trouble)
        mask = state.bits()
        return Answer(mask=mask, trouble=state.trouble())

    def _state(self, question: Question) -> tuple[list[int], GrammarConstraint]:
        """Return a state for some beginning of the question's ids."""
        key = question.form, question.text
        known = self._texts.pop(key, None)
        if known is None or known[0] != list(question.ids[: len(known[0])]):
            known = list[int](), self._grammar(question.form).fork()
        self._texts[key] = known
        while len(self._texts) > _TEXTS:
            self._texts.popitem(last=False)
        return known


class GrammarProcess:
    """Takes questions and gives answers, some time later. Started by the first question.

    Args:
        wake: called from another thread whenever there is an answer.
    """

    def __init__(self, model: ConstraintModel, wake: Callable[[], None]) -> None:
        self._model, self._wake = model, wake
        self._questions: SimpleQueue[tuple[Question, Any] | None] = SimpleQueue()
        self._answers: deque[tuple[Any, Answer]] = deque()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def ask(self, question: Question, asker: Any) -> None:
        """The answer comes back with ``asker``."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="srbwriter-grammars", daemon=True)
            self._thread.start()
        self._questions.put((question, asker))

    def take(self) -> list[tuple[Any, Answer]]:
        """The answers that have come, each once."""
        return [self._answers.popleft() for _ in range(len(self._answers))]

    def close(self, timeout: float = 5.0) -> None:
        """End the process. Open questions get no answer."""
        self._closed = True
        self._questions.put(None)
        process = self._process
        if process is not None:
            process.kill()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while (asked := self._questions.get()) is not None and not self._closed:
            question, asker = asked
            try:
                answer = self._exchange(question)
            except (OSError, EOFError, pickle.UnpicklingError) as error:
                said = self._end()
                if not self._closed:
                    log.error("the process that follows grammars has ended: %r %s", error, said)
                answer = Answer(trouble="the process that follows it has ended; try again")
            if answer.unread:
                self._questions.put(asked)
                continue
            self._answers.append((asker, answer))
            self._wake()
        self._end()

    def _exchange(self, question: Question) -> Answer:
        process = self._process
        if process is None:
            process = self._process = _child()
            model = self._model
            words = _Vocabulary(model.n_vocab, model.eog, list(model.special_pieces), model.pieces)
            self._send(process, words)
        self._send(process, question)
        assert process.stdout is not None
        return pickle.load(process.stdout)

    def _send(self, process: subprocess.Popen[bytes], message: object) -> None:
        assert process.stdin is not None
        pickle.dump(message, process.stdin)
        process.stdin.flush()

    def _end(self) -> str:
        """Kill the process and wait for its end; what it said of it."""
        process, self._process = self._process, None
        if process is None:
            return ""
        process.kill()
        with contextlib.suppress(OSError), process:
            assert process.stderr is not None
            return process.stderr.read().decode("utf-8", "replace").strip()
        return ""


def _child() -> subprocess.Popen[bytes]:
    """A process that waits for a vocabulary and for questions. Raises OSError if there can be none."""
    # It finds the same modules as this one, and none that happen to lie in the folder it is in.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", f"from {__name__} import serve_parent; serve_parent()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
        start_new_session=True,  # keys of the terminal are not for it
    )  # fmt: skip


def serve_parent() -> None:
    """The other process: answer the questions on the standard input until that ends."""
    with contextlib.suppress(OSError, AttributeError):
        os.nice(_NICE)
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    with contextlib.suppress(EOFError, BrokenPipeError):
        follower = Follower(pickle.load(questions))
        while True:
            pickle.dump(follower.answer(pickle.load(questions)), answers)
            answers.flush()
