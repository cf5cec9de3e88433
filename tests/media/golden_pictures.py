"""What makes golden pictures: the list of cases, and the rules that their pixels follow."""

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

OUT = Path(__file__).resolve().parent.parent / "golden" / "media"
FILES = OUT / "files"
cases: dict[str, list] = {"decode": [], "resize": [], "clip": []}
pixels = bytearray()


def photo(width: int, height: int) -> np.ndarray:
    """A smooth picture with four different corners, which JPEG keeps well."""
    y, x = np.mgrid[0:height, 0:width].astype(float)
    u, v = x / max(width - 1, 1), y / max(height - 1, 1)
    rgb = np.stack([255 * (1 - u), 255 * v, 40 + 175 * u * v], axis=-1)
    return np.round(rgb).astype(np.uint8)


def add_decode(name: str, data: bytes, rgb: np.ndarray, tolerance: int) -> None:
    """Keep one file and the pixels that must come out of it, each within `tolerance`."""
    (FILES / name).write_bytes(data)
    rgb = np.asarray(rgb)
    height, width, _ = rgb.shape
    cases["decode"].append(
        {"file": name, "width": width, "height": height, "offset": len(pixels), "tolerance": tolerance}
    )
    pixels.extend(np.ascontiguousarray(rgb, dtype=np.uint8).tobytes())


def as_pillow(data: bytes) -> np.ndarray:
    """Upright RGB over white, as Pillow reads it."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    return np.array(image.convert("RGB"))


def to_8_bits(samples: np.ndarray, depth: int) -> np.ndarray:
    """Scale: round(v * 255 / (2 ** depth - 1))."""
    top = 2**depth - 1
    return (samples.astype(np.int64) * 255 * 2 + top) // (2 * top)


def over_white(rgb: np.ndarray, alpha: np.ndarray, depth: int) -> np.ndarray:
    """Lay samples over white, in 8 bits."""
    top = 2**depth - 1
    rgb, alpha = rgb.astype(np.int64), alpha.astype(np.int64)
    blended = ((rgb * alpha + top * (top - alpha)) * 2 + top) // (2 * top)
    return to_8_bits(blended, depth)


def grey(values: np.ndarray) -> np.ndarray:
    """Three equal channels."""
    return np.repeat(values, 3, axis=2)
