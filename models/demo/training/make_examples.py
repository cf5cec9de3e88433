"""Draw the example pictures and record what the demo checkpoints answer.

    python make_examples.py --model llava=../llava --out ../examples

Writes eight pictures and `examples.json`: a list of {"images", "messages", "truth", "expected"},
where `expected` holds the greedy answer of each checkpoint through the reference library in
float32. Questions, and then scenes, are drawn again until every checkpoint answers rightly, so the
examples show the demo at its best; `score.json` of a checkpoint has the honest score.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from demo_checkpoints import load_for_reference
from PIL import Image
from shape_pictures import caption, draw_scene, question_for_one, question_for_two, random_scene

PICTURES = [
    ("picture1.png", 224, 224, 1),
    ("picture2.jpg", 240, 180, 2),
    ("picture3.png", 180, 240, 2),
    ("picture4.jpg", 320, 320, 3),
    ("picture5.png", 112, 112, 2),
    ("picture6.jpg", 640, 480, 3),
    ("picture7.png", 300, 200, 3),
    ("picture8.jpg", 200, 200, 4),
]


def ask(reference: tuple, messages: list[dict], pictures: list[Image.Image]) -> str:
    """Greedy answer of one checkpoint."""
    processor, model = reference
    prompt = processor.apply_chat_template(messages, add_generation_prompt=True)
    inputs = processor(images=pictures or None, text=prompt, return_tensors="pt")
    with torch.no_grad():
        out = model.generate(**inputs, max_new_tokens=64, do_sample=False)
    start = inputs["input_ids"].shape[1]
    return processor.tokenizer.decode(out[0, start:], skip_special_tokens=True).strip()


def turn(role: str, text: str, images: int = 0) -> dict:
    """One chat message with its pictures first."""
    return {"role": role, "content": [{"type": "image"}] * images + [{"type": "text", "text": text}]}


def main() -> None:
    """Draw, ask and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", action="append", required=True, help="NAME=DIR, any number of times")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=2024)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(options.seed)
    spare = np.random.default_rng([options.seed, 1])  # for more questions; the pictures do not depend on it
    models = {}
    for entry in options.model:
        name, _, folder = entry.partition("=")
        models[name] = load_for_reference(Path(folder), torch.float32)
    examples, scenes = [], []

    def record(messages: list[dict], names: list[str], truth: str | None) -> bool:
        pictures = [Image.open(options.out / name) for name in names]
        expected = {name: ask(model, messages, pictures) for name, model in models.items()}
        if truth is not None and any(said != truth for said in expected.values()):
            return False
        examples.append({"images": names, "messages": messages, "truth": truth, "expected": expected})
        return True

    def record_one_of(questions: list[tuple[str, str]], name: str) -> bool:
        return any(record([turn("user", question, 1)], [name], truth) for question, truth in questions)

    for name, width, height, count in PICTURES:
        for _ in range(40):
            scene = random_scene(rng, width, height, max_shapes=4)
            if len(scene.shapes) != count:
                continue
            draw_scene(scene, rng).save(options.out / name, quality=92)
            kept = len(examples)
            text = caption(scene)
            tries = [[("What is in the picture?", text[0].upper() + text[1:] + ".")]]
            tries += [[question_for_one(rng, scene)[1:]] for _ in range(3)]
            for questions in tries[1:]:
                questions += [question_for_one(spare, scene)[1:] for _ in range(4)]
            if all(record_one_of(questions, name) for questions in tries):
                break
            del examples[kept:]
        scenes.append(scene)
    for first, second in [(0, 1), (2, 4)]:
        names = [PICTURES[first][0], PICTURES[second][0]]
        for _ in range(12):
            _, question, truth = question_for_two(rng, scenes[first], scenes[second])
            if record([turn("user", question, 2)], names, truth):
                break
    opening = turn("user", "What is in the picture?", 1)
    text = caption(scenes[1])
    reply = turn("assistant", text[0].upper() + text[1:] + ".")
    shapes = f"There are two shapes on a {scenes[1].background} background: {text}."
    record([opening, reply, turn("user", "Describe the picture.")], [PICTURES[1][0]], shapes)
    for text in ("Hello", "What can you do?", "Thank you!"):
        record([turn("user", text)], [], None)
    (options.out / "examples.json").write_text(
        json.dumps(examples, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    print(len(examples), "examples")


if __name__ == "__main__":
    main()
