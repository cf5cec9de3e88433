"""Sizes of the demo models and their checkpoints on disk, in the published layouts.

`LLAVA` and `QWEN` hold every architecture number. `export_checkpoint` writes the files of a model
repository (config, generation config, weights, tokenizer, preprocessor, chat template) with the
weight names of the published checkpoints, whatever names the installed library uses in memory.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch
from demo_tokenizers import (
    EMBEDDING_ROWS,
    LLAVA_CHAT_TEMPLATE,
    LLAVA_IMAGE_TOKEN,
    LLAVA_PAD_TOKEN,
    QWEN_CHAT_TEMPLATE,
    QWEN_SPECIAL_TOKENS,
)
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn
from transformers import (
    LlavaConfig,
    LlavaForConditionalGeneration,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)

CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073]
CLIP_STD = [0.26862954, 0.26130258, 0.27577711]

LLAVA = {
    "family": "llava",
    "dtype": "float16",
    "vision": {
        "model_type": "clip_vision_model",
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 5,
        "num_attention_heads": 4,
        "image_size": 112,
        "patch_size": 14,
        "hidden_act": "quick_gelu",
        "layer_norm_eps": 1e-5,
        "projection_dim": 128,
    },
    "text": {
        "model_type": "llama",
        "vocab_size": EMBEDDING_ROWS,
        "hidden_size": 192,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 6,
        "num_key_value_heads": 6,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    },
}

QWEN = {
    "family": "qwen2_5_vl",
    "dtype": "bfloat16",
    "pixels": {"min_pixels": 28 * 28 * 20, "max_pixels": 28 * 28 * 49},
    "vision": {
        "depth": 4,
        "hidden_size": 128,
        "hidden_act": "silu",
        "intermediate_size": 256,
        "num_heads": 4,
        "in_channels": 3,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "tokens_per_second": 2,
        "window_size": 56,
        "out_hidden_size": 192,
        "fullatt_block_indexes": [1, 3],
    },
    "text": {
        "vocab_size": EMBEDDING_ROWS,
        "hidden_size": 192,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "rope_theta": 100.0,
        "rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]},
        "hidden_act": "silu",
        "use_sliding_window": False,
        "sliding_window": 2048,
        "max_window_layers": 4,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
    },
}


def llava_config(settings: dict, tokenizer: Tokenizer) -> dict:
    """config.json of a LLaVA-1.5 checkpoint."""
    vision, text = settings["vision"], settings["text"]
    patches = (vision["image_size"] // vision["patch_size"]) ** 2
    return {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "ignore_index": -100,
        "image_token_index": tokenizer.token_to_id(LLAVA_IMAGE_TOKEN),
        "image_seq_length": patches,
        "pad_token_id": tokenizer.token_to_id(LLAVA_PAD_TOKEN),
        "projector_hidden_act": "gelu",
        "multimodal_projector_bias": True,
        "vision_feature_layer": settings.get("vision_feature_layer", -2),
        "vision_feature_select_strategy": settings.get("vision_feature_select_strategy", "default"),
        "tie_word_embeddings": False,
        "torch_dtype": settings["dtype"],
        "text_config": {
            "architectures": ["LlamaForCausalLM"],
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": tokenizer.token_to_id(LLAVA_PAD_TOKEN),
            "torch_dtype": settings["dtype"],
            **text,
        },
        "vision_config": vision,
    }


def qwen_config(settings: dict, tokenizer: Tokenizer) -> dict:
    """config.json of a Qwen2.5-VL checkpoint: text settings at top level, as published."""
    vision = dict(settings["vision"])
    vision["in_chans"] = vision.pop("in_channels")
    vision["spatial_patch_size"] = vision["patch_size"]
    return {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl",
        "bos_token_id": tokenizer.token_to_id("<|endoftext|>"),
        "eos_token_id": tokenizer.token_to_id("<|im_end|>"),
        "vision_start_token_id": tokenizer.token_to_id("<|vision_start|>"),
        "vision_end_token_id": tokenizer.token_to_id("<|vision_end|>"),
        "vision_token_id": tokenizer.token_to_id("<|vision_pad|>"),
        "image_token_id": tokenizer.token_to_id("<|image_pad|>"),
        "video_token_id": tokenizer.token_to_id("<|video_pad|>"),
        "tie_word_embeddings": True,
        "torch_dtype": settings["dtype"],
        "use_cache": True,
        **settings["text"],
        "vision_config": vision,
    }


def build_model(settings: dict, tokenizer: Tokenizer) -> nn.Module:
    """A freshly initialised model in float32."""
    if settings["family"] == "llava":
        config = LlavaConfig(**llava_config({**settings, "dtype": "float32"}, tokenizer))
        model = LlavaForConditionalGeneration(config).float()
    else:
        config = Qwen2_5_VLConfig(**qwen_config({**settings, "dtype": "float32"}, tokenizer))
        model = Qwen2_5_VLForConditionalGeneration(config).float()
    _widen_start(model)
    return model


def _widen_start(model: nn.Module) -> None:
    """Start the decoder's and projector's matrices at 1 / sqrt(inputs).

    The library's 0.02 suits wide models; at this width it makes attention start out almost even.
    """
    layers = model.model.language_model.layers
    for name, weight in model.named_parameters():
        if weight.ndim != 2 or not ("language_model.layers" in name or "multi_modal_projector" in name):
            continue
        scale = (2 * len(layers)) ** -0.5 if "o_proj" in name or "down_proj" in name else 1.0
        nn.init.normal_(weight, std=scale * weight.shape[1] ** -0.5)
    nn.init.normal_(model.model.language_model.embed_tokens.weight, std=0.1)


def published_name(family: str, name: str) -> str:
    """A parameter's name in published checkpoints, from its name in memory."""
    if family == "llava":
        name = re.sub(r"^lm_head\.", "language_model.lm_head.", name)
        name = re.sub(r"^model\.language_model\.", "language_model.model.", name)
        name = re.sub(r"^model\.multi_modal_projector\.", "multi_modal_projector.", name)
        return re.sub(r"^model\.vision_tower\.(vision_model\.)?", "vision_tower.vision_model.", name)
    name = re.sub(r"^model\.visual\.", "visual.", name)
    return re.sub(r"^model\.language_model\.", "model.", name)


def load_weights(model: nn.Module, family: str, folder: Path, part: str = "") -> None:
    """Copy an exported checkpoint's weights, or those whose name starts with `part`, into a model."""
    weights = load_file(folder / "model.safetensors")
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            stored = weights.get(published_name(family, name))
            if stored is not None and published_name(family, name).startswith(part):
                tensor.copy_(stored)


def _write_json(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def export_checkpoint(model: nn.Module, tokenizer: Tokenizer, settings: dict, folder: Path) -> None:
    """Write all files of a checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    family, dtype = settings["family"], getattr(torch, settings["dtype"])
    weights = {}
    for name, tensor in model.state_dict().items():
        if "position_ids" in name or (family != "llava" and name == "lm_head.weight"):
            continue  # tied: the embedding matrix is also the output matrix
        weights[published_name(family, name)] = tensor.detach().to(dtype).contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save(str(folder / "tokenizer.json"))
    if family == "llava":
        _write_llava_files(tokenizer, settings, folder)
    else:
        _write_qwen_files(tokenizer, settings, folder)


def _added_tokens(tokenizer: Tokenizer, names: list[str]) -> dict:
    entry = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    return {str(tokenizer.token_to_id(n)): {"content": n, **entry} for n in names}


def _write_llava_files(tokenizer: Tokenizer, settings: dict, folder: Path) -> None:
    side = settings["vision"]["image_size"]
    _write_json(folder / "config.json", llava_config(settings, tokenizer))
    pad = tokenizer.token_to_id(LLAVA_PAD_TOKEN)
    _write_json(
        folder / "generation_config.json",
        {"_from_model_config": True, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": pad},
    )
    _write_json(
        folder / "tokenizer_config.json",
        {
            "add_bos_token": True,
            "add_eos_token": False,
            "added_tokens_decoder": _added_tokens(
                tokenizer, ["<unk>", "<s>", "</s>", LLAVA_IMAGE_TOKEN, LLAVA_PAD_TOKEN]
            ),
            "bos_token": "<s>",
            "chat_template": LLAVA_CHAT_TEMPLATE,
            "clean_up_tokenization_spaces": False,
            "eos_token": "</s>",
            "image_token": LLAVA_IMAGE_TOKEN,
            "legacy": False,
            "model_max_length": settings["text"]["max_position_embeddings"],
            "pad_token": LLAVA_PAD_TOKEN,
            "padding_side": "left",
            "processor_class": "LlavaProcessor",
            "tokenizer_class": "LlamaTokenizer",
            "unk_token": "<unk>",
        },
    )
    _write_json(
        folder / "special_tokens_map.json",
        {"bos_token": "<s>", "eos_token": "</s>", "pad_token": LLAVA_PAD_TOKEN, "unk_token": "<unk>"},
    )
    _write_json(folder / "chat_template.json", {"chat_template": LLAVA_CHAT_TEMPLATE})
    _write_json(
        folder / "preprocessor_config.json",
        {
            "crop_size": {"height": side, "width": side},
            "do_center_crop": True,
            "do_convert_rgb": True,
            "do_normalize": True,
            "do_rescale": True,
            "do_resize": True,
            "image_mean": CLIP_MEAN,
            "image_processor_type": "CLIPImageProcessor",
            "image_std": CLIP_STD,
            "processor_class": "LlavaProcessor",
            "resample": 3,
            "rescale_factor": 1 / 255,
            "size": {"shortest_edge": side},
        },
    )
    strategy = settings.get("vision_feature_select_strategy", "default")
    _write_json(
        folder / "processor_config.json",
        {
            "image_token": LLAVA_IMAGE_TOKEN,
            "num_additional_image_tokens": 1,
            "patch_size": settings["vision"]["patch_size"],
            "processor_class": "LlavaProcessor",
            "vision_feature_select_strategy": strategy,
        },
    )


def _write_qwen_files(tokenizer: Tokenizer, settings: dict, folder: Path) -> None:
    _write_json(folder / "config.json", qwen_config(settings, tokenizer))
    ends = [tokenizer.token_to_id(n) for n in ("<|im_end|>", "<|endoftext|>")]
    _write_json(
        folder / "generation_config.json",
        {
            "bos_token_id": ends[1],
            "do_sample": False,
            "eos_token_id": ends,
            "pad_token_id": ends[1],
            "repetition_penalty": 1.0,
        },
    )
    _write_json(
        folder / "tokenizer_config.json",
        {
            "add_bos_token": False,
            "add_prefix_space": False,
            "added_tokens_decoder": _added_tokens(tokenizer, QWEN_SPECIAL_TOKENS),
            "additional_special_tokens": QWEN_SPECIAL_TOKENS[1:],
            "bos_token": None,
            "chat_template": QWEN_CHAT_TEMPLATE,
            "clean_up_tokenization_spaces": False,
            "eos_token": "<|im_end|>",
            "errors": "replace",
            "model_max_length": settings["text"]["max_position_embeddings"],
            "pad_token": "<|endoftext|>",
            "split_special_tokens": False,
            "tokenizer_class": "Qwen2Tokenizer",
            "unk_token": None,
        },
    )
    _write_json(
        folder / "special_tokens_map.json",
        {
            "additional_special_tokens": QWEN_SPECIAL_TOKENS[1:],
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
        },
    )
    _write_json(folder / "chat_template.json", {"chat_template": QWEN_CHAT_TEMPLATE})
    _write_json(
        folder / "preprocessor_config.json",
        {
            "image_mean": CLIP_MEAN,
            "image_processor_type": "Qwen2VLImageProcessor",
            "image_std": CLIP_STD,
            **settings["pixels"],
            "merge_size": settings["vision"]["spatial_merge_size"],
            "patch_size": settings["vision"]["patch_size"],
            "processor_class": "Qwen2_5_VLProcessor",
            "temporal_patch_size": settings["vision"]["temporal_patch_size"],
        },
    )


class StillPictureProcessor:
    """Qwen2.5-VL's processor for text and still pictures, without the video part it insists on."""

    def __init__(self, image_processor, tokenizer):
        self.image_processor = image_processor
        self.tokenizer = tokenizer

    def apply_chat_template(self, messages: list[dict], add_generation_prompt: bool) -> str:
        """The prompt text with one placeholder per picture."""
        return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=add_generation_prompt)

    def __call__(self, images, text: str, return_tensors: str = "pt") -> dict:
        """Token ids with placeholders repeated once per merged patch, and the pictures' patches."""
        inputs = {}
        if images:
            inputs = dict(self.image_processor(images, return_tensors=return_tensors))
            pieces = text.split("<|image_pad|>")
            text = pieces[0]
            for grid, piece in zip(inputs["image_grid_thw"], pieces[1:], strict=True):
                text += "<|image_pad|>" * (int(grid.prod()) // self.image_processor.merge_size**2) + piece
        ids = self.tokenizer(text, return_tensors=return_tensors)
        inputs["input_ids"], inputs["attention_mask"] = ids["input_ids"], ids["attention_mask"]
        pad = self.tokenizer.convert_tokens_to_ids("<|image_pad|>")
        # The library falls back to plain positions, without a word, when these types are missing.
        inputs["mm_token_type_ids"] = (inputs["input_ids"] == pad).long()
        return inputs


def load_for_reference(folder: Path, dtype: torch.dtype) -> tuple:
    """(processor, model) through the library; the processor uses the PIL image backend.

    The parts of the processor are put together by hand, so that the files in the published layout
    are what is read.
    """
    from transformers import AutoTokenizer, LlavaProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    folder = Path(folder)
    kind = json.loads((folder / "config.json").read_text())["model_type"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    template = json.loads((folder / "chat_template.json").read_text())["chat_template"]
    if kind == "llava":
        extra = json.loads((folder / "processor_config.json").read_text())
        extra.pop("processor_class", None)
        processor = LlavaProcessor(
            CLIPImageProcessorPil.from_pretrained(folder), tokenizer, chat_template=template, **extra
        )
        model = LlavaForConditionalGeneration.from_pretrained(folder, dtype=dtype)
    else:
        processor = StillPictureProcessor(Qwen2VLImageProcessorPil.from_pretrained(folder), tokenizer)
        model = Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=dtype)
    return processor, model.eval()
