"""Write a random-weight Llama checkpoint in Hugging Face layout, with the standard library alone.

    python3 tests/bench/make_random_llama.py OUT [--layers 30] [--dim 576] ...

The default shape has 135 M parameters (30 layers, d 576, 9 query and 3 key/value heads, ff 1536, vocabulary 49152,
tied, bfloat16). Speed does not depend on the values; they are small and finite, and the same for the same seed. The
tokenizer is a byte-level BPE over lower-case letters, so that text costs about three letters a token.
"""

import argparse
import itertools
import json
import math
import random
import struct
from pathlib import Path

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def random_bf16(generator: random.Random, count: int) -> bytes:
    """Random bfloat16 of magnitude 2^-7 to 2^-5, either sign."""
    raw = generator.randbytes(2 * count)
    sign_and_exponent = bytes(0x3C | (byte & 0x80) for byte in range(256))
    out = bytearray(2 * count)
    out[0::2] = raw[:count]
    out[1::2] = raw[count:].translate(sign_and_exponent)
    return bytes(out)


def tensors(shape: argparse.Namespace):
    """Names and shapes of every weight; a shape of one dimension is a norm (or a bias, by its name)."""
    d, head = shape.dim, shape.dim // shape.heads
    yield "model.embed_tokens.weight", (shape.vocabulary, d)
    for layer in range(shape.layers):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (d,)
        yield prefix + "self_attn.q_proj.weight", (shape.heads * head, d)
        yield prefix + "self_attn.k_proj.weight", (shape.kv_heads * head, d)
        yield prefix + "self_attn.v_proj.weight", (shape.kv_heads * head, d)
        yield prefix + "self_attn.o_proj.weight", (d, shape.heads * head)
        yield prefix + "post_attention_layernorm.weight", (d,)
        yield prefix + "mlp.gate_proj.weight", (shape.ff, d)
        yield prefix + "mlp.up_proj.weight", (shape.ff, d)
        yield prefix + "mlp.down_proj.weight", (d, shape.ff)
    yield "model.norm.weight", (d,)


def write_weights(folder: Path, named_shapes: list[tuple[str, tuple[int, ...]]], seed: int) -> None:
    """model.safetensors: header length, header, data. Norms are 1, biases 0, all else is random."""
    header, offset = {}, 0
    for name, dims in named_shapes:
        size = 2 * math.prod(dims)
        header[name] = {"dtype": "BF16", "shape": list(dims), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    generator = random.Random(seed)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, dims in named_shapes:
            if len(dims) == 1:
                file.write((b"\x00\x00" if name.endswith("bias") else b"\x80\x3f") * dims[0])
            else:
                file.write(random_bf16(generator, math.prod(dims)))


def byte_letters() -> list[str]:
    """The 256 printable characters that byte-level BPE writes bytes with."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = itertools.count(256)
    return [chr(byte) if byte in kept else chr(next(spare)) for byte in range(256)]


def tokenizer(size: int) -> dict:
    """Bytes, then pairs and triples of letters, then numbered fillers, up to `size` tokens."""
    vocabulary = {letter: rank for rank, letter in enumerate(byte_letters())}
    merges = []
    for left, right in itertools.product(LETTERS, LETTERS):
        merges.append([left, right])
        vocabulary.setdefault(left + right, len(vocabulary))
    for left, middle, right in itertools.product(LETTERS, LETTERS, LETTERS):
        if len(vocabulary) >= size - 1:
            break
        merges.append([left + middle, right])
        vocabulary.setdefault(left + middle + right, len(vocabulary))
    for number in itertools.count():
        if len(vocabulary) >= size - 1:
            break
        vocabulary[f"<filler{number}>"] = len(vocabulary)
    end = {"id": len(vocabulary), "content": "<|end|>", "special": True, "normalized": False}
    end |= {"single_word": False, "lstrip": False, "rstrip": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [end],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges, "byte_fallback": False, "fuse_unk": False},
    }


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    for name, value in [("layers", 30), ("dim", 576), ("heads", 9), ("kv-heads", 3), ("ff", 1536)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--vocabulary", type=int, default=49152)
    parser.add_argument("--seed", type=int, default=1)
    shape = parser.parse_args()
    shape.out.mkdir(parents=True, exist_ok=True)
    end = shape.vocabulary - 1
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.dim,
        "intermediate_size": shape.ff,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "bos_token_id": end,
        "eos_token_id": end,
    }
    template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    files = {
        "config.json": config,
        "generation_config.json": {"eos_token_id": end},
        "tokenizer.json": tokenizer(shape.vocabulary),
        "tokenizer_config.json": {"eos_token": "<|end|>", "chat_template": template},
    }
    for name, value in files.items():
        (shape.out / name).write_text(json.dumps(value, ensure_ascii=False) + "\n", encoding="utf-8")
    write_weights(shape.out, list(tensors(shape)), shape.seed)


if __name__ == "__main__":
    main()
