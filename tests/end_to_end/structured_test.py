"""Answers of a form that the client names: whatever the model would rather say, they have it."""

import json
import re
from typing import Literal

import openai
import pytest
from conftest import ask
from pydantic import BaseModel

SCHEMA = {
    "type": "object",
    "properties": {
        "zeta": {"type": "string", "maxLength": 12},
        "count": {"type": "integer", "minimum": 0, "maximum": 20},
        "colour": {"enum": ["red", "green", "blue"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 2},
    },
    "required": ["zeta", "count", "colour", "tags"],
    "additionalProperties": False,
}
MULTIPLE = {"type": "number", "multipleOf": 3}
NEGATED = {"type": "object", "properties": {"p": {"not": {}}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "thing", "strict": True, "schema": SCHEMA}}
QUESTION = ask("What is in the picture?", "picture1.png")


def check(text: str) -> None:
    """The members in the order of the schema, each of its kind."""
    value = json.loads(text)
    assert list(value) == ["zeta", "count", "colour", "tags"]
    assert isinstance(value["zeta"], str) and len(value["zeta"]) <= 12
    assert 0 <= value["count"] <= 20
    assert value["colour"] in ("red", "green", "blue")
    assert len(value["tags"]) <= 2 and all(isinstance(t, str) and len(t) <= 5 for t in value["tags"])


@pytest.mark.parametrize("temperature", [0, 1, 2])
def test_answers_satisfy_their_schema(server, temperature):
    """Whatever the temperature."""
    answer = server.client().chat.completions.create(
        model="llava", messages=QUESTION, response_format=FORMAT, temperature=temperature, n=4, seed=5, max_tokens=200
    )
    for choice in answer.choices:
        assert choice.finish_reason == "stop"
        check(choice.message.content)


def test_a_stream_gives_the_same_text(server):
    """Piece by piece what comes at once without streaming."""
    client = server.client()
    wanted = {"model": "llava", "messages": QUESTION, "response_format": FORMAT, "seed": 3, "max_tokens": 200}
    whole = client.chat.completions.create(**wanted).choices[0].message.content
    pieces = [
        c.choices[0].delta.content or "" for c in client.chat.completions.create(**wanted, stream=True) if c.choices
    ]
    assert "".join(pieces) == whole
    check(whole)


class Shape(BaseModel):
    """What a client might want to know."""

    kind: Literal["circle", "square"]
    sides: int | None


def test_a_pydantic_model_is_parsed(server):
    """The client's own way to ask for a form."""
    answer = server.client().chat.completions.parse(
        model="llava", messages=QUESTION, response_format=Shape, temperature=0, max_tokens=200
    )
    assert isinstance(answer.choices[0].message.parsed, Shape)


def test_json_objects(server):
    """Any object, where no schema is given."""
    answer = server.client().chat.completions.create(
        model="llava",
        messages=ask("Say something as JSON."),
        response_format={"type": "json_object"},
        seed=1,
        max_tokens=300,
        n=8,
    )
    finished = [c.message.content for c in answer.choices if c.finish_reason == "stop"]
    assert all(isinstance(json.loads(text), dict) for text in finished)
    assert all(c.message.content.startswith("{") for c in answer.choices)


def test_patterns_and_choices(server):
    """vLLM's field."""
    client = server.client()

    def answers(wanted):
        out = client.chat.completions.create(
            model="llava", messages=QUESTION, seed=7, n=6, max_tokens=60, extra_body={"structured_outputs": wanted}
        )
        assert all(c.finish_reason == "stop" for c in out.choices)
        return [c.message.content for c in out.choices]

    assert all(re.fullmatch(r"[A-Z][a-z]{2,8} \d\d", a) for a in answers({"regex": r"[A-Z][a-z]{2,8} \d\d"}))
    assert set(answers({"choice": ["yes", "no", "maybe not"]})) <= {"yes", "no", "maybe not"}


def test_a_completion_follows_a_pattern(server):
    """The text goes on with the prompt: no blank comes in between."""
    answer = server.client().completions.create(
        model="llava",
        prompt="A number:",
        max_tokens=20,
        seed=2,
        extra_body={"structured_outputs": {"regex": "[0-9]{3}"}},
    )
    assert re.fullmatch("[0-9]{3}", answer.choices[0].text)


def test_responses_follow_a_schema(server):
    """The format is told back as it came."""
    answer = server.client().responses.create(
        model="llava",
        input="Describe a thing.",
        max_output_tokens=200,
        text={"format": {"type": "json_schema", "name": "thing", "strict": True, "schema": SCHEMA}},
    )
    check(answer.output_text)
    assert answer.text.format.type == "json_schema"
    assert list(answer.text.format.schema_["properties"]) == list(SCHEMA["properties"])


def test_a_limit_ends_a_text_that_is_not_complete(server):
    """Then the finish reason says so."""
    answer = server.client().chat.completions.create(
        model="llava", messages=QUESTION, response_format=FORMAT, max_tokens=4
    )
    assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}}, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": MULTIPLE}}},
            "response_format.json_schema.schema.multipleOf",
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": NEGATED},
                }
            },
            "response_format.json_schema.schema.properties.p.not",
        ),
        ({"structured_outputs": {"regex": "(?=a)"}}, "structured_outputs.regex"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs"),
        ({"structured_outputs": {"grammar": "root ::= x"}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}}, "structured_outputs"),
        ({"structured_outputs": {"choice": ["red"]}, "allowed_token_ids": [0]}, None),
    ],
)
def test_what_cannot_be_is_refused_and_harms_nothing(server, wanted, param):
    """A 400 that names the place."""
    client = server.client()
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="llava", messages=ask("Hi"), extra_body=wanted)
    assert refused.value.body["message"]
    if param is not None:
        assert refused.value.body["param"] == param
    assert client.chat.completions.create(model="llava", messages=QUESTION, temperature=0).choices[0].message.content
