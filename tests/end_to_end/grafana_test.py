"""The board that ships draws what the server has: every metric and label of its expressions is in a real scrape."""

import json
import re
import urllib.request

from conftest import ROOT, ask

BOARD = ROOT / "packaging/grafana/heteroserve.json"
METRIC = r"\b((?:vllm:|heteroserve_|http_|process_)[a-z0-9_]+)"


def expressions() -> list[str]:
    """Of all panels, and what the choice of servers asks for."""
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return found + [each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"]


def test_every_metric_and_label_is_in_a_real_scrape(start):
    """On two tiers, after a picture question: what is only there with traffic, too."""
    server = start("--consumer", "cpu:0", "--datacenter", "cpu:1")
    client = server.client()
    client.chat.completions.create(model="llava", messages=ask("What is in the picture?", "picture1.png"), max_tokens=4)
    with urllib.request.urlopen(server.url + "/metrics", timeout=10) as reply:
        scrape = reply.read().decode()
    samples = {line.split("{")[0].split(" ")[0] for line in scrape.splitlines() if not line.startswith("#")}
    labels = {name: set() for name in samples}
    for line in scrape.splitlines():
        if found := re.match(r"([a-z:_0-9]+)\{(.*)\} ", line):
            labels[found[1]] |= set(re.findall(r'([a-z_]+)="', found[2]))
    used = set()
    for expression in expressions():
        names = re.findall(METRIC, expression)
        assert names, expression
        used |= set(names)
        assert set(names) <= samples, expression
        for group in re.findall(r"sum by \(([^)]*)\)", expression):
            for label in group.split(", "):
                # Prometheus adds the instance itself.
                assert label == "instance" or label in labels[names[0]], (label, expression)
    assert len(used) > 30


def test_every_panel_is_a_place_on_the_board_of_its_own():
    """No two overlap, none sticks out."""
    taken = set()
    for panel in json.loads(BOARD.read_text(encoding="utf-8"))["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
