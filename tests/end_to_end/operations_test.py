"""What an admin does: refused starts, stats and exports of a log, doctor from outside and inside."""

import csv
import io
import json
import sqlite3
import subprocess
import urllib.request

import openai
import pytest
from conftest import BINARY, DEMO, ask


def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess:
    """`heteroserve ...`, which must end with `code`."""
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["--kv-blocks", "99999999"], "--kv-blocks 99999999"),
        (["--kv-blocks", "2"], "--kv-blocks 2"),
        (["--consumer", "cuda:9", "--datacenter", "cpu:0"], "cuda:9"),
        (["--max-model-len", "9999999"], "9999999"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_listens(flags, word):
    """By `serve` as by `run`, in one line."""
    for command in (["serve", str(DEMO), "--port", "0", "--log-path", "none"], ["run", str(DEMO), "Hello"]):
        done = run(*command, *flags, code=78)
        assert word in done.stderr
        assert "listening" not in done.stderr + done.stdout
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_cut_without_effect_is_told_in_one_line(start):
    """By the server, and by `config check` before."""
    server = start("--cut", "post", "--transfer", "staged")
    assert server.stop() == 0
    for words in ("--cut post has no effect", "--transfer staged has no effect"):
        assert sum(words in line for line in server.lines) == 1
    checked = run("config", "check", "--cut", "post", "--json")
    assert json.loads(checked.stdout)["warnings"] == [
        "--cut post has no effect: pictures stay on the device that answers"
    ]


@pytest.fixture
def logged(start):
    """The log of a stopped server: two answers, one with a picture, and a failure."""
    server = start("--price-device-hour", "cpu=3600")
    client = server.client()
    model = client.models.list().data[0].id
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    client.chat.completions.create(model=model, messages=ask("What is in the picture?", "picture1.png"))
    client.chat.completions.create(model=model, messages=ask("=Hello"), max_tokens=3, extra_headers=trace)
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="nonsense", messages=ask("Hello"))
    assert server.stop() == 0
    return str(server.log_path)


def test_stats_sum_up_the_log(logged):
    """For people, and as JSON."""
    stats = json.loads(run("stats", "--json", "--log-path", logged).stdout)
    assert stats["requests"] == 3
    assert stats["failures"] == [{"status": 404, "error_code": "model_not_found", "requests": 1}]
    for times in ("first_token_us", "itl_us", "total_us"):
        assert stats[times]["requests"] == 2
        assert 0 < stats[times]["p50"] <= stats[times]["p95"] <= stats[times]["p99"]
    answered = [day for day in stats["days"] if day["model"]]
    assert sum(day["requests"] for day in answered) == 2
    assert sum(day["images"] for day in answered) == 1
    assert all(day["cost_micros"] > 0 for day in answered)
    assert len(stats["slowest"]) == 2
    text = run("stats", "--log-path", logged).stdout
    for word in ("whole answer", "model_not_found", "SLOWEST"):
        assert word in text
    assert json.loads(run("stats", "--json", "--name", "other", "--log-path", logged).stdout)["requests"] == 0
    run("stats", "--log-path", logged + ".none", code=69)


def test_all_rows_are_exported(logged, tmp_path):
    """As CSV to a file and as JSON lines to standard output, the oldest first, and through the filters of `logs`."""
    target = tmp_path / "rows.csv"
    run("logs", "export", "--format", "csv", "-o", str(target), "--log-path", logged)
    table = list(csv.DictReader(io.StringIO(target.read_text(encoding="utf-8"), newline="")))
    lines = run("logs", "export", "--format", "jsonl", "--log-path", logged).stdout.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["id"] for row in table] == [row["id"] for row in rows]
    assert [row["status"] for row in rows] == [200, 200, 404]
    assert rows[1]["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert rows[1]["cost_micros"] == round(int(table[1]["cost_micros"]))
    assert rows[0]["energy_uj"] is None or rows[0]["energy_uj"] > 0
    failed = run("logs", "export", "--format", "jsonl", "--failed", "--log-path", logged).stdout
    assert [json.loads(line)["status"] for line in failed.splitlines()] == [404]
    run("logs", "export", "--format", "xml", code=2)
    run("logs", "export", "--log-path", logged + ".none", code=69)
    run("logs", "export", "-o", "/no/such/folder/x", "--log-path", logged, code=1)


def test_views_are_readable_as_they_are(logged):
    """What Datasette or sqlite3 shows."""
    with sqlite3.connect(f"file:{logged}?mode=ro", uri=True) as log:
        log.row_factory = sqlite3.Row
        rows = log.execute("select * from v_requests").fetchall()
        assert len(rows) == 3
        assert {"time_utc", "key_name", "itl_p50_ms", "energy_j", "cost", "tokens_per_s"} <= set(rows[0].keys())
        daily = log.execute("select * from v_daily where model != ''").fetchall()
        assert sum(day["requests"] for day in daily) == 2
        assert sum(day["cost"] for day in daily) > 0


def test_doctor_looks_from_outside_and_from_inside(start, tmp_path):
    """The same areas; a port that is the server's own is no failure."""
    server = start()
    paths = ["--log-path", str(server.log_path), "--keys-path", str(server.keys_path), "--port", str(server.port)]
    outside = json.loads(run("doctor", str(DEMO), "--json", *paths).stdout)
    with urllib.request.urlopen(server.url + "/admin/doctor", timeout=60) as reply:
        inside = json.load(reply)
    for told in (outside, inside):
        assert told["status"] in ("OK", "WARN")
    assert {one["area"] for one in outside["findings"]} == {one["area"] for one in inside["findings"]}
    assert any("a HeteroServe answers there" in one["text"] for one in outside["findings"])
    assert any("this server listens there" in one["text"] for one in inside["findings"])
    assert "FAIL  model" in run("doctor", str(tmp_path), *paths, code=1).stdout
