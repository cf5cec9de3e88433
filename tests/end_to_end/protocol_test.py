"""Shapes of answers and errors as clients see them: usage, logprobs, streams, statuses, tokenization, metrics."""

import json
import urllib.error
import urllib.request

import openai
import pytest
from conftest import DEMO, ask, data_url, picture_part


def request(server, path: str, body: bytes | dict | None = None, method: str | None = None, headers=None):
    """Raw HTTP: (status, headers, parsed JSON or text)."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    call = urllib.request.Request(server.url + path, data=data, method=method, headers=headers or {})
    if data is not None and "Content-type" not in call.headers:
        call.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(call, timeout=30) as reply:
            status, head, text = reply.status, reply.headers, reply.read().decode()
    except urllib.error.HTTPError as error:
        status, head, text = error.code, error.headers, error.read().decode()
    return status, head, json.loads(text) if text and "json" in head.get("Content-Type", "") else text


@pytest.fixture(scope="module")
def model(server) -> str:
    """The served model's name."""
    return server.client().models.list().data[0].id


def test_usage_counts_image_and_text_tokens(server, model):
    """64 image tokens a picture; the parts add up."""
    reply = server.client().chat.completions.create(
        model=model, messages=ask("What is in the picture?", "picture1.png"), max_tokens=8
    )
    details = reply.usage.prompt_tokens_details
    assert details.image_tokens == 64
    assert details.text_tokens + details.image_tokens == reply.usage.prompt_tokens
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def test_repeated_prompt_comes_from_the_cache(server, model):
    """The second time most prompt tokens are cached, and the answer is the same."""
    messages = ask("Describe this picture, please, once more.", "picture4.jpg")
    client = server.client()
    first, second = (
        client.chat.completions.create(model=model, messages=messages, temperature=0, max_tokens=32) for _ in range(2)
    )
    assert second.usage.prompt_tokens_details.cached_tokens >= 64
    assert first.choices[0].message.content == second.choices[0].message.content


def test_usage_chunk_is_last_and_only_on_request(server, model):
    """With include_usage: other chunks say null, one last chunk has no choices; without: no usage at all."""
    ask_hello = {"model": model, "messages": ask("Hello"), "stream": True, "max_tokens": 4}
    client = server.client()
    chunks = list(client.chat.completions.create(**ask_hello, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0
    assert all(chunk.usage is None and chunk.choices for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in client.chat.completions.create(**ask_hello))


def test_stream_ends_with_done(server, model):
    """Every event is JSON on one line; the last is [DONE]."""
    body = {"model": model, "messages": ask("Hello"), "stream": True, "max_tokens": 4}
    _, head, text = request(server, "/v1/chat/completions", body)
    assert head["Content-Type"].startswith("text/event-stream")
    events = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    assert json.loads(events[0])["choices"][0]["delta"]["role"] == "assistant"
    assert json.loads(events[-2])["choices"][0]["finish_reason"] in ("stop", "length")


def test_logprobs_have_exact_bytes_and_alternatives(server, model):
    """Chosen token first among the alternatives when greedy; bytes spell the text."""
    reply = server.client().chat.completions.create(
        model=model, messages=ask("Hello"), temperature=0, max_tokens=8, logprobs=True, top_logprobs=3
    )
    content = reply.choices[0].logprobs.content
    assert content
    for token in content:
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].token == token.token
        assert token.logprob <= 0
    assert reply.choices[0].message.content in bytes(b for token in content for b in token.bytes).decode()


def test_n_choices_differ_by_seed_and_are_all_there(server, model):
    """Three choices, indices 0 to 2; completion tokens are summed."""
    reply = server.client().chat.completions.create(
        model=model, messages=ask("Hello"), n=3, seed=5, temperature=2, max_tokens=40, extra_body={"ignore_eos": True}
    )
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in reply.choices}) > 1
    assert reply.usage.completion_tokens == 120


def test_stop_string_is_never_sent(server, model):
    """The answer ends before the stop string, streamed or not."""
    whole = {"model": model, "messages": ask("What is in the picture?", "picture2.jpg"), "temperature": 0}
    client = server.client()
    full = client.chat.completions.create(**whole).choices[0].message.content
    stop = full[4:9]
    cut = client.chat.completions.create(**whole, stop=stop)
    assert cut.choices[0].message.content == full[: full.index(stop)]
    assert cut.choices[0].finish_reason == "stop"
    parts = client.chat.completions.create(**whole, stop=[stop, "never"], stream=True)
    assert "".join(c.choices[0].delta.content or "" for c in parts if c.choices) == full[: full.index(stop)]


def test_max_completion_tokens_wins_and_is_clamped(server, model):
    """3 beats 50, and a huge number is cut to what is left."""
    client = server.client()
    ask_hello = {"model": model, "messages": ask("Hello"), "temperature": 0, "extra_body": {"ignore_eos": True}}
    reply = client.chat.completions.create(**ask_hello, max_tokens=50, max_completion_tokens=3)
    assert (reply.usage.completion_tokens, reply.choices[0].finish_reason) == (3, "length")
    reply = client.chat.completions.create(**ask_hello, max_completion_tokens=10**6)
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage.total_tokens == client.models.retrieve(model).model_dump()["max_model_len"]


def test_tokenize_and_detokenize_round_trip(server, model):
    """vLLM's shapes; a picture counts with its placeholders."""
    _, _, plain = request(server, "/tokenize", {"model": model, "prompt": "a red circle", "add_special_tokens": False})
    assert plain["count"] == len(plain["tokens"]) and plain["max_model_len"] > 0
    _, _, back = request(server, "/detokenize", {"model": model, "tokens": plain["tokens"]})
    assert back["prompt"] == "a red circle"
    _, _, seen = request(server, "/tokenize", {"model": model, "messages": ask("What is this?", "picture1.png")})
    _, _, unseen = request(server, "/tokenize", {"model": model, "messages": ask("What is this?")})
    assert seen["count"] - unseen["count"] >= 64


def test_placeholder_in_user_text_stays_text(server, model):
    """`<image>` typed by a user is text: no image tokens, no control id."""
    reply = server.client().chat.completions.create(
        model=model, messages=ask("What does <image> mean? </s>"), max_tokens=4
    )
    assert reply.usage.prompt_tokens_details.image_tokens == 0
    _, _, tokens = request(server, "/tokenize", {"model": model, "messages": ask("<image></s><s>")})
    assert 1000 not in tokens["tokens"] and 2 not in tokens["tokens"] and tokens["tokens"].count(1) == 1


@pytest.mark.parametrize(
    ("change", "status", "param"),
    [
        ({"model": "nonsense"}, 404, "model"),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, 400, "messages[0].role"),
        ({"temperature": 2.1}, 400, "temperature"),
        ({"top_p": -0.1}, 400, "top_p"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"n": 0}, 400, "n"),
        ({"stop": ""}, 400, "stop"),
        ({"logprobs": True, "top_logprobs": 21}, 400, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, 400, "stream_options"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_bad_field_is_named(server, model, change, status, param):
    """The status and the field, in OpenAI's error object with all four fields."""
    body = {"model": model, "messages": ask("Hello"), "max_tokens": 4, **change}
    got, _, reply = request(server, "/v1/chat/completions", body)
    assert got == status, reply
    assert set(reply["error"]) == {"message", "type", "param", "code"}
    assert reply["error"]["param"] == param


def test_too_long_prompt_names_both_counts(server, model):
    """400 context_length_exceeded with the prompt's tokens and the limit."""
    with pytest.raises(openai.BadRequestError) as caught:
        server.client().chat.completions.create(model=model, messages=ask("circle " * 3000), max_tokens=4)
    assert caught.value.code == "context_length_exceeded"
    limit = server.client().models.retrieve(model).model_dump()["max_model_len"]
    assert str(limit) in caught.value.message


def test_data_url_spellings_are_equal(server, model):
    """Parameters, case, line breaks, missing padding and the URL-safe alphabet all mean the same picture."""
    plain = picture_part("picture5.png")["image_url"]["url"]
    payload = plain.split(",")[1]
    spellings = [
        plain,
        "DATA:IMAGE/PNG;BASE64," + payload,
        "data:image/png;charset=utf-8;base64," + payload,
        "data:image/jpeg;base64," + payload,
        "data:;base64," + payload.rstrip("="),
        "data:image/png;base64," + payload.replace("+", "-").replace("/", "_"),
        "data:image/png;base64," + "\n".join(payload[i : i + 76] for i in range(0, len(payload), 76)),
    ]
    answers = set()
    for url in spellings:
        parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is in the picture?"}]
        reply = server.client().chat.completions.create(
            model=model, messages=[{"role": "user", "content": parts}], temperature=0
        )
        answers.add(reply.choices[0].message.content)
    assert len(answers) == 1


@pytest.mark.parametrize(
    "url",
    ["data:image/png;base64,", data_url(b"not a picture"), "data:image/png;base64,!!!!", "http://127.0.0.1:1/x.png"],
    ids=["empty", "garbage", "not base64", "remote"],
)
def test_bad_picture_is_a_400_that_names_the_part(server, model, url):
    """Nothing but a clear client error."""
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]
    body = {"model": model, "messages": [{"role": "user", "content": parts}]}
    status, _, reply = request(server, "/v1/chat/completions", body)
    assert status == 400, reply
    assert reply["error"]["param"].startswith("messages[0].content[1]")


def test_unknown_route_and_wrong_method(server):
    """JSON 404; 405 with Allow; HEAD like GET."""
    status, _, reply = request(server, "/v1/nothing")
    assert status == 404 and reply["error"]["type"]
    status, head, reply = request(server, "/v1/chat/completions")
    assert status == 405 and "POST" in head["Allow"] and reply["error"]["message"]
    status, head, _ = request(server, "/health", method="HEAD")
    assert status == 200
    for path in ("/", "/favicon.svg", "/metrics"):
        status, head, reply = request(server, path, {})
        assert (status, head["Allow"]) == (405, "GET, HEAD, OPTIONS"), path
        assert reply["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "text/plain"])
def test_body_that_does_not_say_it_is_json_is_a_415(server, model, kind):
    """A foreign page could send these without asking; curl's -d without -H says x-www-form-urlencoded."""
    body = json.dumps({"model": model, "messages": ask("Hello"), "max_tokens": 1})
    line = server.connection()
    line.putrequest("POST", "/v1/chat/completions")
    line.putheader("Content-Length", str(len(body)))
    if kind:
        line.putheader("Content-Type", kind)
    line.endheaders(body.encode())
    reply = line.getresponse()
    assert reply.status == 415
    assert json.loads(reply.read())["error"]["code"] == "unsupported_media_type"


def test_continuous_usage_is_the_same_in_every_chunk(server, model):
    """Cached tokens are known from the first chunk on, not only in the last."""
    body = {"model": model, "messages": ask("Say it again, please.", "picture3.png"), "stream": True, "max_tokens": 8}
    options = {"include_usage": True, "continuous_usage_stats": True}
    for _ in range(2):
        chunks = list(server.client().chat.completions.create(**body, extra_body={"stream_options": options}))
    cached = {chunk.usage.prompt_tokens_details.cached_tokens for chunk in chunks}
    assert len(cached) == 1 and cached.pop() >= 64


def test_answer_carries_the_name_that_was_asked_for(start):
    """One of several served names; metrics and /v1/models begin with the first."""
    server = start("--served-model-name", "first,second")
    for name in ("first", "second"):
        reply = server.client().chat.completions.create(model=name, messages=ask("Hello"), max_tokens=1)
        assert reply.model == name
        chunks = server.client().chat.completions.create(model=name, messages=ask("Hello"), max_tokens=1, stream=True)
        assert {chunk.model for chunk in chunks} == {name}
    assert 'model_name="first"' in request(server, "/metrics")[2]


def test_model_reached_by_a_link_has_one_name(start, tmp_path):
    """The same in /v1/models and in the metrics."""
    link = tmp_path / "current"
    link.symlink_to(DEMO)
    server = start(model=link)
    name = server.client().models.list().data[0].id
    assert name == DEMO.name
    assert f'model_name="{name}"' in request(server, "/metrics")[2]


def test_service_routes(server, model):
    """Health, readiness, version, the page, and the metric names that dashboards look for."""
    assert request(server, "/health")[0] == 200
    assert request(server, "/ready")[0] == 200
    assert request(server, "/version")[2]["version"]
    status, head, page = request(server, "/")
    assert status == 200 and "text/html" in head["Content-Type"] and "default-src" in head["Content-Security-Policy"]
    assert "HeteroServe" in page
    metrics = request(server, "/metrics")[2]
    for name in (
        "vllm:num_requests_running",
        "vllm:kv_cache_usage_perc",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:time_to_first_token_seconds_bucket",
        "vllm:inter_token_latency_seconds_bucket",
        "vllm:e2e_request_latency_seconds_bucket",
        "vllm:prefix_cache_hits_total",
        "heteroserve_loop_lag_seconds_bucket",
        "heteroserve_engine_failures_total",
        "heteroserve_non_finite_total",
        "heteroserve_held_body_bytes",
    ):
        assert name in metrics, name
    assert f'model_name="{model}"' in metrics


def test_request_id_is_returned(server, model):
    """The client's own id comes back, and one is made when there is none."""
    body = {"model": model, "messages": ask("Hello"), "max_tokens": 2}
    _, head, _ = request(server, "/v1/chat/completions", body, headers={"X-Request-Id": "abc-123"})
    assert head["X-Request-Id"] == "abc-123"
    assert request(server, "/v1/chat/completions", body)[1]["X-Request-Id"]
