"""Branches whose samplers llama.cpp's graph knows are sampled there, and write the same as elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from srbwriter.engine.backend_sampling import BackendSampling
from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import (
    EngineOptions,
    FinishReason,
    NativeError,
    NotANumber,
    Request,
    Sampling,
    Stop,
)

from .support import GREEDY, PROMPT, assert_same_logits, drive, exact_model, finish, lengths, toy_model
from .toy_models import make_gemma, make_mamba

pytestmark = pytest.mark.full

RULE = Stop(max_tokens=16, ignore_eog=True)
KNOWN = (
    Sampling(seed=4),
    Sampling(seed=4, repeat_penalty=1.3, frequency_penalty=0.2, repeat_last_n=8),
    Sampling(seed=4, top_k=0, top_p=0.9, min_p=0.02, temperature=1.3),
    Sampling(seed=4, logit_bias=((300, 4.0), (301, -4.0))),
)
UNKNOWN = (
    GREEDY, Sampling(seed=4, mirostat=2), Sampling(seed=4, xtc_probability=0.5),
    Sampling(seed=4, typical_p=0.7), Sampling(seed=4, dry_multiplier=0.8),
    Sampling(seed=4, dynatemp_range=0.3),
    Sampling(seed=4, top_p=0.3, min_p=0.4, min_keep=3), Sampling(seed=4, grammar="root ::= [a-z ]*"),
)  # fmt: skip


def loaded(backend: bool, **more: Any) -> Engine:
    options = EngineOptions(
        n_ctx=2048, gpu_layers=0, seed=1, threads=1, flash_attn="on", backend_sampling=backend, **more
    )
    return Engine.load(exact_model(), options, thread=False)


@pytest.fixture(scope="module")
def plain() -> Iterator[Engine]:
    with loaded(False) as engine:
        yield engine


@pytest.fixture(scope="module")
def graph() -> Iterator[Engine]:
    with loaded(True) as engine:
        yield engine


def backend(engine: Engine) -> BackendSampling:
    found = engine._scheduler.backend_sampling
    assert found is not None
    return found


class Watched:
    """Rows sampled in the graph, steps without logits, and seats attached, while an engine runs."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = self.without_logits = self.attached = 0
        context = engine._context
        sampled, attach, decode = context.sampled, context.attach, context.decode

        def spy_sampled(*given: Any) -> Any:
            self.rows += 1
            return sampled(*given)

        def spy_attach(seq: int, chain: Any) -> bool:
            self.attached += chain is not None
            return attach(seq, chain)

        def spy_decode(*given: Any) -> int:
            self.without_logits += not context.has_logits
            return decode(*given)

        monkeypatch.setattr(context, "sampled", spy_sampled)
        monkeypatch.setattr(context, "attach", spy_attach)
        monkeypatch.setattr(context, "decode", spy_decode)


Steer = Callable[[Engine, Generation], None]


def write(engine: Engine, sampling: Any, n: int = 5, steer: Steer | None = None, **more: Any) -> Generation:
    engine.reset()
    engine.process()
    generation = engine.submit(Request(PROMPT, n=n, sampling=sampling, stop=RULE, **more))
    if steer is not None:
        drive(engine, lambda: min(lengths(generation)) >= 6)
        steer(engine, generation)
    finish(engine, generation)
    return generation


def texts(generation: Generation) -> list[tuple[int, ...]]:
    return [branch.ids for branch in generation.branches]


@pytest.mark.parametrize("sampling", KNOWN)
def test_the_graph_chooses_as_the_processor_does(
    plain: Engine, graph: Engine, monkeypatch: pytest.MonkeyPatch, sampling: Sampling
) -> None:
    watched = Watched(graph, monkeypatch)
    assert texts(write(graph, sampling)) == texts(write(plain, sampling))
    assert watched.rows > 0
    assert watched.without_logits > 0


@pytest.mark.parametrize("sampling", UNKNOWN)
def test_other_samplers_stay_on_the_processor(
    plain: Engine, graph: Engine, monkeypatch: pytest.MonkeyPatch, sampling: Sampling
) -> None:
    watched = Watched(graph, monkeypatch)
    assert texts(write(graph, sampling)) == texts(write(plain, sampling))
    assert watched.rows == 0


def test_both_kinds_write_side_by_side(plain: Engine, graph: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = (*KNOWN, *UNKNOWN)
    watched = Watched(graph, monkeypatch)
    assert texts(write(graph, mixed, len(mixed))) == texts(write(plain, mixed, len(mixed)))
    assert watched.rows > 0
    assert watched.without_logits == 0


def test_log_probabilities_are_of_the_model_s_logits(plain: Engine, graph: Engine) -> None:
    write(graph, KNOWN[0])  # whose seats stay
    found, wanted = (write(engine, KNOWN[0], 2, logprobs=3) for engine in (graph, plain))
    assert texts(found) == texts(wanted)
    for mine, other in zip(found.branches, wanted.branches, strict=True):
        for a, b in zip(mine.logprobs, other.logprobs, strict=True):
            assert a.logprob == pytest.approx(b.logprob, abs=1e-3)
            assert [token for token, _ in a.top] == [token for token, _ in b.top]


def test_a_prompt_is_scored_on_a_sequence_that_had_a_seat(plain: Engine, graph: Engine) -> None:
    write(graph, KNOWN[0])
    found, wanted = (write(engine, KNOWN[0], 2, prompt_logprobs=0) for engine in (graph, plain))
    assert texts(found) == texts(wanted)
    scores = [[one.logprob for one in generation.prompt_logprobs] for generation in (found, wanted)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


def test_branches_that_share_a_row_choose_for_themselves(plain: Engine, graph: Engine) -> None:
    for sampling in (Sampling(seed=9, temperature=0.2), Sampling(seed=3, temperature=0.5), KNOWN[0]):
        assert texts(write(graph, sampling, 12)) == texts(write(plain, sampling, 12))


def steers() -> dict[str, Steer]:
    def pause(engine: Engine, generation: Generation) -> None:
        generation.branches[1].pause()
        engine.process()
        engine.process()
        generation.branches[1].resume()

    def stop_and_extend(engine: Engine, generation: Generation) -> None:
        generation.branches[2].stop()
        engine.process()
        generation.branches[2].extend(RULE)

    return {
        "set_sampling": lambda _, g: g.branches[0].set_sampling(KNOWN[1]),
        "to the processor": lambda _, g: g.branches[0].set_sampling(UNKNOWN[2]),
        "reroll": lambda _, g: g.branches[3].reroll(seed=77),
        "rewind": lambda _, g: g.branches[1].rewind(tokens=3, seed=5),
        "append": lambda _, g: g.branches[1].append(" the fox"),
        "add_branch": lambda _, g: g.add_branch(2),
        "kill": lambda _, g: g.branches[4].kill(),
        "pause": pause,
        "stop and extend": stop_and_extend,
    }


@pytest.mark.parametrize("name", steers())
@pytest.mark.full
def test_verbs_do_what_they_do_on_the_processor(plain: Engine, graph: Engine, name: str) -> None:
    steer = steers()[name]
    assert texts(write(graph, KNOWN[0], steer=steer)) == texts(write(plain, KNOWN[0], steer=steer))


@pytest.mark.full
def test_the_next_round_takes_the_seats_of_the_last(graph: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.reset()
    graph.process()
    backend(graph).clear()
    path: Any = PROMPT
    watched = Watched(graph, monkeypatch)
    for _ in range(8):
        generation = graph.submit(Request(path, n=4, sampling=KNOWN[0], stop=RULE))
        finish(graph, generation)
        path = [*generation.prompt_ids, *generation.branches[1].ids]
    assert 4 <= watched.attached <= 2 * 4  # not one for each of the 32 branches: the sequences of two rounds


def test_seats_that_nobody_uses_are_taken_away(graph: Engine) -> None:
    write(graph, KNOWN[0], 24)
    write(graph, KNOWN[2], 1)
    assert len(backend(graph)._seats) <= 3


def test_a_row_that_is_no_number_ends_its_branch(graph: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    context = graph._context
    sampled, calls = context.sampled, iter(range(1000))

    def broken(chain: Any, row: int) -> tuple[int, float]:
        token, probability = sampled(chain, row)
        return token, float("nan") if next(calls) == 7 else probability

    monkeypatch.setattr(context, "sampled", broken)
    generation = write(graph, KNOWN[0])
    failed = [branch for branch in generation.branches if branch.error is not None]
    assert [type(branch.error) for branch in failed] == [NotANumber]
    assert sum(branch.finish_reason is FinishReason.LENGTH for branch in generation.branches) == 4


def test_who_is_stopped_while_a_step_is_computed_has_drawn_nothing(plain: Engine, graph: Engine) -> None:
    def stop(engine: Engine, generation: Generation) -> None:
        lib: Any = engine._context._lib
        native = lib.llama_decode

        def stopping(*given: Any) -> Any:
            lib.llama_decode = native
            generation.branches[0].stop()
            return native(*given)

        lib.llama_decode = stopping
        engine.process()
        engine.process()
        generation.branches[0].extend(RULE)

    assert texts(write(graph, KNOWN[0], steer=stop)) == texts(write(plain, KNOWN[0]))


def test_the_low_level_face_has_logits(plain: Engine, graph: Engine) -> None:
    rows = []
    for engine in (graph, plain):
        write(engine, KNOWN[0])
        sequences = engine.sequences
        seq = sequences.new_seq()
        rows.append(sequences.eval(seq, engine.tokenize(PROMPT)).copy())
        sequences.delete_seq(seq)
    assert_same_logits(*rows)
    assert texts(write(graph, KNOWN[0])) == texts(write(plain, KNOWN[0]))


def test_logits_that_did_not_come_back_are_refused(graph: Engine) -> None:
    generation = graph.submit(Request(PROMPT, n=2, sampling=KNOWN[0], stop=RULE))
    drive(graph, lambda: not graph._context.has_logits)
    with pytest.raises(NativeError):
        graph._context.logits(0)
    finish(graph, generation)


def test_a_long_prompt_is_read_beside_branches_that_write(plain: Engine, graph: Engine) -> None:
    found = []
    for engine in (graph, plain):
        engine.reset()
        engine.process()
        engine._scheduler.budget.size = lambda writing, abortable: 600  # type: ignore[method-assign]
        one = engine.submit(Request(PROMPT, n=3, sampling=KNOWN[0], stop=RULE))
        drive(engine, lambda one=one: min(lengths(one)) >= 4)
        two = engine.submit(Request(PROMPT * 40, n=2, sampling=KNOWN[1], stop=RULE))
        finish(engine, one, two)
        found.append(texts(one))
        assert all(len(ids) == 16 for ids in texts(two))
    assert found[0] == found[1]


@pytest.mark.parametrize("make", [make_gemma, make_mamba])
def test_other_memories_stay_on_the_processor(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    options = EngineOptions(n_ctx=256, gpu_layers=0, seed=1, threads=1, backend_sampling=True)
    with Engine.load(toy_model(make), options, thread=False) as engine:
        assert engine._scheduler.backend_sampling is None
        assert "sampling stays on the processor" in caplog.text
        generation = engine.submit(Request("a fox", n=2, stop=Stop(max_tokens=4, ignore_eog=True)))
        finish(engine, generation)


def test_a_model_that_is_split_so_that_llama_cpp_refuses_is_sampled_on_the_processor(
    plain: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loaded(True) as engine:
        monkeypatch.setattr(engine._context, "attach", lambda seq, chain: False)
        assert texts(write(engine, KNOWN[0])) == texts(write(plain, KNOWN[0]))
        assert backend(engine)._refused
