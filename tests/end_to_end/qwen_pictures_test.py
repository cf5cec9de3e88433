"""Pictures with the Qwen2.5-VL demo model: token counts, wanted sizes, many turns, refusals, literal placeholders.

Also what its files may say otherwise: sampling defaults, and a text-only model made of the same weights.
"""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import openai
import pytest
from conftest import DEMO, Server, data_url
from PIL import Image

MODEL = "qwen2_5_vl"
FOLDER = DEMO.parent / MODEL
# (width, height): image tokens. smart_resize of transformers with the demo model's 15680 to 38416 pixels.
TOKENS = {
    (1, 1): 25,
    (2, 1): 28,
    (14, 14): 25,
    (28, 2): 34,
    (37, 31): 25,
    (150, 30): 20,
    (200, 1): 64,
    (500, 19): 23,
    (640, 480): 48,
}


@pytest.fixture(scope="module")
def qwen(tmp_path_factory) -> Iterator[Server]:
    """One server for this file."""
    running = Server(tmp_path_factory.mktemp("qwen"), model=FOLDER)
    yield running
    assert running.process.poll() is None, "\n".join(running.lines[-30:])
    assert running.stop() == 0, "\n".join(running.lines[-30:])


def picture(width: int, height: int, colour: str = "red", detail: str | None = None) -> dict:
    """A content part with a picture of one colour."""
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(buffer, "PNG")
    url = {"url": data_url(buffer.getvalue())}
    return {"type": "image_url", "image_url": url if detail is None else {**url, "detail": detail}}


def create(server: Server, *parts: dict, text: str = "What is in the picture?", **fields):
    """One answer, greedy and short."""
    content = [*parts, {"type": "text", "text": text}]
    return server.client().chat.completions.create(
        **{
            "model": MODEL,
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "max_tokens": 8,
            **fields,
        }
    )


def image_tokens(reply) -> int:
    """Image tokens of an answer's usage, whose parts must add up."""
    details = reply.usage.prompt_tokens_details
    assert details.image_tokens + details.text_tokens == reply.usage.prompt_tokens
    return details.image_tokens


@pytest.mark.parametrize("size", TOKENS)
def test_each_size_has_its_tokens(qwen, size):
    """Tiny, drawn-out and large pictures take what the reference gives them."""
    assert image_tokens(create(qwen, picture(*size))) == TOKENS[size]


def test_several_pictures_add_up(qwen):
    """Pictures of different sizes in one prompt."""
    assert image_tokens(create(qwen, picture(1, 1), picture(640, 480), picture(150, 30))) == 25 + 48 + 20


def test_wide_and_tall_are_not_mixed_up(qwen):
    """30 x 150 and 150 x 30 of one colour have equal token counts, but no common cache entry beyond the text before."""
    create(qwen, picture(150, 30, "blue"))
    tall = create(qwen, picture(30, 150, "blue"))
    assert image_tokens(tall) == 20
    text_before = tall.usage.prompt_tokens_details.cached_tokens
    again = create(qwen, picture(30, 150, "blue"))
    assert again.usage.prompt_tokens_details.cached_tokens > text_before
    assert again.choices[0].message.content == tall.choices[0].message.content


def test_requests_choose_sizes_up_to_the_checkpoints_maximum(qwen):
    """mm_processor_kwargs in both spellings; beyond the maximum means the maximum."""

    def tokens(kwargs: dict) -> int:
        return image_tokens(create(qwen, picture(640, 480), extra_body={"mm_processor_kwargs": kwargs}))

    assert tokens({"min_pixels": 784, "max_pixels": 15680}) == 15
    assert tokens({"size": {"shortest_edge": 784, "longest_edge": 3136}}) == 2
    assert tokens({"max_pixels": 10**12}) == 48
    assert tokens({}) == 48
    # 256 tokens, the maximum of `detail: low`, are more than this checkpoint ever takes.
    assert image_tokens(create(qwen, picture(640, 480, detail="low"))) == 48


def test_the_tower_may_be_given_less_room(start):
    """--max-encode-patches: larger pictures are scaled down to it."""
    server = start("--max-encode-patches", "100", model=FOLDER)
    assert image_tokens(create(server, picture(640, 480))) == 20
    assert image_tokens(create(server, *[picture(640, 480, colour) for colour in ("red", "blue", "green")])) == 60
    assert server.stop() == 0


@pytest.mark.parametrize("stream", [False, True])
def test_aspect_ratio_over_200_is_refused_before_the_first_byte(qwen, stream):
    """A 400 that names the part; the server goes on."""
    with pytest.raises(openai.BadRequestError) as refusal:
        create(qwen, picture(28, 28), picture(201, 1), stream=stream)
    assert refusal.value.code == "invalid_image"
    assert refusal.value.param == "messages[0].content[1].image_url"
    assert "201 x 1" in refusal.value.message
    assert image_tokens(create(qwen, picture(200, 1))) == 64


def test_unknown_processor_arguments_are_named(qwen):
    """A 400, not a silent other size."""
    with pytest.raises(openai.BadRequestError) as refusal:
        create(qwen, picture(28, 28), extra_body={"mm_processor_kwargs": {"fps": 2}})
    assert refusal.value.param == "mm_processor_kwargs.fps"


def test_placeholders_in_text_are_text(qwen):
    """Words that spell control tokens make no image slots."""
    words = "what does <|vision_start|><|image_pad|><|vision_end|> mean?"
    assert image_tokens(create(qwen, text=words)) == 0
    assert image_tokens(create(qwen, picture(37, 31), text=words)) == 25


def test_penalties_change_a_repetitive_answer(qwen):
    """A token that stands in the output is not taken again under the largest penalties."""

    def tokens(**fields) -> list[str]:
        reply = create(qwen, text="Hello", logprobs=True, max_tokens=40, extra_body={"ignore_eos": True, **fields})
        return [entry.token for entry in reply.choices[0].logprobs.content]

    plain = tokens()
    penalised = tokens(repetition_penalty=100, frequency_penalty=2, presence_penalty=2)
    assert len(plain) == len(penalised) == 40
    assert len(set(plain)) < len(set(penalised))


def test_pictures_stand_between_texts_over_several_turns(qwen):
    """The order of the parts is the order in the prompt; a conversation that goes on is found in the cache."""

    def say(*parts) -> list[dict]:
        return [part if isinstance(part, dict) else {"type": "text", "text": part} for part in parts]

    def ask(messages: list[dict]):
        return qwen.client().chat.completions.create(model=MODEL, messages=messages, temperature=0, max_tokens=24)

    red, blue, wide = picture(37, 31), picture(640, 480, "blue"), picture(150, 30, "green")
    first = [{"role": "user", "content": say("First", red, "then", blue, "What is in the first picture?")}]
    before = ask(first)
    assert image_tokens(before) == 25 + 48
    swapped = ask([{"role": "user", "content": say("First", blue, "then", red, "What is in the first picture?")}])
    assert swapped.usage.prompt_tokens == before.usage.prompt_tokens
    assert swapped.usage.prompt_tokens_details.cached_tokens < 25 + 48
    said = {"role": "assistant", "content": before.choices[0].message.content}
    follow_up = [*first, said, {"role": "user", "content": say(wide, "And in this one?", red)}]
    after = ask(follow_up)
    assert image_tokens(after) == 25 + 48 + 20 + 25
    assert after.usage.prompt_tokens_details.cached_tokens >= 25 + 48
    again = ask(follow_up)
    assert again.choices[0].message.content == after.choices[0].message.content


def test_pictures_beyond_the_context_name_the_part(start):
    """A 400 as soon as the pictures alone are too many, with both counts; the server goes on."""
    server = start("--max-model-len", "256", "--limit-mm-per-prompt", "image=20", model=FOLDER)
    with pytest.raises(openai.BadRequestError) as refusal:
        create(server, *[picture(640, 480)] * 20)
    assert refusal.value.code == "context_length_exceeded"
    assert refusal.value.param == "messages[0].content[5].image_url"
    assert "288 tokens" in refusal.value.message and "256 tokens" in refusal.value.message
    assert image_tokens(create(server, picture(640, 480))) == 48
    assert server.stop() == 0


def changed_copy(folder: Path, change: Callable[[Path], None]) -> None:
    """The demo model in a folder of its own; `change` gets the new folder, whose files may be replaced."""
    for file in FOLDER.iterdir():
        (folder / file.name).symlink_to(file)
    change(folder)


def replace(folder: Path, name: str, value: dict) -> None:
    """Write one JSON file in place of a link."""
    (folder / name).unlink()
    (folder / name).write_text(json.dumps(value), encoding="utf-8")


def test_generation_config_holds_unless_the_request_says_otherwise(start, tmp_path):
    """Temperature 0 and a strong repetition penalty from the file; every end token that it names ends an answer."""
    folder = tmp_path / "cautious"
    folder.mkdir()
    defaults = json.loads((FOLDER / "generation_config.json").read_text(encoding="utf-8"))
    answered = {"do_sample": False, "temperature": 0.0, "repetition_penalty": 100.0}
    changed_copy(folder, lambda to: replace(to, "generation_config.json", defaults | answered))
    server = start(model=folder)

    def tokens(**fields) -> list[str]:
        messages = [{"role": "user", "content": "Hello"}]
        extra = {"ignore_eos": True, **fields}
        reply = server.client().chat.completions.create(
            model="cautious", messages=messages, max_tokens=40, logprobs=True, extra_body=extra
        )
        return [entry.token for entry in reply.choices[0].logprobs.content]

    quiet = tokens()
    assert quiet == tokens(seed=1) == tokens(seed=2), "temperature 0 comes from the file"
    assert len(set(quiet)) > len(set(tokens(repetition_penalty=1))), "the penalty comes from the file"
    assert len({tuple(tokens(temperature=2, seed=seed)) for seed in range(4)}) > 1
    assert server.stop() == 0


def test_every_end_token_of_the_files_ends_an_answer(start, tmp_path):
    """A token that the answer holds, named as one more end token, cuts the answer before it."""
    plain = start(model=FOLDER)
    ask = {"messages": [{"role": "user", "content": "Hello"}], "temperature": 0, "max_tokens": 40, "logprobs": True}
    reply = plain.client().chat.completions.create(model=MODEL, **ask)
    pieces = [entry.token for entry in reply.choices[0].logprobs.content]
    assert reply.choices[0].finish_reason == "stop" and len(set(pieces)) > 3
    assert plain.stop() == 0
    cut = next(i for i, piece in enumerate(pieces) if i > 0 and piece not in pieces[:i])
    vocabulary = json.loads((FOLDER / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    end = vocabulary[pieces[cut].replace(" ", "\u0120")]
    folder = tmp_path / "brief"
    folder.mkdir()
    defaults = json.loads((FOLDER / "generation_config.json").read_text(encoding="utf-8"))
    more = defaults | {"eos_token_id": [*defaults["eos_token_id"], end]}
    changed_copy(folder, lambda to: replace(to, "generation_config.json", more))
    server = start(model=folder)
    short = server.client().chat.completions.create(model="brief", **ask)
    assert short.choices[0].message.content == "".join(pieces[:cut])
    assert short.choices[0].finish_reason == "stop"
    assert server.stop() == 0


def test_a_text_model_answers_and_refuses_pictures(start, tmp_path):
    """Qwen2ForCausalLM on the same server: text is answered, an image part is a 400 that names it."""
    folder = tmp_path / "words"
    folder.mkdir()
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    for key in [key for key in config if key.startswith(("vision_", "image_", "video_", "rope_scaling"))]:
        del config[key]
    config |= {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
    changed_copy(folder, lambda to: replace(to, "config.json", config))
    server = start(model=folder)
    client = server.client()
    reply = client.chat.completions.create(
        model="words", messages=[{"role": "user", "content": "Hello"}], temperature=0, max_tokens=8
    )
    assert reply.usage.completion_tokens > 0
    assert reply.usage.prompt_tokens_details.image_tokens == 0
    parts = [{"type": "text", "text": "What is this?"}, picture(28, 28)]
    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(model="words", messages=[{"role": "user", "content": parts}])
    assert refusal.value.param == "messages[0].content[1].image_url"
    assert "takes no pictures" in refusal.value.message
    assert server.stop() == 0
