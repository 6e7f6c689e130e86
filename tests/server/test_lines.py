"""The line protocol over TCP, on the scripted engine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter import __version__
from srbwriter.engine.parameters import PARAMETERS
from srbwriter.engine.types import Stop
from srbwriter.server import Loaded, ServerHandle, ServerSettings, start_in_thread
from srbwriter.server.lines import escape, unescape
from tests.fakes.engine import STORY, FakeEngine

from .conftest import Serve
from .lines import BUSY, LineClient, known, output

KEYS = ("s3cret anna", "other ben", "boss chief admin")


@pytest.fixture(scope="module")
def house() -> Iterator[tuple[Loaded, ServerHandle]]:
    """One server for all tests that need no other; its engine is put in by each."""
    loader = Loaded(None)  # type: ignore[arg-type]
    handle = start_in_thread(
        loader, ServerSettings(port=0, tcp=("0",), access_log=False, shutdown_seconds=1.0)
    )
    yield loader, handle
    handle.stop(20)


@pytest.fixture
def lines(house: tuple[Loaded, ServerHandle], engine: FakeEngine) -> ServerHandle:
    loader, handle = house
    loader.engine = engine
    return handle


@pytest.fixture
def client(lines: ServerHandle) -> Iterator[LineClient]:
    with LineClient(lines.lines[0]) as one:
        yield one


# ---- how it begins


def test_the_greeting_says_what_there_is(client: LineClient) -> None:
    assert client.greeting[0] == f"HELO proto/1 srbwriter/{__version__}"
    reply = known(client.greeting)
    assert reply["n_vocab"].isdecimal()
    reply |= {"n_vocab": "", "seed": ""}
    assert reply.items() >= {
        "model": "fake", "model_desc": '"fake 1B"', "n_params": "1000", "n_ctx": "512", "n_max": "64",
        "n_ctx_train": "512", "interactive_mode": "true", "reverse_prompt": '""', "debug": "false",
        "temperature": "0.800000", "max_tokens": "128", "remaining_tokens": "512",
    }.items()  # fmt: skip
    not_here = {
        "priority", "logprobs", "prompt_logprobs", "next_logprobs", "next_ids", "score_from", "begin",
        "without",
    }  # fmt: skip
    assert {row.name for row in PARAMETERS} - not_here <= set(reply)


def test_the_seed_that_is_told_is_the_one_that_is_drawn(client: LineClient, engine: FakeEngine) -> None:
    """Another for each turn, unless one is set."""
    assert known(client.greeting)["seed"] == "-1"
    told: list[str] = []
    for line in ("PROMPT Once", "PROMPT  The", "SET seed=7", "PROMPT  cat", "PROMPT  sat", "SET seed=-1",
                 "PROMPT  on"):  # fmt: skip
        told.append(known(client.ask(line))["seed"])
    first, second, *rest, last = told
    assert rest == ["7", "7", "7", "-1"] and len({first, second, last, "7"}) == 4
    seeds = [generation.branches[0].seed for generation in engine.generations]
    assert seeds == [int(first), int(second), 7, 7, int(last)]


def test_every_value_that_is_sent_can_be_read(client: LineClient) -> None:
    client.ask("PROMPT Once")
    for name in (*known(client.greeting), "picked"):
        assert name in known(client.ask(f"GET {name}")), name


# ---- a turn


def test_a_turn(client: LineClient) -> None:
    client.send("PROMPT Once upon a time,")
    assert client.line() == "PROMPT Once upon a time,"
    assert client.line() == BUSY
    rest = client.until_ready()
    assert rest[:2] == ["KV prompt_tokens=5", "KV cached_tokens=0"]
    assert unescape(output(rest).encode()) == STORY
    assert rest[-3:-1] == ["KV finish_reason=eos", f"KV completion_tokens={(count := _tokens(rest))}"]
    assert rest[-1] == f"KV remaining_tokens={512 - 5 - count}"


def _tokens(lines: list[str]) -> int:
    return int(known(lines)["completion_tokens"])


def test_several_at_once_and_which_one_goes_on(client: LineClient, engine: FakeEngine) -> None:
    engine.script = lambda prompt, branch: f" {'abc'[branch]}"
    assert client.ask("N 3") == ["KV n=3"]
    reply = client.ask("PROMPT Once")
    assert [output(reply, f"OUTPUT.{k}") for k in range(3)] == [" a", " b", " c"]
    assert all(known(reply)[f"finish_reason.{k}"] == "eos" for k in range(3))
    assert known(client.ask("PICK 2"))["picked"] == "2"
    client.ask("N 1")
    assert output(client.ask("PROMPT !")) == " a"
    assert engine.detokenize(engine.generations[1].prompt_ids) == "Once c!"
    assert client.ask("PICK 1")[0].startswith("ERROR 404")


# ---- stopping


def test_stop_keeps_the_conversation(client: LineClient, engine: FakeEngine) -> None:
    engine.hold = 2
    client.send("PROMPT Once")
    begun = client.until("OUTPUT")
    client.send("PING", "STOP")
    reply = client.until_ready()
    assert "PONG" in reply and known(reply)["finish_reason"] == "cancelled"
    text = output([*begun, *reply])
    assert STORY.startswith(text) and text
    engine.release()
    client.ask("PROMPT  and")
    assert engine.detokenize(engine.generations[1].prompt_ids) == f"Once{text} and"


def test_leaving_ends_what_is_written(client: LineClient, engine: FakeEngine) -> None:
    engine.hold = 1
    client.send("PROMPT Once")
    client.until("OUTPUT")
    client.close()
    assert engine.cancel_seen.wait(60)


def test_what_was_asked_before_quit_is_answered(client: LineClient) -> None:
    client.send("PROMPT Once", "GET n", "QUIT")
    assert unescape(output(reply := client.rest().splitlines()).encode()) == STORY
    assert "KV n=1" in reply


# ---- taking back


def test_undo_takes_back_one_turn_and_reset_all(client: LineClient, engine: FakeEngine) -> None:
    client.ask("SET temperature=0.25")
    one = known(client.ask("PROMPT Once"))["remaining_tokens"]
    client.ask("PROMPT  more")
    assert known(client.ask("UNDO"))["remaining_tokens"] == one
    assert known(client.ask("RESET"))["remaining_tokens"] == "512"
    assert client.ask("UNDO")[0].startswith("ERROR 404")
    assert client.ask("GET temperature") == ["KV temperature=0.250000"]
    client.ask("PROMPT Twice")
    assert engine.detokenize(engine.generations[-1].prompt_ids) == "Twice"


# ---- parameters


def test_set_and_get(client: LineClient) -> None:
    for reply, answer in {
        "temperature=0.5": "KV temperature=0.500000",
        "temp=0.5": "KV temp=0.500000",
        "top_k=7": "KV top_k=7",
        "seed=7": "KV seed=7",
        "ignore_eos=true": "KV ignore_eos=true",
        "max_tokens=-1": "KV max_tokens=-1",
        "stop=User:": 'KV stop=["User:"]',
        "reverse_prompt=User:": 'KV reverse_prompt=["User:"]',
        r'stop=["a","\\n"]': r'KV stop=["a", "\\n"]',
        r"stop=\n": r'KV stop=["\\n"]',
        'stop="one two"': 'KV stop=["one two"]',
        "boundary=sentence": "KV boundary=sentence",
        "overflow=truncate": "KV overflow=truncate",
        'logit_bias={"65": false}': "KV logit_bias=[[65, false]]",
        "samplers=kt": 'KV samplers=["top_k", "temperature"]',
        "grammar=root ::= [a-z]": 'KV grammar="root ::= [a-z]"',
        "heal=1": "KV heal=true",
        "parse_special=true": "KV parse_special=true",
        "n=4": "KV n=4",
        "top_p=7": "KV top_p=1.000000",  # bent into its range, as everywhere
    }.items():
        assert client.ask(f"SET {reply}") == [answer]
        assert client.ask(f"GET {reply.partition('=')[0]}") == [answer]
    assert client.ask("SET strict=true") == ["KV strict=false"], "a retired one is accepted without effect"
    stops = ["a", '"', "\n", "é"]
    client.ask("SET stop=" + escape(json.dumps(stops)))
    assert json.loads(unescape(known(client.ask("GET stop"))["stop"].encode())) == stops


# ---- who may


def test_with_keys_the_first_line_says_who_it_is(serve: Serve, engine: FakeEngine) -> None:
    address = serve(tcp=("0",), api_keys=KEYS).lines[0]
    with LineClient(address, greet=False) as client:
        client.send("AUTH s3cret")
        assert client.until_ready()[0].startswith("HELO ")
        client.ask("PROMPT Once")
        assert engine.submitted[-1].client == "anna"
    for line in ("AUTH wrong", "AUTH", "PROMPT Once", "12", r"AUTH \q"):
        with LineClient(address, greet=False) as client:
            client.send(line)
            assert client.rest().startswith("FATAL ")
    soon = serve(tcp=("0",), api_keys=KEYS, head_seconds=0.2).lines[0]
    with LineClient(soon, greet=False) as client:  # says nothing
        assert client.rest().startswith("FATAL ")


def test_a_browser_is_not_obeyed(lines: ServerHandle, engine: FakeEngine) -> None:
    """Pages may send anything anywhere, and what answers need not be HTTP."""
    with LineClient(lines.lines[0], greet=False) as client:
        client.send("POST / HTTP/1.1\r", "Host: localhost\r", "\r", "PROMPT Once")
        assert client.rest().splitlines()[-1] == "FATAL this is no HTTP server"
    assert not engine.submitted


# ---- bounds


def test_silence_ends_it_but_not_while_it_writes(serve: Serve, engine: FakeEngine) -> None:
    engine.hold = 1
    address = serve(tcp=("0",), timeout=0.6).lines[0]
    with LineClient(address) as client:
        client.send("PROMPT Once")
        client.until("OUTPUT")
        timer = threading.Timer(1.5, engine.release)
        timer.start()
        assert known(client.until_ready())["finish_reason"] == "eos"
        timer.join()
        assert client.rest().startswith("FATAL nothing was said")


def test_whoever_finds_no_room_is_told(serve: Serve) -> None:
    address = serve(tcp=("0",), max_connections=8).lines[0]  # two of them for lines
    with LineClient(address), LineClient(address), LineClient(address, greet=False) as third:
        assert third.rest() == "FATAL too many connections\n"


# ---- a prompt that is read before


def test_conversations_begin_with_what_was_preloaded(
    serve: Serve, engine: FakeEngine, tmp_path: Path
) -> None:
    file = tmp_path / "persona"
    file.write_text("Once upon a time")
    engine.queue = True
    handle = serve(tcp=("0",), preload=file)
    with LineClient(handle.lines[0], greet=False) as client:
        client.socket.settimeout(1)
        with pytest.raises(TimeoutError):
            client.socket.recv(1)
        engine.admit()
        client.socket.settimeout(60)
        with LineClient(handle.lines[0]) as second:
            reply = known(second.greeting)
            ids = engine.generations[0].prompt_ids
            assert reply["remaining_tokens"] == str(512 - len(ids))
            assert engine.submitted[0].stop == Stop(max_tokens=0)
            second.ask("PROMPT , there")
            assert engine.generations[1].prompt_ids[: len(ids)] == ids
            assert known(second.ask("RESET"))["remaining_tokens"] == reply["remaining_tokens"]
