"""POST /v1/completions with OpenAI's own client: every form of prompt, echo, log-probabilities, streams."""

import openai
import pytest
from protocol_test import request


@pytest.fixture(scope="module")
def model(server) -> str:
    """The served model's name."""
    return server.client().models.list().data[0].id


def tokens_of(server, model, text: str, special: bool = True) -> list[int]:
    """Ids by the server's own tokenizer."""
    body = {"model": model, "prompt": text, "add_special_tokens": special}
    return request(server, "/tokenize", body)[2]["tokens"]


def test_text_and_its_tokens_give_the_same_answer(server, model):
    """Alone, in lists, and streamed; the leading space of a continuation stays."""
    text = "The picture shows a red"
    ids = tokens_of(server, model, text)
    client = server.client()
    ask = {"model": model, "temperature": 0, "max_tokens": 6, "extra_body": {"ignore_eos": True}}
    whole = client.completions.create(prompt=text, **ask)
    assert whole.object == "text_completion" and whole.id.startswith("cmpl-")
    assert whole.usage.prompt_tokens == len(ids) and whole.usage.completion_tokens == 6
    answer = whole.choices[0].text
    assert client.completions.create(prompt=ids, **ask).choices[0].text == answer
    several = client.completions.create(prompt=[text, text], **ask)
    assert [(c.index, c.text) for c in several.choices] == [(0, answer), (1, answer)]
    assert client.completions.create(prompt=[ids, ids], n=2, **ask).choices[3].text == answer
    parts = client.completions.create(prompt=text, stream=True, **ask)
    assert "".join(part.choices[0].text for part in parts) == answer


def test_echo_scores_the_prompt_without_a_token_of_its_own(server, model):
    """max_tokens 0 with echo and logprobs: the prompt's own log-probabilities, the first unknown."""
    text = "a red circle"
    reply = server.client().completions.create(model=model, prompt=text, max_tokens=0, echo=True, logprobs=2)
    choice = reply.choices[0]
    assert choice.text == text and choice.finish_reason == "length"
    assert reply.usage.completion_tokens == 0
    ids = tokens_of(server, model, text)
    lists = choice.logprobs
    assert len(lists.tokens) == len(lists.token_logprobs) == len(lists.text_offset) == len(ids)
    assert lists.token_logprobs[0] is None and all(value <= 0 for value in lists.token_logprobs[1:])
    assert all(2 <= len(top) <= 3 for top in lists.top_logprobs[1:])
    assert lists.text_offset == sorted(lists.text_offset) and lists.text_offset[-1] < len(text)


def test_a_scored_answer_is_the_answer(server, model):
    """What a greedy answer was given, its tokens are given as a prompt, too."""
    client = server.client()
    ids = tokens_of(server, model, "The picture shows")
    said = client.completions.create(
        model=model, prompt=ids, temperature=0, max_tokens=5, logprobs=1, extra_body={"ignore_eos": True}
    ).choices[0]
    more = ids + tokens_of(server, model, said.text.strip(), special=False)
    scored = client.completions.create(model=model, prompt=more, max_tokens=0, echo=True, logprobs=1).choices[0]
    same = [name for name in said.logprobs.tokens if name in scored.logprobs.tokens]
    assert same
    if scored.logprobs.tokens[-len(said.logprobs.tokens) :] == said.logprobs.tokens:
        assert scored.logprobs.token_logprobs[-len(said.logprobs.tokens) :] == said.logprobs.token_logprobs


def test_stream_ends_with_usage_and_done(server, model):
    """The usage chunk has no choices; without asking there is none."""
    client = server.client()
    ask = {"model": model, "prompt": ["a", "b"], "max_tokens": 2, "stream": True}
    chunks = list(client.completions.create(**ask, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0
    assert {chunk.choices[0].index for chunk in chunks[:-1]} == {0, 1}
    assert all(chunk.usage is None for chunk in client.completions.create(**ask))


def test_settings_of_the_tokens_hold(server, model):
    """logit_bias, allowed ids, bad words, min_tokens, stop strings that stay."""
    client = server.client()
    ask = {"model": model, "prompt": "The picture shows", "temperature": 0, "max_tokens": 4}
    plain = client.completions.create(**ask, logprobs=0, extra_body={"ignore_eos": True}).choices[0]
    first = tokens_of(server, model, "The picture shows" + plain.text)[len(tokens_of(server, model, ask["prompt"]))]
    other = client.completions.create(**ask, logit_bias={str(first): -100}).choices[0]
    assert other.text != plain.text
    only = client.completions.create(**ask, extra_body={"allowed_token_ids": [first], "min_tokens": 4}).choices[0]
    assert only.finish_reason == "length"
    kept = client.completions.create(
        **ask, stop=[plain.text[1:3]], extra_body={"include_stop_str_in_output": True, "ignore_eos": True}
    ).choices[0]
    assert kept.text == plain.text[:3] and kept.finish_reason == "stop"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[-1]]}, "prompt"),
        ({"prompt": [[999999]]}, "prompt"),
        ({"logprobs": 6}, "logprobs"),
        ({"max_tokens": -1}, "max_tokens"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_bad_field_is_named(server, model, change, param):
    """400 in OpenAI's error object."""
    status, _, reply = request(server, "/v1/completions", {"model": model, "prompt": "x", **change})
    assert (status, reply["error"]["param"]) == (400, param)


def test_context_overflow_names_both_counts(server, model):
    """Text or tokens, streamed or not; nothing is cut off in silence. One below the limit is answered."""
    client = server.client()
    limit = client.models.retrieve(model).model_dump()["max_model_len"]
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            client.completions.create(model=model, prompt=[5] * limit, stream=stream)
        assert caught.value.code == "context_length_exceeded" and caught.value.param == "prompt"
        assert caught.value.message.count(str(limit)) >= 2
    fits = client.completions.create(model=model, prompt=[5] * (limit - 1), extra_body={"ignore_eos": True})
    assert (fits.usage.completion_tokens, fits.choices[0].finish_reason) == (1, "length")
