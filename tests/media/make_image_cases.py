"""Make tests/golden/media: small pictures of every kind, and what Pillow and transformers make of them.

    python tests/media/make_image_cases.py        # needs pillow, numpy, transformers, torch

files/NAME holds the pictures; cases.json lists them. Decoded pixels are kept raw in pixels.bin (a case gives its
offset); results of resizing and of the CLIP processor, which are equal bit for bit, are kept as SHA-256. Sources
of resizing are computed by `pattern`, which tests/media/patterns.h repeats. Every expectation is Pillow's
or, where Pillow clips or refuses (16 bits), the formula written here.
"""

import hashlib
import io
import json
import struct
import sys
from pathlib import Path

import container_cases
import numpy as np
from golden_pictures import FILES, OUT, add_decode, as_pillow, cases, grey, over_white, photo, pixels, to_8_bits
from PIL import Image
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support.picture_files import TURN_BACK, chunk, exif, png, with_exif  # noqa: E402


def pattern(name: str, width: int, height: int) -> np.ndarray:
    """Pixels (height, width, 3) by a formula that C++ repeats: hashed noise, or a checkerboard."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    if name == "noise":
        h = (((y * width + x) * 3 + c) * 2654435761 & 0xFFFFFFFF).astype(np.uint64)
        h ^= h >> np.uint64(15)
        h = h * np.uint64(2246822519) & np.uint64(0xFFFFFFFF)
        h ^= h >> np.uint64(13)
        return (h & np.uint64(255)).astype(np.uint8)
    checker = ((x // 7 + y // 5) % 2) * 255
    gradient = (x * 255 // max(width - 1, 1) + y * 255 // max(height - 1, 1)) // 2
    return np.where(c == 0, checker, np.where(c == 1, gradient, 255 - checker)).astype(np.uint8)


def jpeg(image: Image.Image, **options) -> bytes:
    """Encode as JPEG."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **{"quality": 95, "subsampling": 0, **options})
    return buffer.getvalue()


def orientation_cases() -> None:
    """Store the same picture under each orientation, and with EXIF blocks that count as none."""
    upright = photo(64, 32)
    for value, turn in TURN_BACK.items():
        stored = Image.fromarray(np.ascontiguousarray(turn(upright)))
        data = with_exif(jpeg(stored), exif(value, value % 2 == 0))
        assert np.abs(as_pillow(data).astype(int) - upright).max() <= 6, value
        add_decode(f"orientation_{value}.jpg", data, upright, 6)
    plain = jpeg(Image.fromarray(upright))
    seen = as_pillow(plain)
    odd = {
        "zero": exif(0),
        "nine": exif(9),
        "huge": exif(0xFFFF),
        "cut_off": exif(6)[:15],
        "empty": b"",
        "far_directory": b"II*\0\xf0\xff\xff\xff",
        "endless": b"II*\0\x08\0\0\0\xff\xff" + b"\1\0" + exif(6)[12:20],
    }
    for name, tiff in odd.items():
        add_decode(f"exif_{name}.jpg", with_exif(plain, tiff), seen, 2)
    add_decode("exif_long.jpg", with_exif(plain, exif(3, True, 4)), seen[::-1, ::-1], 2)


def jpeg_cases() -> None:
    """Store every colour kind and coding that browsers and cameras write."""
    rgb = photo(37, 23)
    image = Image.fromarray(rgb)
    inks = [*rgb.transpose(2, 0, 1), rgb[..., 2] // 3]
    cmyk = Image.merge("CMYK", [Image.fromarray(np.ascontiguousarray(ink)) for ink in inks])
    files = {
        "subsampling_444.jpg": jpeg(image),
        "subsampling_422.jpg": jpeg(image, subsampling=1),
        "subsampling_420.jpg": jpeg(image, subsampling=2),
        "progressive.jpg": jpeg(image, progressive=True, subsampling=2),
        "restart_markers.jpg": jpeg(image, restart_marker_blocks=1),
        "quality_20.jpg": jpeg(image, quality=20),
        "adobe_rgb.jpg": jpeg(image, keep_rgb=True),
        "grey.jpg": jpeg(image.convert("L")),
        "cmyk_adobe.jpg": jpeg(cmyk),
        "one_pixel.jpg": jpeg(Image.new("RGB", (1, 1), (10, 200, 30))),
    }
    adobe = files["cmyk_adobe.jpg"]
    at = adobe.index(b"\xff\xee")
    assert adobe[at + 15] == 0, "the transform byte of Adobe's marker"
    files["cmyk_plain.jpg"] = adobe[:at] + adobe[at + 16 :]
    files["ycck.jpg"] = adobe[: at + 15] + b"\x02" + adobe[at + 16 :]
    baseline = files["subsampling_444.jpg"]
    files["extraneous_bytes.jpg"] = baseline[:-2] + b"\x00\x11\x22" + baseline[-2:]
    files["trailing_bytes.jpg"] = baseline + b"after the end"
    for name, data in files.items():
        # Pillow carries its own libjpeg-turbo; chroma upsampling may differ by a level or two.
        add_decode(name, data, as_pillow(data), 2)


def png_grey_and_colour(noise) -> None:
    """Store grey and colour of each depth: plain, interlaced, with a transparent key, with alpha."""
    for depth in (1, 2, 4, 8, 16):
        values = noise(depth, 1)
        for interlaced in (False, True):
            data = png(values, 0, depth, interlaced=interlaced)
            name = f"grey_{depth}{'_interlaced' * interlaced}.png"
            add_decode(name, data, grey(to_8_bits(values, depth)), 0)
        key = int(values[3, 4, 0])
        data = png(values, 0, depth, (chunk(b"tRNS", struct.pack(">H", key)),))
        alpha = np.where(values == key, 0, 2**depth - 1)
        add_decode(f"grey_{depth}_key.png", data, grey(over_white(values, alpha, depth)), 0)
    for depth in (8, 16):
        for interlaced in (False, True):
            end = "_interlaced" * interlaced + ".png"
            rgb, grey_alpha, rgba = noise(depth, 3), noise(depth, 2), noise(depth, 4)
            add_decode(f"rgb_{depth}{end}", png(rgb, 2, depth, (), interlaced), to_8_bits(rgb, depth), 0)
            flat = grey(over_white(grey_alpha[..., :1], grey_alpha[..., 1:], depth))
            add_decode(f"grey_alpha_{depth}{end}", png(grey_alpha, 4, depth, (), interlaced), flat, 0)
            flat = over_white(rgba[..., :3], rgba[..., 3:], depth)
            add_decode(f"rgba_{depth}{end}", png(rgba, 6, depth, (), interlaced), flat, 0)
        rgb = noise(depth, 3)
        key = rgb[5, 6]
        data = png(rgb, 2, depth, (chunk(b"tRNS", struct.pack(">HHH", *key.tolist())),))
        alpha = np.where((rgb == key).all(-1, keepdims=True), 0, 2**depth - 1)
        add_decode(f"rgb_{depth}_key.png", data, over_white(rgb, alpha, depth), 0)


def png_cases() -> None:
    """Store all colour types and depths, transparency of each kind, interlacing, side chunks."""
    rng = np.random.default_rng(7)

    def noise(depth: int, channels: int) -> np.ndarray:
        return rng.integers(0, 2**depth, (13, 21, channels))

    png_grey_and_colour(noise)
    for depth in (1, 2, 4, 8):
        table = rng.integers(0, 256, (2**depth, 3))
        index = noise(depth, 1)
        plte = chunk(b"PLTE", table.astype(np.uint8).tobytes())
        add_decode(f"palette_{depth}.png", png(index, 3, depth, (plte,)), table[index[..., 0]], 0)
        alphas = rng.integers(0, 256, 2**depth - 1)  # the last entry is left out, which means opaque
        trns = chunk(b"tRNS", alphas.astype(np.uint8).tobytes())
        flat = over_white(table[index[..., 0]], np.append(alphas, 255)[index], 8)
        add_decode(f"palette_{depth}_alpha.png", png(index, 3, depth, (plte, trns)), flat, 0)

    ramp = np.repeat((np.arange(256) * 257)[None, :, None], 56, 0)
    add_decode("grey_16_ramp.png", png(ramp, 0, 16), grey(ramp // 257), 0)
    rgb = photo(16, 9)
    add_decode("exif_6.png", png(TURN_BACK[6](rgb), 2, 8, (chunk(b"eXIf", exif(6)),)), rgb, 0)
    side = [chunk(b"gAMA", struct.pack(">I", 45455)), chunk(b"tEXt", b"Comment\0" + b"x" * 5000)]
    add_decode("side_chunks.png", png(rgb, 2, 8, tuple(side)), rgb, 0)
    add_decode("one_pixel.png", png(rgb[:1, :1], 2, 8), rgb[:1, :1], 0)
    line = np.dstack([rgb[:1], np.full((1, 16), 255)])  # interlaced, its last pass has no rows
    add_decode("one_row_interlaced.png", png(line, 6, 8, interlaced=True), rgb[:1], 0)
    add_decode("animation_1_frame.png", png(rgb, 2, 8, (chunk(b"acTL", struct.pack(">II", 1, 0)),)), rgb, 0)
    # What Pillow reads well must agree with the formulas above. It clips 16 bits, and takes the key of 2-bit and
    # 4-bit grey for an 8-bit value.
    unlike = ("16", "grey_2_key", "grey_4_key", "animation")
    for case in cases["decode"]:
        name, size = case["file"], case["width"] * case["height"] * 3
        if name.endswith(".png") and not any(part in name for part in unlike):
            kept = np.frombuffer(bytes(pixels[case["offset"] : case["offset"] + size]), np.uint8)
            assert np.array_equal(as_pillow((FILES / name).read_bytes()).reshape(-1), kept), name
    broken = (chunk(b"iCCP", b"broken"), chunk(b"zTXt", b"k\0\0not deflate"), chunk(b"gAMA", b"short"))
    add_decode("broken_side_chunks.png", png(rgb, 2, 8, broken), rgb, 0)
    two_frames = (chunk(b"acTL", struct.pack(">II", 2, 0)),)
    add_decode("animation_2_frames.png", png(rgb, 2, 8, two_frames), rgb, 0)


def refused_files() -> None:
    """Store formats that are refused by name."""
    image = Image.fromarray(photo(16, 12))
    for kind in ("TIFF", "AVIF", "JPEG2000"):
        buffer = io.BytesIO()
        image.save(buffer, kind)
        (FILES / f"foreign.{kind.lower()}").write_bytes(buffer.getvalue())


def digest(array: np.ndarray) -> str:
    """SHA-256 of the array's bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


RESIZES = [
    ((1, 1), (1, 1)),
    ((1, 1), (5, 3)),
    ((2, 3), (7, 11)),
    ((3, 2), (336, 224)),
    ((5, 5), (5, 5)),
    ((7, 9), (3, 2)),
    ((8, 8), (16, 16)),
    ((17, 13), (13, 17)),
    ((23, 40), (23, 11)),
    ((40, 23), (11, 23)),
    ((64, 48), (63, 47)),
    ((97, 243), (112, 280)),
    ((100, 1), (336, 33)),
    ((255, 257), (128, 64)),
    ((400, 61), (734, 112)),
    ((640, 480), (448, 336)),
    ((801, 603), (111, 83)),
    ((1023, 767), (149, 112)),
    ((1500, 1001), (503, 336)),
    ((2000, 3), (41, 30)),
    ((3, 2000), (30, 41)),
    ((200, 401), (100, 200)),
    ((200, 400), (100, 200)),
    ((300, 900), (112, 336)),
    ((107, 207), (45, 9)),
    ((120, 70), (150, 69)),
]


def resize_cases() -> None:
    """Resize up and down, odd and even, one pixel, extreme aspect, unchanged sides."""
    for kind in ("noise", "checker"):
        for old, new in RESIZES:
            result = np.array(Image.fromarray(pattern(kind, *old)).resize(new, Image.Resampling.BICUBIC))
            cases["resize"].append({"pattern": kind, "from": old, "to": new, "sha256": digest(result)})


def patches_of(values: np.ndarray, patch: int) -> np.ndarray:
    """(3, H, W) -> (patches, 3 * patch * patch), remainders cut."""
    gh, gw = values.shape[1] // patch, values.shape[2] // patch
    values = values[:, : gh * patch, : gw * patch].reshape(3, gh, patch, gw, patch)
    return values.transpose(1, 3, 0, 2, 4).reshape(gh * gw, -1)


def add_clip(source: dict, image: Image.Image, patch: int, **options) -> None:
    """Keep one run of the CLIP processor."""
    processor = CLIPImageProcessorPil(**options)
    values = processor(image, return_tensors="np")["pixel_values"][0].astype(np.float32)
    patches = patches_of(values, patch)
    at = np.linspace(0, patches.size - 1, 9).astype(int)
    cases["clip"].append(
        {
            **source,
            **options,
            "patch_size": patch,
            "grid": [values.shape[1] // patch, values.shape[2] // patch],
            "sha256": digest(patches),
            "samples": [float(v) for v in patches.reshape(-1)[at]],
        }
    )


CLIP_SIZES = [
    (1, 1),
    (2, 1),
    (19, 500),
    (37, 31),
    (112, 112),
    (231, 118),
    (97, 243),
    (150, 700),
    (640, 480),
    (1023, 767),
]


def clip_cases() -> None:
    """Run the processor over sizes, files and settings."""
    small = {"size": {"shortest_edge": 112}, "crop_size": {"height": 112, "width": 112}}
    full = {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}}
    for size in CLIP_SIZES:
        image = Image.fromarray(pattern("noise", *size))
        for options in (small, full):
            add_clip({"pattern": "noise", "from": size}, image, 14, **options)
    odd = {"size": {"shortest_edge": 61}, "crop_size": {"height": 84, "width": 70}}
    image = Image.fromarray(pattern("checker", 90, 75))
    for options in (
        odd,
        {**odd, "do_resize": False},
        {**small, "do_center_crop": False},
        {**small, "do_normalize": False},
        {**small, "do_rescale": False},
        {**small, "do_rescale": False, "do_normalize": False},
        {**small, "rescale_factor": 1 / 127.5},
        {**small, "image_mean": [0.5, 0.25, 0.125], "image_std": [0.5, 1.5, 0.3]},
    ):
        add_clip({"pattern": "checker", "from": (90, 75)}, image, 14, **options)
    add_clip({"pattern": "checker", "from": (90, 75)}, image, 16, **small)
    for name in ("alpha_170x130.png", "strip_gray_400x61.png", "tiny_37x31.png", "wide_231x118.png"):
        add_clip({"file": name}, Image.open(FILES / name), 14, **small)


def main() -> None:
    """Write everything."""
    FILES.mkdir(parents=True, exist_ok=True)
    orientation_cases()
    jpeg_cases()
    png_cases()
    container_cases.run()
    refused_files()
    resize_cases()
    clip_cases()
    (OUT / "pixels.bin").write_bytes(bytes(pixels))
    (OUT / "cases.json").write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
