"""Write tests/golden/qwen: what transformers' Qwen2.5-VL processor makes of sizes, pictures and conversations.

    python tests/golden/make_qwen_cases.py [--model models/demo/qwen2_5_vl]

resize.json: results of `smart_resize` over sizes and settings; `digest` chains many sizes into one number (see
`chain`). patches.json: SHA-256 and samples of the patches of formula pictures (tests/media/patterns.h). prompts.json:
random conversations with their token ids, position ids (as runs) and position delta.

Packages: tests/reference/requirements.txt.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil, smart_resize

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "golden" / "qwen"
sys.path.insert(0, str(ROOT / "tests" / "media"))

from make_image_cases import digest, pattern  # noqa: E402

FACTORS = [(14, 2), (16, 2), (14, 1), (8, 3)]  # patch, merge
BOUNDS = [  # min_pixels, max_pixels
    (3136, 12845056),
    (3136, 1003520),
    (15680, 38416),
    (784, 784),
    (1, 1),
    (200704, 200704),
    (100000, 5000),
    (256 * 28 * 28, 1280 * 28 * 28),
]
NAMED = [  # width, height
    (1, 1), (1, 2), (2, 1), (14, 14), (27, 27), (28, 28), (28, 2), (500, 19), (42, 42), (70, 98), (200, 1), (1, 200),
    (640, 480), (1023, 767), (4000, 3000), (8000, 6000), (30, 150), (150, 30), (32768, 164), (164, 32768), (56, 56),
]  # fmt: skip
N_RANDOM = 4000


class Draw:
    """The same numbers in C++: a 32-bit linear congruential generator, upper bits used."""

    def __init__(self, seed: int) -> None:
        """Start at `seed`."""
        self.state = seed

    def up_to(self, n: int) -> int:
        """Draw a whole number from 1 to n."""
        self.state = (self.state * 1664525 + 1013904223) & 0xFFFFFFFF
        return 1 + (self.state >> 8) % n


def random_size(draw: Draw) -> tuple[int, int]:
    """A width and a height whose ratio is at most 200; small sides are as likely as large ones."""
    width = draw.up_to(1 << draw.up_to(13))
    height = draw.up_to(1 << draw.up_to(13))
    longer = max(width, height)
    least = -(-longer // 200)
    return max(width, least), max(height, least)


def chain(value: int, number: int) -> int:
    """FNV-1a over whole numbers."""
    return ((value ^ number) * 1099511628211) & 0xFFFFFFFFFFFFFFFF


def resize_cases() -> list[dict]:
    """Named sizes in full, and thousands of drawn ones as one digest, for each setting."""
    cases = []
    for seed, (patch, merge) in enumerate(FACTORS, start=1):
        for low, high in BOUNDS:
            draw, value, examples = Draw(seed), 14695981039346656037, []
            for i in range(N_RANDOM):
                width, height = random_size(draw)
                h, w = smart_resize(height, width, factor=patch * merge, min_pixels=low, max_pixels=high)
                value = chain(chain(value, w), h)
                if i % 500 == 0:
                    examples.append([width, height, w, h])
            for width, height in NAMED:
                h, w = smart_resize(height, width, factor=patch * merge, min_pixels=low, max_pixels=high)
                examples.append([width, height, w, h])
            cases.append(
                {
                    "patch_size": patch,
                    "merge_size": merge,
                    "min_pixels": low,
                    "max_pixels": high,
                    "seed": seed,
                    "n": N_RANDOM,
                    "digest": str(value),
                    "examples": examples,
                }
            )
    return cases


def first_frames(patches: np.ndarray, frames: int, patch: int) -> np.ndarray:
    """(n, 3 * frames * patch^2) -> (n, 3 * patch^2); the frames of a still picture are equal."""
    split = patches.reshape(len(patches), 3, frames, patch * patch)
    assert (split == split[:, :, :1]).all()
    return np.ascontiguousarray(split[:, :, 0]).reshape(len(patches), -1)


PICTURES = [
    (1, 1), (2, 28), (19, 500), (37, 31), (112, 112), (231, 118), (97, 243), (150, 30), (30, 150), (640, 480),
    (1023, 767), (1, 200), (1500, 1001),
]  # fmt: skip


def patch_cases() -> list[dict]:
    """Run the processor over pictures and settings."""
    demo = {"min_pixels": 15680, "max_pixels": 38416}
    runs = [("noise", size, {}) for size in PICTURES] + [("checker", size, demo) for size in PICTURES]
    runs += [
        ("checker", (90, 75), {**demo, **more})
        for more in (
            {"do_normalize": False},
            {"do_rescale": False},
            {"do_rescale": False, "do_normalize": False},
            {"rescale_factor": 1 / 127.5},
            {"image_mean": [0.5, 0.25, 0.125], "image_std": [0.5, 1.5, 0.3]},
            {"patch_size": 16},
            {"merge_size": 1},
            {"merge_size": 3},
            {"temporal_patch_size": 1},
        )
    ]
    cases = []
    for kind, size, options in runs:
        processor = Qwen2VLImageProcessorPil(**options)
        out = processor(Image.fromarray(pattern(kind, *size)), return_tensors="np")
        patch = options.get("patch_size", 14)
        patches = first_frames(out["pixel_values"].astype(np.float32), options.get("temporal_patch_size", 2), patch)
        at = np.linspace(0, patches.size - 1, 9).astype(int)
        cases.append(
            {
                "pattern": kind,
                "from": size,
                "options": options,
                "grid": [int(v) for v in out["image_grid_thw"][0][1:]],
                "sha256": digest(patches),
                "samples": [float(v) for v in patches.reshape(-1)[at]],
            }
        )
    return cases


TEXT = (
    "what is in this picture how many red green stars are there Ünïcödé 日本語 文字 🙂 🇩🇪 3 14159 a,b;c (x) don't I'LL "
    "tabs\tand\nlines \n\n  spaces   end. <b>bold</b> {{ brace }} | pipe ... ?! left-right"
)
WORDS = TEXT.split(" ")


def random_content(rng: random.Random, role: str, grids: list[list[int]]) -> str | list[dict]:
    """A plain text, or parts with pictures between the texts."""
    text = lambda: " ".join(rng.choices(WORDS, k=rng.randint(0, 12)))  # noqa: E731
    if role != "user" or rng.random() < 0.3:
        return text()
    parts = []
    for _ in range(rng.randint(1, 4)):
        if rng.random() < 0.5:
            parts.append({"type": "text", "text": text()})
            continue
        parts.append({"type": "image"})
        grids.append([2 * rng.randint(1, 9), 2 * rng.randint(1, 9)])
    return parts


def random_messages(rng: random.Random) -> tuple[list[dict], list[list[int]]]:
    """A conversation, and the grid of each of its pictures in patches."""
    grids: list[list[int]] = []
    roles = ["system"] * (rng.random() < 0.4) + ["user", "assistant"] * rng.randint(0, 3) + ["user"]
    messages = [{"role": role, "content": random_content(rng, role, grids)} for role in roles]
    return messages, grids


def position_ids(token_ids: list[int], grids: list[list[int]], config) -> tuple[list[list[int]], int]:
    """What the reference numbers the expanded prompt with: (3, n), and the delta."""
    import torch
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel

    class Rule:
        """The two methods of the model, without its weights."""

        get_vision_position_ids = Qwen2_5_VLModel.get_vision_position_ids
        get_rope_index = Qwen2_5_VLModel.get_rope_index

    rule = Rule()
    rule.config = config
    ids = torch.tensor([token_ids])
    kinds = (ids == config.image_token_id).int()
    thw = torch.tensor([[1, h, w] for h, w in grids]) if grids else None
    positions, delta = rule.get_rope_index(ids, kinds, image_grid_thw=thw)
    return positions[:, 0].tolist(), int(delta[0])


def prompt_cases(model: Path) -> list[dict]:
    """Random conversations through template, tokenizer and position rule."""
    from transformers import AutoConfig, AutoTokenizer

    tokenizer, config = AutoTokenizer.from_pretrained(model), AutoConfig.from_pretrained(model)
    template = json.loads((model / "chat_template.json").read_text(encoding="utf-8"))["chat_template"]
    rng, cases = random.Random(20), []
    for _ in range(120):
        messages, grids = random_messages(rng)
        add = rng.random() < 0.8
        prompt = tokenizer.apply_chat_template(
            messages, chat_template=template, add_generation_prompt=add, tokenize=False
        )
        short = tokenizer(prompt)["input_ids"]
        sizes = iter(grids)
        ids: list[int] = []
        for token in short:
            repeat = 1
            if token == config.image_token_id:
                height, width = next(sizes)
                repeat = height * width // 4
            ids += [token] * repeat
        assert next(sizes, None) is None
        positions, delta = position_ids(ids, grids, config)
        value = 14695981039346656037
        for number in (n for axis in positions for n in axis):
            value = chain(value, number)
        cases.append(
            {
                "messages": messages,
                "grids": grids,
                "add_generation_prompt": add,
                "short_ids": short,
                "n_tokens": len(ids),
                "positions_digest": str(value),
                "last_positions": [axis[-1] for axis in positions],
                "position_delta": delta,
            }
        )
    return cases


def write(name: str, cases: list[dict]) -> None:
    """One case a line, so that a change shows which cases it concerns."""
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (OUT / name).write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def main() -> None:
    """Write all three files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, default=ROOT / "models" / "demo" / "qwen2_5_vl")
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    write("resize.json", resize_cases())
    write("patches.json", patch_cases())
    write("prompts.json", prompt_cases(arguments.model))


if __name__ == "__main__":
    main()
