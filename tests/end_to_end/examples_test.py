"""The `openai` client gets the right answer to every shipped example, streaming and not."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import PICTURES, picture_part

EXAMPLES = json.loads((PICTURES / "examples.json").read_text(encoding="utf-8"))


def messages_of(example: dict) -> list[dict]:
    """An example's messages with its pictures filled in, in order."""
    pictures = iter(example["images"])
    turns = []
    for message in example["messages"]:
        parts = [picture_part(next(pictures)) if part["type"] == "image" else part for part in message["content"]]
        turns.append({"role": message["role"], "content": parts})
    return turns


def name_of(example: dict) -> str:
    """A readable test id."""
    return "+".join(example["images"] or ["text"]) + "-" + example["messages"][-1]["content"][-1]["text"]


def answer(client, model: str, example: dict, stream: bool) -> str:
    """The greedy answer to one example."""
    reply = client.chat.completions.create(
        model=model, messages=messages_of(example), temperature=0, max_tokens=64, stream=stream
    )
    if not stream:
        return reply.choices[0].message.content
    return "".join(chunk.choices[0].delta.content or "" for chunk in reply if chunk.choices)


@pytest.fixture(scope="module")
def model(server) -> str:
    """The served model's name, as a client finds it."""
    return server.client().models.list().data[0].id


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_example_is_answered_correctly(server, model, example, stream):
    """The answer is the true one, and the reference library's."""
    said = answer(server.client(), model, example, stream)
    assert said == example["expected"]["llava"]
    if example["truth"] is not None:
        assert said == example["truth"]


def test_sixteen_clients_get_the_same_text_as_one(server, model):
    """All examples at once from 16 threads, each twice."""
    work = EXAMPLES * 2
    with ThreadPoolExecutor(16) as pool:
        said = list(pool.map(lambda example: answer(server.client(), model, example, True), work))
    assert said == [example["expected"]["llava"] for example in work]


def test_seeded_sampling_does_not_depend_on_other_requests(server, model):
    """The same seed gives the same text alone and among 16 clients."""
    client = server.client()

    def sample(seed: int) -> str:
        reply = client.chat.completions.create(
            model=model,
            messages=messages_of(EXAMPLES[0]),
            temperature=1.5,
            seed=seed,
            max_tokens=24,
            extra_body={"ignore_eos": True},
        )
        return reply.choices[0].message.content

    alone = [sample(seed) for seed in range(8)]
    assert len(set(alone)) > 1, "temperature 1.5 should not always say the same"
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(sample, list(range(8)) * 4))
    assert together == alone * 4
