"""What a server says of itself while it is loaded: its gauges, its memory, how fast it answers /health and /metrics."""

import http.client
import json
import select
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

# All of them are zero when nobody asks anything.
IDLE_GAUGES = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "heteroserve_requests_preparing",
    "heteroserve_held_body_bytes",
    "heteroserve_held_pixel_bytes",
    "heteroserve_waiting_keys",
    "heteroserve_kv_blocks_used",
)


def scrape(url: str) -> dict[str, float]:
    """The samples of /metrics: the sum over a family's labels by its name, and each bucket by its bound."""
    with urllib.request.urlopen(url + "/metrics", timeout=30) as reply:
        lines = reply.read().decode().splitlines()
    samples: dict[str, float] = {}
    for line in lines:
        if line.startswith("#") or not line:
            continue
        sample, value = line.rsplit(" ", 1)
        name = sample.split("{", 1)[0]
        if name.endswith("_bucket"):
            name += ":" + sample.split('le="', 1)[1].split('"', 1)[0]
        samples[name] = samples.get(name, 0.0) + float(value)
    return samples


def rss_bytes(pid: int) -> int:
    """What the process has in memory."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no VmRSS")


def wait_until_idle(url: str, seconds: float) -> dict[str, float]:
    """Wait until all idle gauges are zero and nobody else is connected; what is not in time is in the answer."""
    deadline = time.monotonic() + seconds
    while True:
        samples = scrape(url)
        left = {name: samples[name] for name in IDLE_GAUGES if samples[name] != 0}
        if samples["heteroserve_connections"] > 1:  # the one that asks
            left["heteroserve_connections"] = samples["heteroserve_connections"] - 1
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


class Probe:
    """Asks for /health and /metrics ten times a second from a process of its own."""

    def __init__(self, port: int):
        command = [sys.executable, __file__, str(port)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def stop(self) -> dict[str, float]:
        """End it: how many answers came, and how long they took in milliseconds."""
        text, _ = self.process.communicate(timeout=60)
        return json.loads(text)


def probe(port: int) -> None:
    """The process: until its input ends."""
    took_ms: list[float] = []
    failures = 0
    connection = None
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        for path in ("/health", "/metrics"):
            begin = time.monotonic()
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request("GET", path)
                answer = connection.getresponse()
                answer.read()
                failures += answer.status != 200
            except OSError:
                failures += 1
                connection = None
            took_ms.append((time.monotonic() - begin) * 1000)
    took_ms.sort()
    report = {"answers": len(took_ms), "failures": failures}
    for name, part in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0)):
        report[name] = round(took_ms[min(len(took_ms) - 1, int(part * len(took_ms)))], 1) if took_ms else -1
    print(json.dumps(report))


if __name__ == "__main__":
    probe(int(sys.argv[1]))
