"""Random clients against one server for a long time: they ask, misbehave, stall and vanish at every stage.

The server has two tiers of CPU devices, a small queue and a small cache, so that requests wait, are turned away, stolen
and preempted. It is held to this:

- every whole answer has a status that its request may have; a picture that was asked about alone is described rightly;
- at the end all gauges are zero, a question is answered, and the server stops with exit code 0;
- memory stays flat: the most that it has in the last third is at most a tenth and 48 MiB above the most of the third
  before, the first being for warming up.

The seed is printed; --seed runs the same clients again, though not at the same times. Ends with one line of JSON.
"""

import argparse
import base64
import http.client
import json
import random
import socket
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "end_to_end"))

from real_server import PICTURES, Server  # noqa: E402
from watch import Probe, rss_bytes, wait_until_idle  # noqa: E402

CLIENTS = 16
FLAGS = (
    *("--consumer", "cpu:0", "--datacenter", "cpu:1", "--steal", "on"),
    *("--max-queue", "4", "--max-num-seqs", "4", "--kv-blocks", "300", "--served-model-name", "llava"),
)
# Questions about one picture that the demo model is known to answer.
EXAMPLES = [
    (PICTURES / example["images"][0], example["messages"][0]["content"][1]["text"], example["expected"]["llava"])
    for example in json.loads((PICTURES / "examples.json").read_text(encoding="utf-8"))
    if len(example["images"]) == 1 and len(example["messages"]) == 1
]
BUSY = 503
TIMEOUT_S = 120


def image_part(data: bytes) -> dict:
    """A picture as requests carry it."""
    kind = "png" if data.startswith(b"\x89PNG") else "jpeg"
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{base64.b64encode(data).decode()}"}}


def png(width: int, height: int, colour: bytes) -> bytes:
    """A picture of one colour (red, green, blue)."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    rows = zlib.compress((b"\0" + colour * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


class MisbehaviourError(Exception):
    """The server did what it must not."""


class Client:
    """One client that does one thing after another."""

    def __init__(self, port: int, seed: int):
        self.port = port
        self.random = random.Random(seed)
        self.done: Counter[str] = Counter()

    def act(self) -> None:
        """One random thing."""
        actions = (
            (6, self.asks),
            (4, self.asks_about_a_picture),
            (4, self.reads_a_stream),
            (3, self.wants_a_form),
            (3, self.errs),
            (2, self.sends_garbage),
            (4, self.vanishes_while_sending),
            (6, self.vanishes_while_waiting),
            (4, self.vanishes_while_reading),
            (2, self.reads_slowly),
            (1, self.ends_its_side_early),
            (1, self.pipelines),
        )
        action = self.random.choices([a for _, a in actions], [w for w, _ in actions])[0]
        action()
        self.done[action.__name__] += 1

    # ---- what is asked

    def chat(self, **fields) -> dict:
        """A request of text, or of text and pictures."""
        words = " ".join(self.random.choices(("cat", "red", "three", "why", "is", "the", "how"), k=8))
        content: list[dict] = [{"type": "text", "text": words * self.random.choice((1, 1, 1, 20))}]
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            content.insert(0, image_part(self.picture()))
        return {"model": "llava", "messages": [{"role": "user", "content": content}], **fields}

    def picture(self) -> bytes:
        """One of the shipped ones, which are soon known, or one that nobody has seen."""
        if self.random.random() < 0.5:
            return self.random.choice(EXAMPLES)[0].read_bytes()
        return png(self.random.randrange(1, 500), self.random.randrange(1, 500), self.random.randbytes(3))

    def any_request(self) -> dict:
        """One that would be answered with many tokens."""
        return self.chat(
            max_tokens=self.random.choice((5, 50, 400)),
            ignore_eos=self.random.random() < 0.5,
            stream=self.random.random() < 0.7,
            n=self.random.choice((1, 1, 1, 2)),
            temperature=self.random.choice((0, 1)),
            priority=self.random.choice((0, 0, 0, -1, 1)),
        )

    def bytes_of(self, request: dict, path: str = "/v1/chat/completions") -> bytes:
        """It as it goes over the wire."""
        body = json.dumps(request).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
        return f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def post(self, request: dict | bytes, allowed: tuple[int, ...], path: str = "/v1/chat/completions"):
        """The status and the whole body of an answer; any status but the allowed ones is a failure."""
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status not in (*allowed, BUSY):
            raise MisbehaviourError(f"{answer.status} to {path} {body[:200]!r}: {text[:300]!r}")
        if answer.status == BUSY:
            self.done["busy"] += 1
            if answer.getheader("Retry-After") is None:
                raise MisbehaviourError("503 without Retry-After")
        return answer.status, text

    def asks(self) -> None:
        """A whole answer by any of the three routes."""
        kind = self.random.randrange(3)
        if kind == 0:
            self.post(self.chat(max_tokens=20), (200,))
        elif kind == 1:
            self.post({"model": "llava", "prompt": ["Hello", "You"], "max_tokens": 9}, (200,), "/v1/completions")
        else:
            self.post({"model": "llava", "input": "Hello", "max_output_tokens": 9}, (200,), "/v1/responses")

    def asks_about_a_picture(self) -> None:
        """And knows the answer."""
        picture, question, expected = self.random.choice(EXAMPLES)
        parts = [image_part(picture.read_bytes()), {"type": "text", "text": question}]
        request = {"model": "llava", "messages": [{"role": "user", "content": parts}], "temperature": 0}
        status, text = self.post(request, (200,))
        if status == 200 and (said := json.loads(text)["choices"][0]["message"]["content"]) != expected:
            raise MisbehaviourError(f"{picture.name}: {said!r} is not {expected!r}")

    def reads_a_stream(self) -> None:
        """To its end."""
        status, text = self.post(self.chat(max_tokens=60, stream=True), (200,))
        if status == 200 and not text.endswith(b"data: [DONE]\n\n"):
            raise MisbehaviourError(f"a stream ends with {text[-200:]!r}")

    def wants_a_form(self) -> None:
        """JSON of a schema."""
        name = self.random.choice("abcdef")
        schema = {
            "type": "object",
            "properties": {name: {"type": "integer"}},
            "required": [name],
            "additionalProperties": False,
        }
        form = {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}
        status, text = self.post(self.chat(max_tokens=200, response_format=form), (200,))
        if status != 200:
            return
        choice = json.loads(text)["choices"][0]
        if choice["finish_reason"] == "stop" and not isinstance(json.loads(choice["message"]["content"])[name], int):
            raise MisbehaviourError(f"no integer: {text[:300]!r}")

    # ---- what is wrong

    def errs(self) -> None:
        """A request with one fault."""
        request = self.chat(max_tokens=5)
        kind = self.random.randrange(5)
        if kind == 0:
            request["temperature"] = -1
        elif kind == 1:
            request["messages"] = []
        elif kind == 2:
            request["messages"][0]["content"] = "word " * 5000
        elif kind == 3:
            picture = self.picture()
            request["messages"][0]["content"] = [image_part(picture[: self.random.randrange(len(picture) // 2)])]
        else:
            request["model"] = "nobody"
        self.post(request, (404,) if kind == 4 else (400,))

    def sends_garbage(self) -> None:
        """Bytes that are no JSON, or no HTTP."""
        noise = self.random.randbytes(self.random.randrange(1, 4000))
        if self.random.random() < 0.5:
            self.post(noise, (400,))
            return
        with self.connected() as client:
            client.sendall(noise)
            client.shutdown(socket.SHUT_WR)
            self.drained(client)

    # ---- how clients leave

    def connected(self, receive_bytes: int = 0) -> socket.socket:
        """A bare connection."""
        client = socket.socket()
        client.settimeout(TIMEOUT_S)
        if receive_bytes:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        client.connect(("127.0.0.1", self.port))
        return client

    def drained(self, client: socket.socket) -> bytes:
        """All that still comes."""
        text = b""
        try:
            while data := client.recv(65536):
                text += data
        except ConnectionError:
            pass
        return text

    def leave(self, client: socket.socket) -> None:
        """With a farewell, or a reset."""
        if self.random.random() < 0.5:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()

    def pause(self, longest_s: float) -> None:
        """Mostly short."""
        time.sleep(longest_s * self.random.random() ** 3)

    def vanishes_while_sending(self) -> None:
        """In its head or its body."""
        client = self.connected()
        request = self.bytes_of(self.any_request())
        client.sendall(request[: self.random.randrange(len(request))])
        self.pause(0.5)
        self.leave(client)

    def vanishes_while_waiting(self) -> None:
        """Queued, being prepared, encoded or answered: whatever comes to pass."""
        client = self.connected()
        client.sendall(self.bytes_of(self.any_request()))
        self.pause(2)
        self.leave(client)

    def vanishes_while_reading(self) -> None:
        """After some bytes of the answer."""
        client = self.connected()
        client.sendall(self.bytes_of({**self.any_request(), "stream": True}))
        wanted = self.random.randrange(1, 20_000)
        try:
            while wanted > 0 and (data := client.recv(min(wanted, 4096))):
                wanted -= len(data)
        except TimeoutError as late:
            raise MisbehaviourError("nothing came") from late
        self.leave(client)

    def reads_slowly(self) -> None:
        """A few bytes now and then, and then no more."""
        client = self.connected(receive_bytes=2048)
        client.sendall(self.bytes_of({**self.any_request(), "stream": True, "max_tokens": 1000, "ignore_eos": True}))
        for _ in range(self.random.randrange(1, 20)):
            if not client.recv(256):
                break
            self.pause(0.5)
        self.pause(3)
        self.leave(client)

    def ends_its_side_early(self) -> None:
        """But reads on: it gets the whole answer."""
        with self.connected() as client:
            client.sendall(self.bytes_of(self.chat(max_tokens=10)))
            client.shutdown(socket.SHUT_WR)
            text = self.drained(client)
        if b"HTTP/1.1 200" not in text and b"HTTP/1.1 503" not in text:
            raise MisbehaviourError(f"after a half-close: {text[:300]!r}")

    def pipelines(self) -> None:
        """Several requests at once; the last asks the server to close."""
        one = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
        with self.connected() as client:
            client.sendall((one + "\r\n").encode() * 5 + (one + "Connection: close\r\n\r\n").encode())
            text = self.drained(client)
        if text.count(b"HTTP/1.1 200 OK") != 6:
            raise MisbehaviourError(f"of six answers came {text!r}")


class Soak:
    """All clients, and what becomes of them and the server."""

    def __init__(self, server: Server, seed: int, seconds: float):
        self.server = server
        self.seconds = seconds
        self.begin = time.monotonic()
        self.failures: list[str] = []
        self.clients = [Client(server.port, seed * 1000 + i) for i in range(CLIENTS)]
        self.peaks = [0, 0, 0]  # bytes, by third

    def left_s(self) -> float:
        """Until clients stop."""
        return self.begin + self.seconds - time.monotonic()

    def live(self, client: Client) -> None:
        """A client's thread."""
        while self.left_s() > 0 and not self.failures:
            try:
                client.act()
            except Exception as fault:  # whatever it is, it is told with what led to it
                self.failures.append(f"{type(fault).__name__}: {fault}")

    def run(self) -> dict:
        """Until the time is over or something went wrong."""
        probe = Probe(self.server.port)
        threads = [threading.Thread(target=self.live, args=(client,)) for client in self.clients]
        for thread in threads:
            thread.start()
        while self.left_s() > 0 and not self.failures and self.server.process.poll() is None:
            third = min(int(3 * (1 - self.left_s() / self.seconds)), 2)
            self.peaks[third] = max(self.peaks[third], rss_bytes(self.server.process.pid))
            time.sleep(min(0.2, self.seconds / 100))
        for thread in threads:
            thread.join(2 * TIMEOUT_S)
        report: dict = {"seconds": round(time.monotonic() - self.begin), "probe": probe.stop()}
        report["done"] = dict(sum((client.done for client in self.clients), Counter()))
        report["peaks_mib"] = [peak >> 20 for peak in self.peaks]
        return report

    def judge(self, report: dict) -> None:
        """What must hold when all clients have gone."""
        if self.server.process.poll() is not None:
            self.failures.append("the server ended: " + "\n".join(self.server.lines[-20:]))
            return
        if left := wait_until_idle(self.server.url, 60):
            self.failures.append(f"not idle in the end: {left}")
        if self.peaks[2] > self.peaks[1] * 1.1 + (48 << 20):
            self.failures.append(f"memory grew: {report['peaks_mib']} MiB")
        if report["probe"]["failures"]:
            self.failures.append("/health or /metrics did not answer")
        last = Client(self.server.port, 0)
        try:
            last.asks_about_a_picture()
        except Exception as fault:
            self.failures.append(f"afterwards: {fault}")
        if last.done["busy"]:
            self.failures.append("busy when idle")
        if (code := self.server.stop()) != 0:
            self.failures.append(f"exit code {code}: " + "\n".join(self.server.lines[-20:]))
        self.failures += [line for line in self.server.lines if "check failed" in line or "heteroserve error" in line]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument(
        "--answer-ms", type=float, default=0, help="/health and /metrics must answer in so long; 0: any"
    )
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), *FLAGS)
        soak = Soak(server, arguments.seed, arguments.seconds)
        report = soak.run()
        soak.judge(report)
        if server.process.poll() is None:
            server.process.kill()
    if arguments.answer_ms and report["probe"]["p99_ms"] > arguments.answer_ms:
        soak.failures.append(f"/health and /metrics took {report['probe']}")
    for failure in soak.failures[:10]:
        print(f"failed: {failure}", file=sys.stderr)
    print(json.dumps({"seed": arguments.seed, "failures": len(soak.failures), **report}))
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
