"""All that can go wrong between here and there: no text that was shown is lost, and why is said in words."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from random import Random
from typing import Any

import pytest

from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.remote.engine import RemoteEngine
from srbwriter.engine.remote.options import RemoteOptions, address, shown
from srbwriter.engine.types import (
    BranchState,
    FinishReason,
    InvalidRequest,
    NotSupported,
    RemoteError,
    Request,
    Sampling,
    Stop,
)

from .relay import Relay
from .scripted import (
    PROMPT,
    STORY,
    Fault,
    Handler,
    Scripted,
    answers,
    drops_after,
    lies_after,
    misnumbers_after,
    stalls_after,
)
from .test_backend import WAIT, until

NO_END = Stop(max_tokens=None)
Connect = Callable[..., RemoteEngine]


@pytest.fixture(params=["vllm", "openai"])
def server(request: pytest.FixtureRequest) -> Iterator[Scripted]:
    with closing(Scripted(request.param)) as it:
        yield it


@pytest.fixture
def vllm() -> Iterator[Scripted]:
    with closing(Scripted("vllm")) as it:
        yield it


@pytest.fixture
def connect() -> Iterator[Connect]:
    made: list[RemoteEngine] = []

    def connected(server: Scripted, **options: Any) -> RemoteEngine:
        quick = {"url": server.url, "first_wait": 0.01, "longest_wait": 0.05, "retries": 4, **options}
        made.append(RemoteEngine.connect(RemoteOptions(**quick)))
        return made[-1]

    yield connected
    for engine in made:
        engine.close()


def faults() -> list[tuple[str, Fault]]:
    return [
        ("dropped before a word", drops_after(0)),
        ("dropped in the middle", drops_after(77)),
        ("garbage instead of JSON", lies_after(30, b"data: {not json\n\n")),
        ("garbage instead of events", lies_after(31, b"\xff\xfe\x00garbage\n\n")),
        ("an error in the middle", lies_after(5, b'data: {"error": {"message": "worn out"}}\n\n')),
        ("500", answers(500, {"error": {"message": "worn out"}})),
        ("503 with a page", answers(503, b"<html>busy</html>")),
        ("429", answers(429, {"error": {"message": "too many"}}, Retry_After="0")),
    ]


FAULTS = dict(faults())


@pytest.mark.parametrize("fault", ["dropped in the middle", "an error in the middle", "500"])
def test_the_text_is_whole_whatever_breaks_off(server: Scripted, connect: Connect, fault: str) -> None:
    engine = connect(server)
    server.faults.extend([FAULTS[fault]] * 3)
    generation = engine.submit(Request(PROMPT, n=2, stop=NO_END)).wait(WAIT)
    assert [branch.text for branch in generation.branches] == [STORY, STORY]
    assert {branch.finish_reason for branch in generation.branches} == {FinishReason.EOG}
    assert all(branch.buffer.revision == 0 for branch in generation.branches)  # nothing was shown twice
    assert engine.detokenize(generation.branches[0].ids) == STORY


@pytest.mark.parametrize(
    "choices",
    [
        [{"index": 100, "text": "!"}],
        [{"index": 2, "text": "!"}],
        [{"index": -1, "text": "!"}],
        [{"index": 0, "text": STORY[9]}, {"index": 0, "text": "!"}],
    ],
    ids=["100", "one too many", "-1", "twice"],
)
@pytest.mark.parametrize("kind", ["vllm", "openai"])
def test_words_for_a_branch_that_is_none_are_an_error_and_no_word_is_lost_or_doubled(
    connect: Connect, kind: str, choices: list[dict[str, Any]]
) -> None:
    with closing(Scripted(kind)) as server:
        engine = connect(server)
        server.always = misnumbers_after(9, choices)
        generation = engine.submit(Request(PROMPT, n=2, stop=NO_END))
        with pytest.raises(RemoteError, match="the server is faulty") as caught:
            generation.wait(WAIT)
        assert server.url in str(caught.value)
        assert [branch.text for branch in generation.branches] == [STORY[:9]] * 2


def test_words_without_a_number_are_asked_for_again(vllm: Scripted, connect: Connect) -> None:
    engine = connect(vllm)
    vllm.faults.append(misnumbers_after(9, [{"text": "!"}]))
    assert engine.submit(Request(PROMPT, n=2, stop=NO_END)).result(WAIT) == [STORY] * 2


def test_no_word_is_lost_over_many_faults(server: Scripted, connect: Connect) -> None:
    with closing(Relay(server.server_address[1])) as relay:
        engine = connect(server, retries=100, first_wait=0.0, url=relay.url)
        while relay.faults < 30:
            generation = engine.submit(Request(PROMPT, n=8, stop=NO_END)).wait(WAIT)
            assert [branch.text for branch in generation.branches] == [STORY] * 8
            assert all(branch.buffer.revision == 0 for branch in generation.branches)
        assert relay.dropped and relay.corrupted and relay.delayed


def breaks_off_at_random(luck: Random) -> Fault:
    lies = b"data: {not json\n\n"

    def fault(handler: Handler) -> bool:
        chosen: list[Fault | None] = [None, None, None]
        chosen += [drops_after(luck.randrange(60)), lies_after(luck.randrange(60), lies)]
        chosen += [answers(500, {"error": {"message": "worn out"}})]
        found = luck.choice(chosen)
        return found is not None and found(handler)

    return fault


def steer_at_random(chance: Random, branch: Branch) -> None:
    """Do one random thing to a branch that leaves its text a beginning of the story."""
    rules = Stop(chance.randrange(1, 200), strings=chance.choice([(), ("fox",), ("hare; the",)]))
    verbs: list[Callable[[], None]] = [
        branch.reroll, branch.extend,
        lambda: branch.extend(chance.randrange(80)),
        lambda: branch.rewind(chars=chance.randrange(300)),
        lambda: branch.rewind(tokens=chance.randrange(300)),
        lambda: branch.set_stop(rules),
        lambda: branch.set_sampling(Sampling(temperature=0.5, seed=chance.choice([None, 4]))),
    ]  # fmt: skip
    chance.choice(verbs)()


@pytest.mark.parametrize("seed", [0])
def test_no_verb_loses_or_doubles_a_word_while_answers_break_off(
    server: Scripted, connect: Connect, seed: int
) -> None:
    chance = Random(seed)
    server.always = breaks_off_at_random(Random(seed + 1))
    engine = connect(server, retries=1000, first_wait=0.0)
    rule = Stop(chance.choice([40, 200, None]))
    asked = Request(PROMPT, n=3, stop=rule)
    generation = engine.submit(asked)
    branches = generation.branches
    for _ in range(80):
        steer_at_random(chance, chance.choice(branches))
        if chance.random() < 0.1:
            enough = len(generation.log) + 20
            until(generation, lambda enough=enough: len(generation.log) > enough or not writing(generation))
        assert all(STORY.startswith(branch.text) for branch in branches)
    for branch in branches:
        branch.set_stop(NO_END)
    generation.wait(WAIT)
    for branch in branches:
        branch.extend(len(STORY))
    assert generation.result(WAIT) == [STORY] * 3
    for branch in branches:
        assert engine.detokenize([*generation.prompt_ids, *branch.ids]) == PROMPT + STORY
    assert server.gaps == []


def writing(generation: Generation) -> bool:
    return any(branch.live for branch in generation.branches)


def test_a_silent_server_is_left_after_a_while(vllm: Scripted, connect: Connect) -> None:
    engine, over = connect(vllm, silent_seconds=0.3), threading.Event()
    vllm.faults.append(stalls_after(10, over))
    generation = engine.submit(Request(PROMPT, stop=NO_END)).wait(WAIT)
    over.set()
    assert generation.branches[0].text == STORY


def test_attempts_are_bounded_and_a_writer_may_roll_again(vllm: Scripted, connect: Connect) -> None:
    engine = connect(vllm)
    vllm.faults.append(drops_after(9))
    vllm.always = answers(500, {"error": {"message": "worn out"}})
    generation = engine.submit(Request(PROMPT, stop=NO_END))
    with pytest.raises(RemoteError):
        generation.wait(WAIT)
    [branch] = generation.branches
    assert branch.state is BranchState.FAILED
    assert branch.text == STORY[:9]
    assert "worn out" in str(branch.error) and "5 attempts" in str(branch.error)
    vllm.always = None
    branch.extend()
    generation.wait(WAIT)
    assert branch.text == STORY and branch.error is None


def test_each_attempt_is_told_once_for_all_branches(connect: Connect) -> None:
    notices: list[str] = []
    with closing(Scripted("openai")) as server:
        engine = connect(server, notify=notices.append)
        server.faults.append(drops_after(9))
        server.always = answers(503, {"error": "loading"})
        with pytest.raises(RemoteError, match="loading"):
            engine.submit(Request(PROMPT, n=4, stop=NO_END)).wait(WAIT)
    assert (
        notices[0].startswith(f"{server.url}: the connection was lost (")
        and "Trying again now (1 of 4)." in notices[0]
    )
    assert notices[1:] == [
        f"{server.url}: it failed (loading). Trying again in {wait:.3g} s ({attempt} of 4)."
        for wait, attempt in ((0.02, 2), (0.04, 3), (0.05, 4))
    ]


def test_a_wait_that_the_server_asks_for_is_kept(vllm: Scripted, connect: Connect) -> None:
    notices: list[str] = []
    engine = connect(vllm, notify=notices.append)
    vllm.faults.extend([answers(429, {"error": "too many"}, Retry_After="0.4")] * 2)
    assert engine.submit(Request(PROMPT, stop=NO_END)).result(WAIT) == [STORY]
    assert notices == [
        f"{vllm.url}: it has too much to do (too many). Trying again in 0.4 s ({k} of 4)." for k in (1, 2)
    ]


def test_an_answer_that_ends_early_is_said_with_the_address(server: Scripted, connect: Connect) -> None:
    notices: list[str] = []
    engine = connect(server, notify=notices.append)
    server.faults.append(answers(200, ""))
    assert engine.submit(Request(PROMPT, stop=NO_END)).result(WAIT) == [STORY]
    assert notices and all(line.startswith(f"{server.url}: ") for line in notices)


def test_another_attempt_is_visible(vllm: Scripted, connect: Connect) -> None:
    engine = connect(vllm, first_wait=30.0, longest_wait=30.0)
    vllm.faults.append(answers(503, {"error": "loading"}))
    generation = engine.submit(Request(PROMPT, stop=NO_END))
    [branch] = generation.branches
    until(generation, lambda: branch.error is not None)
    assert branch.live and "loading" in str(branch.error) and "trying again" in str(branch.error)
    branch.stop()
    generation.wait(WAIT)
    assert branch.finish_reason is FinishReason.STOPPED


@pytest.mark.parametrize(
    ("status", "words", "message"),
    [
        (400, "maximum context length is 2048 tokens", "maximum context length is 2048 tokens"),
        (413, "too large", "too large"),
        (404, "The model `scripted` does not exist", "does not exist"),
        (401, "bad key", "--connect-key"),
    ],
)
def test_what_will_never_do_is_asked_once(
    vllm: Scripted, connect: Connect, status: int, words: str, message: str
) -> None:
    engine = connect(vllm)
    vllm.always = answers(status, {"error": {"message": words}})
    with pytest.raises(RemoteError, match=message):
        engine.submit(Request(PROMPT)).wait(WAIT)
    assert sum(path == "/v1/completions" for path, _, _ in vllm.heard) == 1


def test_a_key_is_sent_and_never_written_down(
    vllm: Scripted, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    vllm.wanted_key = "s3cret-key"
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(RemoteError, match="--connect-key"):
            connect(vllm)
        engine = connect(vllm, key="s3cret-key")
        engine.submit(Request(PROMPT, stop=Stop(max_tokens=3))).wait(WAIT)
    assert "s3cret-key" not in caplog.text + repr(engine.options) + repr(engine.profile)


def test_nobody_there_is_said_in_words() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(RemoteError, match="no connection .* is the server running"):
            RemoteEngine.connect(RemoteOptions(url))


def test_a_server_that_dies_and_comes_back(connect: Connect) -> None:
    first = Scripted("vllm")
    engine = connect(first, retries=200)
    first.faults.append(drops_after(40))
    first.always = lambda handler: handler.drop() is None
    generation = engine.submit(Request(PROMPT, n=3, stop=NO_END))
    until(generation, lambda: all(branch.error is not None for branch in generation.branches))
    port = first.server_address[1]
    first.close()
    with closing(Scripted("vllm", port)):
        generation.wait(WAIT)
    assert [branch.text for branch in generation.branches] == [STORY] * 3


def test_who_stops_closes_the_connection(server: Scripted, connect: Connect) -> None:
    engine = connect(server)
    server.hold.clear()
    generation = engine.submit(Request(PROMPT, stop=NO_END))
    until(generation, lambda: bool(generation.branches[0].text))
    generation.cancel()
    generation.wait(WAIT)
    assert server.left.wait(WAIT)


def test_branches_wait_here_where_too_many_are_asked_for(vllm: Scripted, connect: Connect) -> None:
    engine = connect(vllm, max_requests=3)
    samplings = tuple(Sampling(temperature=0.5 + 0.01 * k) for k in range(24))
    vllm.hold.clear()
    generation = engine.submit(Request(PROMPT, n=24, sampling=samplings, stop=Stop(max_tokens=50)))
    until(generation, lambda: sum(bool(branch.text) for branch in generation.branches) == 3)
    vllm.hold.set()
    assert generation.result(WAIT) == [STORY[:50]] * 24
    assert vllm.most == 3


def test_equal_branches_are_one_request(connect: Connect) -> None:
    with closing(Scripted("openai")) as server:
        generation = connect(server).submit(Request(PROMPT, n=12, stop=Stop(max_tokens=5)))
        assert generation.result(WAIT) == [STORY[:5]] * 12
        [body] = asked(server)
        assert body["n"] == 12


def test_koboldcpp_writes_one_branch_a_request(connect: Connect) -> None:
    """It has OpenAI's completions, and ignores n."""
    with closing(Scripted("koboldcpp")) as server:
        assert connect(server).submit(Request(PROMPT, n=4, stop=NO_END)).result(WAIT) == [STORY] * 4
        assert len(asked(server)) == 4


def test_a_dialect_that_is_none_is_refused(vllm: Scripted, connect: Connect) -> None:
    with pytest.raises(InvalidRequest, match="'koboldcpp' is none of auto, vllm, openai, llamacpp, srb"):
        connect(vllm, dialect="koboldcpp")


def asked(server: Scripted) -> list[dict[str, Any]]:
    """The bodies of all requests for text."""
    return [body for path, _, body in server.heard if path == "/v1/completions"]


def test_what_nobody_wants_is_not_written_on(vllm: Scripted, connect: Connect) -> None:
    """A branch of vLLM that is left ends there, the others go on, and no character is lost or doubled."""
    engine = connect(vllm)
    vllm.steps = steps = threading.Semaphore(40)
    generation = engine.submit(Request(PROMPT, n=8, stop=NO_END))
    branches = generation.branches
    until(generation, lambda: sum(len(branch.text) for branch in branches) == 48)
    branches[3].kill()
    assert vllm.left.wait(WAIT)
    assert len(asked(vllm)) == 8
    steps.release(1 << 20)
    branches[1].reroll()
    generation.wait(WAIT)
    killed = branches[3].text
    assert STORY.startswith(killed) and len(killed) < len(STORY)
    assert [branch.text for branch in branches] == [STORY] * 3 + [killed] + [STORY] * 4
    assert all(branch.buffer.revision == 0 for branch in branches if branch.index != 1)


@pytest.mark.parametrize("kind", ["vllm", "openai"])
def test_neighbours_that_end_change_no_text(connect: Connect, kind: str) -> None:
    """Nobody is asked for anew because another branch is at its end."""
    stops = (Stop(max_tokens=None, strings=("fox",)), *[NO_END] * 3)
    with closing(Scripted(kind)) as server:
        engine = connect(server)
        engine.submit(Request(PROMPT, n=4, sampling=Sampling(seed=1), stop=stops)).wait(WAIT)
        seeds = [body["seed"] + k for body in asked(server) for k in range(body.get("n", 1))]
        assert sorted(seeds) == [1, 2, 3, 4]


def test_samplers_that_they_lack_are_refused_in_words(server: Scripted, connect: Connect) -> None:
    engine = connect(server)
    with pytest.raises(NotSupported, match="does not know top_n_sigma"):
        engine.submit(Request(PROMPT, sampling=Sampling(top_n_sigma=1.0)))
    running = engine.submit(Request(PROMPT, stop=NO_END))
    with pytest.raises(NotSupported, match="cannot be paused; stop the branch"):
        running.branches[0].pause()
    assert running.result(WAIT) == [STORY]
    assert not engine.capabilities.has("top_n_sigma") and engine.capabilities.has("temperature")


def test_certificates_are_looked_at(vllm: Scripted) -> None:
    with pytest.raises(RemoteError):  # it speaks no TLS at all
        RemoteEngine.connect(RemoteOptions(vllm.url.replace("http:", "https:")))


@pytest.mark.parametrize(
    ("typed", "used"),
    [
        ("host:8000", "http://host:8000"),
        ("https://host/v1/", "https://host"),
        ("http://host/proxy/v1", "http://host/proxy"),
    ],
)
def test_addresses_are_read_as_people_write_them(typed: str, used: str) -> None:
    assert address(typed) == used


def test_names_in_addresses_are_not_shown() -> None:
    assert shown("https://me:pw@host/x") == "https://host/x"
    with pytest.raises(InvalidRequest, match="no address"):
        address("ftp://host")
