"""Every kind of picture file through the API: equal answers from every container, refusals that name the part.

docs/pictures.md is what is promised; pixels themselves are compared in pillow_pixels_test.py.
"""

import io
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openai
import pytest
from conftest import DEMO, PICTURES, Server, data_url
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support.picture_files import (  # noqa: E402
    TURN_BACK,
    chunk,
    exif,
    png,
    riff_chunk,
    vp8x,
    webp,
    webp_frame,
    with_exif,
)

QUESTION = "What is in the picture?"


@pytest.fixture(scope="module")
def qwen(tmp_path_factory) -> Iterator[Server]:
    """The family whose token count follows the picture's size."""
    running = Server(tmp_path_factory.mktemp("qwen"), model=DEMO.parent / "qwen2_5_vl")
    yield running
    assert running.stop() == 0, "\n".join(running.lines[-30:])


def create(server: Server, data: bytes, kind: str = "image/png", **fields):
    """One greedy answer about a picture."""
    client = server.client()
    parts = [{"type": "image_url", "image_url": {"url": data_url(data, kind)}}, {"type": "text", "text": QUESTION}]
    return client.chat.completions.create(
        **{
            "model": client.models.list().data[0].id,
            "messages": [{"role": "user", "content": parts}],
            "temperature": 0,
            "max_tokens": 16,
            "logprobs": True,
            **fields,
        }
    )


def told(reply) -> tuple:
    """What may not differ between equal pictures: text, its probabilities, image tokens."""
    choice = reply.choices[0]
    tokens = reply.usage.prompt_tokens_details.image_tokens
    return choice.message.content, [part.logprob for part in choice.logprobs.content], tokens


def saved(image: Image.Image, kind: str, **options) -> bytes:
    """One file of Pillow's."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def shape() -> Image.Image:
    """A shipped picture, in few enough colours for every container."""
    return Image.open(PICTURES / "picture1.png").convert("RGB").quantize(200).convert("RGB")


def containers() -> dict[str, bytes]:
    """The same pixels in every format that keeps them, still and animated."""
    image = shape()
    blue = Image.new("RGB", image.size, "blue")
    palette = image.quantize(200)
    still = saved(image, "WEBP", lossless=True)
    anim = riff_chunk(b"ANIM", b"\0\0\0\0\0\0")
    other = webp_frame(saved(blue, "WEBP", lossless=True), image.size)
    return {
        "png": saved(image, "PNG"),
        "palette png": saved(palette, "PNG"),
        "rgba png": saved(image.convert("RGBA"), "PNG"),
        "apng": saved(image, "PNG", save_all=True, append_images=[blue]),
        "16-bit png": png(np.array(image, np.uint16) * 257, 2, 16, interlaced=True),
        "webp": still,
        "animated webp": webp(vp8x(*image.size, 0x02), anim, webp_frame(still, image.size), other),
        "gif": saved(palette, "GIF"),
        "animated gif": saved(palette, "GIF", save_all=True, append_images=[blue.quantize(2), palette], duration=50),
        "bmp": saved(image, "BMP"),
        "palette bmp": saved(palette, "BMP"),
    }


def test_every_container_gives_the_same_answer(server, qwen):
    """The same pixels are the same picture to both families, whatever carries them and whatever it is called."""
    for running in (server, qwen):
        answers = {name: told(create(running, data)) for name, data in containers().items()}
        assert len({str(answer) for answer in answers.values()}) == 1, answers
        for kind in ("image/jpeg", "image/webp", "text/plain", "application/octet-stream"):
            assert told(create(running, containers()["png"], kind)) == answers["png"], kind


def test_lossy_webp_and_jpeg_are_read(server):
    """They answer as the picture does that they were made of."""
    wanted = create(server, containers()["png"]).choices[0].message.content
    for data in (saved(shape(), "WEBP", quality=90), saved(shape(), "JPEG", quality=95)):
        assert create(server, data).choices[0].message.content == wanted


def test_a_phone_picture_is_turned_before_it_is_measured(qwen):
    """EXIF 1 to 8, stored so that all look the same once turned: one answer, the tokens of the turned size."""
    x, y = np.meshgrid(np.arange(256), np.arange(96))
    upright = np.stack([x, 255 - x, y * 2], -1).astype(np.uint8)
    files = {}
    for value, turn in TURN_BACK.items():
        stored = Image.fromarray(np.ascontiguousarray(turn(upright)))
        files[value] = saved(stored, "PNG", exif=exif(value, value % 2 == 0))
    answers = {value: told(create(qwen, data)) for value, data in files.items()}
    assert len({str(answer) for answer in answers.values()}) == 1, answers
    sideways = told(create(qwen, saved(Image.fromarray(np.ascontiguousarray(TURN_BACK[6](upright))), "PNG")))
    assert sideways[1] != answers[1][1]
    plain = saved(Image.fromarray(upright), "JPEG", quality=95)
    for tiff in (exif(0), exif(9), exif(6)[:15], b"", b"MM\0*\xff\xff\xff\xff"):
        assert told(create(qwen, with_exif(plain, tiff))) == told(create(qwen, plain)), tiff


FOREIGN = {
    "HEIC": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 64,
    "AVIF": b"\0\0\0\x1cftypavif\0\0\0\0mif1avif" + b"\0" * 64,
    "SVG": b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>',
    "TIFF": b"II*\0\x08\0\0\0" + b"\0" * 64,
    "PDF": b"%PDF-1.7\n",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_other_formats_are_refused_by_name(server, name):
    """Whatever the data URL calls them."""
    for kind in ("image/png", "image/heic", "application/pdf"):
        with pytest.raises(openai.BadRequestError) as caught:
            create(server, FOREIGN[name], kind)
        assert caught.value.code == "unsupported_image"
        assert caught.value.param.startswith("messages[0].content[0]")
        assert caught.value.message.count(f"{name} is not supported as an image. Send JPEG, PNG, WebP, GIF or BMP.")


def broken() -> dict[str, bytes]:
    """Files that are cut off, lie, or are no picture."""
    files = {"empty": b"", "one byte": b"\x89"}
    whole = containers()
    whole["jpeg"] = saved(shape(), "JPEG")
    for name, data in whole.items():
        # What follows a first frame is not read.
        kept = [0.02, 0.2] if name == "animated gif" else [0.02, 0.2, 0.5, 0.9]
        files |= {f"{name} cut at {part}": data[: int(len(data) * part)] for part in kept}
    picture = whole["png"]
    files["checksum"] = picture[:-17] + bytes([picture[-17] ^ 1]) + picture[-16:]
    files["no end"] = picture[:-12]
    huge = chunk(b"IHDR", struct.pack(">IIBBBBB", 7000, 7000, 8, 2, 0, 0, 0))
    files["lying png"] = picture[:8] + huge + picture[33:]
    files["lying bmp"] = whole["bmp"][:18] + struct.pack("<ii", 7000, 7000) + whole["bmp"][26:]
    return files


def test_broken_files_are_a_400_that_names_the_part(server):
    """Fixed words, no file names, and the next request is served."""
    for name, data in broken().items():
        with pytest.raises(openai.BadRequestError) as caught:
            create(server, data)
        assert caught.value.code == "invalid_image", name
        assert caught.value.param.startswith("messages[0].content[0]"), name
        assert "/" not in caught.value.message and "0x" not in caught.value.message, name
    assert create(server, containers()["png"]).choices[0].message.content


def bombs() -> dict[str, bytes]:
    """Small files of more pixels than are accepted."""
    sides = (12_000, 12_000)
    return {
        "png": saved(Image.new("1", sides), "PNG"),
        "gif": saved(Image.new("L", sides), "GIF"),
        "webp": saved(Image.new("L", sides).convert("RGB"), "WEBP", lossless=True, method=0),
        "jpeg": saved(Image.new("L", sides), "JPEG", progressive=True),
        "bmp": b"BM" + struct.pack("<IHHIIiiHHIIiiII", 99, 0, 0, 54, 40, *sides, 1, 24, 0, 0, 0, 0, 0, 0) + b"\0\1",
    }


def memory_kib(server: Server, field: str) -> int:
    """A line of the server's /proc status."""
    for line in Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise AssertionError(field)


def test_bombs_are_refused_by_their_headers(server):
    """A 400 that states both sizes, at once, without memory for a single pixel."""
    for name, data in bombs().items():
        Path(f"/proc/{server.process.pid}/clear_refs").write_text("5\n", encoding="utf-8")
        before = memory_kib(server, "VmRSS:")
        with pytest.raises(openai.BadRequestError) as caught:
            create(server, data)
        assert caught.value.code == "image_too_large", name
        assert "12000 x 12000" in caught.value.message and "50000000" in caught.value.message, name
        assert caught.value.param.startswith("messages[0].content[0]"), name
        spent = (memory_kib(server, "VmHWM:") - before) * 1024
        assert spent < (16 << 20) + 8 * len(data), f"{name}: {spent} bytes"


def test_a_crowd_of_large_pictures_leaves_streams_alone(qwen):
    """Sixteen pictures of 16 million pixels at once: each is scaled down, and a stream goes on unchanged."""
    client = qwen.client()
    options = {"max_tokens": 48, "extra_body": {"ignore_eos": True}}
    quiet = told(create(qwen, containers()["png"], **options))
    large = saved(Image.new("RGB", (4000, 4000), "red"), "PNG")
    results: list = []

    def send() -> None:
        try:
            results.append(create(qwen, large, max_tokens=4).usage.prompt_tokens_details.image_tokens)
        except openai.APIStatusError as error:
            results.append(error.status_code)

    threads = [threading.Thread(target=send) for _ in range(16)]
    for thread in threads:
        thread.start()
    assert told(create(qwen, containers()["png"], **options)) == quiet
    began = time.monotonic()
    assert client.models.list().data  # the loop still answers
    assert time.monotonic() - began < 5
    for thread in threads:
        thread.join(120)
    assert len(results) == 16 and set(results) <= {results[0], 503}, results
    assert told(create(qwen, containers()["png"], **options)) == quiet


@pytest.mark.parametrize("size", [(1, 1), (1, 2), (2, 1), (27, 27), (19, 500), (28, 2)])
def test_very_small_pictures_take_the_same_tokens_as_any(server, size):
    """LLaVA's count does not follow the size."""
    usual = create(server, containers()["png"]).usage.prompt_tokens_details.image_tokens
    for kind in ("PNG", "GIF", "BMP", "WEBP"):
        reply = create(server, saved(Image.new("RGB", size, "red"), kind))
        assert reply.usage.prompt_tokens_details.image_tokens == usual, kind
