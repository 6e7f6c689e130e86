"""What every backend owes its callers, asked of the engine here and of others behind a socket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from srbwriter.engine.backend import Backend
from srbwriter.engine.capabilities import Feature
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import (
    Added,
    BranchState,
    ContextOverflow,
    Done,
    EngineClosed,
    FinishReason,
    InvalidRequest,
    LimitExceeded,
    NotSupported,
    Request,
    Sampling,
    Stop,
    TokenRun,
)

from .peers import KINDS, PEERS, backend_of
from .support import published

WAIT = 120.0
PROMPT = "Once upon a time,"
SHORT = Stop(max_tokens=8, ignore_eog=True)
LONG = Stop(max_tokens=300, ignore_eog=True)


@pytest.fixture(params=KINDS, scope="module")
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with backend_of(request.param) as it:
        yield it


@pytest.fixture
def can(backend: Backend) -> Callable[[Feature], None]:
    """Ends a test of something that the backend says it lacks."""

    def needs(name: Feature) -> None:
        if why := backend.capabilities.reason_for(name):
            pytest.skip(why)

    return needs


def rule(backend: Backend, stop: Stop) -> Stop:
    """``stop``, as far as the backend can be told not to end."""
    if not backend.capabilities.has("ignore_eog"):
        return Stop(stop.max_tokens, strings=stop.strings, boundary=stop.boundary)
    return stop


def written(
    backend: Backend, n: int = 1, stop: Stop = SHORT, prompt: str = PROMPT, seed: int = 5
) -> Generation:
    request = Request(prompt, n=n, sampling=Sampling(seed=seed), stop=rule(backend, stop))
    return backend.submit(request).wait(WAIT)


def until(generation: Generation, holds: Callable[[], bool]) -> None:
    """Wait until something is published after which it holds."""
    changed = threading.Event()
    remove = generation.add_listener(changed.set)
    try:
        while not holds():
            assert changed.wait(WAIT), "nothing more is published"
            changed.clear()
    finally:
        remove()


def spelt(backend: Backend, generation: Generation) -> None:
    """Ids and text of every branch say the same; so do the events."""
    for branch, (text, _) in zip(generation.branches, published(generation), strict=True):
        assert text == branch.text
        assert backend.detokenize(branch.ids) == branch.text.removesuffix(branch.buffer.tail)
        assert len(branch.buffer.ends) == len(branch.ids)
        assert branch.buffer.ends == sorted(branch.buffer.ends)


def test_what_needs_the_cache_is_refused_with_the_reason(backend: Backend) -> None:
    if backend.capabilities.has("session_files"):
        return
    with pytest.raises(NotSupported) as refused:
        backend.save_session("tale", (1, 2))
    assert str(refused.value) == backend.capabilities.reason_for("session_files")
    with pytest.raises(NotSupported, match="embeddings"):
        _ = backend.embedder


@pytest.mark.parametrize("text", ["Once upon a time", " a naïve 🐈 — and\n\n“so” on", ""])
def test_words_and_ids(backend: Backend, text: str) -> None:
    ids = backend.tokenize(text, parse_special=True)
    assert backend.detokenize(ids) == text
    after = backend.tokenize_continuation(text)
    assert backend.detokenize([*backend.tokenize("Well."), *after]) == "Well." + text
    assert len(backend.pieces(ids)) == len(ids)


def test_a_request_runs_and_is_counted(backend: Backend) -> None:
    before = backend.stats().generated_tokens
    prompt = backend.apply_template(({"role": "user", "content": "A tale"},), add_generation_prompt=True)
    generation = backend.submit(Request(prompt, n=2, stop=rule(backend, SHORT)))
    assert len(generation.result(WAIT)) == 2
    assert isinstance(generation.log[-1], Done) and generation.done
    assert backend.stats().generated_tokens > before
    assert backend.stats().live_branches == 0
    spelt(backend, generation)


def test_tokens_are_counted_to_the_limit(backend: Backend, can: Callable[[Feature], None]) -> None:
    can("ignore_eog")
    generation = written(backend, n=3)
    assert [branch.finish_reason for branch in generation.branches] == [FinishReason.LENGTH] * 3
    if backend.capabilities.has("token_ids"):
        assert [len(branch.ids) for branch in generation.branches] == [8] * 3


def test_a_prompt_of_ids_is_taken_as_it_is(backend: Backend) -> None:
    ids = tuple(backend.tokenize(PROMPT, add_bos=True))
    runs = (TokenRun("unread", ids, backend.info.vocab), TokenRun(" and so", (1, 2, 3), "of another model"))
    generation = backend.submit(Request(runs, stop=rule(backend, SHORT))).wait(WAIT)
    assert generation.prompt_ids[: len(ids)] == ids
    assert backend.detokenize(generation.prompt_ids).endswith(" and so")


def test_a_stop_text_ends_a_branch_and_is_cut_off(backend: Backend) -> None:
    whole = written(backend, seed=9, stop=Stop(max_tokens=40, ignore_eog=True)).branches[0].text
    stop = whole[len(whole) // 4 :][:5]
    branch = written(backend, seed=9, stop=Stop(max_tokens=40, strings=(stop,), ignore_eog=True)).branches[0]
    assert branch.text == whole[: whole.index(stop)]
    assert (branch.finish_reason, branch.stop_text) == (FinishReason.STOP, stop)


def test_a_boundary_ends_a_branch(backend: Backend) -> None:
    stop = Stop(max_tokens=80, boundary="sentence", ignore_eog=True)
    generation = written(backend, n=2, stop=stop)
    for branch in generation.branches:
        assert branch.finish_reason is FinishReason.SENTENCE
        assert branch.text.rstrip()[-1] in '.!?”"'
    spelt(backend, generation)


def test_a_branch_is_rolled_again_while_the_others_write(backend: Backend) -> None:
    generation = backend.submit(Request(PROMPT, n=3, sampling=Sampling(seed=1), stop=rule(backend, LONG)))
    first, other, _ = generation.branches
    until(generation, lambda: len(first.text) > 20 and len(other.text) > 20)
    begun, seed = other.text, first.seed
    first.reroll()
    until(generation, lambda: first.buffer.revision == 1 and bool(first.text))
    assert first.seed != seed and other.buffer.revision == 0 and other.text.startswith(begun)
    first.kill()
    other.stop()
    generation.branches[2].kill()
    generation.wait(WAIT)
    assert first.finish_reason is FinishReason.KILLED or not first.live
    assert generation.log[-1] == Done(
        len(generation.prompt_ids), generation.cached_tokens, sum(len(b.ids) for b in generation.branches)
    )
    spelt(backend, generation)


def test_a_branch_rests_and_goes_on(backend: Backend, can: Callable[[Feature], None]) -> None:
    can("pause")
    generation = backend.submit(Request(PROMPT, n=2, sampling=Sampling(seed=2), stop=rule(backend, LONG)))
    branch, other = generation.branches
    until(generation, lambda: len(branch.text) > 10)
    branch.pause()
    until(generation, lambda: branch.state is BranchState.PAUSED)
    rested = branch.text
    begun = len(other.text)
    until(generation, lambda: len(other.text) > begun + 40)
    other.stop()
    until(generation, lambda: not other.live)
    assert branch.text == rested and branch.live
    branch.resume()
    until(generation, lambda: len(branch.text) > len(rested))
    assert branch.text.startswith(rested)
    branch.stop()
    generation.wait(WAIT)
    spelt(backend, generation)


def test_going_on_and_rewinding(backend: Backend) -> None:
    generation = written(backend, n=2, stop=Stop(max_tokens=16, ignore_eog=True))
    branch, other = generation.branches
    begun, untouched = branch.text, other.text
    branch.extend(8)
    generation.wait(WAIT)
    assert branch.text.startswith(begun) and len(branch.text) > len(begun)
    branch.rewind(chars=len(branch.text) - 3)
    generation.wait(WAIT)
    assert branch.text.startswith(begun[:3]) and branch.buffer.revision == 1
    assert other.text == untouched
    spelt(backend, generation)


def test_branches_join_a_request(backend: Backend) -> None:
    generation = written(backend)
    generation.add_branch(2, stop=rule(backend, SHORT))
    generation.wait(WAIT)
    assert [event.branch for event in generation.log if isinstance(event, Added)] == [1, 2]
    assert all(branch.text for branch in generation.branches)


def test_other_settings_and_rules_while_it_writes(backend: Backend) -> None:
    stop = Stop(max_tokens=900, ignore_eog=True)
    generation = backend.submit(Request(PROMPT, sampling=Sampling(seed=3), stop=rule(backend, stop)))
    [branch] = generation.branches
    until(generation, lambda: len(branch.text) > 10)
    begun = branch.text
    branch.change(Sampling(temperature=0.5))
    branch.change(stop=rule(backend, replace(stop, boundary="sentence")))
    generation.wait(WAIT)
    assert branch.text.startswith(begun)
    assert branch.finish_reason is FinishReason.SENTENCE


def test_a_branch_begins_with_tokens_of_another(backend: Backend) -> None:
    generation = written(backend)
    source = generation.branches[0]
    begin = source.ids[:4]
    generation.add_branch(begin=begin)
    generation.wait(WAIT)
    fork = generation.branches[1]
    assert fork.ids[:4] == begin and fork.text.startswith(backend.detokenize(begin))
    assert source.ids[:4] == begin and len(fork.ids) > 4
    fork.reroll(begin=begin[:2])
    generation.wait(WAIT)
    assert fork.ids[:2] == begin[:2]
    spelt(backend, generation)


def test_a_grammar_holds(backend: Backend, can: Callable[[Feature], None]) -> None:
    can("grammar")
    sampling = Sampling(grammar='root ::= "yes" | "no"', seed=1)
    generation = backend.submit(Request(PROMPT, n=2, sampling=sampling, stop=Stop(max_tokens=16))).wait(WAIT)
    assert {branch.text for branch in generation.branches} <= {"yes", "no"}


def test_what_cannot_be_is_refused_in_words(backend: Backend) -> None:
    with pytest.raises(LimitExceeded):
        backend.submit(Request(PROMPT, n=backend.max_branches + 1))
    with pytest.raises(ContextOverflow):
        backend.submit(Request(PROMPT * backend.n_ctx))
    with pytest.raises(InvalidRequest, match="token id|stands for no text"):
        backend.submit(Request((2**31 - 1,)))
    if why := backend.capabilities.reason_for("cache_prompt"):
        with pytest.raises(NotSupported, match="cache_prompt") as refused:
            backend.submit(Request(PROMPT, cache_prompt=False))
        assert str(refused.value) == why


@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_one_says_so(kind: str) -> None:
    with backend_of(kind) as backend:
        running = backend.submit(Request(PROMPT, stop=rule(backend, LONG)))
        backend.close()
        with pytest.raises(EngineClosed):
            backend.submit(Request("x"))
        with pytest.raises(EngineClosed):
            running.wait(WAIT)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PEERS)
def test_another_program_writes_stops_rolls_again_and_goes_on(kind: str) -> None:
    with backend_of(kind) as backend:
        test_a_request_runs_and_is_counted(backend)
        test_a_stop_text_ends_a_branch_and_is_cut_off(backend)
        test_a_branch_is_rolled_again_while_the_others_write(backend)
        test_going_on_and_rewinding(backend)
