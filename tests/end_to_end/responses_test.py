"""POST /v1/responses and the counting of input tokens with OpenAI's own client."""

import openai
import pytest
from conftest import ask, picture_part
from protocol_test import request


@pytest.fixture(scope="module")
def model(server) -> str:
    """The served model's name."""
    return server.client().models.list().data[0].id


def picture_input(text: str, picture: str) -> list[dict]:
    """One user message of the Responses API."""
    url = picture_part(picture)["image_url"]["url"]
    parts = [{"type": "input_image", "image_url": url, "detail": "auto"}, {"type": "input_text", "text": text}]
    return [{"role": "user", "content": parts}]


def test_a_response_says_what_a_chat_says(server, model):
    """The same prompt by another name; usage tells text from pictures."""
    client = server.client()
    chat = client.chat.completions.create(
        model=model, messages=ask("What is in the picture?", "picture1.png"), temperature=0
    )
    reply = client.responses.create(
        model=model, input=picture_input("What is in the picture?", "picture1.png"), temperature=0
    )
    assert reply.output_text == chat.choices[0].message.content
    assert (reply.status, reply.store) == ("completed", False)
    assert reply.usage.input_tokens == chat.usage.prompt_tokens
    assert reply.usage.to_dict()["input_tokens_details"]["image_tokens"] == 64


def test_events_come_in_order_and_join_to_the_answer(server, model):
    """Numbered without a gap; deltas join to the done text; the last carries the whole response."""
    client = server.client()
    body = {"model": model, "input": picture_input("What is in the picture?", "picture2.jpg"), "temperature": 0}
    events = list(client.responses.create(**body, stream=True))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text == client.responses.create(**body).output_text
    with client.responses.stream(**body) as stream:
        assert stream.get_final_response().output_text == text


def test_a_limit_makes_it_incomplete(server, model):
    """By max_output_tokens, as the reason says."""
    reply = server.client().responses.create(model=model, input="Hello", max_output_tokens=1)
    assert reply.status == "incomplete" and reply.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize(
    "change",
    [{"previous_response_id": "resp_1"}, {"store": True}, {"background": True}, {"conversation": "c"}],
    ids=lambda change: next(iter(change)),
)
def test_stored_state_is_refused_by_name(server, model, change):
    """400 that names the field."""
    with pytest.raises(openai.BadRequestError) as caught:
        server.client().responses.create(model=model, input="x", **change)
    assert caught.value.param == next(iter(change))


def test_counts_are_those_of_the_requests(server, model):
    """For responses by the client, for chats by hand; pictures and the template included."""
    client = server.client()
    whole = picture_input("What is this?", "picture3.png")
    counted = client.responses.input_tokens.count(model=model, input=whole, instructions="Be brief.")
    reply = client.responses.create(model=model, input=whole, instructions="Be brief.", max_output_tokens=1)
    assert counted.input_tokens == reply.usage.input_tokens
    body = {"model": model, "messages": ask("What is this?", "picture3.png")}
    status, _, counted = request(server, "/v1/chat/completions/input_tokens", body)
    chat = client.chat.completions.create(**body, max_tokens=1)
    assert status == 200 and counted["input_tokens"] == chat.usage.prompt_tokens
    assert counted["input_tokens_details"]["image_tokens"] == 64


def test_the_description_of_all_routes_is_served(server):
    """OpenAPI, as JSON."""
    status, head, whole = request(server, "/openapi.json")
    assert status == 200 and head["Content-Type"] == "application/json"
    assert whole["openapi"].startswith("3.") and "/v1/responses" in whole["paths"]
