"""Tools: rendered by templates that know them, called in the form that these write, whole or streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from srbwriter.engine import Engine
from srbwriter.engine.constraints import compile_constraint
from srbwriter.engine.types import Sampling
from srbwriter.server import Loaded, ServerSettings, start_in_thread
from tests.fakes.engine import FakeEngine
from tests.sizes import examples, some_of

from .conftest import Serve
from .wire import frames

_HEAD = "{% if tools %}Tools: {{ tools | tojson }}\n{% endif %}"
_REST = "{% if add_generation_prompt %}A: {% endif %}"
_CALL = '{"name": "{{ t.function.name }}", "arguments": {{ t.function.arguments | tojson }}}'


def template(calls: str) -> str:
    return (
        _HEAD
        + "{% for m in messages %}{% if m.tool_calls %}A: "
        + calls
        + "<end>{% elif m.role == 'assistant' %}"
        "A: {{ m.content }}<end>{% else %}{{ m.role }}: {{ m.content }}\n{% endif %}{% endfor %}" + _REST
    )


HERMES = template(
    "{% for t in m.tool_calls %}<tool_call>\n"
    + _CALL
    + "\n</tool_call>{% if not loop.last %}\n{% endif %}{% endfor %}"
)
LISTED = template(
    "[TOOL_CALLS] [{% for t in m.tool_calls %}" + _CALL + "{% if not loop.last %}, {% endif %}{% endfor %}]"
)
BARE = template(
    '{% set t = m.tool_calls[0] %}{"name": "{{ t.function.name }}", '
    '"parameters": {{ t.function.arguments | tojson }}}'
)
TAGGED = template(
    "{% for t in m.tool_calls %}<function={{ t.function.name }}>"
    "{{ t.function.arguments | tojson }}</function>{% endfor %}"
)
SPELT = template(
    "{% for t in m.tool_calls %}<call {{ t.function.name }}>{% for k, v in t.function.arguments.items() %}"
    "<{{ k }}>{{ v }}</{{ k }}>{% endfor %}</call>{% endfor %}"
)
TEMPLATES = {"hermes": HERMES, "listed": LISTED, "bare": BARE, "tagged": TAGGED, "spelt": SPELT}

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"$ref": "#/$defs/city"}, "day": {"type": "integer", "minimum": 0, "maximum": 9},
            },
            "required": ["city", "day"], "additionalProperties": False,
            "$defs": {"city": {"enum": ["Ulm", "Bern"]}},
        },
    },
}  # fmt: skip
CLOCK = {
    "type": "function",
    "function": {"name": "clock", "parameters": {"type": "object", "additionalProperties": False}},
}
ASKED: list[Any] = [{"role": "user", "content": "Once"}]
NAMED = {"type": "function", "function": {"name": "clock"}}


@pytest.fixture(scope="module", params=some_of(TEMPLATES, ["hermes", "spelt"]))
def http(model: Engine, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    settings = ServerSettings(port=0, access_log=False, chat_template=TEMPLATES[request.param])
    handle = start_in_thread(Loaded(model), settings)
    with httpx.Client(base_url=handle.url, timeout=60) as client:
        yield client
    handle.stop(20)


def ask(http: httpx.Client, **fields: Any) -> list[dict[str, Any]]:
    body = {"messages": ASKED, "tools": [WEATHER, CLOCK], "n": 4, "seed": 1, "max_tokens": 200, **fields}
    answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"]


def checked(call: dict[str, Any]) -> str:
    """The name of a call whose arguments follow its schema."""
    arguments = json.loads(call["function"]["arguments"])
    assert call["id"].startswith("call_") and call["type"] == "function"
    if call["function"]["name"] == "weather":
        assert arguments["city"] in ("Ulm", "Bern") and 0 <= arguments["day"] <= 9 and len(arguments) == 2
    else:
        assert (call["function"]["name"], arguments) == ("clock", {})
    return call["function"]["name"]


def test_a_call_that_is_required_is_made(http: httpx.Client) -> None:
    choices = ask(http, tool_choice="required", parallel_tool_calls=False)
    for choice in choices:
        (call,) = choice["message"]["tool_calls"]
        assert checked(call)
        assert choice["message"]["content"] is None and choice["finish_reason"] == "tool_calls"
    assert len({one["message"]["tool_calls"][0]["id"] for one in choices}) == 4


def test_a_function_that_is_named_is_called(http: httpx.Client) -> None:
    for choice in ask(http, tool_choice=NAMED, parallel_tool_calls=False):
        assert [checked(call) for call in choice["message"]["tool_calls"]] == ["clock"]


@pytest.mark.full
def test_several_may_be_called_at_once(http: httpx.Client) -> None:
    for choice in ask(http, tool_choice="required", n=8, temperature=1.5, logit_bias={}):
        cut = choice["finish_reason"] == "length"
        calls = choice["message"]["tool_calls"]
        assert all(map(checked, calls[:-1] if cut else calls))


def test_text_is_text_where_calls_are_free(http: httpx.Client) -> None:
    """A schema that cannot be followed is the tools' fault."""
    broken = {"type": "function", "function": {"name": "f", "parameters": {"type": "nothing"}}}
    answer = http.post("/v1/chat/completions", json={"messages": ASKED, "tools": [broken]})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "tools"
    for choice in ask(http, max_tokens=20):
        assert choice["message"]["content"] and "tool_calls" not in choice["message"]
        assert choice["finish_reason"] in ("length", "stop")


@pytest.mark.full
def test_a_stream_tells_what_was_written(http: httpx.Client, model: Engine) -> None:
    from openai.types.chat import ChatCompletionChunk

    for fields in (
        {"tool_choice": "required"}, {"tool_choice": NAMED, "parallel_tool_calls": False}, {"max_tokens": 20}
    ):  # fmt: skip
        model.reset()  # what is cached changes the last bits
        whole = ask(http, **fields)
        model.reset()
        body = {"messages": ASKED, "tools": [WEATHER, CLOCK], "n": 4, "seed": 1, "max_tokens": 200, **fields}
        answer = http.post("/v1/chat/completions", json={**body, "stream": True})
        reply: dict[int, dict[str, Any]] = {k: {"content": "", "calls": [], "reason": None} for k in range(4)}
        for frame in frames(answer.content)[:-1]:
            for choice in ChatCompletionChunk.model_validate(frame, strict=True).choices:
                one = reply[choice.index]
                one["content"] += choice.delta.content or ""
                one["reason"] = choice.finish_reason or one["reason"]
                for call in choice.delta.tool_calls or []:
                    assert call.function is not None
                    if call.id:
                        assert call.index == len(one["calls"])
                        one["calls"].append([call.function.name, ""])
                    one["calls"][call.index][1] += call.function.arguments or ""
        for choice in whole:
            one, message = reply[choice["index"]], choice["message"]
            made = [call["function"] for call in message.get("tool_calls", [])]
            assert one["content"] == (message["content"] or "")
            assert one["calls"] == [[function["name"], function["arguments"]] for function in made]
            assert one["reason"] == choice["finish_reason"]


def test_calls_and_answers_of_tools_are_read_back(http: httpx.Client) -> None:
    (choice,) = ask(http, n=1, tool_choice=NAMED, parallel_tool_calls=False)
    call = choice["message"]["tool_calls"][0]
    messages = [*ASKED, choice["message"], {"role": "tool", "tool_call_id": call["id"], "content": "noon"}]
    prompt = http.post("/apply-template", json={"messages": messages, "tools": [CLOCK]}).json()["prompt"]
    assert (
        "clock" in prompt.partition("Once")[2]
        and "noon" in prompt
        and '"name": "clock"' in prompt.partition("Once")[0]
    )
    assert http.post("/v1/chat/completions", json={"messages": messages, "max_tokens": 2}).status_code == 200


# ---- words


def test_a_template_without_tools_is_named(client: httpx.Client) -> None:
    for choice in ("auto", "required", NAMED, None):
        body = {"messages": ASKED, "tools": [CLOCK], "tool_choice": choice, "max_tokens": 2}
        answer = client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 400 and "no place for tools" in answer.json()["error"]["message"]
    for tools, choice in (([CLOCK], "none"), ([], "none"), ([], "auto")):
        body = {"messages": ASKED, "tools": tools, "tool_choice": choice, "max_tokens": 2}
        assert client.post("/v1/chat/completions", json=body).status_code == 200


MEANINGLESS: list[tuple[dict[str, Any], str]] = [
    ({"tools": 5}, "tools"),
    ({"tools": [5]}, "tools"),
    ({"tools": [{"type": "web_search"}]}, "tools"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "name"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": [1]}}]}, "schema"),
    ({"tools": [CLOCK] * 129}, "128"),
    ({"tools": [CLOCK], "tool_choice": "perhaps"}, "tool_choice"),
    (
        {"tools": [CLOCK], "tool_choice": {"type": "function", "function": {"name": "g"}}},
        "there is no tool g",
    ),
    ({"tool_choice": "required"}, "no tools"),
    ({"tools": [], "tool_choice": NAMED}, "no tools to choose from"),
    ({"tools": [CLOCK], "grammar": 'root ::= "a"'}, "grammar"),
    ({"tools": [CLOCK], "response_format": {"type": "json_object"}}, "json_schema"),
    ({"messages": [{"role": "assistant", "tool_calls": [{"function": 5}]}]}, "tool call"),
]


def test_tools_that_mean_nothing_are_named(serve: Serve) -> None:
    with httpx.Client(base_url=serve(chat_template=HERMES).url) as http:
        for fields, named in MEANINGLESS:
            answer = http.post("/v1/chat/completions", json={"messages": ASKED, "max_tokens": 2, **fields})
            assert answer.status_code == 400, fields
            assert named in answer.json()["error"]["message"], fields


# ---- reading


CALL = '<tool_call>\n{"name": "clock", "arguments": %s}\n</tool_call>'


@pytest.fixture
def talking(serve: Serve) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=serve(chat_template=HERMES).url, timeout=60) as client:
        yield client


@settings(max_examples=examples(40))
@given(
    before=st.text("ab <{\n").map(lambda text: text.replace("<tool_call>", "")),
    values=st.lists(
        st.dictionaries(st.text(max_size=4), st.text(max_size=6) | st.lists(st.integers())), max_size=3
    ),
)
@example(before="a <tool_", values=[{"a": "b"}])  # nearly the beginning of a call
def test_a_stream_reads_as_the_whole(
    talking: httpx.Client, engine: FakeEngine, before: str, values: list[dict[str, Any]]
) -> None:
    """Which comes token by token, and here each byte is one."""
    text = before + "\n".join(CALL % json.dumps(value) for value in values)
    engine.script = lambda prompt, branch: text
    body = {"messages": ASKED, "tools": [WEATHER, CLOCK], "max_tokens": 5000}
    message = talking.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
    answer = talking.post("/v1/chat/completions", json={**body, "stream": True})
    deltas = [chunk["choices"][0]["delta"] for chunk in frames(answer.content)[:-1]]
    said = "".join(delta.get("content") or "" for delta in deltas)
    assert said == (message["content"] or "") == (before.rstrip() if values else before)
    written = [""] * len(values)
    for call in (call for delta in deltas for call in delta.get("tool_calls", [])):
        written[call["index"]] += call["function"].get("arguments", "")
    assert [json.loads(arguments) for arguments in written] == values
    made = [call["function"] for call in message.get("tool_calls", [])]
    assert [json.loads(function["arguments"]) for function in made] == values


@pytest.mark.parametrize("name", TEMPLATES)
def test_where_calls_are_free_the_grammar_lets_them_follow_text(
    serve: Serve, engine: FakeEngine, model: Engine, name: str
) -> None:
    reply = {"id": "call_1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
    messages = [*ASKED, {"role": "assistant", "tool_calls": [reply]}, *ASKED]
    with httpx.Client(base_url=serve(chat_template=TEMPLATES[name]).url) as http:
        prompt = http.post("/apply-template", json={"messages": messages, "tools": [CLOCK]}).json()["prompt"]
        # Arguments that a template spells in its own way are not read: there the usual form is taken.
        call = CALL % "{}" if name == "spelt" else prompt.partition("A: ")[2].partition("<end>")[0]
        for before in ("", "Let me look. ")[: 1 if name == "bare" else 2]:
            text = before + call  # with bare calls nothing tells one from text that holds JSON
            engine.script = lambda prompt, branch, text=text: text
            asked = {"messages": ASKED, "tools": [CLOCK]}
            message = http.post("/v1/chat/completions", json=asked).json()["choices"][0]["message"]
            assert (message["content"] or "") == before.rstrip()
            assert [one["function"] for one in message["tool_calls"]] == [
                {"name": "clock", "arguments": "{}"}
            ]
            grammar = engine.submitted[-1].sampling[0].grammar
            constraint = compile_constraint(Sampling(grammar=grammar), model.model)
            assert constraint is not None
            for token in model.model.tokenize_continuation(text):
                constraint.accept(token)
            assert model.eos is not None and constraint.allows(model.eos)
