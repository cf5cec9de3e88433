"""Write a random-weight LLaVA checkpoint in Hugging Face layout, with the standard library alone.

    python3 tests/bench/make_random_llava.py OUT [--layers 8] [--dim 512] ... [--vision-layers 9] ...

The default shape has 36 M parameters in bfloat16: a language model of 8 layers, d 512, 8 query and 4 key/value heads,
ff 1408, vocabulary 4096; a vision tower of 7 layers of which 6 are used, d 384, 6 heads, ff 1536, pictures of 224
pixels in patches of 14, so 256 rows a picture. It is made for the traffic of tests/bench/tiers_bench.cpp: there the
tower does about a quarter of all work. Speed does not depend on the values, which are the same for the same seed.
"""

import argparse
import json
from pathlib import Path

import make_random_llama as llama


def vision_tensors(shape: argparse.Namespace):
    """Names and shapes of the tower's and the projector's weights."""
    d, ff = shape.vision_dim, shape.vision_ff
    tower = "vision_tower.vision_model."
    yield tower + "embeddings.class_embedding", (d,)
    yield tower + "embeddings.patch_embedding.weight", (d, 3, shape.patch, shape.patch)
    yield tower + "embeddings.position_embedding.weight", ((shape.pixels // shape.patch) ** 2 + 1, d)
    matrices = {f"self_attn.{name}_proj": (d, d) for name in ("q", "k", "v", "out")}
    matrices |= {"mlp.fc1": (ff, d), "mlp.fc2": (d, ff), "layer_norm1": (d,), "layer_norm2": (d,)}
    named = [
        (f"{tower}encoder.layers.{n}.{name}", dims)
        for n in range(shape.vision_layers)
        for name, dims in matrices.items()
    ]
    named += [(tower + "pre_layrnorm", (d,)), (tower + "post_layernorm", (d,))]
    named += [
        ("multi_modal_projector.linear_1", (shape.dim, d)),
        ("multi_modal_projector.linear_2", (shape.dim, shape.dim)),
    ]
    for name, dims in named:
        yield name + ".weight", dims
        yield name + ".bias", dims[:1]


def special_token(number: int, content: str) -> dict:
    """An entry of added_tokens."""
    flags = {"special": True, "normalized": False, "single_word": False, "lstrip": False, "rstrip": False}
    return {"id": number, "content": content} | flags


def configs(shape: argparse.Namespace) -> dict[str, dict]:
    """The JSON files by name."""
    image, end = shape.vocabulary - 1, shape.vocabulary - 2
    tokens = llama.tokenizer(shape.vocabulary - 1)  # its last is the end token
    tokens["added_tokens"].append(special_token(image, "<image>"))
    text = {
        "model_type": "llama",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.dim,
        "intermediate_size": shape.ff,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "bos_token_id": end,
        "eos_token_id": end,
    }
    vision = {
        "model_type": "clip_vision_model",
        "hidden_size": shape.vision_dim,
        "intermediate_size": shape.vision_ff,
        "num_hidden_layers": shape.vision_layers,
        "num_attention_heads": shape.vision_heads,
        "image_size": shape.pixels,
        "patch_size": shape.patch,
        "hidden_act": "quick_gelu",
        "layer_norm_eps": 1e-5,
    }
    template = (
        "{% for m in messages %}{% if m['content'] is string %}{{ m['content'] }} {% else %}{% for p in m['content'] %}"
        "{% if p['type'] == 'image' %}<image> {% else %}{{ p['text'] }} {% endif %}{% endfor %}{% endif %}{% endfor %}"
    )
    return {
        "config.json": {
            "architectures": ["LlavaForConditionalGeneration"],
            "model_type": "llava",
            "image_token_index": image,
            "projector_hidden_act": "gelu",
            "vision_feature_layer": -2,
            "vision_feature_select_strategy": "default",
            "torch_dtype": "bfloat16",
            "text_config": text,
            "vision_config": vision,
        },
        "preprocessor_config.json": {
            "image_processor_type": "CLIPImageProcessor",
            "crop_size": {"height": shape.pixels, "width": shape.pixels},
            "size": {"shortest_edge": shape.pixels},
            "do_center_crop": True,
            "do_convert_rgb": True,
            "do_normalize": True,
            "do_rescale": True,
            "do_resize": True,
            "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5],
            "resample": 3,
            "rescale_factor": 1 / 255,
        },
        "generation_config.json": {"eos_token_id": end},
        "tokenizer.json": tokens,
        "tokenizer_config.json": {"eos_token": "<|end|>", "chat_template": template},
    }


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    numbers = {"layers": 8, "dim": 512, "heads": 8, "kv-heads": 4, "ff": 1408, "vocabulary": 4096, "seed": 1}
    numbers |= {"vision-layers": 7, "vision-dim": 384, "vision-heads": 6, "vision-ff": 1536, "pixels": 224, "patch": 14}
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    shape = parser.parse_args()
    shape.out.mkdir(parents=True, exist_ok=True)
    for name, value in configs(shape).items():
        (shape.out / name).write_text(json.dumps(value, ensure_ascii=False) + "\n", encoding="utf-8")
    language = [("language_model." + name, dims) for name, dims in llama.tensors(shape)]
    llama.write_weights(shape.out, language + list(vision_tensors(shape)), shape.seed)


if __name__ == "__main__":
    main()
