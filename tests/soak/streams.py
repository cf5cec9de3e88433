"""Thousands of open streams on one server: what one costs in memory, and whether the server still answers others.

Opens the streams, nearly all of which wait in the queue and get comments that keep them alive, holds them for a while,
closes all and sees the gauges at zero. Ends with one line of JSON; the exit code is 1 if a stream costs more than
--kib, if one is refused or cut, or if something is left. How long /health and /metrics took is told, not judged.
"""

import argparse
import json
import resource
import selectors
import socket
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "end_to_end"))

from real_server import Server  # noqa: E402
from watch import Probe, rss_bytes, scrape, wait_until_idle  # noqa: E402

STREAMS_A_SOURCE = 10_000  # ports of one source address; more streams come from more of 127.0.0.x
OPENED_AT_ONCE = 256


class Streams:
    """Client ends of streams, all on one selector."""

    def __init__(self, port: int):
        self.port = port
        self.selector = selectors.DefaultSelector()
        self.received: dict[socket.socket, int] = {}  # bytes
        self.commented: set[socket.socket] = set()
        self.ended = 0
        self.refused: list[bytes] = []
        self.request = b""

    def set_request(self, **fields) -> None:
        """What each stream asks for."""
        messages = [{"role": "user", "content": "Tell me a long story."}]
        body = json.dumps({"model": "llava", "messages": messages, "stream": True, **fields}).encode()
        self.request = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body

    def open(self, index: int) -> None:
        """Connect and ask."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind((f"127.0.0.{2 + index // STREAMS_A_SOURCE}", 0))
        client.connect(("127.0.0.1", self.port))
        client.setblocking(False)
        client.send(self.request)
        self.received[client] = 0
        self.selector.register(client, selectors.EVENT_READ)

    def read(self, seconds: float) -> None:
        """Take what comes for so long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in self.selector.select(left):
                self._take(key.fileobj)

    def _take(self, client: socket.socket) -> None:
        try:
            data = client.recv(65536)
        except ConnectionResetError:
            data = b""
        if self.received[client] == 0 and data and not data.startswith(b"HTTP/1.1 200"):
            self.refused.append(data[:200])
        self.received[client] += len(data)
        if b": keep-alive" in data:
            self.commented.add(client)
        if not data or b"data: [DONE]" in data:
            self.ended += 1
            self.selector.unregister(client)
            self.received.pop(client)
            client.close()

    def close(self) -> None:
        """Leave, all at once."""
        for client in list(self.received):
            self.selector.unregister(client)
            client.close()
        self.received.clear()


def warm_up(streams: Streams) -> None:
    """Everything that is grown once has grown: the cache's pages, the workers' areas, the allocator's."""
    for n, fields in ((64, {"max_tokens": 200}), (8, {"max_tokens": 1900, "ignore_eos": True})):
        streams.set_request(**fields)
        for i in range(n):
            streams.open(i)
        while streams.received:
            streams.read(0.1)


def lag(samples: dict[str, float], bound: str) -> float:
    """Timers of the loop that ran later than the bound, in all."""
    name = "heteroserve_loop_lag_seconds"
    return samples[name + "_count"] - samples[f"{name}_bucket:{bound}"]


def run(arguments: argparse.Namespace, server: Server) -> dict:
    """Everything that is measured."""
    pid = server.process.pid
    warm_up(Streams(server.port))
    left = wait_until_idle(server.url, 30)
    assert not left, left
    before = scrape(server.url)
    rss_before = rss_bytes(pid)
    probe = Probe(server.port)
    streams = Streams(server.port)
    streams.set_request(max_tokens=1900, ignore_eos=True)
    begin = time.monotonic()
    for i in range(arguments.streams):
        streams.open(i)
        if i % OPENED_AT_ONCE == OPENED_AT_ONCE - 1:
            streams.read(0.05)
    opened_s = time.monotonic() - begin
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        streams.read(0.5)
        now = scrape(server.url)
        if now["heteroserve_requests_preparing"] == 0:
            break
    streams.read(arguments.hold)
    now = scrape(server.url)
    rss_open = rss_bytes(pid)
    n_open = len(streams.received)
    report = {
        "streams": n_open,
        "ended": streams.ended,
        "refused": len(streams.refused),
        "with_comments": len(streams.commented),
        "open_seconds": round(opened_s, 1),
        "waiting": int(now["vllm:num_requests_waiting"]),
        "kib_a_stream": round((rss_open - rss_before) / 1024 / max(n_open, 1), 2),
    }
    if streams.refused:
        report["first_refusal"] = streams.refused[0].decode(errors="replace")
    begin = time.monotonic()
    streams.close()
    report["left"] = wait_until_idle_beside_probe(server.url, 60)
    report["closed_seconds"] = round(time.monotonic() - begin, 1)
    report["probe"] = probe.stop()
    after = scrape(server.url)
    for bound in ("0.025", "0.1"):
        report[f"lags_over_{bound}s"] = int(lag(after, bound) - lag(before, bound))
    report["rss_before_mib"] = rss_before >> 20
    report["rss_after_mib"] = rss_bytes(pid) >> 20
    return report


def wait_until_idle_beside_probe(url: str, seconds: float) -> dict[str, float]:
    """As wait_until_idle(), but for the probe's own connection."""
    deadline = time.monotonic() + seconds
    while True:
        left = wait_until_idle(url, 0)
        if left.get("heteroserve_connections") == 1:
            del left["heteroserve_connections"]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--hold", type=float, default=15, help="seconds for which they are held open")
    parser.add_argument("--kib", type=float, default=20, help="what a stream may cost at most")
    arguments = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = arguments.streams + 400
    if hard < needed:
        print(f"{arguments.streams} streams need {needed} open files, and the limit is {hard}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        # The server has the limit that its user has: it raises that by itself.
        flags = ("--max-queue", str(arguments.streams + 100), "--max-num-seqs", "4", "--served-model-name", "llava")
        server = Server(Path(folder), *flags)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
        report = run(arguments, server)
        report["exit_code"] = server.stop()
    print(json.dumps(report))
    good = (
        report["kib_a_stream"] <= arguments.kib
        and report["streams"] + report["ended"] == arguments.streams
        and report["refused"] == 0
        and not report["left"]
        and report["probe"]["failures"] == 0
        and report["exit_code"] == 0
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
