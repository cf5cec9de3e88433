"""Write a random-weight bfloat16 checkpoint in the shape of a published model, with the standard library alone.

    python3 tests/bench/make_full_size.py llava-1.5-7b|qwen2.5-vl-3b OUT

Names, shapes and shards are those of the published checkpoints; tokenizer, template and processor files come from the
demo model of the same family. Nothing large is held in memory. Speed does not depend on the values, so all weights are
pieces of one block of random numbers, small and finite; norms are ones.
"""

import argparse
import json
import math
import random
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

from make_random_llama import random_bf16

DEMO = Path(__file__).resolve().parents[2] / "models/demo"
SHARD_BYTES = 4_900_000_000
BLOCK_VALUES = 1 << 24
Shape = tuple[int, ...]
Tensors = Iterator[tuple[str, Shape]]

LLAVA_TEXT = {
    "model_type": "llama",
    "vocab_size": 32064,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
}
LLAVA_VISION = {
    "model_type": "clip_vision_model",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_size": 336,
    "patch_size": 14,
}
QWEN = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128000,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "tie_word_embeddings": True,
}
QWEN_VISION = {
    "depth": 32,
    "hidden_size": 1280,
    "intermediate_size": 3420,
    "num_heads": 16,
    "out_hidden_size": 2048,
    "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31],
}


def layer_of_text(prefix: str, text: dict, bias: bool) -> Tensors:
    """One layer of a Llama-like language model."""
    dim, inner = text["hidden_size"], text["intermediate_size"]
    head = dim // text["num_attention_heads"]
    sides = {"q": dim, "k": head * text["num_key_value_heads"], "v": head * text["num_key_value_heads"]}
    yield prefix + "input_layernorm.weight", (dim,)
    for name, rows in sides.items():
        yield f"{prefix}self_attn.{name}_proj.weight", (rows, dim)
        if bias:
            yield f"{prefix}self_attn.{name}_proj.bias", (rows,)
    yield prefix + "self_attn.o_proj.weight", (dim, dim)
    yield prefix + "post_attention_layernorm.weight", (dim,)
    yield prefix + "mlp.gate_proj.weight", (inner, dim)
    yield prefix + "mlp.up_proj.weight", (inner, dim)
    yield prefix + "mlp.down_proj.weight", (dim, inner)


def language(prefix: str, text: dict, bias: bool) -> Tensors:
    """Embeddings, layers and the last norm."""
    yield prefix + "embed_tokens.weight", (text["vocab_size"], text["hidden_size"])
    for layer in range(text["num_hidden_layers"]):
        yield from layer_of_text(f"{prefix}layers.{layer}.", text, bias)
    yield prefix + "norm.weight", (text["hidden_size"],)


def linear(name: str, rows: int, columns: int) -> Tensors:
    """A matrix with its bias."""
    yield name + ".weight", (rows, columns)
    yield name + ".bias", (rows,)


def layer_norm(name: str, size: int) -> Tensors:
    """Weight and bias."""
    yield name + ".weight", (size,)
    yield name + ".bias", (size,)


def clip_layer(prefix: str, vision: dict) -> Tensors:
    """One layer of the CLIP tower."""
    dim, inner = vision["hidden_size"], vision["intermediate_size"]
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        yield from linear(f"{prefix}self_attn.{name}", dim, dim)
    yield from layer_norm(prefix + "layer_norm1", dim)
    yield from linear(prefix + "mlp.fc1", inner, dim)
    yield from linear(prefix + "mlp.fc2", dim, inner)
    yield from layer_norm(prefix + "layer_norm2", dim)


def llava_tensors(config: dict) -> Tensors:
    """Every weight of LLaVA-1.5 under its published name."""
    text, vision = config["text_config"], config["vision_config"]
    dim, side = vision["hidden_size"], vision["patch_size"]
    tower = "vision_tower.vision_model."
    yield tower + "embeddings.class_embedding", (dim,)
    yield tower + "embeddings.patch_embedding.weight", (dim, 3, side, side)
    yield tower + "embeddings.position_embedding.weight", ((vision["image_size"] // side) ** 2 + 1, dim)
    yield from layer_norm(tower + "pre_layrnorm", dim)
    for layer in range(vision["num_hidden_layers"]):
        yield from clip_layer(f"{tower}encoder.layers.{layer}.", vision)
    yield from layer_norm(tower + "post_layernorm", dim)
    yield from linear("multi_modal_projector.linear_1", text["hidden_size"], dim)
    yield from linear("multi_modal_projector.linear_2", text["hidden_size"], text["hidden_size"])
    yield from language("language_model.model.", text, bias=False)
    yield "language_model.lm_head.weight", (text["vocab_size"], text["hidden_size"])


def qwen_tensors(config: dict) -> Tensors:
    """Every weight of Qwen2.5-VL with a tied head under its published name."""
    vision = config["vision_config"]
    dim, inner = vision["hidden_size"], vision["intermediate_size"]
    side, frames = vision["patch_size"], vision["temporal_patch_size"]
    yield "visual.patch_embed.proj.weight", (dim, 3, frames, side, side)
    for block in range(vision["depth"]):
        prefix = f"visual.blocks.{block}."
        yield prefix + "norm1.weight", (dim,)
        yield prefix + "norm2.weight", (dim,)
        yield from linear(prefix + "attn.qkv", 3 * dim, dim)
        yield from linear(prefix + "attn.proj", dim, dim)
        yield from linear(prefix + "mlp.gate_proj", inner, dim)
        yield from linear(prefix + "mlp.up_proj", inner, dim)
        yield from linear(prefix + "mlp.down_proj", dim, inner)
    merged = dim * vision["spatial_merge_size"] ** 2
    yield "visual.merger.ln_q.weight", (dim,)
    yield from linear("visual.merger.mlp.0", merged, merged)
    yield from linear("visual.merger.mlp.2", vision["out_hidden_size"], merged)
    yield from language("model.", config, bias=True)


def is_norm(name: str) -> bool:
    """Whether the values are factors around one."""
    return name.endswith(("norm.weight", "norm1.weight", "norm2.weight", "ln_q.weight"))


def size_of(shape: Shape) -> int:
    """Bytes of a bfloat16 tensor."""
    return 2 * math.prod(shape)


def write_values(file, name: str, shape: Shape, block: memoryview, number: int) -> None:
    """One tensor; each begins elsewhere in the block."""
    left = size_of(shape)
    if is_norm(name):
        file.write(b"\x80\x3f" * (left // 2))
        return
    at = number * 7919 * 64 % len(block)
    while left > 0:
        piece = block[at : at + left]
        file.write(piece)
        left -= len(piece)
        at = 0


def shards_of(tensors: list[tuple[str, Shape]]) -> list[list[tuple[str, Shape]]]:
    """Consecutive tensors, up to SHARD_BYTES a file."""
    shards, used = [[]], 0
    for name, shape in tensors:
        if used > 0 and used + size_of(shape) > SHARD_BYTES:
            shards.append([])
            used = 0
        shards[-1].append((name, shape))
        used += size_of(shape)
    return shards


def write_shard(path: Path, tensors: list[tuple[str, Shape]], block: memoryview, first: int) -> None:
    """One safetensors file: header length, header, data."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size_of(shape)]}
        offset += size_of(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for number, (name, shape) in enumerate(tensors, first):
            write_values(file, name, shape, block, number)


def write_weights(folder: Path, tensors: list[tuple[str, Shape]], seed: int) -> None:
    """All shards and their index."""
    block = memoryview(random_bf16(random.Random(seed), BLOCK_VALUES))
    shards = shards_of(tensors)
    weight_map, first = {}, 0
    for number, shard in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):05}.safetensors"
        write_shard(folder / name, shard, block, first)
        weight_map |= {tensor: name for tensor, _ in shard}
        first += len(shard)
    total = sum(size_of(shape) for _, shape in tensors)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def read(path: Path) -> dict:
    """A JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def merged(values: dict, changes: dict) -> dict:
    """`values` with `changes`, level by level."""
    result = dict(values)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


# model -> the demo model whose other files it takes, changes to these, tensors
MODELS = {
    "llava-1.5-7b": (
        "llava",
        {
            "config.json": {
                "torch_dtype": "bfloat16",
                "image_seq_length": 576,
                "text_config": LLAVA_TEXT,
                "vision_config": LLAVA_VISION,
            },
            "preprocessor_config.json": {"crop_size": {"height": 336, "width": 336}, "size": {"shortest_edge": 336}},
        },
        llava_tensors,
    ),
    "qwen2.5-vl-3b": (
        "qwen2_5_vl",
        {
            "config.json": QWEN | {"vision_config": QWEN_VISION},
            "preprocessor_config.json": {"min_pixels": 3136, "max_pixels": 12845056},
        },
        qwen_tensors,
    ),
}


def plan(model: str) -> tuple[dict, list[tuple[str, Shape]]]:
    """config.json and the tensors of a model."""
    demo, changes, tensors = MODELS[model]
    config = merged(read(DEMO / demo / "config.json"), changes["config.json"])
    return config, list(tensors(config))


def write_checkpoint(model: str, folder: Path, seed: int) -> None:
    """The whole folder; config.json comes last, so that a folder that has one is complete."""
    demo, changes, _ = MODELS[model]
    config, tensors = plan(model)
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted((DEMO / demo).glob("*.json")):
        if file.name in changes:
            text = json.dumps(merged(read(file), changes[file.name]), indent=1)
            (folder / file.name).write_text(text, encoding="utf-8")
        elif file.name != "score.json":
            shutil.copyfile(file, folder / file.name)
    (folder / "config.json").unlink()
    write_weights(folder, tensors, seed)
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")


def main() -> None:
    """Write one checkpoint, or say how large it would be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    write_checkpoint(options.model, options.out, options.seed)
    print(sum(size_of(shape) for _, shape in plan(options.model)[1]), "bytes of weights in", options.out)


if __name__ == "__main__":
    main()
