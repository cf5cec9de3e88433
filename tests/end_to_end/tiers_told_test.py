"""What two devices moved between them is told alike by the answer, the log, the metrics and the formula."""

import json
import subprocess
import urllib.request

from conftest import BINARY, ask

CONSUMER, DATACENTER = "cpu:0", "cpu:1"
ROWS, WIDTH, FEATURES = 64, 192, 128  # of the demo model: a picture's rows after and before the projector
LAYERS, KV_HEADS, HEAD = 4, 6, 32


def flags(partition: str, steal: str = "auto", cut: str = "auto") -> list[str]:
    """What makes a server with two tiers; float32, so that the formulas' value size is 4."""
    roles = ["--consumer", CONSUMER, "--datacenter", DATACENTER, "--partition", partition, "--cut", cut]
    return [*roles, "--dtype", "float32", *(["--steal", steal] if partition == "modality" else [])]


def get(server, path: str) -> str:
    """The body of a GET."""
    with urllib.request.urlopen(server.url + path, timeout=10) as reply:
        return reply.read().decode()


def sample(server, name: str, labels: str = "") -> float:
    """One value of /metrics; `labels` are the last ones of the line."""
    for line in get(server, "/metrics").splitlines():
        head, _, value = line.rpartition(" ")
        if head.startswith(name + "{") and head.endswith(labels + "}"):
            return float(value)
    raise AssertionError(f"no metric {name} with {labels}")


def answer(server, messages: list[dict]):
    """A greedy answer with its timings."""
    client = server.client()
    model = client.models.list().data[0].id
    return client.chat.completions.create(model=model, messages=messages, temperature=0, extra_body={"timings": True})


def logged(server) -> list[dict]:
    """The request log's rows, once the server has stopped."""
    assert server.stop() == 0
    command = [str(BINARY), "logs", "--json", "--log-path", str(server.log_path)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_each_partition_answers_as_one_device_and_says_what_moved(start):
    """Bytes equal the formula in the answer, the log and the metrics; the timeline shows both devices."""
    messages = ask("What is in the picture?", "picture1.png")
    alone = start("--dtype", "float32")
    expected = answer(alone, messages)
    assert expected.timings["stolen"] is False
    assert "transfer_bytes" not in expected.timings
    assert alone.stop() == 0
    post_bytes, pre_bytes = ROWS * WIDTH * 4, ROWS * FEATURES * 4
    kv_bytes = 2 * LAYERS * KV_HEADS * HEAD * expected.usage.prompt_tokens * 4
    arms = [
        ("modality", "auto", pre_bytes, 0),
        ("modality", "pre", pre_bytes, 0),
        ("modality", "post", post_bytes, 0),
        ("stage", "pre", 0, kv_bytes),
        ("colocated", "auto", 0, 0),
    ]
    for partition, cut, moved, kv_moved in arms:
        server = start(*flags(partition, steal="off", cut=cut))
        reply = answer(server, messages)
        assert reply.choices[0].message.content == expected.choices[0].message.content, partition
        assert reply.timings.get("transfer_bytes", 0) == moved, partition
        assert reply.timings.get("kv_transfer_bytes", 0) == kv_moved, partition
        if moved or kv_moved:
            assert reply.timings["transfer_path"] in ("peer", "staged")
            assert 0 < reply.timings["transfer_share"] < 1
        assert sample(server, "heteroserve_transfer_bytes_total", 'kind="embedding"') == moved, partition
        assert sample(server, "heteroserve_transfer_bytes_total", 'kind="kv"') == kv_moved, partition
        threads = [e for e in json.loads(get(server, "/debug/timeline"))["traceEvents"] if e["name"] == "thread_name"]
        assert sorted(t["args"]["name"] for t in threads) == [CONSUMER, DATACENTER]
        row = logged(server)[-1]
        assert (row["transfer_bytes"] or 0, row["kv_transfer_bytes"] or 0) == (moved, kv_moved), partition
        assert row["transfer_path"] == reply.timings.get("transfer_path"), partition
        assert row["stolen"] is False


def test_two_tiers_are_ready_and_show_what_each_device_did(start):
    """The consumer device encodes, the datacenter device runs the language model."""
    server = start(*flags("modality", steal="off"))
    assert json.loads(get(server, "/ready"))["status"] == "ready"
    answer(server, ask("What is in the picture?", "picture1.png"))
    busy = "heteroserve_lane_busy_seconds_total"
    assert sample(server, busy, f'device="{CONSUMER}",kind="encode"') > 0
    assert sample(server, busy, f'device="{CONSUMER}",kind="stolen"') == 0
    assert sample(server, busy, f'device="{DATACENTER}",kind="language"') > 0
    assert sample(server, busy, f'device="{DATACENTER}",kind="encode"') == 0
    assert sample(server, "heteroserve_degraded") == 0
