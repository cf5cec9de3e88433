#!/usr/bin/env python3
"""Writes tests/golden/text/tokenizer_cases.json: nasty texts and the ids that the `tokenizers` library gives them.

Usage: make_tokenizer_cases.py            the committed table, for the small tokenizers in tests/golden/text
       make_tokenizer_cases.py DIR OUT    one table for all DIR/*/tokenizer.json, with random texts too (real vocabularies)
Needs: pip install tokenizers
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "text"
SEED = 20260

NASTY = [
    "",
    " ",
    "  ",
    "   ",
    "a",
    " a",
    "  a",
    "a ",
    "a  ",
    "\na",
    "\n",
    "\n\n",
    "\r\n",
    "\r\n\r\n a",
    "\t",
    "\ta\tb",
    "▁",
    "▁▁a",
    "a▁b",
    "é",
    "e\u0301",
    "a\u0301\u0323",
    "\u0301",
    " \u0301",
    "ñandú",
    "<s>a",
    "a<s>",
    "<s>",
    "</s>",
    "<s><s>",
    "<unk>",
    "<pad>",
    "< s >",
    "a<s> b",
    " <image> x",
    "USER: <image>\nWhat is this? ASSISTANT:",
    "<image><image>",
    "<image",
    "image>",
    "<<s>>",
    "\0",
    "a\0b",
    "1234567",
    "12 345,678.90",
    "x²",
    "½",
    "٣٤٥",
    "Ⅷ",
    "1a2b3c",
    "'s 'S 're it's IT'S you'll YOU'LL don't",
    "ſ's'ſ",
    "😀",
    "👩‍👩‍👧",
    "👍🏽",
    "🇩🇪🇫🇷",
    "❤️",
    "a😀b",
    "😀 😀",
    "العربية",
    "עברית",
    "שלום عليكم hello",
    "مرحبا بالعالم! 123",
    "中文字符",
    "日本語のテキスト。",
    "한국어",
    "ไทย",
    "हिन्दी",
    "ภาษาไทย 中文 mixed",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8",
    "Å\u212b\u2126",
    "ﬁ ﬂ",
    "ＡＢＣ",
    "\ufeffa",
    "\u200b\u200c\u200d",
    "a\u00a0b",
    "\u2028\u2029\u0085",
    "\u180e",
    "\u3000　",
    "a\u2003b",
    "Hello, world!",
    "hello world  again   and    again",
    "if (x == 1) {\n    return y[0];\n}\n",
    "def f(a, b):\n\treturn a**b  # power\n",
    '{"key": [1, 2.5e-3, null, true]}',
    "https://example.org/?q=a%20b&c=d#e",
    "C:\\path\\to\\file",
    '<html><body class="x">&nbsp;</body></html>',
    "....",
    "!!!???",
    "a!b?c",
    "--- ***",
    "___",
    "snake_case camelCase PascalCase",
    "ALLCAPS",
    "$100 €50 £5",
    "∑∫√π≈",
    "→←↑↓",
    "█▓▒░",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>",
    "<|vision_start|><|image_pad|><|vision_end|>",
    "what does <|image_pad|> mean?",
    "<|im_start",
    "<|endoftext|>a",
    "A picture of a red circle and a blue square.",
    "How many triangles are there?",
    "a" * 300,
    " " * 300,
    "ab" * 100,
    "\n" * 50,
    "the " * 60,
    "\ue000\uf8ff",
    "\U0010ffff",
    "\ufffd",
    "\ufffe\uffff",
    "\u0000\u0001\u001f\u007f\u0080\u009f",
    "".join(chr(c) for c in range(256)),
    "".join(chr(c) for c in range(0x100, 0x250)),
    " ".join(chr(c) for c in range(0x3B1, 0x3CA)),
]

ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz     ",
    "ABCdef 0123456789.,;:!?'\"()[]{}<>|/\\ \n\t\r",
    " \n\r\t\u00a0\u3000\u2009\u0085",
    "éèüñçÅøœ ßİıſK",
    "中文字日本語한국어 、。",
    "😀👩‍👧🏽🇩🇪❤️ ",
    "العربيةעברית ",
    "e\u0301\u0323\u0327a\u1100\u1161\u11a8 ",
    "<s>/<image>|im_startend_ ",
    "▁ a",
]


def random_text(rng: random.Random) -> str:
    parts = []
    for _ in range(rng.randint(1, 4)):
        if rng.random() < 0.15:
            parts.append(
                "".join(
                    chr(c)
                    for c in (rng.randrange(0x110000) for _ in range(rng.randint(1, 8)))
                    if not 0xD800 <= c < 0xE000
                )
            )
        else:
            alphabet = rng.choice(ALPHABETS)
            parts.append("".join(rng.choice(alphabet) for _ in range(rng.randint(1, 40))))
    return "".join(parts)


def random_ids(rng: random.Random, tokenizer: Tokenizer) -> list[int]:
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    low = rng.random() < 0.4  # byte tokens and single bytes stand at the beginning
    return [rng.randrange(min(size, 300) if low else size) for _ in range(rng.randint(1, 12))]


def variants(path: Path) -> dict[str, dict]:
    """The file itself, and files that differ in one component, so that each component is covered."""
    base = json.loads(path.read_text())

    def changed(**fields):
        copy = json.loads(json.dumps(base))
        copy.update(fields)
        return copy

    if base["model"].get("byte_fallback"):
        result = {"": {}}
        for scheme in ("always", "first", "never"):
            for split in (True, False):
                metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
                result[f"metaspace_{scheme}_{'split' if split else 'whole'}"] = {
                    "normalizer": None,
                    "pre_tokenizer": metaspace,
                    "decoder": metaspace,
                }
        tokens = json.loads(json.dumps(base["added_tokens"]))
        tokens[3].update(lstrip=True, rstrip=True)
        tokens[4].update(single_word=True)
        result["strip_and_word"] = {"added_tokens": tokens}
        tokens = json.loads(json.dumps(base["added_tokens"]))
        tokens[3].update(normalized=True, special=False)
        result["normalized_token"] = {
            "added_tokens": tokens,
            "normalizer": {
                "type": "Sequence",
                "normalizers": [{"type": "Lowercase"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}],
            },
        }
        result["no_fallback"] = {
            "model": {
                **{k: v for k, v in base["model"].items() if k not in ("vocab", "merges")},
                "byte_fallback": False,
            }
        }
        result["no_fallback_no_fuse"] = {
            "model": {
                **{k: v for k, v in base["model"].items() if k not in ("vocab", "merges")},
                "byte_fallback": False,
                "fuse_unk": False,
            }
        }
        return result
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    split = lambda pattern, behavior, invert=False: {
        "type": "Split",
        "pattern": pattern,
        "behavior": behavior,
        "invert": invert,
    }
    plain = {**byte_level, "add_prefix_space": False, "use_regex": False}
    result = {"": {}, "gpt2": {"pre_tokenizer": byte_level, "normalizer": None}}
    for form in ("NFD", "NFKC", "NFKD", "Lowercase"):
        result[form.lower()] = {"normalizer": {"type": form}}
    result["strip"] = {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}
    result["replace_regex"] = {"normalizer": {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "}}
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        result[f"split_{behavior.lower()}"] = {
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split({"String": " "}, behavior), plain]}
        }
        result[f"split_{behavior.lower()}_inverted"] = {
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split({"Regex": "[a-z]"}, behavior, True), plain]}
        }
    digits = lambda individual: {"type": "Digits", "individual_digits": individual}
    result["digits"] = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits(False), plain]}}
    result["digits_individual"] = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits(True), byte_level]}}
    result["punctuation"] = {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Punctuation", "behavior": "Isolated"}, plain]}
    }
    result["whitespace_split"] = {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, plain]}
    }
    result["whitespace"] = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, plain]}}
    result["ignore_merges"] = {
        "model": {**{k: v for k, v in base["model"].items() if k not in ("vocab", "merges")}, "ignore_merges": True}
    }
    return result


def patched(path: Path, patch: dict) -> Tokenizer:
    base = json.loads(path.read_text())
    for key, value in patch.items():
        base[key] = {**base[key], **value} if key == "model" else value
    return Tokenizer.from_str(json.dumps(base))


def cases(tokenizer: Tokenizer, texts: list[str], id_lists: list[list[int]]) -> dict:
    return {
        "texts": [[text, tokenizer.encode(text, add_special_tokens=False).ids] for text in texts],
        "special": [["a b", tokenizer.encode("a b").ids], ["", tokenizer.encode("").ids]],
        "decodes": [
            [ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids, skip_special_tokens=True)]
            for ids in id_lists
        ],
    }


def committed_table() -> None:
    rng = random.Random(SEED)
    table = []
    for name in ("llava", "qwen"):
        path = GOLDEN / name / "tokenizer.json"
        for variant, patch in variants(path).items():
            tokenizer = patched(path, patch)
            texts = NASTY if not variant else [t for t in NASTY if len(t) < 120] + [random_text(rng) for _ in range(20)]
            id_lists = [random_ids(rng, tokenizer) for _ in range(60 if not variant else 15)]
            table.append({"tokenizer": name, "variant": variant, "patch": patch, **cases(tokenizer, texts, id_lists)})
    lines = ",\n".join(json.dumps(entry, ensure_ascii=True, separators=(",", ":")) for entry in table)
    (GOLDEN / "tokenizer_cases.json").write_text(f"[\n{lines}\n]\n")


def real_table(directory: Path, out: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    table = []
    for path in sorted(directory.glob("*/tokenizer.json")):
        tokenizer = Tokenizer.from_file(str(path))
        texts = NASTY + [random_text(rng) for _ in range(3000)]
        table.append(
            {
                "tokenizer": path.parent.name,
                "variant": "",
                "patch": {},
                "seed": seed,
                **cases(tokenizer, texts, [random_ids(rng, tokenizer) for _ in range(1000)]),
            }
        )
    out.write_text(json.dumps(table))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        real_table(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        committed_table()
