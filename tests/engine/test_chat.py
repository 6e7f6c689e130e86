"""Chat templates: what real ones need, and what broken or hostile ones must not do."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from srbwriter.engine import chat
from srbwriter.engine.chat import render
from srbwriter.engine.types import InvalidRequest

TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
]
SIMPLE = """\
{{ bos_token }}
{%- for message in messages %}
    {%- if loop.index0 > 8 %}{% break %}{% endif %}
    {%- if message.role == 'system' %}
{{ '[S]' ~ message.content | trim }}
    {%- elif message['role'] == 'user' %}
{{ '[U]' + message.content | trim }}
    {%- else %}
{% generation %}{{ '[A]' + message.content | trim + eos_token }}{% endgeneration %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}[A]{% endif %}"""


def show(template: str | None, messages: Any = TALK, **kwargs: Any) -> str:
    return render(template, messages, **{"bos": "<s>", "eos": "</s>", **kwargs})


def test_the_models_own_template() -> None:
    assert show(SIMPLE) == "<s>[S]Be brief.[U]Hi[A]Hello</s>[A]"
    assert show(SIMPLE, add_generation_prompt=False) == "<s>[S]Be brief.[U]Hi[A]Hello</s>"


def test_chatml_without_one() -> None:
    assert show(None) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("content", ["Once upon", "a time ", "tail\n\n", ""])
def test_the_last_message_stays_open(content: str) -> None:
    prompt = show(None, [*TALK, {"role": "assistant", "content": content}], continue_final_message=True)
    assert prompt.endswith(f"<|im_start|>assistant\n{content}")
    assert show(SIMPLE, continue_final_message=True).endswith("[A]Hello")


def test_text_parts_become_text() -> None:
    parts = [{"type": "text", "text": "one"}, "two", {"text": "three"}]
    assert show("{{ messages[0].content }}", [{"role": "user", "content": parts}]) == "one\ntwo\nthree"


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([], "messages"),
        ("hello", "messages"),
        (None, "messages"),
        ({"role": "user"}, "messages"),
        (["hello"], "messages[0]"),
        ([*TALK, {"content": "x"}], "messages[3].role"),
        ([{"role": 3, "content": "x"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": 7}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": ["a", {"type": "text"}]}], "messages[0].content[1]"),
    ],
)
def test_bad_messages_are_named(messages: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        show(None, messages)
    assert caught.value.field == field


def test_a_template_may_refuse() -> None:
    with pytest.raises(InvalidRequest, match="^messages: roles must alternate$"):
        show("{{ raise_exception('roles must alternate') }}")


def test_nothing_to_go_on_from() -> None:
    with pytest.raises(InvalidRequest, match="continue_final_message: the last message has no text"):
        show(None, [{"role": "assistant", "content": None}], continue_final_message=True)
    with pytest.raises(InvalidRequest, match="leaves the last message out"):
        show("{# nothing #}nothing", continue_final_message=True)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{% if %}", "line 1"),
        ("\n{% for x in y %}", "line 2"),
        ("{{ 'a' | nosuchfilter }}", "nosuchfilter"),
        ("{{ messages[9].content.x }}", "UndefinedError"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "SecurityError"),
        ("{% include 'x' %}", "failed"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("(" * 300 + "{{ " + "(" * 300 + "1" + ")" * 300 + " }}", "failed"),
        ("{% for i in range(999999) %}x{% endfor %}", "OverflowError"),
        ("{% for i in range(9999) %}{{ 'x' * 9999 }}{% endfor %}", "characters"),
    ],
)
def test_bad_templates_are_named(template: str, problem: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        show(template)
    assert caught.value.field == "chat_template"
    assert problem in str(caught.value)


def test_an_endless_template_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "MAX_SECONDS", 0.05)
    tracer = sys.gettrace()
    loops = "".join("{% for " + name + " in range(99999) %}" for name in "abcd")
    with pytest.raises(InvalidRequest, match="longer than 0.05 seconds"):
        show(loops + "{% endfor %}" * 4)
    assert sys.gettrace() is tracer
