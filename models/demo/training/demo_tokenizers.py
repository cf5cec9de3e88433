"""Tokenizers and chat templates of the two demo models, trained on the synthetic dialogs.

`build_llama_style` makes a sentencepiece-like BPE with byte fallback (LLaVA-1.5's kind);
`build_qwen_style` makes a byte-level BPE with Qwen2's pre-tokenizer and special-token names.
Both return a `tokenizers.Tokenizer` whose JSON is what the checkpoint ships.
"""

from __future__ import annotations

import json

import numpy as np
from shape_pictures import question_for_one, question_for_two, random_scene, small_talk, vary_wording
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

LLAVA_IMAGE_TOKEN = "<image>"
LLAVA_PAD_TOKEN = "<pad>"
BASE_VOCABULARY = 1000  # learnt pieces incl. bytes; special tokens follow, as in the real checkpoints
EMBEDDING_ROWS = 1024  # rows of the embedding matrix, more than there are tokens

QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_SPECIAL_TOKENS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
QWEN_SYSTEM_PROMPT = "You are a helpful assistant."

# Renders the same strings as LLaVA-1.5's conversation format: pictures come first in a turn.
LLAVA_CHAT_TEMPLATE = """\
{%- for message in messages -%}
{%- set parts = [{'type': 'text', 'text': message['content']}] if message['content'] is string \
else message['content'] -%}
{%- if message['role'] != 'system' -%}{{ message['role'] | upper + ': ' }}{%- endif -%}
{%- for part in parts if part['type'] == 'image' -%}{{ '<image>\\n' }}{%- endfor -%}
{%- for part in parts if part['type'] == 'text' -%}{{ part['text'] + ' ' }}{%- endfor -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ 'ASSISTANT:' }}{%- endif -%}
"""

# Renders the same strings as Qwen2.5-VL's ChatML: parts keep their order, a default system prompt.
QWEN_CHAT_TEMPLATE = """\
{%- if messages[0]['role'] != 'system' -%}
{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{%- endif -%}
{%- for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\\n' }}
{%- if message['content'] is string -%}{{ message['content'] }}
{%- else -%}
{%- for part in message['content'] -%}
{%- if part['type'] == 'image' -%}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}
{%- elif part['type'] == 'text' -%}{{ part['text'] }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{{ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
"""

# Words outside the demo's own topics, so that other English splits into fewer pieces.
COMMON_WORDS = (
    "about after again all also an and any are around as at away back be because been before below "
    "between big both but by can cannot could day did different do does down each eye far few find for "
    "from get give go good great had half has have he her here high him his how if in into is it its "
    "just keep know large last less like line little long look make man many may me mean more most move "
    "much my near never new next no none not now number of off often old on once only open or other our "
    "out over own part people place point put read same say see she should small so some start still such "
    "take tell than that their them then there these they thing this time to too turn two under up us use "
    "very want was water way we well went were what when where which while who why will with word work "
    "world would write year yes you your color colour picture image photo question answer three four five"
)


def training_lines(seed: int, count: int) -> list[str]:
    """Plain question and answer sentences in the proportions the models see."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        scenes = [random_scene(rng, 128, 128) for _ in range(2)]
        for _, question, answer in (
            question_for_one(rng, scenes[0]),
            question_for_two(rng, *scenes),
            small_talk(rng),
        ):
            lines.append(f"{vary_wording(rng, question)} {answer}")
    lines += [f"{word} {word.capitalize()} {word}" for word in COMMON_WORDS.split() for _ in range(8)]
    lines += ["USER: ASSISTANT: USER: ASSISTANT:"] * 50
    lines += [f"user\nsystem\nassistant\n{QWEN_SYSTEM_PROMPT}\n"] * 50
    return lines


def build_llama_style(seed: int = 1) -> Tokenizer:
    """BPE over whole text with '▁' for spaces and <0xNN> pieces for unknown characters."""
    special = ["<unk>", "<s>", "</s>"]
    byte_pieces = [f"<0x{value:02X}>" for value in range(256)]
    learner = Tokenizer(models.BPE(unk_token="<unk>"))
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(prepend_scheme="always"),
            pre_tokenizers.Punctuation("isolated"),
            pre_tokenizers.Split("\n", "isolated"),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=BASE_VOCABULARY - len(byte_pieces),
        special_tokens=special,
        initial_alphabet=[chr(code) for code in range(33, 127)] + ["▁"],
        show_progress=False,
    )
    learner.train_from_iterator(training_lines(seed, 2500), trainer)

    learnt = json.loads(learner.to_str())["model"]
    pieces = [p for p, _ in sorted(learnt["vocab"].items(), key=lambda kv: kv[1]) if p not in special]
    vocabulary = {piece: rank for rank, piece in enumerate(special + byte_pieces + pieces)}
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in learnt["merges"]]
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    names = special + [LLAVA_IMAGE_TOKEN, LLAVA_PAD_TOKEN]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in names])
    return tokenizer


def build_qwen_style(seed: int = 1) -> Tokenizer:
    """Byte-level BPE: NFC, Qwen2's split pattern, bytes as printable characters."""
    learner = Tokenizer(models.BPE())
    learner.normalizer = normalizers.NFC()
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    learner.decoder = decoders.ByteLevel(add_prefix_space=False, use_regex=False)
    learner.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=BASE_VOCABULARY,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learner.train_from_iterator(training_lines(seed, 2500), trainer)
    learner.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in QWEN_SPECIAL_TOKENS])
    return learner
