"""A grammar that takes long is followed in a process of its own: nobody waits for it, and no text changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from srbwriter.engine import grammar
from srbwriter.engine.engine import Engine
from srbwriter.engine.grammar import GrammarConstraint
from srbwriter.engine.grammar_process import Follower, Question
from srbwriter.engine.types import (
    BranchState,
    FinishReason,
    InvalidRequest,
    Priority,
    Request,
    Sampling,
    Stop,
)
from tests.sizes import some_of

from .support import PROMPT, WAIT, drive, exact_engine, finish, seeded, small_engine
from .test_grammar import NOTATIONS

AMBIGUOUS = "root ::= e\ne ::= e e e | e e | [a-z ]"
GRAMMARS: list[dict[str, str]] = [
    {"grammar": 'root ::= ("yes" | "no") [.!?]{1,3}'},
    {"grammar": 'root ::= (" " [a-z]+)+ "."?'},
    {"regex": r"( [a-z]{2,8}){2,4}\."},
    NOTATIONS[-1],
    {"grammar": AMBIGUOUS},
]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with exact_engine(n_ctx=1024) as loaded:  # who writes beside a branch changes nothing in it
        yield loaded


@pytest.fixture(autouse=True)
def forgotten() -> None:
    grammar._pace.cache_clear()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first token on, every grammar is found to be slow."""
    monkeypatch.setattr(grammar, "SLOW", -1.0)


def written(engine: Engine, n: int = 3, tokens: int = 14, **more: Any) -> list[tuple[Any, ...]]:
    fields = {name: more.pop(name) for name in ("grammar", "regex", "json_schema") if name in more}
    stop = Stop(max_tokens=tokens)
    generation = engine.submit(Request(PROMPT, n=n, sampling=seeded(3, **fields), stop=stop, **more))
    finish(engine, generation)
    return [(b.ids, b.text, b.finish_reason, [lp.id for lp in b.logprobs]) for b in generation.branches]


@pytest.mark.parametrize("notation", some_of(GRAMMARS, GRAMMARS[2:]), ids=str)
@pytest.mark.parametrize("more", some_of([{}, {"logprobs": 2}], [{"logprobs": 2}]), ids=str)
def test_the_text_is_the_same(
    engine: Engine, notation: dict[str, str], more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammar, "SLOW", 1e9)
    engine.reset()
    here = written(engine, **notation, **more)
    monkeypatch.setattr(grammar, "SLOW", -1.0)
    engine.reset()
    assert written(engine, **notation, **more) == here
    assert engine._scheduler.grammars._process is not None


@pytest.mark.full
def test_the_engine_looks_at_a_slow_grammar_only_to_find_that_out(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = list[str]()
    for name in ("allows", "bits", "accept"):
        look = getattr(GrammarConstraint, name)

        def counted(self: GrammarConstraint, *args: Any, name: str = name, look: Any = look) -> Any:
            looks.append(name)
            return look(self, *args)

        monkeypatch.setattr(GrammarConstraint, name, counted)
    monkeypatch.setattr(grammar, "SLOW", 1e9)
    fast = written(engine, n=2, grammar=AMBIGUOUS, tokens=30)
    looked = len(looks)
    grammar._pace.cache_clear()
    looks.clear()
    monkeypatch.setattr(grammar, "SLOW", -1.0)
    assert written(engine, n=2, grammar=AMBIGUOUS, tokens=30) == fast
    assert len(looks) <= 4 < looked / 4
    looks.clear()
    written(engine, n=2, grammar=AMBIGUOUS, tokens=30)
    assert not looks  # it is known by now


def test_others_write_on_while_it_is_asked(
    engine: Engine, slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the process knows how long it takes."""
    endless = Stop(ignore_eog=True)
    other = engine.submit(Request("The king", stop=endless, sampling=seeded(1)))
    constrained = engine.submit(Request(PROMPT, sampling=seeded(1, grammar=AMBIGUOUS), stop=endless))
    drive(engine, lambda: constrained.branches[0].ids and engine._scheduler.queue.asking)
    monkeypatch.setattr(engine._scheduler.grammars, "take", list)  # no answer comes
    before = len(other.branches[0].ids), len(constrained.branches[0].ids)
    drive(engine, lambda: len(other.branches[0].ids) > before[0] + 20)
    assert len(constrained.branches[0].ids) <= before[1] + 1
    assert engine._scheduler.queue.asking
    assert constrained.branches[0].state is BranchState.WRITING
    for generation in (constrained, other):
        generation.cancel()
        finish(engine, generation)
    assert constrained.branches[0].finish_reason is FinishReason.STOPPED


@pytest.mark.parametrize("verb", ["pause", "suspend"])
def test_a_rest_changes_no_text(engine: Engine, slow: None, verb: str) -> None:
    engine.reset()
    undisturbed = written(engine, n=1, grammar=AMBIGUOUS)
    engine.reset()
    stop = Stop(max_tokens=14)
    generation = engine.submit(Request(PROMPT, sampling=seeded(3, grammar=AMBIGUOUS), stop=stop))
    (branch,) = generation.branches
    queue = engine._scheduler.queue
    for _ in range(3):
        had = len(branch.ids)
        drive(engine, lambda had=had: bool(queue.asking) and len(branch.ids) > had)
        if verb == "pause":
            branch.pause()
            drive(engine, lambda: branch.state is BranchState.PAUSED)
            again = engine.stats().evaluated_again
            branch.resume()
            drive(engine, lambda: bool(queue.asking))
            assert engine.stats().evaluated_again == again  # what the model said is still known
        else:
            engine.call(lambda: queue.requeue(queue.asking[0]) if queue.asking else None)
    finish(engine, generation)
    assert [(branch.ids, branch.text, branch.finish_reason, [])] == undisturbed


@pytest.mark.parametrize("verb", ["kill", "stop", "reroll", "rewind", "append", "set_sampling", "set_stop"])
def test_it_can_be_steered_while_it_is_asked(engine: Engine, slow: None, verb: str) -> None:
    stop = Stop(max_tokens=20, ignore_eog=True)
    generation = engine.submit(Request(PROMPT, n=2, sampling=seeded(3, regex="( [a-z]+)+"), stop=stop))
    first, second = generation.branches
    queue = engine._scheduler.queue
    drive(engine, lambda: len(first.ids) > 3 and any(r.branch is first for r in queue.asking))
    arguments: dict[str, tuple[Any, ...]] = {
        "append": (" and then",), "set_sampling": (seeded(4, regex="[a-z ]*"),),
        "set_stop": (Stop(max_tokens=24, ignore_eog=True),),
    }  # fmt: skip
    if verb == "rewind":
        first.rewind(tokens=2)
    else:
        getattr(first, verb)(*arguments.get(verb, ()))
    finish(engine, generation)
    assert first.finish_reason is not FinishReason.ERROR and first.error is None
    assert not set(first.text) - set("abcdefghijklmnopqrstuvwxyz ")
    assert len(second.ids) == 20
    assert {"append": " and then" in first.text, "set_stop": len(first.ids) == 24}.get(verb, True)
    assert not queue.asking


def test_typed_text_that_breaks_it_ends_the_branch_in_words(engine: Engine, slow: None) -> None:
    stop = Stop(max_tokens=60, ignore_eog=True)
    generation = engine.submit(Request(PROMPT, n=2, sampling=seeded(3, regex="( [a-z]+)+"), stop=stop))
    first, second = generation.branches
    drive(engine, lambda: len(first.ids) > 3)
    first.append(" 123!")
    finish(engine, generation)
    assert isinstance(first.error, InvalidRequest) and "does not follow" in str(first.error)
    assert second.finish_reason is FinishReason.LENGTH


def test_a_schema_beyond_the_limits_says_so(engine: Engine, slow: None) -> None:
    schema = json.dumps({"type": "object", "properties": {f"k{i}": {} for i in range(2000)}})
    generation = engine.submit(
        Request(PROMPT, sampling=seeded(1, json_schema=schema), stop=Stop(max_tokens=9))
    )
    with pytest.raises(InvalidRequest, match="too large or too intricate"):
        finish(engine, generation)


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_branch_in_words_and_comes_back(engine: Engine, slow: None) -> None:
    stop = Stop(max_tokens=30, ignore_eog=True)
    generation = engine.submit(Request(PROMPT, sampling=seeded(3, regex="( [a-z]+)+"), stop=stop))
    drive(engine, lambda: engine._scheduler.grammars._process is not None)
    engine._scheduler.grammars._process.kill()  # type: ignore[union-attr]
    with pytest.raises(InvalidRequest, match="the process that follows it has ended"):
        finish(engine, generation)
    assert len(written(engine, n=1, regex="( [a-z]+)+")[0][0]) == 14


def test_an_engine_can_be_closed_while_it_is_asked(slow: None) -> None:
    with small_engine(thread=True) as engine:
        generation = engine.submit(Request(PROMPT, n=2, sampling=seeded(3, grammar=AMBIGUOUS)))
        with pytest.raises(TimeoutError):
            generation.wait(0.3)
        process = engine._scheduler.grammars
    assert process._process is None
    assert process._thread is None or not process._thread.is_alive()


def test_an_engine_with_a_thread_sleeps_till_the_answer_comes(slow: None) -> None:
    with small_engine(thread=True) as engine:
        generation = engine.submit(
            Request(PROMPT, n=2, sampling=seeded(3, grammar=AMBIGUOUS), stop=Stop(max_tokens=6))
        )
        assert all(len(b.ids) <= 6 and b.text for b in generation.wait(WAIT).branches)


def test_background_work_goes_on_behind_it(engine: Engine, slow: None) -> None:
    stop = Stop(max_tokens=6, ignore_eog=True)
    first = engine.submit(
        Request(PROMPT, sampling=seeded(3, regex="( [a-z]+)+"), stop=stop, priority=Priority.FOREGROUND)
    )
    second = engine.submit(Request(PROMPT, n=2, stop=stop, priority=Priority.BACKGROUND))
    finish(engine, first, second)


def test_a_long_text_is_read_in_slices(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that other texts have their turn meanwhile."""
    follower = Follower(engine.model)
    form = engine_form(engine, "[a-z ]*")
    ids = engine.tokenize("the old man went home and slept " * 4)
    clock = iter(range(10_000))
    monkeypatch.setattr("srbwriter.engine.grammar_process.time.monotonic", lambda: next(clock) * 0.03)
    answers = [follower.answer(Question(form, 1, ids, ids[0]))]
    while answers[-1].unread:
        answers.append(follower.answer(Question(form, 1, ids, ids[0])))
    assert 2 < len(answers) < len(ids)
    assert answers[-1].allowed and not answers[-1].finished


def test_what_it_knows_of_a_text_is_never_another_text(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srbwriter.engine.grammar_process.time.monotonic", lambda: 0.0)  # no slice ends
    follower = Follower(engine.model)
    form = engine_form(engine, "(ab)*")
    a, b = engine.tokenize("a")[0], engine.tokenize("b")[0]
    assert follower.answer(Question(form, 1, (a, b), a)).allowed
    assert follower.answer(Question(form, 1, (a,), b)).allowed  # it was cut
    assert follower.answer(Question(form, 1, (a,), a)).mask is not None
    assert "does not follow" in follower.answer(Question(form, 1, (b,), a)).trouble


def engine_form(engine: Engine, pattern: str) -> str:
    from srbwriter.engine.constraints import compile_constraint

    made = compile_constraint(Sampling(regex=pattern), engine.model)
    assert made is not None
    return made.form


@pytest.mark.parametrize("verb", ["set_sampling", "set_stop"])
def test_a_token_that_was_drawn_by_other_rules_is_not_written(engine: Engine, slow: None, verb: str) -> None:
    """The rules change while the grammar is asked about it."""
    engine.reset()
    end = min(engine.model.eog)

    def ends(logits: Any, view: Any) -> None:
        if verb == "set_stop" and len(view.ids) == 3:
            logits[end] += 1000.0

    sampling = seeded(4, temperature=0.0, grammar="root ::= [a-zA-Z .,]*")
    stop = Stop(max_tokens=8)
    generation = engine.submit(Request(PROMPT, sampling=sampling, stop=stop, logits_callback=ends))
    [branch], [active] = generation.branches, generation.engine_state.branches
    drive(engine, lambda: active.choice is not None and len(branch.ids) == 3, most=50)
    assert active.choice is not None
    token = active.choice.token
    if verb == "set_sampling":
        branch.set_sampling(replace(sampling, logit_bias=((token, float("-inf")),)))
    else:
        assert token == end
        branch.set_stop(replace(stop, min_tokens=6))
    drive(engine, lambda: len(branch.ids) > 4 or generation.done, most=50)
    assert branch.ids[3] != token
    branch.stop()
    finish(engine, generation)
