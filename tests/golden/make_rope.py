"""Write rope.json: rotary frequencies of transformers for every variant that a Llama config can ask for.

    python tests/golden/make_rope.py

Packages: tests/reference/requirements.txt.
"""

import json
from pathlib import Path

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
# name, head_dim, max_position_embeddings, rope_theta, rope_scaling, length served
CASES = [
    ("default", 128, 4096, 10000.0, None, 4096),
    ("default_other_theta", 64, 8192, 500000.0, None, 8192),
    ("linear", 128, 16384, 10000.0, {"rope_type": "linear", "factor": 4.0}, 16384),
    ("dynamic_within", 64, 2048, 10000.0, {"rope_type": "dynamic", "factor": 2.0}, 2048),
    ("dynamic_beyond", 64, 2048, 10000.0, {"rope_type": "dynamic", "factor": 2.0}, 5000),
    ("llama3", 128, 131072, 500000.0, LLAMA3, 131072),
    ("llama3_small_head", 32, 8192, 10000.0, {**LLAMA3, "original_max_position_embeddings": 256}, 8192),
    ("yarn", 128, 16384, 10000.0, YARN, 16384),
    ("yarn_without_original", 64, 4096, 1e6, {"rope_type": "yarn", "factor": 2.0}, 4096),
    ("yarn_betas", 128, 16384, 10000.0, {**YARN, "beta_fast": 16, "beta_slow": 2, "truncate": False}, 16384),
    ("yarn_mscale", 64, 16384, 10000.0, {**YARN, "mscale": 1.0, "mscale_all_dim": 0.5}, 16384),
    ("yarn_attention_factor", 64, 16384, 10000.0, {**YARN, "attention_factor": 1.25}, 16384),
]


def main() -> None:
    """Compute and write all cases."""
    goldens = []
    for name, head_dim, max_positions, theta, scaling, n_positions in CASES:
        fields = {"head_dim": head_dim, "max_position_embeddings": max_positions, "rope_theta": theta}
        if scaling:
            fields["rope_scaling"] = scaling
        config = LlamaConfig(hidden_size=4 * head_dim, num_attention_heads=4, **json.loads(json.dumps(fields)))
        kind = config.rope_parameters["rope_type"]
        compute = LlamaRotaryEmbedding.compute_default_rope_parameters
        if kind != "default":
            compute = ROPE_INIT_FUNCTIONS[kind]
        frequencies, attention_factor = compute(config, device="cpu", seq_len=n_positions)
        goldens.append(
            {
                "name": name,
                "config": fields,
                "n_positions": n_positions,
                "attention_factor": attention_factor,
                "frequencies": frequencies.tolist(),
            }
        )
    text = "[\n" + ",\n".join(json.dumps(golden) for golden in goldens) + "\n]\n"
    (Path(__file__).parent / "rope.json").write_text(text)


if __name__ == "__main__":
    main()
