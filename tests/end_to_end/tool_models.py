"""Demo checkpoints whose template, or tokens, know tools: the weights stay, and the grammar does the rest."""

import json
import shutil
from pathlib import Path

from real_server import ROOT

QWEN = ROOT / "models/demo/qwen2_5_vl"
TEMPLATES = ROOT / "tests/golden/text/tool_templates"


def with_template(folder: Path, template: str, renamed: dict[str, str], special: bool = False) -> Path:
    """A copy of the Qwen2.5-VL demo model with one of the golden templates and other names for unused added tokens."""
    copy = folder / f"{template}{'-special' if special else ''}"
    shutil.copytree(QWEN, copy)
    (copy / "chat_template.json").unlink()
    (copy / "chat_template.jinja").write_text((TEMPLATES / f"{template}.jinja").read_text())
    for name in ("tokenizer.json", "tokenizer_config.json"):
        text = (copy / name).read_text(encoding="utf-8")
        for old, new in renamed.items():
            text = text.replace(json.dumps(old), json.dumps(new))
        (copy / name).write_text(text, encoding="utf-8")
    tokenizer = json.loads((copy / "tokenizer.json").read_text(encoding="utf-8"))
    for token in tokenizer["added_tokens"]:
        if token["content"] in renamed.values():
            token["special"] = special
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return copy


def hermes(folder: Path, special: bool = False) -> Path:
    """Calls between <tool_call> tags that are tokens of their own."""
    tags = {"<|object_ref_start|>": "<tool_call>", "<|object_ref_end|>": "</tool_call>"}
    return with_template(folder, "qwen2_5", tags, special)


def llama(folder: Path) -> Path:
    """Calls that are bare JSON, maybe behind a control token."""
    return with_template(folder, "llama3_1", {"<|object_ref_start|>": "<|python_tag|>"}, True)
