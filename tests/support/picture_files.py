"""Writers of picture files of kinds that Pillow reads but does not write. Used where test files are made.

Samples are arrays (height, width, channels) or indices (height, width); results are whole files.
"""

import struct
import zlib

import numpy as np


def exif(value: int, big_endian: bool = False, kind: int = 3) -> bytes:
    """Build a TIFF block whose one entry is the orientation."""
    e = ">" if big_endian else "<"
    field = struct.pack(e + "HH", value, 0) if kind == 3 else struct.pack(e + "I", value)
    entry = struct.pack(e + "HHI", 0x0112, kind, 1) + field
    return (b"MM" if big_endian else b"II") + struct.pack(e + "HIH", 42, 8, 1) + entry + b"\0\0\0\0"


def with_exif(data: bytes, tiff: bytes) -> bytes:
    """Put an Exif segment right after the start of a JPEG."""
    body = b"Exif\0\0" + tiff
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + data[2:]


TURN_BACK = {  # what makes an upright picture into the one that is stored under each orientation
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, 1),
    7: lambda a: np.rot90(a, 2).transpose(1, 0, 2),
    8: lambda a: np.rot90(a, -1),
}


def chunk(kind: bytes, data: bytes) -> bytes:
    """Frame a PNG chunk."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pack_bits(row: np.ndarray, depth: int) -> bytes:
    """Pack samples of up to 8 bits, the first one highest."""
    bits = ((row.reshape(-1)[:, None].astype(int) >> np.arange(depth - 1, -1, -1)) & 1).astype(np.uint8)
    return np.packbits(bits.reshape(-1)).tobytes()


def pack_rows(samples: np.ndarray, depth: int) -> bytes:
    """Write samples (height, width, channels) as unfiltered scanlines of `depth` bits."""
    rows = samples.reshape(samples.shape[0], -1)
    return b"".join(b"\0" + (row.astype(">u2").tobytes() if depth == 16 else pack_bits(row, depth)) for row in rows)


WHOLE = [(0, 0, 1, 1)]
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png(samples: np.ndarray, colour: int, depth: int, extra: tuple = (), interlaced: bool = False) -> bytes:
    """Encode a PNG of any colour type and depth; `extra` chunks go before the two of the pixels."""
    height, width, _ = samples.shape
    parts = [samples[y::dy, x::dx] for x, y, dx, dy in (ADAM7 if interlaced else WHOLE)]
    packed = zlib.compress(b"".join(pack_rows(part, depth) for part in parts if part.size), 9)
    half = len(packed) // 2
    body = [chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced)))]
    body += [*extra, chunk(b"IDAT", packed[:half]), chunk(b"IDAT", packed[half:]), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


def riff_chunk(kind: bytes, data: bytes) -> bytes:
    """Frame a chunk of a WebP file."""
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def webp(*chunks: bytes) -> bytes:
    """Put framed chunks into a file."""
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def u24(value: int) -> bytes:
    """Three bytes, lowest first."""
    return struct.pack("<I", value)[:3]


def vp8x(width: int, height: int, flags: int) -> bytes:
    """Build the header of an extended WebP; flags 0x02 animation, 0x08 EXIF, 0x10 alpha."""
    return riff_chunk(b"VP8X", bytes([flags, 0, 0, 0]) + u24(width - 1) + u24(height - 1))


def picture_chunks(data: bytes) -> bytes:
    """Take the ALPH, VP8 and VP8L chunks out of a still WebP."""
    out, at = b"", 12
    while at < len(data):
        kind, length = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        if kind in (b"ALPH", b"VP8 ", b"VP8L"):
            out += riff_chunk(kind, data[at + 8 : at + 8 + length])
        at += 8 + length + length % 2
    return out


def webp_frame(still: bytes, size: tuple[int, int], at: tuple[int, int] = (0, 0)) -> bytes:
    """Make a still WebP into a frame of an animation, placed at even coordinates."""
    place = u24(at[0] // 2) + u24(at[1] // 2) + u24(size[0] - 1) + u24(size[1] - 1)
    return riff_chunk(b"ANMF", place + u24(100) + b"\0" + picture_chunks(still))


def lzw(indices: bytes, code_bits: int) -> bytes:
    """Write indices as GIF's LZW without ever using the table: a clear code before it would grow wider."""
    clear, bits, n_bits = 1 << code_bits, 0, 0
    codes = []
    for i, index in enumerate(indices):
        if i % ((1 << code_bits) - 2) == 0:
            codes.append(clear)
        codes.append(index)
    codes.append(clear + 1)
    for code in codes:
        bits |= code << n_bits
        n_bits += code_bits + 1
    return bits.to_bytes((n_bits + 7) // 8, "little")


def sub_blocks(data: bytes) -> bytes:
    """Cut into GIF's blocks of at most 255 bytes."""
    return b"".join(bytes([len(data[i : i + 255])]) + data[i : i + 255] for i in range(0, len(data), 255)) + b"\0"


def gif_frame(index: np.ndarray, at=(0, 0), table: np.ndarray | None = None, interlaced=False, code_bits=8) -> bytes:
    """Encode one frame with a table of its own or without."""
    height, width = index.shape
    order = [y for first, step in ((0, 8), (4, 8), (2, 4), (1, 2)) for y in range(first, height, step)]
    stored = index[order] if interlaced else index
    flags = (0x40 if interlaced else 0) | (0x80 | (len(table).bit_length() - 2) if table is not None else 0)
    head = b"," + struct.pack("<HHHHB", *at, width, height, flags)
    local = b"" if table is None else table.astype(np.uint8).tobytes()
    return head + local + bytes([code_bits]) + sub_blocks(lzw(stored.astype(np.uint8).tobytes(), code_bits))


def gif(size: tuple[int, int], *blocks: bytes, table: np.ndarray | None = None, version: bytes = b"89a") -> bytes:
    """Put frames and extensions on a screen; tables have 2, 4, ... 256 entries."""
    flags = 0x80 | (len(table).bit_length() - 2) if table is not None else 0
    shared = b"" if table is None else table.astype(np.uint8).tobytes()
    return b"GIF" + version + struct.pack("<HHBBB", *size, flags, 0, 0) + shared + b"".join(blocks) + b";"


def gif_transparent(index: int) -> bytes:
    """Build the extension that makes one index of the next frame transparent."""
    return b"!\xf9\x04\x01\0\0" + bytes([index]) + b"\0"


def gif_comment(text: bytes) -> bytes:
    """Build a comment."""
    return b"!\xfe" + sub_blocks(text)


def bmp_rows(rows: list[bytes], top_down: bool = False) -> bytes:
    """Pad rows to 32 bits, the last one first."""
    padded = [row + b"\0" * (-len(row) % 4) for row in rows]
    return b"".join(padded if top_down else padded[::-1])


def bmp(
    size: tuple[int, int],
    bits: int,
    pixels: bytes,
    table: np.ndarray | None = None,
    *,
    header: int = 40,
    compression: int = 0,
    masks: tuple[int, ...] = (),
    n_colours: int | None = None,
    offset: int | None = None,
) -> bytes:
    """Put pixels behind any of BMP's headers. A negative height is a picture from the top down."""
    width, height = size
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        colours = n_colours if n_colours is not None else 0 if table is None else len(table)
        info = struct.pack("<IiiHHIIiiII", header, width, height, 1, bits, compression, 0, 2835, 2835, colours, 0)
        info += struct.pack(f"<{len(masks)}I", *masks)
        info += b"\0" * (header - len(info))
    if table is not None:
        bgr = table[:, ::-1].astype(np.uint8)
        info += (bgr if header == 12 else np.pad(bgr, ((0, 0), (0, 1)))).tobytes()
    start = 14 + len(info) if offset is None else offset
    return b"BM" + struct.pack("<IHHI", 14 + len(info) + len(pixels), 0, 0, start) + info + pixels
