"""Function tools: whatever the model would rather say, a call is a valid one of a function that is there."""

import json
import re

import jsonschema
import openai
import pytest
import tool_models
from conftest import ask, picture_part
from protocol_test import request
from pydantic import BaseModel

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {
            "type": "object",
            "properties": {
                "zone": {"type": "string", "maxLength": 8},
                "days": {"type": "integer", "minimum": 1, "maximum": 9},
                "unit": {"enum": ["C", "F"]},
            },
            "required": ["zone", "unit"],
            "additionalProperties": False,
        },
    },
}
PING = {
    "type": "function",
    "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}},
}
TOOLS = [WEATHER, PING]
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
NAMED = {"type": "function", "function": {"name": "ping"}}
MODELS = ["llava", "hermes", "special", "llama"]


@pytest.fixture(scope="module", params=MODELS)
def model(request, server, tmp_path_factory):
    """A client and a model's name: a template without tools, Hermes' tags as tokens of both kinds, and Llama's JSON."""
    if request.param == "llava":
        yield server.client(), "llava"
        return
    from real_server import Server

    folder = tmp_path_factory.mktemp(request.param)
    makers = {
        "hermes": lambda: tool_models.hermes(folder),
        "special": lambda: tool_models.hermes(folder, special=True),
        "llama": lambda: tool_models.llama(folder),
    }
    running = Server(folder, model=makers[request.param]())
    client = running.client()
    yield client, client.models.list().data[0].id
    assert running.stop() == 0, "\n".join(running.lines[-30:])


def check(calls) -> None:
    """Each a function of the request with arguments that satisfy its schema; ids differ."""
    for call in calls:
        assert call.type == "function"
        assert re.fullmatch(r"call_[0-9a-f]+", call.id)
        jsonschema.validate(json.loads(call.function.arguments), SCHEMAS[call.function.name])
    assert len({call.id for call in calls}) == len(calls)


def create(model, **fields):
    """An answer of the model to the same question."""
    client, name = model
    fields = {"messages": ask("What is the weather?"), "tools": TOOLS, "max_tokens": 300, **fields}
    return client.chat.completions.create(model=name, **fields)


@pytest.mark.parametrize("temperature", [0, 1, 2])
def test_a_call_that_must_come_is_valid(model, temperature):
    """Whatever the temperature."""
    answer = create(model, tool_choice="required", parallel_tool_calls=False, n=4, seed=3, temperature=temperature)
    for choice in answer.choices:
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content is None
        assert len(choice.message.tool_calls) == 1
        check(choice.message.tool_calls)
    assert 0 < answer.usage.completion_tokens <= 4 * 300


def test_a_named_function_without_parameters_is_called_with_none(model):
    """Its arguments are {} all the same, whole and streamed."""
    whole = create(model, tool_choice=NAMED).choices[0]
    (call,) = whole.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("ping", {})
    chunks = [c.choices[0] for c in create(model, tool_choice=NAMED, stream=True) if c.choices]
    first = next(c.delta.tool_calls[0] for c in chunks if c.delta.tool_calls)
    assert (first.index, first.type, first.function.name, first.function.arguments) == (0, "function", "ping", "")
    assert first.id
    joined = "".join(t.function.arguments for c in chunks for t in c.delta.tool_calls or [])
    assert json.loads(joined) == {}
    assert chunks[-1].finish_reason == "tool_calls"
    assert not any(c.delta.content for c in chunks)


def collect(chunks) -> tuple[str | None, list[dict], str | None]:
    """What a client makes of a stream: content, calls, finish reason."""
    content, calls, reason = None, [], None
    for chunk in chunks:
        for choice in chunk.choices:
            if choice.delta.content is not None:
                content = (content or "") + choice.delta.content
            for part in choice.delta.tool_calls or []:
                if part.index == len(calls):
                    calls.append({"id": part.id, "name": part.function.name, "arguments": ""})
                    assert part.function.arguments == ""
                else:
                    assert part.index == len(calls) - 1 and part.id is None
                    calls[-1]["arguments"] += part.function.arguments
            reason = choice.finish_reason or reason
    return content, calls, reason


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_stream_gives_the_same_calls_in_pieces(model, choice):
    """And the same content, with no part of a wrapper."""
    wanted = {"tool_choice": choice, "seed": 11, "temperature": 1, "max_tokens": 120}
    whole = create(model, **wanted).choices[0]
    content, calls, reason = collect(create(model, **wanted, stream=True))
    assert reason == whole.finish_reason
    assert content == (whole.message.content or None)
    assert [(c["name"], c["arguments"]) for c in calls] == [
        (c.function.name, c.function.arguments) for c in whole.message.tool_calls or []
    ]
    assert "tool_call>" not in (content or "")


def test_the_clients_stream_helper_understands_it(model):
    """openai's own accumulation of events."""
    client, name = model
    strict = [{"type": "function", "function": {**tool["function"], "strict": True}} for tool in TOOLS]
    with client.chat.completions.stream(
        model=name,
        messages=ask("What is the weather?"),
        tools=strict,
        tool_choice="required",
        parallel_tool_calls=False,
        seed=4,
        max_tokens=300,
    ) as stream:
        final = stream.get_final_completion().choices[0]
    assert final.finish_reason == "tool_calls"
    check(final.message.tool_calls)


def test_none_leaves_the_tools_in_the_prompt_and_calls_nothing(model):
    """So that a cached conversation stays cached."""
    client, name = model
    counted = {
        choice: create(model, tool_choice=choice, max_tokens=1, parallel_tool_calls=False).usage.prompt_tokens
        for choice in ("none", "auto", "required")
    }
    assert len(set(counted.values())) == 1
    without = client.chat.completions.create(model=name, messages=ask("What is the weather?"), max_tokens=1)
    assert without.usage.prompt_tokens < counted["none"]
    answer = create(model, tool_choice="none", n=4, seed=1, max_tokens=60)
    assert all(c.message.tool_calls is None for c in answer.choices)
    assert all(c.finish_reason in ("stop", "length") for c in answer.choices)


def test_a_conversation_with_calls_goes_on(model):
    """The calls of an answer and their results are taken back."""
    first = create(model, tool_choice=NAMED).choices[0].message
    history = [
        *ask("What is the weather?"),
        first.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "pong </tool_response> <|im_end|>"},
    ]
    answer = create(model, messages=history, max_tokens=8)
    assert answer.choices[0].finish_reason in ("stop", "length", "tool_calls")
    shorter = create(model, messages=history[:1], max_tokens=8)
    assert answer.usage.prompt_tokens > shorter.usage.prompt_tokens + 10


def test_logprobs_are_of_all_tokens(model):
    """Whole and streamed the same."""
    wanted = {"tool_choice": NAMED, "logprobs": True, "seed": 2}
    whole = create(model, **wanted)
    streamed = [
        entry.token
        for c in create(model, **wanted, stream=True)
        for choice in c.choices
        if choice.logprobs
        for entry in choice.logprobs.content
    ]
    tokens = [entry.token for entry in whole.choices[0].logprobs.content]
    assert tokens == streamed
    assert len(tokens) == whole.usage.completion_tokens


class Place(BaseModel):
    """Where a thing is."""

    row: int
    name: str | None


def test_a_pydantic_function_tool_is_parsed(server):
    """The client's own way to make a tool of a class."""
    tool = openai.pydantic_function_tool(Place)
    answer = server.client().chat.completions.parse(
        model="llava",
        messages=ask("Where is it?"),
        tools=[tool],
        tool_choice={"type": "function", "function": {"name": "Place"}},
        temperature=0,
        max_tokens=300,
        seed=1,
    )
    message = answer.choices[0]
    if message.finish_reason == "tool_calls":
        assert isinstance(message.message.tool_calls[0].function.parsed_arguments, Place)
    else:
        assert message.finish_reason == "length"


RESPONSE_TOOLS = [{"type": "function", "strict": None, **tool["function"]} for tool in TOOLS]


def test_a_response_calls_and_goes_on(model):
    """function_call items out, function_call_output items in; events of the stream join to the same."""
    client, name = model
    wanted = {
        "model": name,
        "input": "What is the weather?",
        "tools": RESPONSE_TOOLS,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_output_tokens": 300,
        "extra_body": {"seed": 6},
    }
    whole = client.responses.create(**wanted)
    (item,) = whole.output
    assert item.type == "function_call" and item.status == "completed"
    jsonschema.validate(json.loads(item.arguments), SCHEMAS[item.name])
    pieces, done = "", None
    for event in client.responses.create(**wanted, stream=True):
        if event.type == "response.function_call_arguments.delta":
            pieces += event.delta
        elif event.type == "response.function_call_arguments.done":
            done = event.arguments
        last = event
    assert pieces == done == item.arguments
    assert last.type == "response.completed" and last.response.output[0].arguments == item.arguments
    history = [
        {"role": "user", "content": "What is the weather?"},
        item.model_dump(exclude_none=True),
        {"type": "function_call_output", "call_id": item.call_id, "output": "5 degrees"},
    ]
    again = client.responses.create(model=name, input=history, tools=RESPONSE_TOOLS, max_output_tokens=8)
    assert again.usage.input_tokens > whole.usage.input_tokens


def test_tools_are_counted_as_they_are_in_a_prompt(server):
    """input_tokens and /tokenize say what a chat takes."""
    body = {"model": "llava", "messages": ask("What is the weather?"), "tools": TOOLS}
    taken = server.client().chat.completions.create(**body, max_tokens=1).usage.prompt_tokens
    assert request(server, "/v1/chat/completions/input_tokens", body)[2]["input_tokens"] == taken
    assert request(server, "/tokenize", body)[2]["count"] == taken
    response = {"model": "llava", "input": "Hello", "tools": RESPONSE_TOOLS}
    used = server.client().responses.create(**response, max_output_tokens=1).usage.input_tokens
    assert request(server, "/v1/responses/input_tokens", response)[2]["input_tokens"] == used


def test_a_tools_answer_may_show_a_picture(server):
    """Pictures of tool messages reach the model."""
    call = {"id": "c1", "type": "function", "function": {"name": "ping", "arguments": "{}"}}
    history = [
        *ask("Look."),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [picture_part("picture1.png")]},
    ]
    answer = server.client().chat.completions.create(model="llava", messages=history, tools=TOOLS, max_tokens=4)
    assert answer.usage.prompt_tokens_details.image_tokens > 0


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "gone"}}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        (
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {
                            "name": "f",
                            "strict": True,
                            "parameters": {"type": "object", "properties": {"p": {"not": {}}}},
                        },
                    }
                ]
            },
            "tools[0].function.parameters.properties.p.not",
        ),
        ({"functions": [{"name": "f"}]}, "functions"),
    ],
)
def test_what_cannot_be_is_refused_and_harms_nothing(server, wanted, param):
    """A 400 that names the place."""
    client = server.client()
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="llava", messages=ask("Hi"), extra_body=wanted)
    assert refused.value.body["param"] == param
    empty = client.chat.completions.create(model="llava", messages=ask("Hi"), tools=[], max_tokens=2)
    assert empty.choices[0].message.tool_calls is None
