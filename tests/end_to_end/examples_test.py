"""The `openai` client gets the right answer to every shipped example from every demo model, streaming and not."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import DEMO, PICTURES, Server, picture_part

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


@pytest.fixture(scope="module", params=list(EXAMPLES[0]["expected"]))
def answering(request, server, tmp_path_factory) -> Iterator[tuple[Server, str]]:
    """A server and its model, for each model that the examples have answers of."""
    if request.param == DEMO.name:
        yield server, request.param
        return
    running = Server(tmp_path_factory.mktemp(request.param), model=DEMO.parent / request.param)
    yield running, request.param
    assert running.stop() == 0, "\n".join(running.lines[-30:])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_example_is_answered_correctly(answering, example, stream):
    """The answer is the true one, and the reference library's."""
    server, model = answering
    said = answer(server.client(), model, example, stream)
    assert said == example["expected"][model]
    if example["truth"] is not None:
        assert said == example["truth"]


def test_sixteen_clients_get_the_same_text_as_one(answering):
    """All examples at once from 16 threads, each twice."""
    server, model = answering
    work = EXAMPLES * 2
    with ThreadPoolExecutor(16) as pool:
        said = list(pool.map(lambda example: answer(server.client(), model, example, True), work))
    assert said == [example["expected"][model] for example in work]


def test_seeded_sampling_does_not_depend_on_other_requests(answering):
    """The same seed gives the same text alone and among 16 clients."""
    server, model = answering
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
