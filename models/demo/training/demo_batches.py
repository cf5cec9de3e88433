"""Training batches: pictures, packed dialogs, attention masks, positions and helper labels.

A training row is one *prefix* (system text and pictures) followed by several *branches*, each a
question with its answer. A branch sees the prefix and itself, never another branch, and its
positions continue the prefix's; so one row teaches as much as several rows with the same picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from demo_tokenizers import QWEN_SYSTEM_PROMPT
from PIL import Image
from shape_pictures import (
    COLOUR_NAMES,
    SHAPES,
    Scene,
    draw_scene,
    question_for_one,
    question_for_two,
    random_scene,
    small_talk,
    small_talk_with_picture,
    vary_wording,
    what_is_meant,
)

IMAGE_MEAN = np.array([0.48145466, 0.4578275, 0.40821073], dtype=np.float32)
IMAGE_STD = np.array([0.26862954, 0.26130258, 0.27577711], dtype=np.float32)
IGNORE = -100
# Answer tokens up to the one that decides; the rest only repeats the question.
DECISIVE_TOKENS = {"exists": 1, "count_kind": 3, "side": 3}


@dataclass
class Aim:
    """What the question of a branch is about: token `at` names the shapes `meant`, ranks from the left per picture."""

    at: int
    meant: list[list[int]]


@dataclass
class Branch:
    """Tokens after the prefix; `labels` is IGNORE where nothing is to be learnt."""

    tokens: list[int]
    labels: list[int]
    sees_prefix: bool
    topic: str
    aim: Aim | None = None


@dataclass
class Row:
    """One training row; `image_grids` holds (rows, columns) of image tokens per picture."""

    prefix: list[int]
    branches: list[Branch]
    image_grids: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Batch:
    """Tensors of B rows padded to S tokens, with P pictures in reading order."""

    input_ids: torch.Tensor  # (B, S) int64
    labels: torch.Tensor  # (B, S) int64, aligned with the tokens they name
    branch_of: torch.Tensor  # (B, S) int64: 0 prefix, 1.. branches, -1 padding
    attention: torch.Tensor  # (B, 1, S, S) bool
    positions: torch.Tensor  # (3, B, S) int64: time, height, width
    pixels: torch.Tensor  # LLaVA (P, 3, H, W); Qwen (P, patches, patch_dim); encoded (P, cells, LM width)
    grid: tuple[int, int]  # image-token rows and columns, the same for all pictures
    cell_labels: torch.Tensor  # (P, rows * columns, 4): kind, colour, x rank, y rank (0 = none)
    topics: list[list[str]]
    encoded: bool = False  # `pixels` has the image tokens themselves
    aims: torch.Tensor | None = None  # (N, 2) int64: row and token that name the shapes of row n of `aimed_at`
    aimed_at: torch.Tensor | None = None  # (N, 8, S) bool: the tokens of each shape meant


# ---------------------------------------------------------------------------------------------
# Pixels, by the rules of the two image processors
# ---------------------------------------------------------------------------------------------


def normalise(image: Image.Image) -> np.ndarray:
    """PIL RGB -> (3, H, W) float32 with CLIP's mean and deviation."""
    pixels = np.asarray(image, dtype=np.float32) / np.float32(255)
    return ((pixels - IMAGE_MEAN) / IMAGE_STD).transpose(2, 0, 1)


@dataclass
class Geometry:
    """How original picture coordinates map to the model's pixels."""

    width: int
    height: int
    scale_x: float
    scale_y: float
    shift_x: float
    shift_y: float


def clip_geometry(width: int, height: int, side: int) -> tuple[Geometry, tuple[int, int]]:
    """Shortest edge to `side`, then the centre square; also the (width, height) to resize to."""
    if width <= height:
        new_w, new_h = side, int(side * height / width)
    else:
        new_w, new_h = int(side * width / height), side
    left, top = (new_w - side) // 2, (new_h - side) // 2
    return Geometry(side, side, new_w / width, new_h / height, -left, -top), (new_w, new_h)


def clip_pixels(image: Image.Image, side: int) -> np.ndarray:
    """CLIP's preprocessing: (3, side, side) float32."""
    geometry, size = clip_geometry(image.width, image.height, side)
    resized = image.resize(size, Image.Resampling.BICUBIC)
    left, top = int(-geometry.shift_x), int(-geometry.shift_y)
    return normalise(resized.crop((left, top, left + side, top + side)))


def qwen_size(height: int, width: int, factor: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    """Height and width as multiples of `factor` with an area within the limits."""
    new_h, new_w = round(height / factor) * factor, round(width / factor) * factor
    if new_h * new_w > max_pixels:
        shrink = math.sqrt(height * width / max_pixels)
        new_h = max(factor, math.floor(height / shrink / factor) * factor)
        new_w = max(factor, math.floor(width / shrink / factor) * factor)
    elif new_h * new_w < min_pixels:
        grow = math.sqrt(min_pixels / (height * width))
        new_h = math.ceil(height * grow / factor) * factor
        new_w = math.ceil(width * grow / factor) * factor
    return new_h, new_w


def qwen_pixels(image: Image.Image, height: int, width: int, patch: int, merge: int) -> np.ndarray:
    """Qwen2.5-VL's patches, merge blocks together: (patches, 3 * 2 * patch * patch) float32."""
    pixels = normalise(image.resize((width, height), Image.Resampling.BICUBIC))
    rows, columns = height // (patch * merge), width // (patch * merge)
    blocks = pixels.reshape(3, rows, merge, patch, columns, merge, patch)
    blocks = blocks.transpose(1, 4, 2, 5, 0, 3, 6)[:, :, :, :, :, None]
    blocks = np.repeat(blocks, 2, axis=5)  # a still picture fills both frames of a temporal patch
    return np.ascontiguousarray(blocks.reshape(rows * columns * merge * merge, -1))


def cell_labels(scene: Scene, geometry: Geometry, rows: int, columns: int) -> np.ndarray:
    """What lies under each image token, (rows * columns, 4) int64; 0 means background.

    Columns: 1 + kind, 1 + colour, 1 + rank from the left, 1 + rank from the top.
    """
    labels = np.zeros((rows, columns, 4), dtype=np.int64)
    best = np.full((rows, columns), np.inf)
    cell_w, cell_h = geometry.width / columns, geometry.height / rows
    grid_x = (np.arange(columns) + 0.5)[None, :] * cell_w
    grid_y = (np.arange(rows) + 0.5)[:, None] * cell_h
    by_height = sorted(range(len(scene.shapes)), key=lambda i: scene.shapes[i].cy)
    for rank, shape in enumerate(scene.shapes):
        x = shape.cx * geometry.scale_x + geometry.shift_x
        y = shape.cy * geometry.scale_y + geometry.shift_y
        radius = shape.radius * math.sqrt(geometry.scale_x * geometry.scale_y)
        reach = max(0.85 * radius, 0.55 * max(cell_w, cell_h))
        distance = np.hypot(grid_x - x, grid_y - y) / reach
        inside = (distance < 1) & (distance < best)
        best[inside] = distance[inside]
        labels[inside] = (
            1 + SHAPES.index(shape.kind),
            1 + COLOUR_NAMES.index(shape.colour),
            1 + rank,
            1 + by_height.index(rank),
        )
    return labels.reshape(rows * columns, 4)


# ---------------------------------------------------------------------------------------------
# Dialogs as tokens
# ---------------------------------------------------------------------------------------------


class LlavaDialogs:
    """Token rows in LLaVA-1.5's conversation format."""

    def __init__(self, tokenizer, image_tokens: int):
        self.tokenizer = tokenizer
        self.image_id = tokenizer.token_to_id("<image>")
        self.image_tokens = image_tokens
        self.text_first = False  # the template always puts pictures first

    def prefix(self, pictures: int) -> list[int]:
        """Everything up to and including the last picture of the first turn."""
        ids = self.tokenizer.encode("USER: " + "\n".join(["<image>"] * pictures)).ids
        return self.expand(ids)

    def expand(self, ids: list[int]) -> list[int]:
        """Repeat each image placeholder once per image token."""
        out: list[int] = []
        for i in ids:
            out.extend([i] * (self.image_tokens if i == self.image_id else 1))
        return out

    def branch(self, turns: list[tuple[str, str]], topic: str, sees_prefix: bool = True) -> Branch:
        """(question, answer) turns after the prefix's pictures, or a dialog of its own."""
        text = ""
        for question, answer in turns[:-1]:
            text += f"{question} ASSISTANT: {answer} USER: "
        text += f"{turns[-1][0]} ASSISTANT:"
        full = f"{text} {turns[-1][1]}</s>"
        if sees_prefix:
            asked = self.tokenizer.encode("<image>\n" + text, add_special_tokens=False).ids[1:]
            whole = self.tokenizer.encode("<image>\n" + full, add_special_tokens=False).ids[1:]
        else:
            asked = self.tokenizer.encode("USER: " + text).ids
            whole = self.tokenizer.encode("USER: " + full).ids
        return Branch(whole, [IGNORE] * len(asked) + whole[len(asked) :], sees_prefix, topic)

    def two_turn_row(self, first: tuple[str, str], second: tuple[str, str], topic: str) -> Row:
        """A picture with each of two turns; both answers are learnt."""
        start = self.expand(self.tokenizer.encode(f"USER: <image>\n{first[0]} ASSISTANT:").ids)
        ids = self.expand(
            self.tokenizer.encode(
                f"USER: <image>\n{first[0]} ASSISTANT: {first[1]} USER: <image>\n{second[0]} ASSISTANT:"
            ).ids
        )
        whole = self.expand(
            self.tokenizer.encode(
                f"USER: <image>\n{first[0]} ASSISTANT: {first[1]} USER: <image>\n{second[0]} ASSISTANT: {second[1]}</s>"
            ).ids
        )
        labels = [IGNORE] * len(ids) + whole[len(ids) :]
        answer = len(self.tokenizer.encode(first[1], add_special_tokens=False).ids)
        labels[len(start) : len(start) + answer] = whole[len(start) : len(start) + answer]
        return Row([], [Branch(whole, labels, True, topic)])


class QwenDialogs:
    """Token rows in Qwen2.5-VL's ChatML format."""

    def __init__(self, tokenizer, image_tokens: int = 0):
        self.tokenizer = tokenizer
        self.image_id = tokenizer.token_to_id("<|image_pad|>")
        self.image_tokens = image_tokens  # set per batch: the pictures of a batch share one size
        self.text_first = True

    def encode(self, text: str) -> list[int]:
        """Token ids with image placeholders repeated once per image token."""
        out: list[int] = []
        for i in self.tokenizer.encode(text).ids:
            out.extend([i] * (self.image_tokens if i == self.image_id else 1))
        return out

    picture = "<|vision_start|><|image_pad|><|vision_end|>"
    system = f"<|im_start|>system\n{QWEN_SYSTEM_PROMPT}<|im_end|>\n"

    def prefix(self, pictures: int) -> list[int]:
        """System turn and the user turn up to and including its pictures."""
        return self.encode(f"{self.system}<|im_start|>user\n" + self.picture * pictures)

    def branch(
        self,
        turns: list[tuple[str, str]],
        topic: str,
        sees_prefix: bool = True,
        scenes: list[Scene] | None = None,
        learn_at_most: int | None = None,
    ) -> Branch:
        """(question, answer) turns after the prefix's pictures, or a dialog of its own.

        `scenes` of the prefix's pictures give the branch its aim; the answer is cut after
        `learn_at_most` tokens.
        """
        text = "" if sees_prefix else f"{self.system}<|im_start|>user\n"
        for question, answer in turns[:-1]:
            text += f"{question}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n<|im_start|>user\n"
        before = len(text)
        text += f"{turns[-1][0]}<|im_end|>\n<|im_start|>assistant\n"
        asked = self.encode(text)
        whole = self.encode(f"{text}{turns[-1][1]}<|im_end|>")
        if learn_at_most is not None:
            whole = whole[: len(asked) + learn_at_most]
        aim = None
        if scenes and (found := what_is_meant(turns[-1][0], scenes)):
            spans = self.tokenizer.encode(text).offsets
            aim = Aim(next(i for i, (_, end) in enumerate(spans) if end >= before + found[0]), found[1])
        return Branch(whole, [IGNORE] * len(asked) + whole[len(asked) :], sees_prefix, topic, aim)

    def row(self, text: str, answer: str, topic: str) -> Row:
        """A row of one branch that holds the pictures itself; `text` ends where the answer starts."""
        asked, whole = self.encode(text), self.encode(f"{text}{answer}<|im_end|>")
        return Row([], [Branch(whole, [IGNORE] * len(asked) + whole[len(asked) :], True, topic)])

    def text_first_row(self, question: str, answer: str, topic: str) -> Row:
        """The question before its picture."""
        text = f"{self.system}<|im_start|>user\n{question}{self.picture}<|im_end|>\n<|im_start|>assistant\n"
        return self.row(text, answer, topic)

    def two_turn_row(self, first: tuple[str, str], second: tuple[str, str], topic: str) -> Row:
        """A picture with each of two turns; the second answer is learnt."""
        text = (
            f"{self.system}<|im_start|>user\n{self.picture}{first[0]}<|im_end|>\n<|im_start|>assistant\n"
            f"{first[1]}<|im_end|>\n<|im_start|>user\n{self.picture}{second[0]}<|im_end|>\n"
            "<|im_start|>assistant\n"
        )
        return self.row(text, second[1], topic)


# ---------------------------------------------------------------------------------------------
# Rows to tensors
# ---------------------------------------------------------------------------------------------


def token_positions(
    tokens: list[int], image_id: int, grid: tuple[int, int], start: int, spatial: bool
) -> tuple[np.ndarray, int]:
    """(3, len) positions from `start`, and the next free position.

    With `spatial` (MRoPE) an image's tokens share one time step and differ in row and column.
    """
    length = len(tokens)
    if not spatial or image_id not in tokens:
        line = np.arange(start, start + length)
        return np.stack([line] * 3), start + length
    rows, columns = grid
    out = np.empty((3, length), dtype=np.int64)
    index = 0
    while index < length:
        if tokens[index] == image_id:
            count = rows * columns
            cells = np.arange(count)
            out[0, index : index + count] = start
            out[1, index : index + count] = start + cells // columns
            out[2, index : index + count] = start + cells % columns
            start += max(rows, columns)
            index += count
        else:
            out[:, index] = start
            start += 1
            index += 1
    return out, start


def collate(rows: list[Row], image_id: int, grid: tuple[int, int], spatial: bool, pad_to: int = 8) -> dict:
    """Lay out rows as padded tensors (see `Batch`)."""
    laid = []
    for row in rows:
        tokens, labels, branch = list(row.prefix), [IGNORE] * len(row.prefix), [0] * len(row.prefix)
        prefix_positions, after = token_positions(row.prefix, image_id, grid, 0, spatial)
        positions, blind = [prefix_positions], [False] * len(row.prefix)
        for number, part in enumerate(row.branches, start=1):
            tokens += part.tokens
            labels += part.labels
            branch += [number] * len(part.tokens)
            blind += [not part.sees_prefix] * len(part.tokens)
            start = after if part.sees_prefix else 0
            positions.append(token_positions(part.tokens, image_id, grid, start, spatial)[0])
        laid.append((tokens, labels, branch, blind, np.concatenate(positions, axis=1)))
    longest = max(len(item[0]) for item in laid)
    length = -(-longest // pad_to) * pad_to
    count = len(rows)
    ids = np.zeros((count, length), dtype=np.int64)
    labels = np.full((count, length), IGNORE, dtype=np.int64)
    branch = np.full((count, length), -1, dtype=np.int64)
    blind = np.zeros((count, length), dtype=bool)
    positions = np.zeros((3, count, length), dtype=np.int64)
    for i, item in enumerate(laid):
        size = len(item[0])
        ids[i, :size], labels[i, :size], branch[i, :size], blind[i, :size] = item[:4]
        positions[:, i, :size] = item[4]
    causal = np.tril(np.ones((length, length), dtype=bool))
    same = branch[:, :, None] == branch[:, None, :]
    to_prefix = (branch[:, None, :] == 0) & ~blind[:, :, None]
    attention = (same | to_prefix) & causal[None]
    return {
        "input_ids": torch.from_numpy(ids),
        "labels": torch.from_numpy(labels),
        "branch_of": torch.from_numpy(branch),
        "attention": torch.from_numpy(attention)[:, None],
        "positions": torch.from_numpy(positions),
    }


def lay_out_aims(
    rows: list[Row], input_ids: torch.Tensor, image_id: int, cell_labels: np.ndarray, most: int = 8
) -> dict:
    """`Batch.aims` and `Batch.aimed_at`; a question about shapes that are not there aims at token 0.

    cell_labels (P, cells, 4), the same number of pictures in every row.
    """
    pictures = len(cell_labels) // len(rows)
    places, targets = [], []
    for number, row in enumerate(rows):
        cells = (input_ids[number] == image_id).nonzero()[:, 0].numpy()
        ranks = cell_labels[number * pictures : (number + 1) * pictures, :, 2]
        start = len(row.prefix)
        for branch in row.branches:
            if branch.aim is not None:
                target = np.zeros((most, input_ids.shape[1]), dtype=bool)
                wanted = [(p, rank) for p, meant in enumerate(branch.aim.meant) for rank in meant]
                for slot, (picture, rank) in enumerate(wanted[:most]):
                    here = np.zeros(ranks.shape, dtype=bool)
                    here[picture] = ranks[picture] == 1 + rank
                    target[slot, cells[here.flatten()]] = True
                target[0, 0] = not wanted
                places.append((number, start + branch.aim.at))
                targets.append(target)
            start += len(branch.tokens)
    if not places:
        return {}
    return {"aims": torch.tensor(places), "aimed_at": torch.from_numpy(np.stack(targets))}


class BatchMaker:
    """Draws fresh pictures and dialogs; `vision` says how pictures become pixels.

    `vision` is {"kind": "clip", "side": .., "patch": ..} or
    {"kind": "qwen", "patch": .., "merge": .., "min_pixels": .., "max_pixels": ..}.
    `topic_weights` says how often each topic is asked (None: as in scoring).
    `encode`, from pixels and grid to image tokens (P, cells, LM width), makes batches for a decoder
    that learns alone: pictures come back with new questions, as their image tokens.
    """

    def __init__(
        self,
        dialogs,
        vision: dict,
        seed: int,
        topic_weights: list[float] | None = None,
        branches: int = 5,
        encode: Callable[[torch.Tensor, tuple[int, int]], torch.Tensor] | None = None,
    ):
        self.dialogs = dialogs
        self.encode = encode
        self.encoded: dict[tuple[int, int], list[tuple[Scene, np.ndarray, np.ndarray]]] = {}
        self.mode_shares = [0.68, 0.17, 0.15] if encode is None else [0.76, 0.17, 0.07]
        self.topic_weights = topic_weights
        self.vision = vision
        self.rng = np.random.default_rng(seed)
        self.branches = branches
        self.drawn: dict[tuple[int, int], list[tuple[np.ndarray, np.ndarray]]] = {}

    def _picture(self, width: int, height: int, max_shapes: int) -> tuple[Scene, np.ndarray, np.ndarray]:
        centred = self.vision["kind"] == "clip"
        scene = random_scene(self.rng, width, height, max_shapes, centred)
        image = draw_scene(scene, self.rng)
        if centred:
            side = self.vision["side"]
            geometry, _ = clip_geometry(width, height, side)
            cells = side // self.vision["patch"]
            return scene, clip_pixels(image, side), cell_labels(scene, geometry, cells, cells)
        rows, columns, new_h, new_w = self._qwen_grid(width, height)
        geometry = Geometry(new_w, new_h, new_w / width, new_h / height, 0, 0)
        pixels = qwen_pixels(image, new_h, new_w, self.vision["patch"], self.vision["merge"])
        return scene, pixels, cell_labels(scene, geometry, rows, columns)

    def _qwen_grid(self, width: int, height: int) -> tuple[int, int, int, int]:
        factor = self.vision["patch"] * self.vision["merge"]
        new_h, new_w = qwen_size(height, width, factor, self.vision["min_pixels"], self.vision["max_pixels"])
        return new_h // factor, new_w // factor, new_h, new_w

    def _size(self) -> tuple[int, int]:
        """A picture size; extremes are rarer than middling ones."""
        side = int(self.rng.integers(92, 220))
        stretch = math.exp(self.rng.normal(0, 0.25)) if self.rng.random() < 0.7 else 1.0
        stretch = min(max(stretch, 0.5), 2.0)
        return max(80, int(side * math.sqrt(stretch))), max(80, int(side / math.sqrt(stretch)))

    def _ask(self, scene: Scene) -> tuple[str, str, str]:
        topic, question, answer = question_for_one(self.rng, scene, self.topic_weights, self.encode is not None)
        return topic, vary_wording(self.rng, question), answer

    def pictures(self, count: int, fresh: int) -> tuple[torch.Tensor, torch.Tensor, tuple[int, int]]:
        """Pixels, cell labels and grid of `count` pictures of one size, `fresh` of them newly drawn.

        The others were drawn in earlier calls: drawing costs more than a step of the vision tower.
        """
        width, height = self._size()
        made = [self._picture(width, height, 4)[1:] for _ in range(fresh)]
        if self.vision["kind"] == "clip":
            cells = self.vision["side"] // self.vision["patch"]
            grid, most = (cells, cells), 4000
        else:
            grid, most = self._qwen_grid(width, height)[:2], 300
        earlier = self.drawn.setdefault(grid, [])
        chosen = made + [earlier[i] for i in self.rng.permutation(len(earlier))[: count - fresh]]
        earlier += [(pixels.astype(np.float16), labels) for pixels, labels in made]
        del earlier[: max(0, len(earlier) - most)]
        pixels = np.stack([c[0].astype(np.float32) for c in chosen])
        return torch.from_numpy(pixels), torch.from_numpy(np.stack([c[1] for c in chosen])), grid

    def _dialog_pictures(
        self, count: int, width: int, height: int, max_shapes: int, fresh: int = 2
    ) -> list[tuple[Scene, np.ndarray, np.ndarray]]:
        """(scene, pixels or image tokens, cell labels) of pictures of one size."""
        if self.encode is None:
            return [self._picture(width, height, max_shapes) for _ in range(count)]
        grid = self._qwen_grid(width, height)[:2]
        earlier = self.encoded.setdefault(grid, [])
        usable = [i for i, known in enumerate(earlier) if len(known[0].shapes) <= max_shapes]
        chosen = [earlier[i] for i in self.rng.permutation(usable)[: count - fresh]]
        drawn = [self._picture(width, height, max_shapes) for _ in range(count - len(chosen))]
        image_tokens = self.encode(torch.from_numpy(np.stack([d[1] for d in drawn])), grid).numpy()
        new = [(scene, tokens, labels) for (scene, _, labels), tokens in zip(drawn, image_tokens)]
        earlier += new
        return new + chosen

    def next(self, tokens: int, mode: str | None = None) -> Batch:
        """A batch of about `tokens` text and image tokens.

        Modes: "one" (a picture, several branches), "two" (two pictures), "turns" (one dialog per
        row: a picture in each of two turns or, where the template allows it, text before picture).
        """
        rng = self.rng
        mode = mode or str(rng.choice(["one", "two", "turns"], p=self.mode_shares))
        width, height = self._size()
        if self.vision["kind"] == "clip":
            cells = self.vision["side"] // self.vision["patch"]
            grid = (cells, cells)
        else:
            grid = self._qwen_grid(width, height)[:2]
            self.dialogs.image_tokens = grid[0] * grid[1]
        per_picture = grid[0] * grid[1] + 10
        pictures = {"one": 1, "two": 2, "turns": 2}[mode]
        text_first = mode == "turns" and self.dialogs.text_first and rng.random() < 0.6
        if text_first:
            pictures = 1
        row_cost = per_picture * pictures + (45 if mode == "turns" else 26 * self.branches)
        if mode == "turns":
            tokens //= 2  # many pictures for few answers
        rows: list[Row] = []
        pixels, cells_of = [], []
        count = max(4, tokens // row_cost)
        available = self._dialog_pictures(count * pictures, width, height, 4 if pictures == 1 else 3)
        for number in range(count):
            drawn = available[number::count]
            scenes = [d[0] for d in drawn]
            pixels += [d[1] for d in drawn]
            cells_of += [d[2] for d in drawn]
            if mode == "turns":
                if text_first:
                    topic, question, answer = self._ask(scenes[0])
                    rows.append(self.dialogs.text_first_row(question, answer, topic))
                else:
                    first, second = self._ask(scenes[0]), self._ask(scenes[1])
                    rows.append(self.dialogs.two_turn_row(first[1:], second[1:], second[0]))
                continue
            branches = [self._branch(scenes) for _ in range(self.branches)]
            rows.append(Row(self.dialogs.prefix(pictures), branches))
        laid = collate(rows, self.dialogs.image_id, grid, spatial=self.vision["kind"] == "qwen")
        aims = {}
        if self.encode is not None:
            aims = lay_out_aims(rows, laid["input_ids"], self.dialogs.image_id, np.stack(cells_of))
        return Batch(
            **laid,
            **aims,
            pixels=torch.from_numpy(np.stack(pixels)),
            grid=grid,
            cell_labels=torch.from_numpy(np.stack(cells_of)),
            encoded=self.encode is not None,
            topics=[[b.topic for b in row.branches] for row in rows],
        )

    def _branch(self, scenes: list[Scene]) -> Branch:
        rng = self.rng
        draw = rng.random()
        if draw < 0.05:  # no picture at all
            turns = [small_talk(rng) for _ in range(int(rng.integers(1, 4)))]
            return self.dialogs.branch([t[1:] for t in turns], "text", sees_prefix=False)
        if draw < 0.07:
            topic, question, answer = small_talk_with_picture(rng)
            return self.dialogs.branch([(question, answer)], topic)

        def ask() -> tuple[str, str, str]:
            if len(scenes) == 1:
                return self._ask(scenes[0])
            topic, question, answer = question_for_two(rng, *scenes)
            return topic, vary_wording(rng, question), answer

        turns = [ask()]
        while len(turns) < 3 and rng.random() < 0.2:
            turns.append(small_talk_with_picture(rng) if rng.random() < 0.12 else ask())
        if self.encode is None:
            return self.dialogs.branch([t[1:] for t in turns], turns[-1][0])
        most = DECISIVE_TOKENS.get(turns[-1][0]) if rng.random() < 0.8 else None
        return self.dialogs.branch([t[1:] for t in turns], turns[-1][0], scenes=scenes, learn_at_most=most)
