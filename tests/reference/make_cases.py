"""Write random-weight checkpoints of many shapes, and what Hugging Face transformers computes with them.

    python tests/reference/make_cases.py OUT

OUT/CASE is a checkpoint as transformers saves it; OUT/CASE/golden/numbers has goldens.json and goldens.safetensors in
the form of tests/golden/make_goldens.py, and OUT/CASE/golden/cases the pictures.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import (
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "models" / "demo" / "llava"
QWEN_DEMO = ROOT / "models" / "demo" / "qwen2_5_vl"
sys.path.insert(0, str(ROOT / "tests" / "golden"))
sys.path.insert(0, str(ROOT / "models" / "demo" / "training"))

from demo_checkpoints import StillPictureProcessor, published_name  # noqa: E402
from make_goldens import run_case  # noqa: E402

# As many rows as the tokenizer has tokens: the library would also choose ids without one, this program never does.
TEXT = {
    "vocab_size": 1002,
    "hidden_size": 96,
    "intermediate_size": 192,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 1001,
}
VISION = {
    "model_type": "clip_vision_model",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "image_size": 56,
    "patch_size": 14,
    "hidden_act": "quick_gelu",
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}

# name -> changes to: the language model, the vision tower, LlavaConfig, the image processor
LLAVA_CASES = {
    "llava_576_image_tokens": ({}, {"image_size": 336}, {}, {}),
    "llava_last_layer_full": ({}, {"hidden_act": "gelu"}, {"layer": -1, "strategy": "full"}, {}),
    "llava_first_layer": ({}, {}, {"layer": 1}, {}),
    "llava_two_layers": ({}, {}, {"layer": [1, -2]}, {}),
    "llava_grouped_heads": (
        {"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 24},
        {"num_attention_heads": 2},
        {"multimodal_projector_bias": False},
        {},
    ),
    "llava_odd_sizes": (
        {"hidden_size": 100, "intermediate_size": 75, "num_attention_heads": 5, "num_key_value_heads": 1},
        {"hidden_size": 60, "intermediate_size": 77, "num_attention_heads": 3, "image_size": 73, "patch_size": 10},
        {"projector_hidden_act": "gelu_pytorch_tanh"},
        {"size": {"shortest_edge": 90}},
    ),
    "llava_exact_resize": ({}, {}, {}, {"size": {"height": 56, "width": 56}, "do_center_crop": False}),
    "llava_llama3_positions": ({"rope_parameters": LLAMA3}, {}, {}, {}),
}
LLAVA_SIZES = [(64, 64), (131, 57), (41, 200)]
LLAMA_CASES = {
    "llama_default_grouped": {"num_key_value_heads": 2},
    "llama_linear_biases": {
        "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
        "attention_bias": True,
        "mlp_bias": True,
    },
    "llama_llama3": {"rope_parameters": LLAMA3, "head_dim": 32},
    "llama_yarn_tied": {"rope_parameters": YARN, "tie_word_embeddings": True},
    "llama_dynamic": {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}},
}

QWEN_TEXT = {
    "vocab_size": 1014,
    "hidden_size": 96,
    "intermediate_size": 192,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
}
QWEN_VISION = {
    "depth": 4,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_heads": 4,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "window_size": 56,
    "fullatt_block_indexes": [1, 3],
}
QWEN_SIZES = [(64, 64), (131, 57), (41, 200), (300, 30), (225, 197), (1, 1)]

# name -> changes to: the language model, the vision tower, the image processor; which weight names; picture sizes
QWEN_CASES = {
    "qwen_window_edges": ({}, {"window_size": 112, "fullatt_block_indexes": [3]}, {}, "first", QWEN_SIZES),
    "qwen_large_picture": (
        {"tie_word_embeddings": True},
        {"window_size": 112},
        {"min_pixels": 784, "max_pixels": 784 * 300},
        "second",
        [(500, 430), (97, 611)],
    ),
    "qwen_windows_only": ({"num_key_value_heads": 6}, {"fullatt_block_indexes": []}, {}, "second", QWEN_SIZES),
    "qwen_full_attention_only": (
        {"num_key_value_heads": 1, "tie_word_embeddings": True},
        {"fullatt_block_indexes": [0, 1, 2, 3]},
        {},
        "first",
        QWEN_SIZES,
    ),
    "qwen_windows_of_one_token": (
        {"num_key_value_heads": 3},
        {"window_size": 28, "fullatt_block_indexes": [0, 2, 9]},
        {"min_pixels": 784},
        "second",
        [(28, 28), (30, 150), (150, 30), (57, 84)],
    ),
    "qwen_heads_of_80_and_128": (
        {
            "hidden_size": 256,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        },
        {"hidden_size": 160, "num_heads": 2, "window_size": 112},
        {},
        "first",
        QWEN_SIZES,
    ),
    "qwen_odd_sizes": (
        {
            "hidden_size": 100,
            "intermediate_size": 75,
            "num_attention_heads": 5,
            "num_key_value_heads": 1,
            "rope_scaling": {"type": "mrope", "mrope_section": [2, 5, 3]},
        },
        {
            "hidden_size": 60,
            "intermediate_size": 77,
            "num_heads": 3,
            "patch_size": 10,
            "spatial_merge_size": 3,
            "temporal_patch_size": 3,
            "window_size": 90,
        },
        {"min_pixels": 900, "max_pixels": 900 * 60},
        "second",
        QWEN_SIZES,
    ),
    "qwen_yarn": (
        {
            "rope_scaling": {
                "mrope_section": [2, 3, 3],
                "type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
        {},
        {},
        "first",
        QWEN_SIZES[:3],
    ),
}
QWEN2_CASES = {
    "qwen2_grouped": {},
    "qwen2_tied_linear": {
        "tie_word_embeddings": True,
        "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        "num_key_value_heads": 6,
    },
    "qwen2_yarn_one_kv_head": {"rope_scaling": YARN, "num_key_value_heads": 1, "head_dim": 32},
}


def randomise(model: torch.nn.Module, seed: int) -> None:
    """Weights that make every part matter: matrices of spread 1 / sqrt(inputs), norms near one, biases near zero."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if weight.ndim >= 2:
            scale = (
                1.0
                if "embed" in name and "patch_embed.proj" not in name
                else (weight.numel() / weight.shape[0]) ** -0.5
            )
            weight.copy_(noise * scale)
        elif name.endswith("bias") or "class_embedding" in name:
            weight.copy_(noise * 0.1)
        else:
            weight.copy_(1 + noise * 0.1)


def turn(text: str, images: int = 0) -> dict:
    """A user message with its pictures first."""
    return {"role": "user", "content": [{"type": "image"}] * images + [{"type": "text", "text": text}]}


def draw(folder: Path, seed: int, sizes: list[tuple[int, int]]) -> list[str]:
    """Pictures of these sizes: smooth colours with some noise."""
    rng = np.random.default_rng(seed)
    names = []
    for i, (width, height) in enumerate(sizes):
        y, x = np.mgrid[0:height, 0:width]
        waves = [127 + 120 * np.sin(x / (5 + 3 * c + i) + y / (9 - c)) for c in range(3)]
        pixels = np.clip(np.stack(waves, axis=-1) + rng.normal(0, 12, (height, width, 3)), 0, 255)
        names.append(f"picture_{i}.png")
        Image.fromarray(pixels.astype(np.uint8)).save(folder / names[-1])
    return names


def write_numbers(out: Path, processor, model, sizes: list[tuple[int, int]]) -> None:
    """Run the cases of one checkpoint and write them in the goldens' form."""
    pictures = out / "golden" / "cases"
    numbers = out / "golden" / "numbers"
    pictures.mkdir(parents=True)
    numbers.mkdir()
    long_text = " ".join(f"shape {i} is a red circle," for i in range(24))
    cases = [
        {"name": "short", "messages": [turn("Hello")], "images": [], "keep_pixels": False},
        {"name": "long", "messages": [turn(long_text)], "images": [], "keep_pixels": False},
    ]
    if sizes:
        names = draw(pictures, 5, sizes)
        one = {"name": "one", "messages": [turn("What is this?", 1)], "images": names[:1], "keep_pixels": True}
        more = {
            "name": "more",
            "messages": [turn("Compare.", len(names) - 1)],
            "images": names[1:],
            "keep_pixels": True,
        }
        cases += [one, more]
    records, tensors = [], {}
    for case in cases:
        record, own = run_case(case, pictures, processor, model)
        records.append(record)
        tensors.update(own)
    (numbers / "goldens.json").write_text(json.dumps({"cases": records}))
    save_file(tensors, numbers / "goldens.safetensors")


class TextProcessor:
    """The part of a processor that a text-only model has."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def apply_chat_template(self, messages: list[dict], add_generation_prompt: bool) -> str:
        """The prompt text."""
        return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=add_generation_prompt)

    def __call__(self, images, text: str, return_tensors: str) -> dict:
        """Token ids with BOS."""
        return {"input_ids": self.tokenizer(text, return_tensors=return_tensors)["input_ids"]}


def make_llava(out: Path, seed: int, text: dict, vision: dict, own: dict, pixels: dict) -> None:
    """One LLaVA checkpoint and its numbers."""
    tower = {**VISION, **vision}
    own = dict(own)
    layer, strategy = own.pop("layer", -2), own.pop("strategy", "default")
    config = LlavaConfig(
        vision_config=tower,
        text_config={"model_type": "llama", **TEXT, **text},
        image_token_index=1000,
        vision_feature_layer=layer,
        vision_feature_select_strategy=strategy,
        **own,
    )
    model = LlavaForConditionalGeneration(config).float().eval()
    randomise(model, seed)
    side = tower["image_size"]
    shape = {"size": {"shortest_edge": side}, "crop_size": {"height": side, "width": side}}
    tokenizer = AutoTokenizer.from_pretrained(DEMO)
    processor = LlavaProcessor(
        CLIPImageProcessorPil(**{**shape, **pixels}),
        tokenizer,
        patch_size=tower["patch_size"],
        vision_feature_select_strategy=strategy,
        num_additional_image_tokens=1,
        chat_template=json.loads((DEMO / "chat_template.json").read_text())["chat_template"],
    )
    model.save_pretrained(out, max_shard_size="300KB" if seed % 2 else "5GB")
    processor.save_pretrained(out)
    model.set_attn_implementation("eager")
    write_numbers(out, processor, model, LLAVA_SIZES)


def make_llama(out: Path, seed: int, text: dict) -> None:
    """One Llama checkpoint and its numbers."""
    model = LlamaForCausalLM(LlamaConfig(**{**TEXT, **text})).float().eval()
    randomise(model, seed)
    model.save_pretrained(out)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.json"):
        shutil.copy(DEMO / name, out / name)
    model.set_attn_implementation("eager")
    write_numbers(out, TextProcessor(AutoTokenizer.from_pretrained(DEMO)), model, [])


def make_qwen_vl(out: Path, seed: int, text: dict, vision: dict, pixels: dict, names: str, sizes: list) -> None:
    """One Qwen2.5-VL checkpoint and its numbers: config and weights as first published, or as saved since."""
    text = {**QWEN_TEXT, **text}
    tower = {**QWEN_VISION, **vision, "out_hidden_size": text["hidden_size"]}
    tokenizer = AutoTokenizer.from_pretrained(QWEN_DEMO)
    ids = {
        f"{name}_token_id": tokenizer.convert_tokens_to_ids(f"<|{token}|>")
        for name, token in (("image", "image_pad"), ("video", "video_pad"), ("vision_start", "vision_start"))
    }
    tied = text.pop("tie_word_embeddings", False)
    flat = {"eos_token_id": 1002, "tie_word_embeddings": tied, **ids, **text, "vision_config": tower}
    config = Qwen2_5_VLConfig(**json.loads(json.dumps(flat)))
    model = Qwen2_5_VLForConditionalGeneration(config).float().eval()
    randomise(model, seed)
    weights = {n: w.detach().clone() for n, w in model.state_dict().items() if not (tied and n == "lm_head.weight")}
    if names == "first":
        head = {"architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl"}
        (out / "config.json").write_text(json.dumps({**head, **flat}))
        weights = {published_name("qwen2_5_vl", name): weight for name, weight in weights.items()}
    else:
        config.architectures = ["Qwen2_5_VLForConditionalGeneration"]
        config.save_pretrained(out)
    save_file(weights, out / "model.safetensors")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.json"):
        shutil.copy(QWEN_DEMO / name, out / name)
    shape = {key: tower[key] for key in ("patch_size", "temporal_patch_size")}
    bounds = {"min_pixels": 784 * 4, "max_pixels": 784 * 60, **pixels}
    images = Qwen2VLImageProcessorPil(merge_size=tower["spatial_merge_size"], **shape, **bounds)
    images.save_pretrained(out)
    model.set_attn_implementation("eager")
    write_numbers(out, StillPictureProcessor(images, tokenizer), model, sizes)


def make_qwen2(out: Path, seed: int, text: dict) -> None:
    """One Qwen2 checkpoint and its numbers."""
    plain = {key: value for key, value in QWEN_TEXT.items() if key != "rope_scaling"}
    model = Qwen2ForCausalLM(Qwen2Config(eos_token_id=1002, **{**plain, **text})).float().eval()
    randomise(model, seed)
    model.save_pretrained(out)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.json"):
        shutil.copy(QWEN_DEMO / name, out / name)
    model.set_attn_implementation("eager")
    write_numbers(out, TextProcessor(AutoTokenizer.from_pretrained(QWEN_DEMO)), model, [])


def main() -> None:
    """Write every case that is not there yet."""
    root = Path(sys.argv[1])
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    makers = [
        (make_llava, LLAVA_CASES),
        (make_llama, LLAMA_CASES),
        (make_qwen_vl, QWEN_CASES),
        (make_qwen2, QWEN2_CASES),
    ]
    cases = [(make, name, changes) for make, group in makers for name, changes in group.items()]
    for seed, (make, name, changes) in enumerate(cases):
        out, work = root / name, root / f".{name}"
        if out.exists():
            continue
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        make(work, seed, *(changes if isinstance(changes, tuple) else (changes,)))
        work.rename(out)
        print(f"made {name}", flush=True)


if __name__ == "__main__":
    main()
