"""Every body validates against OpenAI's published schema; needs a copy of it, named by OPENAI_SCHEMA."""

import copy
import json
import os
from pathlib import Path

import jsonschema
import pytest
from conftest import ask
from protocol_test import request

SCHEMA = os.environ.get("OPENAI_SCHEMA")
pytestmark = pytest.mark.skipif(not SCHEMA, reason="OPENAI_SCHEMA names no file")


@pytest.fixture(scope="module")
def validate():
    """validate(body, schema name): against the published schema, with two published slips mended."""
    whole = json.loads(Path(SCHEMA).read_text(encoding="utf-8"))
    schemas = whole.get("components", {}).get("schemas") or whole.get("$defs") or whole.get("schemas") or whole

    def mend(node):
        if isinstance(node, dict):
            # Chunks carry finish_reason null until the last; the published enum forgets it.
            reason = (
                node.get("properties", {}).get("finish_reason") if isinstance(node.get("properties"), dict) else None
            )
            if isinstance(reason, dict) and "enum" in reason and None not in reason["enum"]:
                reason["enum"] = [*reason["enum"], None]
                reason.pop("type", None)
            usage = node.get("properties", {}).get("usage") if isinstance(node.get("properties"), dict) else None
            if isinstance(usage, dict) and "$ref" in usage:
                # The published text says that chunks before the last carry a null usage; its schema forgets it.
                node["properties"]["usage"] = {"anyOf": [usage, {"type": "null"}]}
            if node.pop("nullable", False) and isinstance(node.get("type"), str):
                node["type"] = [node["type"], "null"]
            for child in list(node.values()):
                mend(child)
        elif isinstance(node, list):
            for child in node:
                mend(child)

    mended = copy.deepcopy(schemas)
    mend(mended)
    text = json.dumps(mended).replace("#/components/schemas/", "#/$defs/").replace("#/schemas/", "#/$defs/")
    definitions = json.loads(text)

    def check(body, name: str) -> None:
        jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions}).validate(body)

    return check


@pytest.fixture(scope="module")
def model(server) -> str:
    """The served model's name."""
    return server.client().models.list().data[0].id


@pytest.mark.parametrize("extra", [{}, {"logprobs": True, "top_logprobs": 2}, {"n": 2}], ids=["plain", "logprobs", "n"])
def test_chat_completion(server, model, validate, extra):
    """Whole answers."""
    body = {"model": model, "messages": ask("What is in the picture?", "picture1.png"), "max_tokens": 8, **extra}
    validate(request(server, "/v1/chat/completions", body)[2], "CreateChatCompletionResponse")


@pytest.mark.parametrize("extra", [{}, {"logprobs": True, "top_logprobs": 2}, {"n": 2}], ids=["plain", "logprobs", "n"])
def test_chat_completion_chunks(server, model, validate, extra):
    """Every event of a stream, the usage chunk included."""
    body = {"model": model, "messages": ask("Hello"), "max_tokens": 8, "stream": True, **extra}
    text = request(server, "/v1/chat/completions", {**body, "stream_options": {"include_usage": True}})[2]
    events = [line[6:] for line in text.split("\n") if line.startswith("data: {")]
    assert len(events) > 2
    for event in events:
        validate(json.loads(event), "CreateChatCompletionStreamResponse")


@pytest.mark.parametrize("extra", [{}, {"logprobs": 2}, {"n": 2}], ids=["plain", "logprobs", "n"])
def test_completion(server, model, validate, extra):
    """Whole answers and every event of a stream, the usage chunk included."""
    body = {"model": model, "prompt": "The picture shows", "max_tokens": 4, **extra}
    validate(request(server, "/v1/completions", body)[2], "CreateCompletionResponse")
    streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
    text = request(server, "/v1/completions", streamed)[2]
    for event in [line[6:] for line in text.split("\n") if line.startswith("data: {")]:
        validate(json.loads(event), "CreateCompletionResponse")


def test_response(server, model, validate):
    """The object, and every event of a stream against the schema of its own type."""
    body = {
        "model": model,
        "input": "Hello",
        "max_output_tokens": 4,
        "instructions": "Be brief.",
        "metadata": {"a": "b"},
    }
    logprobs = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    for extra in ({}, logprobs):
        validate(request(server, "/v1/responses", {**body, **extra})[2], "Response")
        text = request(server, "/v1/responses", {**body, **extra, "stream": True})[2]
        events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")]
        assert len(events) >= 9
        for event in events:
            validate(event, "ResponseStreamEvent")


PING = {"name": "ping", "description": "Answers.", "parameters": {"type": "object", "properties": {}}}


def test_chat_completion_with_calls(server, model, validate):
    """Calls, whole and in every event of a stream."""
    body = {
        "model": model,
        "messages": ask("Ping."),
        "max_tokens": 200,
        "tools": [{"type": "function", "function": PING}],
        "tool_choice": {"type": "function", "function": {"name": "ping"}},
        "logprobs": True,
    }
    whole = request(server, "/v1/chat/completions", body)[2]
    assert whole["choices"][0]["message"]["tool_calls"]
    validate(whole, "CreateChatCompletionResponse")
    text = request(server, "/v1/chat/completions", {**body, "stream": True})[2]
    events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
    assert any(event["choices"][0]["delta"].get("tool_calls") for event in events)
    for event in events:
        validate(event, "CreateChatCompletionStreamResponse")


def test_response_with_calls(server, model, validate):
    """Items of calls and their events."""
    body = {
        "model": model,
        "input": "Ping.",
        "max_output_tokens": 200,
        "tools": [{"type": "function", "strict": True, **PING}],
        "tool_choice": {"type": "function", "name": "ping"},
    }
    whole = request(server, "/v1/responses", body)[2]
    assert whole["output"][0]["type"] == "function_call"
    validate(whole, "Response")
    text = request(server, "/v1/responses", {**body, "stream": True})[2]
    events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")]
    assert any(event["type"] == "response.function_call_arguments.done" for event in events)
    for event in events:
        validate(event, "ResponseStreamEvent")


def test_models(server, model, validate):
    """The list and one entry."""
    validate(request(server, "/v1/models")[2], "ListModelsResponse")
    validate(request(server, f"/v1/models/{model}")[2], "Model")


def test_error(server, model, validate):
    """The error object."""
    validate(request(server, "/v1/chat/completions", {"model": model, "messages": []})[2], "ErrorResponse")
