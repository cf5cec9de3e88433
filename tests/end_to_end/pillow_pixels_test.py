"""Files of every mode, size and option that Pillow writes decode to the pixels that Pillow reads from them.

Also the odd ones that tests/support/picture_files.py writes, and what small files of large pictures cost. The decoder
is the server's own, in the small program `decode_pictures` of the build.
"""

import io
import itertools
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import BINARY
from PIL import Image, ImageOps

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support.picture_files import (  # noqa: E402
    TURN_BACK,
    bmp,
    bmp_rows,
    exif,
    gif,
    gif_frame,
    pack_bits,
    picture_chunks,
    png,
    riff_chunk,
    vp8x,
    webp,
    with_exif,
)

PROGRAM = Path(BINARY).parent / "tests" / "decode_pictures"
SIZES = [(1, 1), (1, 9), (2, 2), (3, 1), (7, 5), (8, 8), (9, 16), (17, 17), (31, 33), (64, 48), (101, 3), (200, 1)]


def decode(files: list[bytes], *flags: str) -> tuple[list, int]:
    """Decode many files in one process: pixels or an error code for each, and the peak memory in KiB."""
    sent = b"".join(struct.pack("=I", len(file)) + file for file in files)
    out = subprocess.run([PROGRAM, *flags], input=sent, capture_output=True, check=True, timeout=300).stdout
    results, at = [], 0
    for _ in files:
        width, height = struct.unpack_from("=II", out, at)
        at += 8
        n = width * height * 3 if width else height
        body = out[at : at + n]
        results.append(np.frombuffer(body, np.uint8).reshape(height, width, 3) if width else body.decode())
        at += n
    return results, struct.unpack_from("=I", out, at)[0] if flags else 0


def as_pillow(data: bytes) -> np.ndarray:
    """Upright RGB over white, as Pillow reads it."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (255, 255, 255, 255)), image)
    return np.array(image.convert("RGB"))


def random_image(rng, mode: str, size: tuple[int, int], smooth: bool = False) -> Image.Image:
    """Noise, or four corners blended, in a mode of Pillow's."""
    width, height = size
    bands = len(Image.new(mode, (1, 1)).getbands())
    if smooth:
        corners = rng.integers(0, 256, (2, 2, bands))
        y, x = np.linspace(0, 1, height)[:, None, None], np.linspace(0, 1, width)[None, :, None]
        top = corners[0, 0] * (1 - x) + corners[0, 1] * x
        pixels = top * (1 - y) + (corners[1, 0] * (1 - x) + corners[1, 1] * x) * y
    else:
        pixels = rng.integers(0, 256, (height, width, bands))
    pixels = pixels.astype(np.uint8)
    if mode == "1":
        return Image.fromarray(pixels[..., 0] // 128 * 255).convert("1")
    if mode == "P":
        image = Image.fromarray(pixels[..., 0]).convert("P")
        image.putpalette(rng.integers(0, 256, 768).tolist())
        return image
    if mode == "CMYK":
        planes = [Image.fromarray(np.ascontiguousarray(pixels[..., c])) for c in range(4)]
        return Image.merge("CMYK", planes)
    return Image.fromarray(pixels[..., 0] if bands == 1 else pixels)


def saved(image: Image.Image, kind: str, **options) -> bytes:
    """One file of Pillow's."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def variants(kind: str, mode: str) -> list[dict]:
    """Options that change how a format stores pixels."""
    if kind == "JPEG":
        sampling = [0] if mode in ("L", "CMYK") else [0, 1, 2]
        return [
            {"quality": q, "subsampling": s, "progressive": p}
            for q, s, p in itertools.product((30, 95), sampling, (0, 1))
        ]
    if kind == "PNG":
        return [{"compress_level": 1}, {"optimize": True}] + ([{"transparency": 3}] if mode in ("P", "L") else [])
    if kind == "WEBP":
        return [{"lossless": True, "exact": True}, {"quality": 20}, {"quality": 95, "method": 0}]
    if kind == "GIF":
        return [{"interlace": 0}, {"interlace": 1}, {"transparency": 3}, {"optimize": True}]
    return [{}]


MODES = {
    "JPEG": ("L", "RGB", "CMYK"),
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA"),
    "WEBP": ("L", "P", "RGB", "RGBA"),
    "GIF": ("1", "L", "P", "RGB", "RGBA"),
    "BMP": ("1", "L", "P", "RGB", "RGBA"),
}
# Chroma is interpolated differently by other versions of libjpeg-turbo and libwebp, by a level or two.
WITHIN = {"JPEG": 2, "WEBP": 2}


def compare(files: list[tuple[str, bytes]], within: int) -> None:
    """Every file gives Pillow's pixels."""
    results, _ = decode([data for _, data in files])
    for (name, data), got in zip(files, results):
        wanted = as_pillow(data)
        assert not isinstance(got, str), f"{name}: {got}"
        assert got.shape == wanted.shape, name
        assert np.abs(got.astype(int) - wanted).max() <= within, name


@pytest.mark.parametrize("kind", MODES)
def test_every_mode_and_size_has_pillows_pixels(kind):
    """All modes that a format takes, every option that changes how pixels are stored, noise and smooth pictures."""
    rng = np.random.default_rng(23)
    files = []
    for mode, size, smooth in itertools.product(MODES[kind], SIZES, (False, True)):
        for options in variants(kind, mode):
            data = saved(random_image(rng, mode, size, smooth), kind, **options)
            files.append((f"{mode} {size} {options}", data))
    assert len(files) > 100
    compare(files, WITHIN.get(kind, 0))


def test_random_sizes_have_pillows_pixels():
    """Sizes that nobody chose; the seed is in the message of a failure."""
    seed = random.randrange(1 << 32)
    rng = np.random.default_rng(seed)
    for kind in MODES:
        files = []
        for _ in range(40):
            mode = MODES[kind][rng.integers(len(MODES[kind]))]
            size = (int(rng.integers(1, 150)), int(rng.integers(1, 150)))
            options = variants(kind, mode)[rng.integers(len(variants(kind, mode)))]
            data = saved(random_image(rng, mode, size, bool(rng.integers(2))), kind, **options)
            files.append((f"seed {seed}: {kind} {mode} {size} {options}", data))
        compare(files, WITHIN.get(kind, 0))


def test_every_orientation_in_every_container_that_has_one():
    """EXIF 1 to 8 of either byte order in JPEG, PNG and WebP."""
    rng = np.random.default_rng(29)
    files = []
    for value, turn in TURN_BACK.items():
        rgb = np.ascontiguousarray(turn(np.array(random_image(rng, "RGB", (21, 13), True))))
        stored = Image.fromarray(rgb)
        for tiff in (exif(value, False), exif(value, True), exif(value, True, 4)):
            files.append((f"JPEG {value}", with_exif(saved(stored, "JPEG", quality=95), tiff)))
            files.append((f"PNG {value}", saved(stored, "PNG", exif=tiff)))
            files.append((f"WebP {value}", saved(stored, "WEBP", lossless=True, exif=b"Exif\0\0" + tiff)))
            head = vp8x(*stored.size, 0x08)
            bare = picture_chunks(saved(stored, "WEBP", lossless=True))
            files.append((f"WebP {value}, bare", webp(head, bare, riff_chunk(b"EXIF", tiff))))
    compare(files, 2)


def test_odd_files_have_pillows_pixels():
    """Interlaced PNG of every type, GIF with tables of every size, BMP of every header."""
    rng = np.random.default_rng(31)
    table = rng.integers(0, 256, (256, 3))
    files = []
    for width, height in SIZES:
        index = rng.integers(0, 256, (height, width))
        for channels, colour in ((1, 0), (3, 2), (2, 4), (4, 6)):
            samples = rng.integers(0, 256, (height, width, channels))
            files.append((f"PNG {colour}", png(samples, colour, 8, interlaced=True)))
        for bits in range(1, 9):
            part, colours = index % 2**bits, table[: 2**bits]
            frame = gif_frame(part, interlaced=bits % 2 == 0, code_bits=max(bits, 2))
            files.append((f"GIF {bits}", gif((width, height), frame, table=colours)))
        for header, bits in itertools.product((12, 40, 52, 56, 108, 124), (1, 4, 8)):
            rows = [pack_bits(row, bits) for row in index % 2**bits]
            data = bmp((width, height), bits, bmp_rows(rows), table[: 2**bits], header=header)
            files.append((f"BMP {header} {bits} {width} x {height}", data))
    compare(files, 0)


def bomb(kind: str) -> bytes:
    """A small file of 24 million pixels."""
    width, height = 6000, 4000
    if kind == "png 16 bits":
        return png(np.zeros((height, width, 4), np.uint16), 6, 16, interlaced=True)
    if kind == "bmp runs":
        return bmp((width, height), 8, b"\0\1", np.zeros((256, 3)), compression=1)
    if kind == "jpeg progressive":
        return saved(Image.new("CMYK", (width, height)), "JPEG", progressive=True)
    if kind == "gif":
        return saved(Image.new("P", (width, height)), "GIF")
    return saved(Image.new("RGBA", (width, height)), "WEBP", lossless=kind == "webp lossless", method=0)


@pytest.mark.parametrize("kind", ["png 16 bits", "bmp runs", "jpeg progressive", "gif", "webp", "webp lossless"])
def test_small_files_of_large_pictures_take_bytes_by_the_pixel(kind):
    """docs/pictures.md: at most 12 bytes a pixel beside the file, and the process."""
    data = bomb(kind)
    results, peak_kib = decode([data], "--memory")
    assert not isinstance(results[0], str), results[0]
    assert peak_kib * 1024 < 24_000_000 * 12 + 2 * len(data) + (24 << 20), f"{kind}: {peak_kib} KiB"
