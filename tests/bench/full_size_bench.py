"""Serve a checkpoint of full size and measure it, with the standard library alone.

    python3 tests/bench/full_size_bench.py room MODEL SCRATCH
    python3 tests/bench/full_size_bench.py measure MODEL SCRATCH --binary BINARY --limits JSON

`room` says in one line why disk or memory is short, and then exits with 3. `measure` starts the server on
SCRATCH/MODEL, asks about one picture, and prints a table and, last, one line of JSON.
"""

import argparse
import base64
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import make_full_size as full_size

PICTURE = full_size.DEMO / "examples/picture6.jpg"  # 640 x 480
MIB = 1 << 20
BEYOND_MIB = 300  # of resident memory, beyond weights and KV cache
MODEL_LEN = 2048
BLOCK_SIZE = 16
TOKENS = 16


def sizes(model: str) -> dict:
    """Bytes of the weights, of those that a decode step reads, and of the KV cache; from the config and the plan."""
    config, tensors = full_size.plan(model)
    text = config.get("text_config", config)
    tied = config.get("tie_word_embeddings") or text.get("tie_word_embeddings")
    head = text["hidden_size"] // text["num_attention_heads"]
    kv = 2 * 2 * text["num_hidden_layers"] * text["num_key_value_heads"] * head * MODEL_LEN
    seen = [(name, full_size.size_of(shape)) for name, shape in tensors]
    language = sum(size for name, size in seen if ".layers." in name and "vision" not in name)
    embedding = text["vocab_size"] * text["hidden_size"] * 2
    return {
        "weights": sum(size for _, size in seen),
        "step": language + embedding,  # the head, be it the embedding table or its own
        "kv": kv,
        "tied": bool(tied),
    }


def available_bytes() -> int:
    """Memory that programs may still take."""
    return 1024 * int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text()).group(1))


def check_room(model: str, scratch: Path) -> None:
    """Exits with 3 after one line where there is no room."""
    size = sizes(model)
    disk = 0 if (scratch / model / "config.json").exists() else size["weights"] + (1 << 30)
    memory = size["weights"] + size["kv"] + (2 << 30)
    free = shutil.disk_usage(scratch).free
    gb = 1e9
    if free < disk:
        print(f"{model}: skipped, {scratch} has {free / gb:.1f} GB free and {disk / gb:.1f} GB are needed")
        sys.exit(3)
    if available_bytes() < memory:
        print(f"{model}: skipped, {available_bytes() / gb:.1f} GB of memory are free, {memory / gb:.1f} GB needed")
        sys.exit(3)


def resident_mib(pid: int) -> dict:
    """Resident memory of a process by kind, and the most it ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    names = {"rss": "VmRSS", "anonymous": "RssAnon", "file": "RssFile", "peak": "VmHWM"}
    found = {key: re.search(rf"{name}:\s+(\d+) kB", status) for key, name in names.items()}
    return {key: int(match.group(1)) / 1024 for key, match in found.items()}


def ask(port: int, model: str, tokens: int, picture: bytes | None) -> dict:
    """One greedy answer of exactly `tokens` tokens, with its timings."""
    parts = [{"type": "text", "text": "What is in the picture?"}]
    if picture is not None:
        url = "data:image/jpeg;base64," + base64.b64encode(picture).decode()
        parts.insert(0, {"type": "image_url", "image_url": {"url": url}})
    body = {"model": model, "messages": [{"role": "user", "content": parts}], "temperature": 0}
    body |= {"max_tokens": tokens, "ignore_eos": True, "timings": True}
    call = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode())
    call.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(call, timeout=1800) as reply:
        return json.loads(reply.read())


class Server:
    """A server on one checkpoint; its ready line gives the port."""

    def __init__(self, binary: str, folder: Path):
        # Room for one sequence and one picture of 1 megapixel.
        flags = ["--max-model-len", MODEL_LEN, "--max-num-seqs", 1, "--kv-blocks", MODEL_LEN // BLOCK_SIZE]
        flags += ["--block-size", BLOCK_SIZE, "--max-encode-patches", 5120, "--port", 0, "--log-path", "none"]
        began = time.perf_counter()
        command = [binary, "serve", str(folder), *map(str, flags)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            if found := re.search(r"ready: http://[^ ]*:(\d+)", line):
                break
        else:
            raise SystemExit("bench: the server did not become ready:\n" + "".join(seen[-20:]))
        self.port = int(found.group(1))
        self.load_seconds = time.perf_counter() - began
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(120)


def measure(model: str, scratch: Path, binary: str, limits: dict) -> dict:
    """All numbers of one model."""
    size = sizes(model)
    server = Server(binary, scratch / model)
    try:
        loaded = resident_mib(server.process.pid)
        ask(server.port, model, 2, None)
        text = ask(server.port, model, TOKENS, None)
        seen = ask(server.port, model, 2, PICTURE.read_bytes())
        used = resident_mib(server.process.pid)
    finally:
        server.stop()
    rate = (TOKENS - 1) / (text["timings"]["decode_ms"] / 1e3)
    wanted = (size["weights"] + size["kv"]) / MIB
    return {
        "model": model,
        "weights_gb": size["weights"] / 1e9,
        "kv_mib": size["kv"] / MIB,
        "load_seconds": server.load_seconds,
        "load_gb_s": size["weights"] / 1e9 / server.load_seconds,
        "decode_tokens_s": rate,
        "decode_gb_s": rate * size["step"] / 1e9,
        "decode_share_of_bandwidth": rate * size["step"] / (limits["read_gb_s"] * 1e9),
        "image_tokens": seen["usage"]["prompt_tokens_details"]["image_tokens"],
        "image_seconds": seen["timings"]["encode_ms"] / 1e3,
        "image_first_token_seconds": seen["timings"]["first_token_ms"] / 1e3,
        "resident_after_load_mib": loaded,
        "resident_mib": used,
        "beyond_weights_and_kv_mib": used["rss"] - wanted,
        "within_limit": used["rss"] - wanted <= BEYOND_MIB,
    }


def show(report: dict) -> None:
    """A table for people, then the line for programs."""
    for key, value in report.items():
        if isinstance(value, dict):
            value = ", ".join(f"{kind} {mib:,.0f}" for kind, mib in value.items())
        print(f"{key:<28} {value:,.3f}" if isinstance(value, float) else f"{key:<28} {value}")
    print(json.dumps(report))


def main() -> None:
    """Check for room, or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["room", "measure"])
    parser.add_argument("model", choices=full_size.MODELS)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--binary", default=os.environ.get("SERVER_BINARY", "build/release/heteroserve"))
    parser.add_argument("--limits", type=json.loads, default=None)
    options = parser.parse_args()
    if options.what == "room":
        check_room(options.model, options.scratch)
    else:
        show(measure(options.model, options.scratch, options.binary, options.limits))


if __name__ == "__main__":
    main()
