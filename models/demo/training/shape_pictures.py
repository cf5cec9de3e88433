"""Synthetic pictures of coloured shapes, and truthful questions and answers about them.

A `Scene` is a list of `Shape`s on a background. `draw_scene` paints it with PIL;
`question_for_one` / `question_for_two` / `text_only_dialog` make (question, answer) pairs
whose answers follow from the scene alone, so that a model can be trained and scored without
any outside data. Everything is drawn from a `numpy.random.Generator`, hence reproducible.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

SHAPES = ["circle", "square", "triangle", "star", "cross"]
COLOURS = {
    "red": (220, 30, 35),
    "green": (30, 160, 50),
    "blue": (35, 70, 220),
    "yellow": (245, 220, 30),
    "orange": (250, 135, 20),
    "purple": (135, 40, 170),
    "black": (15, 15, 15),
    "white": (250, 250, 250),
}
COLOUR_NAMES = list(COLOURS)
BACKGROUNDS = {
    "white": (255, 255, 255),
    "gray": (140, 140, 140),
    "black": (5, 5, 5),
    "pink": (250, 175, 200),
    "brown": (115, 75, 45),
}
BACKGROUND_NAMES = list(BACKGROUNDS)
BACKGROUND_WEIGHTS = [0.5, 0.15, 0.12, 0.12, 0.11]
NUMBER_WORDS = ["no", "one", "two", "three", "four"]


@dataclass
class Shape:
    """One shape; `cx`, `cy` and `radius` are in pixels of the picture it is drawn in."""

    kind: str
    colour: str
    cx: float
    cy: float
    radius: float
    angle: float = 0.0

    @property
    def name(self) -> str:
        """The shape's colour and kind, as "red circle"."""
        return f"{self.colour} {self.kind}"


@dataclass
class Scene:
    """A picture's content; `shapes` are ordered from left to right by centre."""

    width: int
    height: int
    background: str
    shapes: list[Shape] = field(default_factory=list)


def with_article(noun: str) -> str:
    """'red circle' -> 'a red circle', 'orange star' -> 'an orange star'."""
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def join_list(parts: list[str]) -> str:
    """Join as English does: 'a', 'a and b', 'a, b and c'."""
    if len(parts) == 1:
        return parts[0]
    return ", ".join(parts[:-1]) + " and " + parts[-1]


def random_scene(rng: np.random.Generator, width: int, height: int, max_shapes: int = 4, centred: bool = True) -> Scene:
    """Place 1..max_shapes shapes so that left-to-right and top-to-bottom order stay clear.

    With `centred`, all shapes lie in the central square of the picture (what a centre-cropping
    processor keeps); otherwise anywhere in it.
    """
    background = str(rng.choice(BACKGROUND_NAMES, p=BACKGROUND_WEIGHTS))
    colours = [c for c in COLOUR_NAMES if c != background]
    count = int(rng.choice(np.arange(1, max_shapes + 1), p=_count_weights(max_shapes)))
    side = min(width, height)
    area_w, area_h = (side, side) if centred else (width, height)
    x0, y0 = (width - area_w) / 2, (height - area_h) / 2
    largest = {1: 0.34, 2: 0.24, 3: 0.19, 4: 0.17}[count]
    while True:
        placed: list[Shape] = []
        for _ in range(60):
            if len(placed) == count:
                break
            radius = rng.uniform(0.115, largest) * side
            cx = x0 + rng.uniform(radius + 1, area_w - radius - 1)
            cy = y0 + rng.uniform(radius + 1, area_h - radius - 1)
            if any(
                abs(cx - s.cx) < 0.11 * side or max(abs(cx - s.cx), abs(cy - s.cy)) < 1.02 * (radius + s.radius)
                for s in placed
            ):
                continue
            kind, colour = str(rng.choice(SHAPES)), str(rng.choice(colours))
            tilt = rng.uniform(-12, 12)
            placed.append(Shape(kind, colour, cx, cy, radius, tilt))
        if len(placed) == count:
            break
    placed.sort(key=lambda s: s.cx)
    return Scene(width, height, background, placed)


def _count_weights(max_shapes: int) -> np.ndarray:
    weights = np.array([0.25, 0.32, 0.25, 0.18][:max_shapes])
    return weights / weights.sum()


def _polygon(shape: Shape, scale: float) -> list[tuple[float, float]]:
    """Corners of a non-round shape, in pixels times `scale`."""
    if shape.kind == "square":
        polar = [(45 + 90 * i, 1.0) for i in range(4)]
    elif shape.kind == "triangle":
        polar = [(-90 + 120 * i, 1.05) for i in range(3)]
    elif shape.kind == "star":
        polar = [(-90 + 36 * i, 1.05 if i % 2 == 0 else 0.45) for i in range(10)]
    else:  # cross: a plus sign whose arms are 0.36 of the radius wide
        arm, half = 1.0, 0.33
        corners = [(half, -arm), (half, -half), (arm, -half), (arm, half), (half, half)]
        corners += [(half, arm), (-half, arm), (-half, half), (-arm, half), (-arm, -half)]
        corners += [(-half, -half), (-half, -arm)]
        polar = [(math.degrees(math.atan2(y, x)), math.hypot(x, y)) for x, y in corners]
    points = []
    for degrees, distance in polar:
        theta = math.radians(degrees + shape.angle)
        points.append(
            (
                (shape.cx + shape.radius * distance * math.cos(theta)) * scale,
                (shape.cy + shape.radius * distance * math.sin(theta)) * scale,
            )
        )
    return points


def draw_scene(scene: Scene, rng: np.random.Generator) -> Image.Image:
    """Paint a scene with jittered colours, perhaps smooth edges, noise, light and blur."""

    def jitter(rgb: tuple[int, int, int], amount: int) -> tuple[int, int, int]:
        moved = np.array(rgb) + rng.integers(-amount, amount + 1, 3)
        return tuple(int(v) for v in np.clip(moved, 0, 255))

    scale = 2 if rng.random() < 0.6 else 1
    plain = rng.random() < 0.5
    ground = BACKGROUNDS[scene.background]
    ground = ground if plain else jitter(ground, 6)
    image = Image.new("RGB", (scene.width * scale, scene.height * scale), ground)
    pen = ImageDraw.Draw(image)
    for shape in scene.shapes:
        fill = jitter(COLOURS[shape.colour], 14)
        if shape.kind == "circle":
            r, x, y = shape.radius * scale, shape.cx * scale, shape.cy * scale
            pen.ellipse((x - r, y - r, x + r, y + r), fill=fill)
        else:
            pen.polygon(_polygon(shape, scale), fill=fill)
    if scale == 2:
        image = image.resize((scene.width, scene.height), Image.Resampling.BOX)
    if not plain:
        pixels = np.asarray(image, dtype=np.float32)
        if rng.random() < 0.3:
            ramp = np.linspace(rng.uniform(-14, 14), rng.uniform(-14, 14), scene.width)
            pixels = pixels + ramp[None, :, None].astype(np.float32)
        sigma = np.float32(rng.uniform(0, 10))
        pixels = pixels + sigma * rng.standard_normal(pixels.shape, dtype=np.float32)
        image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
        if rng.random() < 0.2:
            image = image.filter(ImageFilter.GaussianBlur(0.7))
    return image


# ---------------------------------------------------------------------------------------------
# Questions about one picture
# ---------------------------------------------------------------------------------------------

CAPTION = [
    "What is in the picture?",
    "What is in this picture?",
    "What is in the image?",
    "What is in this image?",
    "What's in this image?",
    "What's in the picture?",
    "What do you see?",
    "What can you see in the picture?",
    "What do you see in this image?",
    "What does the picture show?",
    "Which shapes are in the picture?",
    "What shapes do you see?",
    "Tell me what is in the picture.",
    "What is this?",
]
DESCRIBE = [
    "Describe the picture.",
    "Describe this picture.",
    "Describe the image.",
    "Describe this image.",
    "Please describe the picture.",
    "Can you describe this image?",
    "Describe the image in one sentence.",
    "Describe what you see.",
]
COUNT = [
    "How many shapes are there?",
    "How many shapes are in the picture?",
    "How many shapes are in the image?",
    "How many shapes do you see?",
    "How many objects are there?",
    "Count the shapes.",
    "What is the number of shapes?",
]
COUNT_KIND = [
    "How many {k}s are there?",
    "How many {k}s are in the picture?",
    "How many {k}s do you see?",
    "Count the {k}s.",
]
COLOUR_OF = [
    "What colour is the {k}?",
    "What color is the {k}?",
    "Which colour is the {k}?",
    "Which color does the {k} have?",
    "What is the colour of the {k}?",
    "What is the color of the {k}?",
    "Tell me the color of the {k}.",
]
SHAPE_OF = [
    "What shape is {c}?",
    "Which shape is {c}?",
    "What is the {c} shape?",
    "What is {c}?",
    "What is the shape of the {c} object?",
]
EXISTS = [
    "Is there {a}?",
    "Is there {a} in the picture?",
    "Is there {a} in the image?",
    "Do you see {a}?",
    "Can you see {a}?",
    "Does the picture have {a}?",
]
SIDES = {
    "left": (
        ["Which shape is on the left?", "What is on the left?", "What shape is on the left side?"],
        "on the left",
    ),
    "right": (
        ["Which shape is on the right?", "What is on the right?", "What shape is on the right side?"],
        "on the right",
    ),
    "top": (
        ["Which shape is at the top?", "What is at the top?", "Which shape is highest?"],
        "at the top",
    ),
    "bottom": (
        ["Which shape is at the bottom?", "What is at the bottom?", "Which shape is lowest?"],
        "at the bottom",
    ),
}
BACKGROUND = [
    "What colour is the background?",
    "What color is the background?",
    "Which colour is the background?",
    "What is the background color?",
    "What is the colour of the background?",
]


def caption(scene: Scene) -> str:
    """'a red circle and a blue square', from left to right."""
    return join_list([with_article(s.name) for s in scene.shapes])


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _count_sentence(number: int, noun: str) -> str:
    if number == 1:
        return f"There is one {noun}."
    return f"There are {NUMBER_WORDS[number]} {noun}s."


def _describe(scene: Scene) -> str:
    number = len(scene.shapes)
    start = "There is one shape" if number == 1 else f"There are {NUMBER_WORDS[number]} shapes"
    return f"{start} on a {scene.background} background: {caption(scene)}."


def _pick(rng: np.random.Generator, items: list):
    return items[int(rng.integers(len(items)))]


def _existence(rng: np.random.Generator, scene: Scene) -> tuple[str, bool]:
    """A noun and whether it is there; half are there, and absent ones are often near misses."""
    shape = _pick(rng, scene.shapes)
    mode = rng.random()
    if mode < 0.25:
        kind = shape.kind if rng.random() < 0.5 else str(_pick(rng, SHAPES))
        return kind, any(s.kind == kind for s in scene.shapes)
    if mode < 0.62:
        noun = shape.name
    elif mode < 0.75:
        noun = f"{shape.colour} {_pick(rng, SHAPES)}"
    elif mode < 0.9:
        noun = f"{_pick(rng, COLOUR_NAMES)} {shape.kind}"
    else:
        noun = f"{_pick(rng, COLOUR_NAMES)} {_pick(rng, SHAPES)}"
    return noun, any(s.name == noun for s in scene.shapes)


def _absent_noun(rng: np.random.Generator, scene: Scene) -> str:
    """A kind or a coloured kind that is not there; most often one that is there in part."""
    kinds, names = {s.kind for s in scene.shapes}, {s.name for s in scene.shapes}
    while True:
        shape, other = _pick(rng, scene.shapes), _pick(rng, scene.shapes)
        mode = rng.random()
        if mode < 0.25:
            noun = str(_pick(rng, SHAPES))
        elif mode < 0.5:
            noun = f"{shape.colour} {other.kind}"
        elif mode < 0.7:
            noun = f"{shape.colour} {_pick(rng, SHAPES)}"
        elif mode < 0.9:
            noun = f"{_pick(rng, COLOUR_NAMES)} {shape.kind}"
        else:
            noun = f"{_pick(rng, COLOUR_NAMES)} {_pick(rng, SHAPES)}"
        if noun not in kinds and noun not in names:
            return noun


def balanced_existence(rng: np.random.Generator, scene: Scene) -> tuple[str, bool]:
    """As `_existence`, but the noun alone does not tell how likely a yes is: half are there in every scene."""
    if rng.random() < 0.5:
        return _absent_noun(rng, scene), False
    shape = _pick(rng, scene.shapes)
    return (shape.kind if rng.random() < 0.3 else shape.name), True


def balanced_kind(rng: np.random.Generator, scene: Scene) -> str:
    """A kind to count, such that the numbers that occur in the scene (0 too) are equally likely."""
    kinds = [s.kind for s in scene.shapes]
    number = _pick(rng, sorted({kinds.count(k) for k in SHAPES}))
    return str(_pick(rng, [k for k in SHAPES if kinds.count(k) == number]))


def question_for_one(
    rng: np.random.Generator, scene: Scene, weights: list[float] | None = None, balanced: bool = False
) -> tuple[str, str, str]:
    """One (topic, question, answer) about a scene; `weights` says how often each topic of TOPICS comes.

    With `balanced`, only looking at the picture tells a yes from a no and a number from another.
    """
    kinds = [s.kind for s in scene.shapes]
    colours = [s.colour for s in scene.shapes]
    while True:
        topic = str(rng.choice(TOPICS, p=weights or TOPIC_WEIGHTS))
        if topic == "caption":
            return topic, _pick(rng, CAPTION), _capital(caption(scene)) + "."
        if topic == "describe":
            return topic, _pick(rng, DESCRIBE), _describe(scene)
        if topic == "count":
            return topic, _pick(rng, COUNT), _count_sentence(len(kinds), "shape")
        if topic == "count_kind":
            if balanced:
                kind = balanced_kind(rng, scene)
            else:
                kind = _pick(rng, kinds) if rng.random() < 0.7 else _pick(rng, SHAPES)
            plural = "crosse" if kind == "cross" else kind
            question = _pick(rng, COUNT_KIND).format(k=plural)
            number = kinds.count(kind)
            return topic, question, _count_sentence(number, kind if number == 1 else plural)
        if topic == "colour":
            unique = [s for s in scene.shapes if kinds.count(s.kind) == 1]
            if unique:
                shape = _pick(rng, unique)
                question = _pick(rng, COLOUR_OF).format(k=shape.kind)
                return topic, question, f"The {shape.kind} is {shape.colour}."
        if topic == "shape":
            unique = [s for s in scene.shapes if colours.count(s.colour) == 1]
            if unique:
                shape = _pick(rng, unique)
                question = _pick(rng, SHAPE_OF).format(c=shape.colour)
                return topic, question, f"The {shape.colour} shape is a {shape.kind}."
        if topic == "exists":
            noun, present = (balanced_existence if balanced else _existence)(rng, scene)
            question = _pick(rng, EXISTS).format(a=with_article(noun))
            if present:
                return topic, question, f"Yes, there is {with_article(noun)}."
            return topic, question, f"No, there is no {noun}."
        if topic == "side" and len(kinds) > 1:
            side = _pick(rng, list(SIDES))
            shape = shape_on_side(scene, side)
            if shape is not None:
                questions, place = SIDES[side]
                return topic, _pick(rng, questions), f"The {shape.name} is {place}."
        if topic == "background":
            return topic, _pick(rng, BACKGROUND), f"The background is {scene.background}."


TOPICS = ["caption", "describe", "count", "count_kind", "colour", "shape", "exists", "side", "background"]
TOPIC_WEIGHTS = [0.22, 0.10, 0.08, 0.08, 0.12, 0.10, 0.12, 0.12, 0.06]
# What a fine-tuning run sees instead: the topics that are learnt last come more often.
HARD_TOPIC_WEIGHTS = [0.12, 0.06, 0.05, 0.26, 0.06, 0.05, 0.32, 0.05, 0.03]
# And one whose vision tower stands still.
DECODER_TOPIC_WEIGHTS = [0.16, 0.07, 0.05, 0.16, 0.06, 0.07, 0.28, 0.14, 0.01]


def shape_on_side(scene: Scene, side: str) -> Shape | None:
    """The outermost shape on a side, or None when two are nearly as far out."""
    key = (lambda s: s.cx) if side in ("left", "right") else (lambda s: s.cy)
    ordered = sorted(scene.shapes, key=key, reverse=side in ("right", "bottom"))
    gap = abs(key(ordered[0]) - key(ordered[1]))
    return ordered[0] if gap >= 0.1 * min(scene.width, scene.height) else None


_KIND_WORDS = re.compile(r"\b(" + "|".join(SHAPES) + r")(?:s|es)?\b")
_COLOUR_WORDS = re.compile(r"\b(" + "|".join(COLOUR_NAMES) + r")\b")
_SIDE_WORDS = re.compile(r"\b(left|right|top|bottom|highest|lowest)\b")


def what_is_meant(question: str, scenes: list[Scene]) -> tuple[int, list[list[int]]] | None:
    """Where in a question the shapes it asks about are named, and which ones they are.

    Returns the end of the last word that picks shapes out, and for each scene the ranks from the
    left of the shapes meant (none if there is no such shape); None for questions about all shapes.
    """
    kind, colour = _KIND_WORDS.search(question), _COLOUR_WORDS.search(question)
    if kind or colour:
        meant = [
            [
                rank
                for rank, shape in enumerate(scene.shapes)
                if (not kind or shape.kind == kind[1]) and (not colour or shape.colour == colour[1])
            ]
            for scene in scenes
        ]
        return max(word.end() for word in (kind, colour) if word), meant
    side = _SIDE_WORDS.search(question)
    if not side or len(scenes) > 1 or len(scenes[0].shapes) < 2:
        return None
    shape = shape_on_side(scenes[0], {"highest": "top", "lowest": "bottom"}.get(side[1], side[1]))
    return None if shape is None else (side.end(), [[scenes[0].shapes.index(shape)]])


# ---------------------------------------------------------------------------------------------
# Questions about two pictures
# ---------------------------------------------------------------------------------------------


def question_for_two(rng: np.random.Generator, first: Scene, second: Scene) -> tuple[str, str, str]:
    """One (topic, question, answer) about two scenes."""
    scenes, names = (first, second), ("first", "second")
    while True:
        mode = rng.random()
        which = int(rng.integers(2))
        if mode < 0.35:
            shape = _pick(rng, scenes[which].shapes)
            noun = shape.kind if rng.random() < 0.6 else shape.name
            found = [any(noun in (s.kind, s.name) for s in scene.shapes) for scene in scenes]
            if sum(found) == 1:
                template = _pick(
                    rng,
                    [
                        "Which picture has {a}, the first or the second?",
                        "Which picture has {a}?",
                        "Which image has {a}?",
                        "Which image shows {a}, the first or the second?",
                    ],
                )
                question = template.format(a=with_article(noun))
                return "two_which", question, f"The {names[found.index(True)]} picture has {with_article(noun)}."
        elif mode < 0.5:
            counts = [len(scene.shapes) for scene in scenes]
            if counts[0] != counts[1]:
                question = _pick(rng, ["Which picture has more shapes?", "Which image has more shapes?"])
                more = names[int(counts[1] > counts[0])]
                return "two_more", question, f"The {more} picture has more shapes."
        elif mode < 0.72:
            template = _pick(
                rng,
                [
                    "What is in the {n} picture?",
                    "What is in the {n} image?",
                    "What does the {n} picture show?",
                ],
            )
            return "two_caption", template.format(n=names[which]), _capital(caption(scenes[which])) + "."
        elif mode < 0.84:
            template = _pick(rng, ["How many shapes are in the {n} picture?", "How many shapes are in the {n} image?"])
            number = len(scenes[which].shapes)
            return "two_count", template.format(n=names[which]), _count_sentence(number, "shape")
        elif mode < 0.94:
            question = _pick(rng, ["What is in the pictures?", "What is in these images?", "What do you see?"])
            answer = f"The first picture has {caption(first)}. The second picture has {caption(second)}."
            return "two_both", question, answer
        else:
            question = _pick(rng, ["How many pictures are there?", "How many images do you see?"])
            return "two_number", question, "There are two pictures."


# ---------------------------------------------------------------------------------------------
# Dialogs without a picture
# ---------------------------------------------------------------------------------------------

SMALL_TALK = [
    (
        ["Hello", "Hello!", "Hi", "Hi!", "Hi there", "Hey", "Good morning", "Good day", "hello", "hi"],
        "Hello! Show me a picture of shapes and ask me about it.",
    ),
    (
        [
            "What can you do?",
            "What can you do",
            "How can you help me?",
            "What do you do?",
            "Help",
            "What can I ask you?",
            "How does this work?",
        ],
        "I can name, count and compare coloured shapes in pictures.",
    ),
    (
        ["Who are you?", "What are you?", "What is your name?", "Are you a model?", "Which model are you?"],
        "I am a tiny demo model that looks at pictures of shapes.",
    ),
    (
        ["Thank you", "Thank you!", "Thanks", "Thanks!", "Great, thank you.", "Good job", "Well done!"],
        "You are welcome!",
    ),
    (["Goodbye", "Bye", "Bye!", "See you", "Good night"], "Goodbye!"),
    (
        [
            "Which shapes do you know?",
            "What shapes do you know?",
            "Tell me the shapes you know.",
            "Which shapes can you see?",
        ],
        "I know circles, squares, triangles, stars and crosses.",
    ),
    (
        ["Which colours do you know?", "What colors do you know?", "Which colors can you see?"],
        "I know red, green, blue, yellow, orange, purple, black and white.",
    ),
    (
        ["How are you?", "How are you today?", "How do you feel?"],
        "I am fine, thank you!",
    ),
    (
        [
            "What is in the picture?",
            "Describe the picture.",
            "Describe the image.",
            "How many shapes are there?",
            "What do you see?",
            "What color is the circle?",
            "Is there a red circle?",
            "Which shape is on the left?",
        ],
        "I see no picture yet. Please send me one.",
    ),
]


def small_talk(rng: np.random.Generator) -> tuple[str, str, str]:
    """One (topic, question, answer) that needs no picture."""
    questions, answer = _pick(rng, SMALL_TALK)
    return "text", _pick(rng, questions), answer


def small_talk_with_picture(rng: np.random.Generator) -> tuple[str, str, str]:
    """Small talk that stays right when there is a picture (the last topic needs none)."""
    questions, answer = _pick(rng, SMALL_TALK[:-1])
    return "text", _pick(rng, questions), answer


def vary_wording(rng: np.random.Generator, question: str) -> str:
    """Now and then drop the closing mark, lower the first letter or add a polite word."""
    draw = rng.random()
    if draw < 0.06 and question[-1] in "?.!":
        return question[:-1]
    if draw < 0.12:
        return question[0].lower() + question[1:]
    if draw < 0.15 and question[-1] in "?.":
        return question[:-1] + ", please" + question[-1]
    if draw < 0.18:
        return "Please tell me: " + question[0].lower() + question[1:]
    return question
