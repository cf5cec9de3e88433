"""`heteroserve bench`: what it prints and the trace it writes agree with the load that was asked for."""

import json
import subprocess

import pytest
from conftest import BINARY, DEMO

TWO = ("--consumer", "cpu:0", "--datacenter", "cpu:1", "--steal", "off", "--dtype", "float32")
LOAD = ("--requests", "6", "--picture-requests", "4", "--images", "2", "--image-size", "120x90")
LOAD += ("--prompt-tokens", "20", "--output-tokens", "5", "--concurrency", "3")
ROWS, FEATURES = 64, 128  # of a picture of the demo model, before the projector


def bench(*flags: object) -> subprocess.CompletedProcess:
    """Runs the sub-command on the demo model."""
    command = [str(BINARY), "bench", str(DEMO), *map(str, flags)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_line_of_numbers_states_the_load_and_what_it_took(tmp_path):
    """Counts and bytes are those of the load; percentiles are in order; the trace holds every order."""
    trace = tmp_path / "trace.json"
    ended = bench(*TWO, *LOAD, "--seed", 7, "--trace", trace)
    assert ended.returncode == 0, ended.stderr
    line = json.loads(ended.stdout.splitlines()[-1])
    assert line["bench"] == "engine" and line["model"] == DEMO.name and line["dtype"] == "float32"
    assert (line["partition"], line["cut"]) == ("modality", "before")
    assert (line["requests"], line["pictures"], line["seed"], line["at_once"]) == (6, 8, 7, 3)
    assert line["output_tokens"] == 6 * 5
    assert line["image_tokens"] == 8 * ROWS
    assert line["prompt_tokens"] > 8 * ROWS + 6 * 20
    assert line["transfer_bytes"] == 8 * ROWS * FEATURES * 4
    assert line["kv_transfer_bytes"] == line["steals"] == 0
    assert line["output_tokens_s"] == pytest.approx(30 / line["seconds"], rel=1e-4)
    for times in ("ttft_ms", "itl_ms", "latency_ms", "encode_ms", "transfer_ms"):
        assert 0 < line[times]["p50"] <= line[times]["p90"] <= line[times]["p99"], times
    assert line["kv_transfer_ms"] is None
    assert line["ttft_ms"]["p99"] <= line["latency_ms"]["p99"]
    busy = {device["device"]: device for device in line["devices"]}
    assert busy["cpu:0"]["encode_us"] > 0 and busy["cpu:0"]["step_us"] == 0
    assert busy["cpu:1"]["step_us"] > 0 and busy["cpu:1"]["encode_us"] == 0
    for words in ("first token", "next token", "output tokens/s", "link cpu:0 -> cpu:1", "cut before the projector"):
        assert words in ended.stdout, words

    events = json.loads(trace.read_text())["traceEvents"]
    orders = [event for event in events if event["ph"] == "X"]
    moved = [event["args"]["bytes"] for event in orders if event["name"] == "transfer embeddings"]
    # One request with pictures more than was measured: the one that warms up.
    assert sum(moved) == 10 * ROWS * FEATURES * 4
    assert sum(event["args"]["images"] for event in orders if event["name"] == "encode") == 10
    assert {event["name"] for event in orders} >= {"encode", "transfer embeddings", "prefill", "decode"}


def test_the_same_seed_is_the_same_load():
    """Prompts, and so their tokens, depend on the seed alone; arrivals at a rate are played to their end."""
    lines = [
        json.loads(bench(*LOAD, *flags).stdout.splitlines()[-1])
        for flags in (("--seed", 7), ("--seed", 7, "--rate", 200), ("--seed", 8))
    ]
    assert lines[0]["prompt_tokens"] == lines[1]["prompt_tokens"] != lines[2]["prompt_tokens"]
    assert (lines[0]["cut"], lines[0]["partition"], lines[0]["transfer_bytes"]) == ("", "", 0)
    assert (lines[1]["at_once"], lines[1]["rate"]) == (0, 200)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--image-size", "big"), "--image-size"),
        (("--image-size", "99999x99999"), "--image-size"),
        (("--requests", "2", "--picture-requests", "3"), "--picture-requests"),
        (("--trace", "/nonexistent/trace.json"), "--trace"),
        (("--requests", "1", "--prompt-tokens", "3000"), "tokens"),
    ],
)
def test_what_cannot_be_is_one_line(flags, says):
    """No table, no numbers, a line that names the flag or the limit."""
    ended = bench(*flags)
    assert ended.returncode != 0
    complaints = [line for line in ended.stderr.splitlines() if not line.startswith("heteroserve info: ")]
    assert len(complaints) == 1 and says in complaints[0], ended.stderr
    assert "{" not in ended.stdout
