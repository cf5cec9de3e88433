"""Write the reference numbers of the demo models: what Hugging Face transformers makes of the cases in cases/.

    pip install -r tests/reference/requirements.txt
    python tests/golden/make_goldens.py [llava] [qwen2_5_vl]

reads models/demo/NAME and writes tests/golden/NAME, for both models unless some are named.

goldens.json has, for each case: messages, pictures, the prompt after the chat template, `input_ids` with placeholders
repeated, the five best first tokens with their logits, 24 greedy tokens that pass over end tokens
(`greedy_ignoring_end`) and the lead of each on the second-best token (`greedy_leads`; a small lead may flip under other
arithmetic). goldens.safetensors has, as CASE.NAME: `logits` (vocabulary rows) at the last prompt position,
`image_embeds` (image tokens, width), for some cases `pixel_values` (LLaVA: pictures, 3, side, side; Qwen: patches,
3 * 2 * 14 * 14), and for Qwen `position_ids` (3, prompt tokens).

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


def positions_of(model: torch.nn.Module, inputs: dict) -> torch.Tensor | None:
    """M-RoPE positions (3, 1, prompt tokens), or None for models with plain ones.

    They are always given, because the library keeps the position offset of one prompt for the next one.
    """
    if not hasattr(model, "model") or not hasattr(model.model, "get_rope_index"):
        return None
    n = inputs["input_ids"].shape[1]
    if "image_grid_thw" not in inputs:
        return torch.arange(n).expand(3, 1, n)
    positions, _ = model.model.get_rope_index(
        inputs["input_ids"], mm_token_type_ids=inputs["mm_token_type_ids"], image_grid_thw=inputs["image_grid_thw"]
    )
    return positions


def greedy(model: torch.nn.Module, inputs: dict, n: int) -> tuple[torch.Tensor, list[int], list[float]]:
    """Logits at the last prompt position, n greedy tokens that pass over end tokens, and their leads."""
    positions = positions_of(model, inputs)
    at = {} if positions is None else {"position_ids": positions}
    out = model(**inputs, **at, use_cache=True)
    first = out.logits[0, -1].float()
    scores, tokens, leads = first, [], []
    for i in range(n):
        best = scores.topk(2)
        tokens.append(int(best.indices[0]))
        leads.append(float(best.values[0] - best.values[1]))
        if positions is not None:
            at = {"position_ids": (positions.max() + 1 + i).expand(3, 1, 1)}
        out = model(input_ids=torch.tensor([[tokens[-1]]]), **at, past_key_values=out.past_key_values, use_cache=True)
        scores = out.logits[0, -1].float()
    return first, tokens, leads


def image_features(model: torch.nn.Module, inputs: dict) -> torch.Tensor:
    """What takes the places of the image placeholders, of all pictures."""
    grid = {"image_grid_thw": inputs["image_grid_thw"]} if "image_grid_thw" in inputs else {}
    features = model.model.get_image_features(pixel_values=inputs["pixel_values"], **grid, return_dict=True)
    return torch.cat(list(features.pooler_output)).float()


def run_case(case: dict, folder: Path, processor, model) -> tuple[dict, dict]:
    """The record and the tensors of one case."""
    pictures = [Image.open(folder / name) for name in case["images"]]
    prompt = processor.apply_chat_template(case["messages"], add_generation_prompt=True)
    inputs = dict(processor(images=pictures or None, text=prompt, return_tensors="pt"))
    tensors = {}
    if pictures:
        tensors["image_embeds"] = image_features(model, inputs)
        if case["keep_pixels"]:
            tensors["pixel_values"] = inputs["pixel_values"].float()
    positions = positions_of(model, inputs)
    if positions is not None:
        tensors["position_ids"] = positions[:, 0].int()
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


def write_goldens(name: str) -> None:
    """Run all cases on one demo model and write both files."""
    cases = ROOT / "tests" / "golden" / "cases"
    processor, model = load_for_reference(ROOT / "models" / "demo" / name, torch.float32)
    model.set_attn_implementation("eager")
    records, tensors = [], {}
    for case in json.loads((cases / "cases.json").read_text(encoding="utf-8")):
        record, own = run_case(case, cases, processor, model)
        records.append(record)
        tensors.update(own)
    goldens = {
        "library": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}",
        "cases": records,
    }
    out = ROOT / "tests" / "golden" / name
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(goldens, indent=1, ensure_ascii=False) + "\n"
    (out / "goldens.json").write_text(text, encoding="utf-8")
    save_file(tensors, out / "goldens.safetensors")


def main() -> None:
    """Write the goldens of the models that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=["llava", "qwen2_5_vl"], metavar="NAME")
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    for name in parser.parse_args().names:
        write_goldens(name)


if __name__ == "__main__":
    main()
