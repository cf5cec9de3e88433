"""`heteroserve simulate` on what a real server logged and on what `bench --calibrate` measured here."""

import json
import re
import sqlite3
import subprocess

import pytest
from conftest import BINARY, DEMO, PICTURES, ask

CARDS = """
[cards.mine]
pool = "consumer"
tflops = 10.0
bandwidth_gbs = 100.0
memory_gb = 8.0
power_w = 50.0
pcie_generation = 4
price_usd = 500.0
"""


def heteroserve(*arguments: object) -> subprocess.CompletedProcess:
    """Runs the program."""
    command = [str(BINARY), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def table(report: dict, name: str) -> list[dict]:
    """The rows of one table of a report, numbers without their units."""
    rows = next(one["rows"] for one in report["tables"] if one["name"] == name)
    return [{key: cell["value"] if isinstance(cell, dict) else cell for key, cell in row.items()} for row in rows]


@pytest.fixture(name="log")
def served_log(start, tmp_path):
    """The request log of a server that answered five questions, three with a picture, and refused one."""
    server = start()
    client = server.client()
    model = client.models.list().data[0].id
    picture = sorted(p.name for p in PICTURES.iterdir() if p.suffix in (".png", ".jpg"))[0]
    for i in range(5):
        messages = ask("What is this?", *([picture] if i < 3 else []))
        client.chat.completions.create(model=model, messages=messages, max_tokens=4 + i, temperature=0)
    connection = server.connection()
    connection.request("POST", "/v1/chat/completions", body="{}", headers={"Content-Type": "application/json"})
    assert connection.getresponse().status == 400
    assert server.stop() == 0
    return tmp_path / "requests.db"


def test_a_servers_log_is_served_again_on_other_cards(log, tmp_path):
    """Same requests, tokens and times as were logged; a second card of the new kind can be asked about."""
    cards = tmp_path / "new.toml"
    cards.write_text(CARDS)
    common = ("simulate", "--model", DEMO, "--from-log", log, "--arrivals", "replay", "--cards", cards, "--json")
    two = ("--consumer", "mine", "--datacenter", "mine", "--arm", "consumer")
    one = ("--consumers", 1, "--datacenters", 1)
    ended = heteroserve(*common, *two, *one)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    with sqlite3.connect(log) as db:
        logged = db.execute("select count(*), sum(completion_tokens) from requests where status = 200").fetchone()
    assert logged[0] == 5
    told = "\n".join(report["notes"])
    assert re.search(r"5 answered requests of \S+requests.db \(1 others left out\)", told), told
    (row,) = table(report, "throughput")
    assert row["arm"] == "consumer" and row["requests_per_s"] > 0
    assert row["tokens_per_s"] / row["requests_per_s"] == pytest.approx(logged[1] / 5, rel=1e-6)
    for bad, words in (
        (("--consumer", "b200", "--datacenter", "mine"), "--consumer"),
        (("--cards", tmp_path / "none.toml"), "--cards"),
    ):
        refused = heteroserve(*common[:-3], *bad)
        assert refused.returncode != 0 and words in refused.stderr and refused.stderr.count("\n") == 1, refused.stderr


def test_bad_files_get_one_line_that_names_the_field(log, tmp_path):
    """A negative price, a log of another schema, and no log at all."""
    cards = tmp_path / "bad.toml"
    cards.write_text(CARDS.replace("price_usd = 500.0", "price_usd = -1"))
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("create table requests (id text)")
    for flags, words in (
        (("--cards", cards), "bad.toml:9: cards.mine.price_usd must be"),
        (("--from-log", other), "--from-log"),
        (("--from-log", tmp_path / "none.db"), "--from-log"),
    ):
        refused = heteroserve("simulate", "--model", DEMO, "--from-log", log, *flags)
        assert refused.returncode != 0 and words in refused.stderr, (flags, refused.stderr)
        assert refused.stderr.count("\n") == 1, refused.stderr


def test_what_is_measured_here_is_simulated_with(tmp_path):
    """`bench --calibrate` writes a profile; simulate takes its times, says that they are measured, and refuses it for
    another model."""
    profile = tmp_path / "here.toml"
    limits = ("--max-num-seqs", 4, "--max-num-batched-tokens", 64)
    devices = ("--consumer", "cpu:0", "--datacenter", "cpu:1")
    measured = heteroserve("bench", DEMO, "--calibrate", "--seconds", 2, "--out", profile, *limits, *devices)
    assert measured.returncode == 0, measured.stderr
    ended = heteroserve("simulate", "--model", DEMO, "--profile", profile, *limits, "--requests", 60, "--json")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    points = next(one for one in report["tables"] if one["name"] == "profile")["rows"]
    assert {point["ms"]["kind"] for point in points} == {"measured"}
    assert {row["arm"] for row in table(report, "throughput")} == {
        "datacenter", "consumer", "stage", "two-tiers", "stealing"
    }  # fmt: skip
    cost = heteroserve("plan", "cost", "--model", DEMO, "--profile", profile, *limits)
    assert cost.returncode == 0 and "measured" in cost.stdout, cost.stderr
    refused = heteroserve("simulate", "--model", "llava-1.5-7b", "--profile", profile)
    assert refused.returncode != 0 and refused.stderr.startswith("heteroserve: --profile: ")
    assert refused.stderr.count("\n") == 1
