"""Write the reference numbers of the demo model: what Hugging Face transformers makes of the cases in cases/.

    pip install -r tests/reference/requirements.txt
    python tests/golden/make_goldens.py [--model models/demo/llava] [--out tests/golden/llava]

goldens.json has, for each case: messages, pictures, the prompt after the chat template, `input_ids` with placeholders
repeated, the five best first tokens with their logits, 24 greedy tokens that pass over end tokens
(`greedy_ignoring_end`) and the lead of each on the second-best token (`greedy_leads`; a small lead may flip under other
arithmetic). goldens.safetensors has, as CASE.NAME: `logits` (vocabulary rows) at the last prompt position,
`image_embeds` (image tokens, width), and for some cases `pixel_values` (pictures, 3, side, side).

All numbers are float32 arithmetic on the stored weights with eager attention, on pictures prepared by the PIL backend.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch
import transformers
from PIL import Image
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models" / "demo" / "training"))

from demo_checkpoints import load_for_reference  # noqa: E402

N_GREEDY = 24


def greedy(model: torch.nn.Module, inputs: dict, n: int) -> tuple[torch.Tensor, list[int], list[float]]:
    """Logits at the last prompt position, n greedy tokens that pass over end tokens, and their leads."""
    out = model(**inputs, use_cache=True)
    first = out.logits[0, -1].float()
    scores, tokens, leads = first, [], []
    for _ in range(n):
        best = scores.topk(2)
        tokens.append(int(best.indices[0]))
        leads.append(float(best.values[0] - best.values[1]))
        out = model(input_ids=torch.tensor([[tokens[-1]]]), past_key_values=out.past_key_values, use_cache=True)
        scores = out.logits[0, -1].float()
    return first, tokens, leads


def run_case(case: dict, folder: Path, processor, model) -> tuple[dict, dict]:
    """The record and the tensors of one case."""
    pictures = [Image.open(folder / name) for name in case["images"]]
    prompt = processor.apply_chat_template(case["messages"], add_generation_prompt=True)
    inputs = dict(processor(images=pictures or None, text=prompt, return_tensors="pt"))
    tensors = {}
    if pictures:
        features = model.model.get_image_features(pixel_values=inputs["pixel_values"], return_dict=True)
        tensors["image_embeds"] = torch.cat(list(features.pooler_output)).float()
        if case["keep_pixels"]:
            tensors["pixel_values"] = inputs["pixel_values"].float()
    logits, tokens, leads = greedy(model, inputs, N_GREEDY)
    tensors["logits"] = logits
    best = logits.topk(5)
    record = {
        "name": case["name"],
        "messages": case["messages"],
        "images": case["images"],
        "prompt": prompt,
        "input_ids": inputs["input_ids"][0].tolist(),
        "top5": [[int(i), float(v)] for v, i in zip(best.values, best.indices)],
        "greedy_ignoring_end": tokens,
        "greedy_leads": leads,
        "answer": processor.tokenizer.decode(tokens, skip_special_tokens=False),
    }
    return record, {f"{case['name']}.{name}": tensor.contiguous() for name, tensor in tensors.items()}


def main() -> None:
    """Run all cases and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, default=ROOT / "models" / "demo" / "llava")
    parser.add_argument("--cases", type=Path, default=ROOT / "tests" / "golden" / "cases")
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "golden" / "llava")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    processor, model = load_for_reference(options.model, torch.float32)
    model.set_attn_implementation("eager")
    records, tensors = [], {}
    for case in json.loads((options.cases / "cases.json").read_text(encoding="utf-8")):
        record, own = run_case(case, options.cases, processor, model)
        records.append(record)
        tensors.update(own)
    goldens = {
        "library": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}",
        "cases": records,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(goldens, indent=1, ensure_ascii=False) + "\n"
    (options.out / "goldens.json").write_text(text, encoding="utf-8")
    save_file(tensors, options.out / "goldens.safetensors")


if __name__ == "__main__":
    main()
