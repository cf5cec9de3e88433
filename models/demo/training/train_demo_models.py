"""Train, export and score the tiny demo vision-language models.

    python train_demo_models.py --model llava --out llava --minutes 20
    python train_demo_models.py --model qwen2_5_vl --out qwen2_5_vl --minutes 25
    python train_demo_models.py --model llava --out llava --score-only 500

A model learns to answer questions about synthetic pictures (see `shape_pictures.py`). Next to the
language loss, a throw-away head reads kind, colour and rank of the shape under each image token
from the image tokens, which makes the vision tower learn quickly. The checkpoint is written
with the weight names and files that published checkpoints of these two families use.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from demo_batches import IGNORE, Batch, BatchMaker, LlavaDialogs, QwenDialogs
from demo_checkpoints import LLAVA, QWEN, build_model, export_checkpoint, load_for_reference, load_weights
from demo_tokenizers import build_llama_style, build_qwen_style
from shape_pictures import (
    COLOUR_NAMES,
    DECODER_TOPIC_WEIGHTS,
    HARD_TOPIC_WEIGHTS,
    SHAPES,
    draw_scene,
    question_for_one,
    random_scene,
)
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

CELL_CLASSES = (1 + len(SHAPES), 1 + len(COLOUR_NAMES), 5, 5)
HELD_OUT_SEED = 987654
AIM_LAYER, AIM_HEADS = 1, (0, 3)  # which decoder layer and query heads look for the shapes a question means
# Without bfloat16 instructions autocast is many times slower than float32.
FAST_BF16 = "amx_bf16" in Path("/proc/cpuinfo").read_text() or "avx512_bf16" in Path("/proc/cpuinfo").read_text()


def plain_attention(module, query, key, value, attention_mask, scaling, **_) -> tuple:
    """Masked attention by two products and a softmax; on CPUs its backward pass beats the fused one.

    query (B, heads, S, d), key and value (B, kv heads, S, d), mask additive or None
    -> ((B, S, heads, d), None).
    """
    groups = query.shape[1] // key.shape[1]
    with torch.autocast("cpu", enabled=False):
        query, key = query.to(value.dtype), key.to(value.dtype)
        if groups > 1:
            key, value = (t.repeat_interleave(groups, dim=1) for t in (key, value))
        scores = (query * scaling) @ key.transpose(-1, -2)
        if attention_mask is not None:
            scores = scores + attention_mask.to(scores.dtype)
        seen = torch.softmax(scores, dim=-1) @ value
    return seen.transpose(1, 2), None


ALL_ATTENTION_FUNCTIONS.register("plain", plain_attention)


def additive(allowed: torch.Tensor) -> torch.Tensor:
    """True/False mask -> 0 / a large negative number, in bfloat16."""
    return torch.zeros(allowed.shape, dtype=torch.bfloat16).masked_fill_(~allowed, -30000.0)


class CellReader(nn.Module):
    """Throw-away head: features of an image token -> kind, colour, x rank and y rank logits."""

    def __init__(self, width: int):
        super().__init__()
        self.linear = nn.Linear(width, sum(CELL_CLASSES))

    def loss(self, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """features (P, cells, width), labels (P, cells, 4) -> mean cross-entropy."""
        logits = self.linear(features.float()).flatten(0, 1)
        labels = labels.flatten(0, 1)
        weight = torch.where(labels[:, 0] > 0, 1.0, 0.15)
        total = logits.new_zeros(())
        for column, part in enumerate(logits.split(CELL_CLASSES, dim=-1)):
            each = F.cross_entropy(part, labels[:, column], reduction="none")
            total = total + (each * weight).sum() / weight.sum()
        return total


class AimReader(nn.Module):
    """Throw-away head and loss: at the word that names shapes, some heads look at them, and their number is known.

    Whether there is a green star is hard to find out by trial: until some head looks for both words
    at once, and elsewhere when there is none, every guess costs the same. This says where to look.
    """

    def __init__(self, width: int, most: int = 4):
        super().__init__()
        self.most = most
        self.linear = nn.Linear(width, most + 1)

    def loss(self, layers: nn.ModuleList, into: list[torch.Tensor], mask, rotary, batch: Batch) -> torch.Tensor:
        """into: what each layer was given, (B, S, width); mask (B, 1, S, S); rotary: cosines and sines (B, S, d)."""
        rows, columns = batch.aims.unbind(1)
        layer = layers[AIM_LAYER]
        attention, hidden = layer.self_attn, layer.input_layernorm(into[AIM_LAYER])
        groups = attention.num_key_value_groups
        cos, sin = (part.unsqueeze(2) for part in rotary)

        def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
            first, second = x.chunk(2, dim=-1)
            return x * cos + torch.cat([-second, first], dim=-1) * sin

        query = attention.q_proj(hidden[rows, columns]).unflatten(-1, (-1, attention.head_dim))[:, AIM_HEADS]
        key = attention.k_proj(hidden).unflatten(-1, (-1, attention.head_dim))
        query = turned(query, cos[rows, columns], sin[rows, columns]) * attention.scaling
        key = turned(key, cos, sin)[rows][:, :, [head // groups for head in AIM_HEADS]]
        scores = torch.einsum("nhd,nshd->nhs", query, key) + mask[rows, 0, columns][:, None]
        mass = torch.einsum("nhs,nms->nhm", scores.softmax(-1), batch.aimed_at.to(scores.dtype))
        meant = batch.aimed_at.any(-1)  # (N, 8)
        missed = -mass.clamp_min(1e-6).log().mean(1)
        looking = ((missed * meant).sum(1) / meant.sum(1).clamp_min(1)).mean()
        number = torch.where(batch.aimed_at[:, 0, 0], 0, meant.sum(1)).clamp_max(self.most)
        return looking + F.cross_entropy(self.linear(into[AIM_LAYER + 1][rows, columns]), number)


def clip_features(model: nn.Module, pixels: torch.Tensor) -> torch.Tensor:
    """LLaVA's selected vision features: pixels (P, 3, H, W) -> (P, patches, vision width).

    Runs only the layers up to the selected one (-2), and drops the class token.
    """
    tower = model.model.vision_tower
    tower = getattr(tower, "vision_model", tower)
    hidden = tower.pre_layrnorm(tower.embeddings(pixels))
    for layer in tower.encoder.layers[:-1]:
        hidden = layer(hidden, attention_mask=None)
    return hidden[:, 1:]


def qwen_vision_block(block: nn.Module, hidden: torch.Tensor, mask, cos, sin) -> torch.Tensor:
    """One vision layer on a batch: hidden (P, patches, width), mask (1, 1, patches, patches)."""

    def rotate(x: torch.Tensor) -> torch.Tensor:
        first, second = x.float().chunk(2, dim=-1)
        return (x.float() * cos + torch.cat([-second, first], dim=-1) * sin).to(x.dtype)

    count, length, _ = hidden.shape
    attention = block.attn
    mixed = attention.qkv(block.norm1(hidden)).view(count, length, 3, attention.num_heads, -1)
    query, key, value = mixed.permute(2, 0, 3, 1, 4).unbind(0)
    seen = plain_attention(attention, rotate(query), rotate(key), value, mask, attention.scaling)[0]
    hidden = hidden + attention.proj(seen.reshape(count, length, -1))
    return hidden + block.mlp(block.norm2(hidden))


def qwen_features(model: nn.Module, pixels: torch.Tensor, grid: tuple[int, int]) -> torch.Tensor:
    """Qwen2.5-VL's merged vision features for pictures of one size.

    pixels (P, patches, patch_dim), grid = merged rows and columns -> (P, rows * columns, LM width).
    The library's tower runs window by window; here one mask per layer kind does the same for a
    whole batch, without the window permutation.
    """
    tower = model.model.visual
    merge, patch = tower.spatial_merge_size, tower.patch_size
    window = tower.window_size // merge // patch
    rows, columns = grid
    count, length, _ = pixels.shape
    hidden = F.linear(pixels, tower.patch_embed.proj.weight.flatten(1))
    row = torch.arange(rows)[:, None, None, None] * merge + torch.arange(merge)[:, None]
    column = torch.arange(columns)[:, None, None] * merge + torch.arange(merge)
    row, column = (t.expand(rows, columns, merge, merge).flatten() for t in (row, column))
    window_of = (row // merge // window) * 1000 + column // merge // window
    window_mask = additive((window_of[:, None] == window_of[None, :])[None, None])
    angles = torch.stack([row, column], dim=-1)[..., None] * tower.rotary_pos_emb.inv_freq
    angles = angles.flatten(1)
    cos, sin = (f(torch.cat([angles, angles], dim=-1))[None, None] for f in (torch.cos, torch.sin))
    everywhere = torch.zeros_like(window_mask)
    for number, block in enumerate(tower.blocks):
        mask = everywhere if number in tower.fullatt_block_indexes else window_mask
        hidden = qwen_vision_block(block, hidden, mask, cos, sin)
    merged = tower.merger.ln_q(hidden).reshape(count, length // merge**2, -1)
    return tower.merger.mlp(merged)


class Trainer:
    """One model with its tokenizer, batches and optimiser."""

    def __init__(
        self,
        family: str,
        seed: int,
        compiled: bool = False,
        topic_weights: list[float] | None = None,
        decoder_only: bool = False,
    ):
        torch.manual_seed(seed)
        self.family = family
        if family == "llava":
            self.settings = LLAVA
            self.tokenizer = build_llama_style()
            self.model = build_model(LLAVA, self.tokenizer)
            side, patch = LLAVA["vision"]["image_size"], LLAVA["vision"]["patch_size"]
            self.dialogs = LlavaDialogs(self.tokenizer, (side // patch) ** 2)
            vision = {"kind": "clip", "side": side, "patch": patch}
        else:
            self.settings = QWEN
            self.tokenizer = build_qwen_style()
            self.model = build_model(QWEN, self.tokenizer)
            self.dialogs = QwenDialogs(self.tokenizer)
            vision = {"kind": "qwen", "patch": QWEN["vision"]["patch_size"], "merge": 2, **QWEN["pixels"]}
            self._check_vision()
        self.shield_vision = False  # when true, the language loss does not move the vision tower
        self.model.set_attn_implementation("plain")
        self.reader = CellReader(self.settings["text"]["hidden_size"])
        self.aim_reader = AimReader(self.settings["text"]["hidden_size"])
        self.decoder_only = decoder_only
        if decoder_only:
            self.model.model.visual.requires_grad_(False)
        if compiled:
            self._compile()
        encode = torch.no_grad()(self._features) if decoder_only else None
        branches = 9 if decoder_only else 5
        self.batches = BatchMaker(self.dialogs, vision, seed, topic_weights, branches, encode)
        self.held_out = BatchMaker(self.dialogs, vision, HELD_OUT_SEED)

    def _compile(self) -> None:
        """Compile the repeated layers; about twice as fast a step for a minute or two of compiling."""
        global qwen_vision_block
        for layer in self.model.model.language_model.layers:
            layer.compile(dynamic=True)
        if self.family == "llava":
            tower = self.model.model.vision_tower
            for layer in getattr(tower, "vision_model", tower).encoder.layers:
                layer.compile(dynamic=True)
        elif not self.decoder_only:
            qwen_vision_block = torch.compile(qwen_vision_block, dynamic=True)

    def warm_up(self, tokens: int) -> None:
        """One forward and backward pass of each kind of batch, so that compiling is done."""
        for mode in ("one", "two", "turns"):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=FAST_BF16):
                logits, labels, _, helper_loss = self.forward(self.batches.next(tokens, mode))
            (F.cross_entropy(logits.float(), labels) + helper_loss).backward()
        for module in (self.model, self.reader, self.aim_reader):
            module.zero_grad(set_to_none=True)

    def _check_vision(self) -> None:
        """The batched tower must equal the library's."""
        rows, columns, patches = 5, 7, 5 * 7 * 4
        pixels = torch.randn(2, patches, 3 * 2 * 14 * 14)
        grid = torch.tensor([[1, rows * 2, columns * 2]] * 2)
        with torch.no_grad():
            ours = qwen_features(self.model, pixels, (rows, columns))
            theirs = self.model.model.visual(pixels.flatten(0, 1), grid_thw=grid).pooler_output
        gap = (ours.flatten(0, 1) - theirs).abs().max().item()
        assert gap < 1e-3, f"batched vision tower differs by {gap}"

    def _features(self, pixels: torch.Tensor, grid: tuple[int, int]) -> torch.Tensor:
        """The image tokens, which the cell reader reads as well: (P, cells, LM width)."""
        if self.family == "llava":
            return self.model.model.multi_modal_projector(clip_features(self.model, pixels))
        return qwen_features(self.model, pixels, grid)

    def train_vision(self, count: int = 64, fresh: int = 24) -> tuple[float, float]:
        """One step of the vision tower alone on the cell labels; (loss, share of kinds right)."""
        pixels, labels, grid = self.batches.pictures(count, fresh)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=FAST_BF16):
            features = self._features(pixels, grid)
        loss = self.reader.loss(features, labels)
        loss.backward()
        with torch.no_grad():
            kinds = self.reader.linear(features.float())[..., : CELL_CLASSES[0]].argmax(-1)
            shown = labels[..., 0] > 0
            right = (kinds == labels[..., 0])[shown].float().mean()
        return loss.item(), right.item()

    def forward(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits (L, vocabulary) and labels (L,) of the learnt tokens, their rows' index, helper loss.

        The helper loss is that of the cells, or for encoded pictures that of the aims.
        """
        core = self.model.model
        helper_loss = torch.zeros(())
        if batch.encoded:
            image_tokens = batch.pixels
        else:
            image_tokens = self._features(batch.pixels, batch.grid)
            helper_loss = self.reader.loss(image_tokens, batch.cell_labels)
        embeds = core.language_model.embed_tokens(batch.input_ids)
        is_image = (batch.input_ids == self.dialogs.image_id) & (batch.branch_of >= 0)
        if self.shield_vision:
            image_tokens = image_tokens.detach()
        image_tokens = image_tokens.flatten(0, 1).to(embeds.dtype)
        embeds = embeds.masked_scatter(is_image[..., None], image_tokens)
        decoder, hidden, into = core.language_model, embeds, []
        mask = additive(batch.attention)
        rotary = decoder.rotary_emb(hidden, batch.positions if self.family != "llava" else batch.positions[0])
        for layer in decoder.layers:
            into.append(hidden)
            hidden = layer(hidden, attention_mask=mask, position_embeddings=rotary)
        if batch.aims is not None:
            helper_loss = self.aim_reader.loss(decoder.layers, into, mask, rotary, batch)
        hidden = decoder.norm(hidden)
        learnt = batch.labels != IGNORE
        before = torch.zeros_like(learnt)
        before[:, :-1] = learnt[:, 1:]
        return self.model.lm_head(hidden[before]), batch.labels[learnt], learnt.nonzero(), helper_loss

    def train(self, minutes: float, tokens: int, peak: float, shares: tuple[float, float], folder: Path) -> None:
        """Run until the time is up; the learning rate follows a cosine over time.

        `shares` are two shares of the time. Until the first, the vision tower trains alone, which
        is many times cheaper per picture than a step of the whole model; until the second, the
        decoder learns as well, but its loss does not move the tower; then all train together.
        Every 400 steps the checkpoint so far goes to `folder`.
        """
        self.model.train()
        helper = self.aim_reader if self.decoder_only else self.reader
        named = [(n, p) for m in (self.model, helper) for n, p in m.named_parameters() if p.requires_grad]
        decay = [p for n, p in named if p.ndim > 1 and "embed" not in n]
        plain = [p for n, p in named if not (p.ndim > 1 and "embed" not in n)]
        optimiser = torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
            lr=peak,
            betas=(0.9, 0.98),
        )
        vision_share, shield_share = shares
        start, step, kept = time.monotonic(), 0, []
        while (share := (time.monotonic() - start) / (60 * minutes)) < 1:
            rate = peak * min(1, (step + 1) / 60) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))
            for group in optimiser.param_groups:
                group["lr"] = rate
            if share < vision_share:
                kept.append(self.train_vision())
            else:
                # While the decoder learns to look, its first gradients would only blur the features.
                self.shield_vision = share < shield_share
                if share < 0.85 and step % 4 == 0 and not self.decoder_only:  # more pictures than dialogs bring
                    self.train_vision(count=48, fresh=8)
                batch = self.batches.next(tokens)
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=FAST_BF16):
                    logits, labels, _, helper_loss = self.forward(batch)
                loss = F.cross_entropy(logits.float(), labels)
                (loss + 0.5 * helper_loss).backward()
                kept.append((loss.item(), helper_loss.item()))
            nn.utils.clip_grad_norm_([p for _, p in named], 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            step += 1
            if step % 25 == 0:
                means = np.mean(kept, axis=0)
                kept = []
                seconds = time.monotonic() - start
                names = ("cells", "kinds right") if share < vision_share else ("loss", "helper")
                parts = ", ".join(f"{n} {m:.4f}" for n, m in zip(names, means))
                print(f"step {step} {seconds:.0f}s rate {rate:.5f} {parts}", flush=True)
            if share >= vision_share and step % 200 == 0:
                print("  held out:", self.quick_score(), flush=True)
            if share >= vision_share and step % 400 == 0:
                export_checkpoint(self.model, self.tokenizer, self.settings, folder)
        print(f"trained {step} steps")

    def quick_score(self, batches: int = 6) -> str:
        """Share of answers whose every token is the best one (equals greedy exactness)."""
        right: dict[str, list[bool]] = defaultdict(list)
        for number in range(batches):
            batch = self.held_out.next(3000, ["one", "one", "two", "turns"][number % 4])
            with torch.autocast(
                "cpu", dtype=torch.bfloat16, enabled=FAST_BF16
            ):  # with gradients: no second compilation
                logits, labels, where, _ = self.forward(batch)
            wrong = {
                (int(r), int(batch.branch_of[r, c]))
                for (r, c), bad in zip(where.tolist(), (logits.argmax(-1) != labels).tolist())
                if bad
            }
            for r, topics in enumerate(batch.topics):
                for b, topic in enumerate(topics, start=1):
                    right[topic].append((r, b) not in wrong)
        every = [ok for oks in right.values() for ok in oks]
        parts = [f"{topic} {np.mean(oks):.2f}" for topic, oks in sorted(right.items())]
        return f"{np.mean(every):.3f} of {len(every)}; " + ", ".join(parts)


def score_checkpoint(folder: Path, family: str, pictures: int, seed: int = HELD_OUT_SEED + 1) -> dict:
    """Greedy exact-answer accuracy of a saved checkpoint through the library's own processor."""
    processor, model = load_for_reference(folder, torch.float32)
    rng = np.random.default_rng(seed)
    right: dict[str, list[bool]] = defaultdict(list)
    misses = []
    for _ in range(pictures):
        width, height = (int(v) for v in rng.integers(110, 250, 2))
        scene = random_scene(rng, width, height, centred=family == "llava")
        image = draw_scene(scene, rng)
        topic, question, answer = question_for_one(rng, scene)
        messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]}]
        prompt = processor.apply_chat_template(messages, add_generation_prompt=True)
        inputs = processor(images=[image], text=prompt, return_tensors="pt")
        with torch.no_grad():
            out = model.generate(**inputs, max_new_tokens=64, do_sample=False)
        said = processor.tokenizer.decode(out[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        right[topic].append(said.strip() == answer)
        if said.strip() != answer and len(misses) < 25:
            misses.append({"question": question, "expected": answer, "said": said.strip()})
    every = [ok for oks in right.values() for ok in oks]
    return {
        "pictures": pictures,
        "exact_answer_accuracy": round(float(np.mean(every)), 4),
        "by_topic": {t: [int(np.sum(oks)), len(oks)] for t, oks in sorted(right.items())},
        "some_misses": misses,
    }


def main() -> None:
    """Train and export, or only score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=["llava", "qwen2_5_vl"], required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--tokens", type=int, default=1400, help="text and image tokens per step")
    parser.add_argument("--rate", type=float, default=1.0e-3)
    parser.add_argument("--vision-share", type=float, default=0.3, help="of the time, tower alone")
    parser.add_argument("--shield-share", type=float, default=0.6, help="of the time, see train()")
    parser.add_argument("--resume", type=Path, help="start from the weights of this checkpoint")
    parser.add_argument("--resume-part", default="", help="only weights whose name starts so")
    parser.add_argument("--hard-topics", action="store_true", help="ask more of what is learnt last")
    parser.add_argument("--decoder-only", action="store_true", help="qwen2_5_vl: the vision tower stands still")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--score", type=int, default=500, help="held-out pictures to score at the end")
    parser.add_argument("--score-only", action="store_true")
    parser.add_argument("--no-compile", action="store_true", help="where there is no C++ compiler")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if not options.score_only:
        weights = HARD_TOPIC_WEIGHTS if options.hard_topics else None
        if options.decoder_only:
            weights = DECODER_TOPIC_WEIGHTS
        trainer = Trainer(options.model, options.seed, not options.no_compile, weights, options.decoder_only)
        if options.resume:
            load_weights(trainer.model, options.model, options.resume, options.resume_part)
        size = sum(p.numel() for p in trainer.model.parameters())
        print(f"{options.model}: {size / 1e6:.2f} M parameters", flush=True)
        began = time.monotonic()
        trainer.warm_up(options.tokens)
        print(f"warm-up took {time.monotonic() - began:.0f}s", flush=True)
        shares = (options.vision_share, options.shield_share)
        trainer.train(options.minutes, options.tokens, options.rate, shares, options.out)
        print("final", trainer.quick_score(24), flush=True)
        export_checkpoint(trainer.model, trainer.tokenizer, trainer.settings, options.out)
    report = score_checkpoint(options.out, options.model, options.score)
    print(json.dumps(report, indent=1))
    (options.out / "score.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
