"""Tools: rendered by templates that know them, called in the form that these write, whole or streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

from srbwriter.demo import bundled_model
from srbwriter.engine import Engine
from srbwriter.engine.constraints import compile_constraint
from srbwriter.engine.types import Sampling
from srbwriter.server import Loaded, ServerSettings, start_in_thread
from srbwriter.server.fields import Fields
from srbwriter.server.tools import Argued, Format, Said, ToolReader, Tools, message_of, read_tools
from tests.fakes.engine import FakeEngine

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


@pytest.fixture(scope="module")
def model() -> Iterator[Engine]:
    with Engine.load(bundled_model()) as engine:
        yield engine


@pytest.fixture(scope="module", params=list(TEMPLATES))
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
    for choice in ask(http, max_tokens=20):
        assert choice["message"]["content"] and "tool_calls" not in choice["message"]
        assert choice["finish_reason"] in ("length", "stop")


@pytest.mark.full
def test_a_stream_tells_what_was_written(
    http: httpx.Client, model: Engine, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["http"]
    for fields in (
        {"tool_choice": "required"}, {"tool_choice": NAMED, "parallel_tool_calls": False}, {"max_tokens": 20}
    ):  # fmt: skip
        body = {"messages": ASKED, "tools": [WEATHER, CLOCK], "n": 4, "max_tokens": 200, **fields}
        answer = http.post("/v1/chat/completions", json={**body, "stream": True})
        told: dict[int, dict[str, Any]] = {k: {"content": "", "calls": [], "reason": None} for k in range(4)}
        for frame in frames(answer.content)[:-1]:
            for choice in ChatCompletionChunk.model_validate(frame, strict=True).choices:
                one = told[choice.index]
                one["content"] += choice.delta.content or ""
                one["reason"] = choice.finish_reason or one["reason"]
                for call in choice.delta.tool_calls or []:
                    assert call.function is not None
                    if call.id:
                        assert call.index == len(one["calls"])
                        one["calls"].append([call.function.name, ""])
                    one["calls"][call.index][1] += call.function.arguments or ""
        path = f"/srb/v1/requests/{answer.headers['x-request-id']}"
        tools = read_tools(Fields(body), model, TEMPLATES[name])
        assert tools is not None
        for branch in http.get(path).json()["branches"]:
            one, message = told[branch["index"]], message_of(tools, branch["text"])
            assert one["content"] == (message["content"] or "")
            made = [call["function"] for call in message.get("tool_calls", [])]
            calls = [[function["name"], function["arguments"]] for function in made]
            assert one["calls"] == calls
            ended = branch["reason"] != "length"
            assert one["reason"] == ("tool_calls" if calls and ended else "stop" if ended else "length")


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
    body = {"messages": ASKED, "tools": [CLOCK], "tool_choice": "none", "max_tokens": 2}
    assert client.post("/v1/chat/completions", json=body).status_code == 200


@pytest.mark.parametrize(
    ("fields", "named"),
    [
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
        ({"tools": [CLOCK], "grammar": 'root ::= "a"'}, "grammar"),
        ({"tools": [CLOCK], "response_format": {"type": "json_object"}}, "json_schema"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"function": 5}]}]}, "tool call"),
    ],
)
def test_tools_that_mean_nothing_are_named(serve: Serve, fields: dict[str, Any], named: str) -> None:
    with httpx.Client(base_url=serve(chat_template=HERMES).url) as http:
        answer = http.post("/v1/chat/completions", json={"messages": ASKED, "max_tokens": 2, **fields})
        assert answer.status_code == 400 and named in answer.json()["error"]["message"]


def test_a_schema_that_cannot_be_followed_is_the_tools_fault(http: httpx.Client) -> None:
    broken = {"type": "function", "function": {"name": "f", "parameters": {"type": "nothing"}}}
    answer = http.post("/v1/chat/completions", json={"messages": ASKED, "tools": [broken]})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "tools"


# ---- reading


FORM = Format(
    '<tool_call>\n{"name": "',
    '", "arguments": ',
    '}\n</tool_call>\n<tool_call>\n{"name": "',
    "}\n</tool_call>",
)


@given(
    before=st.text("ab <{\n").map(lambda text: text.replace("<tool_call>", "")),
    values=st.lists(
        st.dictionaries(st.text(max_size=4), st.text(max_size=6) | st.lists(st.integers())), max_size=3
    ),
    cuts=st.lists(st.integers(0, 400)),
)
def test_any_cut_of_the_stream_reads_the_same(
    before: str, values: list[dict[str, Any]], cuts: list[int]
) -> None:
    tools = Tools([WEATHER, CLOCK], FORM, "auto", "")
    calls = FORM.between.join(f"clock{FORM.middle}{json.dumps(value)}" for value in values)
    text = before + (FORM.first + calls + FORM.last if values else "")
    reader, told = ToolReader(tools), []
    places = sorted({cut for cut in cuts if cut < len(text)})
    for start, end in zip([0, *places], [*places, len(text)], strict=True):
        told += reader.feed(text[start:end])
    told += reader.feed("", last=True)
    said = "".join(part.text for part in told if isinstance(part, Said))
    assert said == (before.rstrip() if values else before)
    for number, value in enumerate(values):
        written = "".join(part.text for part in told if isinstance(part, Argued) and part.number == number)
        assert json.loads(written) == value
    message = message_of(tools, text)
    assert (message["content"] or "") == said
    assert len(message.get("tool_calls", [])) == len(values)


# ---- responses


@pytest.fixture
def ours(client: httpx.Client) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{client.base_url}/v1", api_key="none") as ours:
        yield ours


def test_responses_are_read_by_openais_client(ours: openai.OpenAI, engine: FakeEngine) -> None:
    made = ours.responses.create(model="m", input="Once", instructions="Be brief.", max_output_tokens=3)
    assert (made.output_text, made.status) == (" there was a", "incomplete")
    assert made.usage and made.usage.output_tokens == 3 and made.usage.input_tokens > 3
    assert "system\nBe brief." in engine.detokenize(engine.generations[-1].prompt_ids)
    parts: Any = [{"role": "user", "content": [{"type": "input_text", "text": "Once"}]}]
    whole = ours.responses.create(model="m", input=parts, temperature=0.5)
    assert whole.status == "completed" and engine.submitted[-1].sampling[0].temperature == 0.5
    with ours.responses.create(model="m", input="Once", stream=True) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created", "response.in_progress", "response.output_item.added",
        "response.content_part.added",
    ]  # fmt: skip
    assert kinds[-4:] == [
        "response.output_text.done", "response.content_part.done", "response.output_item.done",
        "response.completed",
    ]  # fmt: skip
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == whole.output_text == events[-1].response.output_text
    schema: Any = {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}}
    ours.responses.create(model="m", input="Once", text=schema, max_output_tokens=1)
    assert engine.submitted[-1].sampling[0].json_schema == '{"type": "object"}'


@pytest.mark.parametrize(
    "fields",
    [
        {"input": 5}, {"input": []}, {"input": [{"type": "reasoning"}]}, {"previous_response_id": "resp_1"},
        {"tools": [CLOCK]}, {"n": 2}, {"background": True},
        {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
        {"text": {"format": {"type": "x"}}},
    ],
)  # fmt: skip
def test_what_a_response_cannot_be_is_said(client: httpx.Client, fields: dict[str, Any]) -> None:
    answer = client.post("/v1/responses", json={"input": "Once", **fields})
    assert answer.status_code == 400 and answer.json()["error"]["message"]


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("before", ["", "Let me look. "])
def test_where_calls_are_free_the_grammar_lets_them_follow_text(
    model: Engine, name: str, before: str
) -> None:
    tools = read_tools(Fields({"tools": [CLOCK]}), model, TEMPLATES[name])
    assert tools is not None and tools.choice == "auto"
    if before and name == "bare":
        return  # nothing there tells a call from text that holds JSON
    form = tools.format
    text = f"{before}{form.first}clock{form.middle}{{}}{form.last}"
    constraint = compile_constraint(Sampling(grammar=tools.grammar), model.model)
    assert constraint is not None
    for token in model.model.tokenize_continuation(text):
        constraint.accept(token)
    assert model.eos is not None and constraint.allows(model.eos)
    message = message_of(tools, text)
    assert (message["content"] or "") == before.rstrip()
    assert [call["function"] for call in message["tool_calls"]] == [{"name": "clock", "arguments": "{}"}]
