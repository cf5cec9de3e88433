"""Faults that users of such servers have reported, as trials of the real server."""

import http.client
import json

import openai
import pytest
from conftest import ask
from protocol_test import request
from real_server import wait_for


@pytest.fixture(scope="module")
def model(server) -> str:
    """The served model's name."""
    return server.client().models.list().data[0].id


def ids_of_chat(server, model, messages: list[dict], **more) -> list[int]:
    """The prompt that a chat becomes."""
    status, _, reply = request(server, "/tokenize", {"model": model, "messages": messages, **more})
    assert status == 200, reply
    return reply["tokens"]


def test_developer_is_system(server, model):
    """The same ids, and the text is not lost."""
    asked = [{"role": "user", "content": "hi"}]
    by_name = [
        ids_of_chat(server, model, [{"role": role, "content": "Be brief."}, *asked]) for role in ("developer", "system")
    ]
    assert by_name[0] == by_name[1]
    assert len(by_name[0]) > len(ids_of_chat(server, model, asked))


def test_parts_of_text_are_all_there_in_every_role(server, model):
    """In order; whether anything stands between them is for the model's own template to say."""
    for role in ("system", "user", "assistant"):
        parts = [{"type": "text", "text": "first"}, {"type": "text", "text": "second"}]
        ids = ids_of_chat(server, model, [{"role": role, "content": parts}, {"role": "user", "content": "hi"}])
        _, _, text = request(server, "/detokenize", {"model": model, "tokens": ids})
        assert -1 < text["prompt"].find("first") < text["prompt"].find("second"), (role, text)


def test_any_order_of_roles_is_answered_or_refused(server, model):
    """System only, two systems, assistant first, two users: 200, or 400 in the template's words."""
    say = {"system": "Be brief.", "user": "hi", "assistant": "hello"}
    for roles in ("system", "system system user", "assistant user", "user user", "user assistant"):
        messages = [{"role": role, "content": say[role]} for role in roles.split()]
        body = {"model": model, "messages": messages, "max_tokens": 2}
        status, _, reply = request(server, "/v1/chat/completions", body)
        assert status in (200, 400), (roles, reply)


def test_a_continued_message_goes_on(server, model):
    """The prompt ends in the message's text; a trailing space stays; both settings together are refused."""
    answer = "The picture shows a red"
    messages = [*ask("What is in the picture?", "picture1.png"), {"role": "assistant", "content": answer}]
    on = {"add_generation_prompt": False, "continue_final_message": True}
    prompt = ids_of_chat(server, model, messages, **on)
    turn = ids_of_chat(server, model, messages)
    assert len(prompt) < len(turn)
    _, _, text = request(server, "/detokenize", {"model": model, "tokens": prompt})
    assert text["prompt"].endswith(answer)
    messages[-1]["content"] = answer + " "
    _, _, text = request(server, "/detokenize", {"model": model, "tokens": ids_of_chat(server, model, messages, **on)})
    assert text["prompt"].endswith(answer + " ")
    messages[-1]["content"] = "A red"
    reply = server.client().chat.completions.create(
        model=model, messages=messages, temperature=0, extra_body={"continue_final_message": True}
    )
    assert reply.choices[0].message.content.startswith(" circle")
    with pytest.raises(openai.BadRequestError):
        server.client().chat.completions.create(
            model=model,
            messages=messages,
            extra_body={"continue_final_message": True, "add_generation_prompt": True},
        )


def test_earlier_tool_calls_without_content_are_read(server, model):
    """Null content with tool calls, and the tool's answer: no 500."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "5"},
        {"role": "user", "content": "and?"},
    ]
    status, _, reply = request(server, "/v1/chat/completions", {"model": model, "messages": messages, "max_tokens": 2})
    assert status in (200, 400), reply


def test_bans_that_leave_little_keep_json_valid(server, model):
    """Twenty alternatives where all but three ids are forbidden: finite numbers, valid JSON."""
    body = {
        "model": model,
        "messages": ask("Hello"),
        "max_tokens": 4,
        "logprobs": True,
        "top_logprobs": 20,
        "allowed_token_ids": [5, 6, 7],
        "ignore_eos": True,
        "min_tokens": 4,
    }
    for more in ({}, {"top_k": 1}, {"temperature": 0}, {"temperature": 2}):
        status, _, reply = request(server, "/v1/chat/completions", {**body, **more})
        assert status == 200
        content = reply["choices"][0]["logprobs"]["content"]
        assert len(content) == 4
        for token in content:
            assert len(token["top_logprobs"]) == 20
            assert all(-9999.0 <= entry["logprob"] <= 0 for entry in token["top_logprobs"])


def test_settings_of_neighbours_do_not_mix(server, model):
    """Temperature 0, next to 0, 1 and 2 at once give what each gives alone."""
    client = server.client()
    settings = [
        {"temperature": 0},
        {"temperature": 1e-8},
        {"temperature": 1.0, "seed": 3},
        {"temperature": 2.0, "seed": 4},
        {"top_p": 0, "seed": 5},
        {"extra_body": {"top_k": 10**9, "min_p": 1.0}, "seed": 6},
    ]
    ask_for = {"model": model, "messages": ask("What do you see?", "picture4.jpg"), "max_tokens": 12}
    alone = [client.chat.completions.create(**ask_for, **s).choices[0].message.content for s in settings]
    streams = [client.chat.completions.create(**ask_for, **s, stream=True) for s in settings]
    together = ["".join(c.choices[0].delta.content or "" for c in s if c.choices) for s in streams]
    assert together == alone
    assert alone[0] == alone[1] == alone[4]


def test_streams_are_whole_characters_and_join_to_the_answer(server, model):
    """Every event parses; random tokens, special ones and broken bytes included."""
    client = server.client()
    for seed in range(6):
        ask_for = {
            "model": model,
            "messages": ask("Hello"),
            "temperature": 2,
            "seed": seed,
            "max_tokens": 60,
            "extra_body": {"ignore_eos": True, "skip_special_tokens": seed % 2 == 0},
        }
        whole = client.chat.completions.create(**ask_for).choices[0].message.content
        parts = client.chat.completions.create(**ask_for, stream=True)
        assert "".join(c.choices[0].delta.content or "" for c in parts if c.choices) == whole


def test_stops_of_every_shape_never_leak(server, model):
    """One character, a space, long ones, overlapping ones; streamed and whole alike."""
    client = server.client()
    ask_for = {"model": model, "messages": ask("What is in the picture?", "picture2.jpg"), "temperature": 0}
    full = client.chat.completions.create(**ask_for).choices[0].message.content
    for stop in ([" "], [full[-1]], [full[2:9], full[3:6]], ["never", full[:2]], [full + "x"]):
        wanted = min((full[: full.index(s)] for s in stop if s in full), key=len, default=full)
        whole = client.chat.completions.create(**ask_for, stop=stop)
        parts = client.chat.completions.create(**ask_for, stop=stop, stream=True)
        joined = "".join(c.choices[0].delta.content or "" for c in parts if c.choices)
        assert joined == whole.choices[0].message.content
        if len(stop) == 1 or full[:2] in stop:
            assert joined == wanted


def test_text_survives_tokens_and_back(server, model):
    """Completion prompts of every kind: detokenize(tokenize(x)) is x, one BOS at most."""
    # But for U+2581, which this kind of tokenizer itself reads as a space.
    texts = ["a", " a", "  a", "\na", "é", "e\u0301", "<s>a", "\0", "1234567", "😀👩‍👩‍👧", "سلام שלום", " " * 1000]
    for text in texts:
        plain = {"model": model, "prompt": text}
        _, _, bare = request(server, "/tokenize", {**plain, "add_special_tokens": False})
        _, _, back = request(server, "/detokenize", {"model": model, "tokens": bare["tokens"]})
        assert back["prompt"] == text, repr(text)
        _, _, full = request(server, "/tokenize", plain)
        assert full["tokens"][-len(bare["tokens"]) :] == bare["tokens"]
        assert len(full["tokens"]) - len(bare["tokens"]) <= 1


def test_repeated_prompts_under_another_salt_find_nothing(server, model):
    """cached_tokens 0 under a new salt, and more the second time."""
    client = server.client()
    ask_for = {"model": model, "messages": ask("Salted words, please.", "picture5.png"), "max_tokens": 1}
    salted = {**ask_for, "extra_body": {"cache_salt": "first"}}
    cached = [
        client.chat.completions.create(**body).usage.prompt_tokens_details.cached_tokens
        for body in (ask_for, salted, salted, ask_for)
    ]
    assert cached[1] == 0 and cached[2] >= 64 and cached[3] >= 64


def test_metadata_and_user_are_in_the_log(server, model):
    """Found again by the request's id."""
    body = {
        "model": model,
        "messages": ask("Hello"),
        "max_tokens": 1,
        "user": "ann",
        "metadata": {"team": "red"},
        "store": True,
        "service_tier": "auto",
    }
    status, _, _ = request(server, "/v1/chat/completions", body, headers={"X-Request-Id": "with-metadata"})
    assert status == 200
    rows = wait_for(lambda: request(server, "/admin/requests?id=with-metadata")[2]["rows"], what="the row")
    assert "red" in json.dumps(rows) and "ann" in json.dumps(rows)


def test_a_conversation_of_many_messages_is_answered(server, model):
    """Ten thousand messages: an answer or a clear 400, and the server is healthy after."""
    messages = [{"role": "user", "content": "a"}] * 10_000
    status, _, reply = request(server, "/v1/chat/completions", {"model": model, "messages": messages})
    assert status == 400 and reply["error"]["code"] == "context_length_exceeded"
    assert request(server, "/health")[0] == 200


def test_head_is_get_without_a_body(server):
    """The same status and length."""
    for path in ("/health", "/v1/models", "/openapi.json", "/nothing"):
        answers = []
        for method in ("GET", "HEAD"):
            line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            line.request(method, path)
            reply = line.getresponse()
            answers.append((reply.status, reply.headers["Content-Length"], reply.read()))
            line.close()
        assert answers[0][:2] == answers[1][:2] and answers[1][2] == b""
