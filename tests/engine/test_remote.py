"""An engine elsewhere: whatever goes wrong between here and there, no shown text is lost, and why is said."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from random import Random
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.demo import bundled_model
from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.remote import vocabulary
from srbwriter.engine.remote.engine import RemoteEngine
from srbwriter.engine.remote.options import RemoteOptions, address, shown
from srbwriter.engine.types import (
    BranchState,
    EngineClosed,
    FinishReason,
    InvalidRequest,
    NotSupported,
    RemoteError,
    Request,
    Sampling,
    Stop,
)

from .peers import OPTIONS, connected, served
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
from .support import SHORT
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


def asked(server: Scripted) -> list[dict[str, Any]]:
    """The bodies of all requests for text."""
    return [body for path, _, body in server.heard if path == "/v1/completions"]


# ---- what breaks off


FAULTS: dict[str, Fault] = {
    "dropped before a word": drops_after(0),
    "dropped in the middle": drops_after(77),
    "garbage instead of JSON": lies_after(30, b"data: {not json\n\n"),
    "garbage instead of events": lies_after(31, b"\xff\xfe\x00garbage\n\n"),
    "an error in the middle": lies_after(5, b'data: {"error": {"message": "worn out"}}\n\n'),
    "no number": misnumbers_after(9, [{"text": "!"}]),
    "an empty answer": answers(200, ""),
    "503 with a page": answers(503, b"<html>busy</html>"),
}


@pytest.mark.parametrize("fault", FAULTS)
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
    [[{"index": 2, "text": "!"}], [{"index": -1, "text": "!"}],
     [{"index": 0, "text": STORY[9]}, {"index": 0, "text": "!"}]],
    ids=["one too many", "-1", "twice"],
)  # fmt: skip
def test_words_for_a_branch_that_is_none_are_an_error_and_no_word_is_lost_or_doubled(
    server: Scripted, connect: Connect, choices: list[dict[str, Any]]
) -> None:
    engine = connect(server)
    server.always = misnumbers_after(9, choices)
    generation = engine.submit(Request(PROMPT, n=2, stop=NO_END))
    with pytest.raises(RemoteError, match="the server is faulty") as caught:
        generation.wait(WAIT)
    assert server.url in str(caught.value)
    assert [branch.text for branch in generation.branches] == [STORY[:9]] * 2


def test_words_that_a_stop_text_holds_back_are_kept_and_counted_once(
    server: Scripted, connect: Connect
) -> None:
    """Each answer ends while what it wrote may still become the stop text."""
    engine = connect(server)
    server.faults.extend([drops_after(len("the 0. naïve fox"))] * 2)
    stop = Stop(max_tokens=60, strings=("fox 🦊 met a hat", STORY[8:34] + "?"))
    assert engine.submit(Request(PROMPT, n=2, stop=stop)).result(WAIT) == [STORY[:60]] * 2


def breaks_off_at_random(luck: Random) -> Fault:
    def fault(handler: Handler) -> bool:
        chosen: list[Fault | None] = [None, None, None, answers(500, {"error": {"message": "worn out"}})]
        chosen += [drops_after(luck.randrange(60)), lies_after(luck.randrange(60), b"data: {not json\n\n")]
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
        lambda: branch.change(stop=rules),
        lambda: branch.change(Sampling(temperature=0.5, seed=chance.choice([None, 4]))),
    ]  # fmt: skip
    chance.choice(verbs)()


def test_no_verb_loses_or_doubles_a_word_while_answers_break_off(server: Scripted, connect: Connect) -> None:
    chance = Random(0)
    server.always = breaks_off_at_random(Random(1))
    engine = connect(server, retries=1000, first_wait=0.0)
    rule = Stop(chance.choice([40, 200, None]))
    generation = engine.submit(Request(PROMPT, n=3, stop=rule))
    branches = generation.branches
    for _ in range(80):
        steer_at_random(chance, chance.choice(branches))
        if chance.random() < 0.1:
            enough = len(generation.log) + 20
            until(generation, lambda enough=enough: len(generation.log) > enough or not writing(generation))
        assert all(STORY.startswith(branch.text) for branch in branches)
    for branch in branches:
        branch.change(stop=NO_END)
    generation.wait(WAIT)
    for branch in branches:
        branch.extend(len(STORY))
    assert generation.result(WAIT) == [STORY] * 3
    for branch in branches:
        assert engine.detokenize([*generation.prompt_ids, *branch.ids]) == PROMPT + STORY
    assert server.gaps == []


def writing(generation: Generation) -> bool:
    return any(branch.live for branch in generation.branches)


@pytest.mark.parametrize("tail", [b"data: {oops\n\n", b'data: {"error": {"message": "worn out"}}\n\n'])
def test_a_branch_that_a_stop_text_ends_is_told_whatever_comes_behind_it(
    server: Scripted, connect: Connect, tail: bytes
) -> None:
    def fault(handler: Handler) -> bool:
        handler.begin()
        handler.frame(handler.event(0, STORY[:12], None) + tail)
        return True

    server.faults.append(fault)
    generation = connect(server).submit(Request(PROMPT, stop=Stop(strings=(STORY[7:12],)))).wait(WAIT)
    assert generation.branches[0].text == STORY[:7]
    assert generation.branches[0].finish_reason is FinishReason.STOP


def test_a_last_line_without_an_end_is_read(server: Scripted, connect: Connect) -> None:
    def fault(handler: Handler) -> bool:
        handler.answer(200, handler.event(0, STORY, None) + handler.event(0, "", "stop").rstrip())
        return True

    server.faults.append(fault)
    generation = connect(server).submit(Request(PROMPT, stop=NO_END)).wait(WAIT)
    assert generation.branches[0].text == STORY
    assert len(asked(server)) == 1


@pytest.mark.parametrize("body", [b'{"error": {"message": "worn out"}}', b"<html>worn out</html>"])
def test_an_error_instead_of_events_is_said_in_words(server: Scripted, connect: Connect, body: bytes) -> None:
    server.always = answers(200, body)
    with pytest.raises(RemoteError, match="worn out|web page"):
        connect(server).submit(Request(PROMPT, stop=NO_END)).wait(WAIT)


def test_a_silent_server_is_left_after_a_while(vllm: Scripted, connect: Connect) -> None:
    engine, over = connect(vllm, silent_seconds=0.3), threading.Event()
    vllm.faults.append(stalls_after(10, over))
    generation = engine.submit(Request(PROMPT, stop=NO_END)).wait(WAIT)
    over.set()
    assert generation.branches[0].text == STORY


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


# ---- what is said of it


def test_each_attempt_is_told_once_for_all_branches(connect: Connect) -> None:
    notices: list[str] = []
    with closing(Scripted("openai")) as server:
        engine = connect(server, notify=notices.append)
        server.faults.append(drops_after(9))
        server.always = answers(503, {"error": "loading"})
        with pytest.raises(RemoteError, match="loading"):
            engine.submit(Request(PROMPT, n=4, stop=NO_END)).wait(WAIT)
    assert notices[0].startswith(f"{server.url}: the connection was lost (")
    assert "Trying again now (1 of 4)." in notices[0]
    assert notices[1:] == [
        f"{server.url}: it failed (loading). Trying again in {wait:.3g} s ({attempt} of 4)."
        for wait, attempt in ((0.02, 2), (0.04, 3), (0.05, 4))
    ]


def test_a_notice_that_fails_holds_no_branch(vllm: Scripted, connect: Connect) -> None:
    def fail(_: str) -> None:
        raise OSError("nobody reads it")

    vllm.faults.append(drops_after(9))
    assert connect(vllm, notify=fail).submit(Request(PROMPT, stop=NO_END)).result(WAIT) == [STORY]


def test_a_wait_that_the_server_asks_for_is_kept(vllm: Scripted, connect: Connect) -> None:
    notices: list[str] = []
    engine = connect(vllm, notify=notices.append)
    vllm.faults.extend([answers(429, {"error": "too many"}, Retry_After="0.2")] * 2)
    assert engine.submit(Request(PROMPT, stop=NO_END)).result(WAIT) == [STORY]
    assert notices == [
        f"{vllm.url}: it has too much to do (too many). Trying again in 0.2 s ({k} of 4)." for k in (1, 2)
    ]


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, {"error": {"message": "the context is 2048 tokens", "code": 400}}, "the context is 2048"),
        (413, {"detail": [{"loc": ["body"], "msg": "too large"}]}, "too large"),
        (404, {"object": "error", "message": "no model `scripted`"}, "no model `scripted`"),
        (401, {"error": "bad key"}, "--connect-key"),
        (422, b"<html><body>no</body></html>", "HTTP 422"),
        (301, {}, "which is not followed"),
    ],
)  # fmt: skip
def test_what_will_never_do_is_asked_once_and_said_in_the_servers_words(
    vllm: Scripted, connect: Connect, status: int, body: Any, message: str
) -> None:
    engine = connect(vllm)
    vllm.always = answers(status, body)
    with pytest.raises(RemoteError, match=message):
        engine.submit(Request(PROMPT)).wait(WAIT)
    assert len(asked(vllm)) == 1


def test_a_key_is_sent_and_never_written_down(
    vllm: Scripted, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    vllm.wanted_key = "s3cret-key"
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(RemoteError, match="--connect-key"):
            connect(vllm)
        engine = connect(vllm, key="s3cret-key")
        engine.submit(Request(PROMPT, stop=Stop(max_tokens=3))).wait(WAIT)
    assert "s3cret-key" not in caplog.text + repr(engine.options) + repr(engine.dialect.lines())


def test_nobody_there_is_said_in_words() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(RemoteError, match="no connection .* is the server running"):
            RemoteEngine.connect(RemoteOptions(url))


@pytest.mark.parametrize("models", [["grid"], {"id": 1}, [{"id": "a", "owned_by": "llamacpp", "meta": 5}]])
def test_odd_words_about_models_are_an_error_in_words(
    vllm: Scripted, connect: Connect, monkeypatch: pytest.MonkeyPatch, models: Any
) -> None:
    monkeypatch.setattr(Handler, "do_GET", lambda self: self.answer(200, {"data": models}))
    with pytest.raises(RemoteError, match="what it says of its models cannot be read"):
        connect(vllm)


def test_another_server_than_was_said_is_named_at_once(vllm: Scripted, connect: Connect) -> None:
    with pytest.raises(InvalidRequest, match="'koboldcpp' is none of auto, vllm, openai, llamacpp, srb"):
        connect(vllm, dialect="koboldcpp")
    with pytest.raises(RemoteError, match=r"this is vLLM \(--dialect vllm\), not another srbwriter"):
        connect(vllm, dialect="srb")
    with Engine.load(bundled_model(), OPTIONS) as engine, served(engine) as url:
        with pytest.raises(RemoteError, match="this is another srbwriter .*, not vLLM; leave --dialect out"):
            RemoteEngine.connect(RemoteOptions(url, dialect="vllm"))
        with connected(url, "llamacpp") as here:  # which it speaks, too
            dry = Sampling(dry_multiplier=1.0, dry_penalty_last_n=-1, repeat_last_n=-1)
            assert here.submit(Request("Once", sampling=dry, stop=Stop(max_tokens=3))).result(WAIT)


# ---- branches and requests


def test_who_stops_closes_the_connection(server: Scripted, connect: Connect) -> None:
    engine = connect(server)
    server.hold.clear()
    generation = engine.submit(Request(PROMPT, stop=NO_END))
    until(generation, lambda: bool(generation.branches[0].text))
    generation.cancel()
    generation.wait(WAIT)
    assert server.left.wait(WAIT)


@pytest.mark.parametrize(("kind", "requests"), [("openai", 1), ("koboldcpp", 4), ("vllm", 4)])
def test_equal_branches_are_one_request_where_the_server_knows_n(
    connect: Connect, kind: str, requests: int
) -> None:
    """And nobody is asked for anew because another branch is at its end."""
    stops = (Stop(max_tokens=None, strings=("fox",)), *[NO_END] * 3)
    with closing(Scripted(kind)) as server:
        asking = Request(PROMPT, n=4, sampling=Sampling(seed=1), stop=stops)
        texts = connect(server).submit(asking).result(WAIT)
        assert texts == [STORY[: STORY.index("fox")], STORY, STORY, STORY]
        assert len(asked(server)) == requests
        seeds = [body["seed"] + k for body in asked(server) for k in range(body.get("n", 1))]
        assert sorted(seeds) == [1, 2, 3, 4]


def test_a_server_that_writes_one_branch_whatever_is_asked_writes_all_of_them(
    server: Scripted, connect: Connect
) -> None:
    server.always = lambda handler: handler.write({**handler.body, "n": 1})
    generation = connect(server).submit(Request(PROMPT, n=8, stop=NO_END)).wait(WAIT)
    assert [branch.text for branch in generation.branches] == [STORY] * 8
    assert len(asked(server)) == 8


def test_what_nobody_wants_is_not_written_on(vllm: Scripted, connect: Connect) -> None:
    """A branch of vLLM that is left ends there, the others go on, and no character is lost or doubled."""
    engine = connect(vllm)
    vllm.steps = steps = threading.Semaphore(40)
    generation = engine.submit(Request(PROMPT, n=5, stop=NO_END))
    branches = generation.branches
    until(generation, lambda: sum(len(branch.text) for branch in branches) == 45)
    branches[3].kill()
    assert vllm.left.wait(WAIT)
    assert len(asked(vllm)) == 5
    steps.release(5 * len(STORY))
    branches[1].reroll()
    generation.wait(WAIT)
    killed = branches[3].text
    assert STORY.startswith(killed) and len(killed) < len(STORY)
    assert [branch.text for branch in branches] == [STORY] * 3 + [killed, STORY]
    assert all(branch.buffer.revision == 0 for branch in branches if branch.index != 1)


def test_samplers_that_they_lack_are_refused_in_words(server: Scripted, connect: Connect) -> None:
    engine = connect(server)
    with pytest.raises(NotSupported, match="does not know top_n_sigma"):
        engine.submit(Request(PROMPT, sampling=Sampling(top_n_sigma=1.0)))
    running = engine.submit(Request(PROMPT, stop=NO_END))
    with pytest.raises(NotSupported, match="cannot be paused; stop the branch"):
        running.branches[0].pause()
    with pytest.raises(InvalidRequest, match="stands for no text"):
        running.branches[0].set_prompt((0xD800,))
    assert running.result(WAIT) == [STORY]
    assert not engine.capabilities.has("top_n_sigma") and engine.capabilities.has("temperature")


def test_an_engine_that_is_closed_leaves_no_thread_and_no_connection(vllm: Scripted) -> None:
    before = set(threading.enumerate())
    engine = RemoteEngine.connect(RemoteOptions(vllm.url))
    generation = engine.submit(Request(PROMPT, n=2, stop=SHORT)).wait(WAIT)
    engine.close()
    assert not [t for t in threading.enumerate() if t not in before and t.name == "srbwriter-remote"]
    assert all(vllm.over.acquire(timeout=WAIT) for _ in range(vllm.begun))
    generation.branches[0].reroll()
    with pytest.raises(EngineClosed):
        generation.wait(WAIT)


# ---- another srbwriter


def test_branches_are_drawn_together_and_phrases_banned_over_there() -> None:
    wide = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=3, banned_phrases=("Zzz",))
    with Engine.load(bundled_model(), OPTIONS) as engine, served(engine) as url, connected(url) as here:
        together = Request("Once", n=4, siblings="distinct", stop=Stop(max_tokens=1), sampling=wide)
        assert len(set(here.submit(together).result(WAIT))) == 4
        [theirs] = engine._generations  # pyright: ignore[reportPrivateUsage]
        assert [branch.sampling.banned_phrases for branch in theirs.branches] == [("Zzz",)] * 4


# ---- TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls(authority: trustme.CA) -> Iterator[Scripted]:
    """One that would speak HTTP/2 if it were asked to, and then say nothing that makes sense."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with closing(Scripted(tls=context)) as it:
        yield it


def test_a_certificate_of_nobody_known_is_refused_with_the_cure(tls: Scripted) -> None:
    with pytest.raises(RemoteError, match="certificate is not trusted.*SSL_CERT_FILE.*--no-connect-verify"):
        RemoteEngine.connect(RemoteOptions(tls.url))
    with RemoteEngine.connect(RemoteOptions(tls.url, verify=False)) as engine:
        assert engine.submit(Request(PROMPT, stop=NO_END)).result(WAIT) == [STORY]


# ---- addresses and ids


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
    assert shown("https://me:pw@host/x") == "https://host/x"


@given(st.text(st.characters(blacklist_categories=("Cs",))))
def test_letters_are_read_and_written_without_loss(text: str) -> None:
    ids = vocabulary.encode(text)
    assert vocabulary.decode(ids) == text == vocabulary.LetterVocabulary().detokenize(ids)
    assert all(0 <= token < vocabulary.SIZE < 2**31 for token in ids)


def test_an_id_that_is_no_letter_is_refused() -> None:
    for token in (2**31 - 1, 0xD800, 0x110000 + 54):
        with pytest.raises(InvalidRequest, match="stands for no text"):
            vocabulary.piece(token)
    assert vocabulary.decode(vocabulary.encode("a\ud800b")) == "a?b"
