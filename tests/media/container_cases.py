"""The golden cases of WebP, GIF and BMP; make_image_cases.py runs them.

Each expectation is the pixels that went in, or Pillow's for lossy files; Pillow must agree where it reads a kind well.
"""

import io
import sys
from pathlib import Path

import numpy as np
from golden_pictures import FILES, add_decode, as_pillow, cases, grey, over_white, photo, pixels
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from support.picture_files import (  # noqa: E402
    TURN_BACK,
    bmp,
    bmp_rows,
    chunk,
    exif,
    gif,
    gif_comment,
    gif_frame,
    gif_transparent,
    pack_bits,
    picture_chunks,
    png,
    riff_chunk,
    vp8x,
    webp,
    webp_frame,
)


def still_webp(image: Image.Image, **options) -> bytes:
    """Encode as WebP, lossless unless told otherwise."""
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", **{"lossless": True, "exact": True, **options})
    return buffer.getvalue()


ANIM = riff_chunk(b"ANIM", b"\0\0\xff\xff\0\0")  # a background colour, which is left to the viewer


def webp_cases() -> None:
    """Store lossy, lossless, alpha, EXIF with and without its prefix, and animations."""
    rng = np.random.default_rng(11)
    noise = rng.integers(0, 256, (13, 21, 4), dtype=np.uint8)
    image, rgba = Image.fromarray(photo(37, 23)), Image.fromarray(noise)
    lossless = still_webp(Image.fromarray(noise[..., :3]))
    add_decode("lossless.webp", lossless, noise[..., :3], 0)
    add_decode("lossless_alpha.webp", still_webp(rgba), over_white(noise[..., :3], noise[..., 3:], 8), 0)
    lossy = still_webp(image, lossless=False, quality=90)
    add_decode("lossy.webp", lossy, as_pillow(lossy), 1)
    soft = image.copy()
    soft.putalpha(Image.fromarray(photo(37, 23)[..., 0]))
    soft_webp = still_webp(soft, lossless=False, quality=90)
    add_decode("lossy_alpha.webp", soft_webp, as_pillow(soft_webp), 1)
    add_decode("one_pixel.webp", still_webp(Image.new("RGB", (1, 1), (10, 200, 30))), [[[10, 200, 30]]], 0)
    stored = still_webp(Image.fromarray(np.ascontiguousarray(TURN_BACK[6](noise[..., :3]))))
    head = vp8x(13, 21, 0x08)
    for name, tiff in {"exif_6": exif(6), "exif_6_prefix": b"Exif\0\0" + exif(6, True)}.items():
        data = webp(head, picture_chunks(stored), riff_chunk(b"EXIF", tiff))
        add_decode(f"{name}.webp", data, noise[..., :3], 0)
    broken = webp(vp8x(21, 13, 0x08), picture_chunks(lossless), riff_chunk(b"EXIF", exif(6)[:15]))
    add_decode("exif_cut_off.webp", broken, noise[..., :3], 0)
    other = still_webp(Image.new("RGB", (21, 13), "blue"))
    frames = webp_frame(lossless, (21, 13)) + webp_frame(other, (21, 13))
    add_decode("animation.webp", webp(vp8x(21, 13, 0x02), ANIM, frames), noise[..., :3], 0)
    canvas = np.full((20, 30, 3), 255, np.uint8)
    canvas[4:17, 6:27] = noise[..., :3]
    frames = webp_frame(lossless, (21, 13), (6, 4)) + webp_frame(other, (21, 13))
    add_decode("animation_offset.webp", webp(vp8x(30, 20, 0x12), ANIM, frames), canvas, 0)


def gif_cases() -> None:
    """Store both versions, each table, transparency, interlacing, animations, odd screens."""
    rng = np.random.default_rng(13)
    table = rng.integers(0, 256, (256, 3))
    index = rng.integers(0, 256, (13, 21))
    frame = gif_frame(index)
    add_decode("plain_87a.gif", gif((21, 13), frame, table=table, version=b"87a"), table[index], 0)
    interlaced = gif_frame(index, interlaced=True)
    add_decode("interlaced.gif", gif((21, 13), interlaced, table=table), table[index], 0)
    local = gif_frame(index % 16, table=table[16:32], code_bits=4)
    add_decode("local_table.gif", gif((21, 13), local, table=table), table[16:32][index % 16], 0)
    two = gif_frame(index % 2, code_bits=2)
    add_decode("two_colours.gif", gif((21, 13), two, table=table[:2]), table[index % 2], 0)
    add_decode("no_table.gif", gif((21, 13), frame), grey(index[..., None]), 0)
    small = gif_frame(index % 16, code_bits=4)  # indices from 4 on are outside the table
    seen = np.where((index % 16 < 4)[..., None], table[index % 4], 0)
    add_decode("index_outside.gif", gif((21, 13), small, table=table[:4]), seen, 0)
    key = int(index[4, 5])
    clear = np.where((index == key)[..., None], 255, table[index])
    control = gif_transparent(key)
    add_decode("transparent.gif", gif((21, 13), control, frame, table=table), clear, 0)
    notes = gif_comment(b"x" * 1000) + b"!\xff" + b"\x0bNETSCAPE2.0\x03\x01\0\0\0"
    frames = notes + control + frame + gif_transparent(0) + gif_frame(index // 2)
    add_decode("animation.gif", gif((21, 13), frames, table=table), clear, 0)
    screen = np.full((20, 30, 3), 255)
    screen[4:17, 7:28] = table[index]
    placed = gif_frame(index, (7, 4))
    add_decode("offset.gif", gif((30, 20), placed, table=table), screen, 0)
    add_decode("beyond_screen.gif", gif((9, 20), placed, table=table), screen[:, :28], 0)
    buffer = io.BytesIO()
    Image.fromarray(photo(40, 33)).quantize(64).save(buffer, "GIF")
    add_decode("pillow.gif", buffer.getvalue(), as_pillow(buffer.getvalue()), 0)


def rle(index: np.ndarray, four: bool) -> bytes:
    """Write rows from the bottom as runs of one value and, where neighbours differ, as they are."""
    out = b""
    for row in index[::-1]:
        for at in range(0, len(row), 7):
            part = row[at : at + 7]
            if (part == part[0]).all():
                out += bytes([len(part), int(part[0]) * (17 if four else 1)])
            elif len(part) > 2:
                packed = pack_bits(part, 4) if four else part.astype(np.uint8).tobytes()
                out += bytes([0, len(part)]) + packed + b"\0" * (len(packed) % 2)
            else:
                out += b"".join(bytes([1, int(v) * (17 if four else 1)]) for v in part)
        out += b"\0\0"
    return out + b"\0\1"


def masked(rgb: np.ndarray, masks: tuple, kind: str) -> tuple[bytes, np.ndarray]:
    """Put 8-bit channels into the bits of masks; give rows and what comes back out of them."""
    word = np.zeros(rgb.shape[:2], np.uint64)
    back = np.zeros(rgb.shape, np.int64)
    for c, mask in enumerate(masks[: rgb.shape[2]]):
        shift = (mask & -mask).bit_length() - 1
        top = mask >> shift
        value = rgb[..., c].astype(np.uint64) * np.uint64(top) // np.uint64(255)
        word |= value << np.uint64(shift)
        back[..., c] = (value.astype(np.int64) * 255 + top // 2) // top
    return [row.astype(kind).tobytes() for row in word], back


def bmp_index_cases(rng) -> None:
    """Store palettes of each depth behind each header, rows in either order, runs."""
    table = rng.integers(0, 256, (256, 3))
    index = rng.integers(0, 256, (13, 21))
    for bits in (1, 2, 4, 8):
        part = index % 2**bits
        rows = [pack_bits(row, bits) for row in part]
        data = bmp((21, 13), bits, bmp_rows(rows), table[: 2**bits])
        add_decode(f"palette_{bits}.bmp", data, table[part], 0)
    rows = [row.astype(np.uint8).tobytes() for row in index]
    for header in (12, 52, 56, 64, 108, 124):
        add_decode(f"header_{header}.bmp", bmp((21, 13), 8, bmp_rows(rows), table, header=header), table[index], 0)
    add_decode("top_down.bmp", bmp((21, -13), 8, bmp_rows(rows, True), table), table[index], 0)
    few = [row.astype(np.uint8).tobytes() for row in index % 9]
    data = bmp((21, 13), 8, bmp_rows(few), table[:9])
    add_decode("short_palette.bmp", data, table[index % 9], 0)
    data = bmp((21, 13), 8, bmp_rows(few), table[:9], n_colours=0)  # the gap before the pixels tells the size
    add_decode("palette_in_gap.bmp", data, table[index % 9], 0)
    add_decode("offset_0.bmp", bmp((21, 13), 8, bmp_rows(rows), table, offset=0), table[index], 0)
    outside = np.where((index % 16 < 9)[..., None], table[index % 16], 0)
    wide = [row.astype(np.uint8).tobytes() for row in index % 16]
    add_decode("index_outside.bmp", bmp((21, 13), 8, bmp_rows(wide), table[:9]), outside, 0)
    runs = np.repeat(rng.integers(0, 16, (13, 7)), 3, 1) * (rng.random((13, 21)) < 0.8)
    add_decode("rle_8.bmp", bmp((21, 13), 8, rle(runs, False), table, compression=1), table[runs], 0)
    add_decode("rle_4.bmp", bmp((21, 13), 4, rle(runs, True), table[:16], compression=2), table[runs], 0)
    # Four pixels, a jump of 3 to the right and 2 up, two more, the end: the rest is colour 0.
    jumps = np.zeros((6, 21), int)
    jumps[5, :4], jumps[3, 7:9] = 5, 6
    data = bmp((21, 6), 8, bytes([4, 5, 0, 2, 3, 2, 2, 6, 0, 1]), table, compression=1)
    add_decode("rle_8_jumps.bmp", data, table[jumps], 0)


def bmp_colour_cases(rng) -> None:
    """Store 16, 24 and 32 bits, Windows' own layout and masks, alpha used and unset."""
    rgba = rng.integers(0, 256, (13, 21, 4))
    rgb = rgba[..., :3]
    rows = [row[:, ::-1].astype(np.uint8).tobytes() for row in rgb]
    add_decode("bgr_24.bmp", bmp((21, 13), 24, bmp_rows(rows)), rgb, 0)
    add_decode("one_pixel.bmp", bmp((1, 1), 24, b"\x1e\xc8\x0a\0"), [[[10, 200, 30]]], 0)
    plain = {"bgrx_32": (32, (0xFF0000, 0xFF00, 0xFF)), "rgb_555": (16, (0x7C00, 0x3E0, 0x1F))}
    for name, (bits, masks) in plain.items():
        rows, back = masked(rgb, masks, f"<u{bits // 8}")
        add_decode(f"{name}.bmp", bmp((21, 13), bits, bmp_rows(rows)), back, 0)
    layouts = {
        "mask_565": (16, (0xF800, 0x7E0, 0x1F)),
        "mask_4440": (16, (0x0F00, 0xF0, 0xF)),
        "mask_rgbx": (32, (0xFF, 0xFF00, 0xFF0000)),
        "mask_10_bits": (32, (0x3FF00000, 0xFFC00, 0x3FF)),
    }
    for name, (bits, masks) in layouts.items():
        rows, back = masked(rgb, masks, f"<u{bits // 8}")
        data = bmp((21, 13), bits, bmp_rows(rows), header=40, compression=3, masks=masks)
        add_decode(f"{name}.bmp", data, back, 0)
    masks = (0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    rows, back = masked(rgba, masks, "<u4")
    flat = over_white(back[..., :3], back[..., 3:], 8)
    options = {"header": 108, "compression": 3, "masks": masks}
    add_decode("alpha.bmp", bmp((21, 13), 32, bmp_rows(rows), **options), flat, 0)
    rows, back = masked(rgb, masks, "<u4")
    add_decode("alpha_unset.bmp", bmp((21, 13), 32, bmp_rows(rows), **options), rgb, 0)


def check_against_pillow() -> None:
    """What Pillow reads well of WebP, GIF and BMP must agree with the pixels computed here."""
    unlike = (  # 15-bit and odd masks are cut or refused there, a screen's rest is index 0, a frame is cut, ...
        *("palette_2.bmp", "header_64.bmp", "rle_8_jumps", "rgb_555", "mask_565", "mask_4440", "mask_rgbx"),
        *("mask_10_bits", "alpha_unset", "palette_in_gap", "offset_0", "offset.gif", "beyond_screen"),
    )
    for case in cases["decode"]:
        name, size = case["file"], case["width"] * case["height"] * 3
        if name.endswith((".webp", ".gif", ".bmp")) and not any(part in name for part in unlike):
            kept = np.frombuffer(bytes(pixels[case["offset"] : case["offset"] + size]), np.uint8)
            seen = as_pillow((FILES / name).read_bytes()).reshape(-1)
            assert np.abs(seen.astype(int) - kept).max() <= case["tolerance"], name


def bmp_cases() -> None:
    """Store every depth, header, coding and layout of bits."""
    rng = np.random.default_rng(17)
    bmp_index_cases(rng)
    bmp_colour_cases(rng)


def same_pixels() -> None:
    """Store one picture in every container that keeps pixels: all must reach the models alike."""
    rng = np.random.default_rng(19)
    table = rng.integers(0, 256, (256, 3))
    index = rng.integers(0, 256, (45, 61))
    rgb = table[index]
    opaque = np.dstack([rgb, np.full(index.shape, 255)])
    plte = chunk(b"PLTE", table.astype(np.uint8).tobytes())
    rows = [row.astype(np.uint8).tobytes() for row in index]
    bgr = [row[:, ::-1].astype(np.uint8).tobytes() for row in rgb]
    still = still_webp(Image.fromarray(rgb.astype(np.uint8)))
    files = {
        "same.png": png(rgb, 2, 8),
        "same_interlaced.png": png(rgb, 2, 8, interlaced=True),
        "same_16.png": png(rgb * 257, 2, 16),
        "same_alpha.png": png(opaque, 6, 8),
        "same_palette.png": png(index[..., None], 3, 8, (plte,)),
        "same.webp": still,
        "same_animation.webp": webp(vp8x(61, 45, 0x02), ANIM, webp_frame(still, (61, 45))),
        "same.gif": gif((61, 45), gif_frame(index, interlaced=True), table=table),
        "same.bmp": bmp((61, 45), 24, bmp_rows(bgr)),
        "same_palette.bmp": bmp((61, -45), 8, bmp_rows(rows, True), table),
    }
    for name, data in files.items():
        add_decode(name, data, rgb, 0)


def run() -> None:
    """Store all of them."""
    webp_cases()
    gif_cases()
    bmp_cases()
    same_pixels()
    check_against_pillow()
