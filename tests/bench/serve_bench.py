"""Time to first token and throughput over HTTP, at 1 and 16 clients, with the standard library alone.

    python3 tests/bench/serve_bench.py BINARY MODEL [--picture FILE] [--rounds 5]

Starts the server, streams from raw sockets (so that the client costs little on the cores it shares with the server),
and prints one line of JSON: medians over all requests, with the smallest and largest.
"""

import argparse
import base64
import json
import re
import socket
import statistics
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def one_request(port: int, body: bytes) -> tuple[float, float, int]:
    """Seconds to the first text, seconds to the end, chunks with text."""
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    start, first, seen = time.perf_counter(), 0.0, b""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head.encode() + body)
        while data := connection.recv(65536):
            seen += data
            if not first and b'"content":"' in seen.replace(b'"content":""', b""):
                first = time.perf_counter() - start
    assert b"[DONE]" in seen, seen[:500]
    return first, time.perf_counter() - start, seen.count(b"data: ")


def body_of(model: str, picture: Path | None, number: int, tokens: int) -> bytes:
    """A request that shares no prefix with any other."""
    text = f"{number} " + "what do you see in this picture " * 10
    parts = [{"type": "text", "text": text}]
    if picture is not None:
        kind = "jpeg" if picture.suffix == ".jpg" else "png"
        url = f"data:image/{kind};base64,{base64.b64encode(picture.read_bytes()).decode()}"
        parts.insert(0, {"type": "image_url", "image_url": {"url": url}})
    ask = {"model": model, "messages": [{"role": "user", "content": parts}], "max_tokens": tokens}
    return json.dumps(ask | {"stream": True, "temperature": 0, "ignore_eos": True}).encode()


def measure(port: int, model: str, picture: Path | None, clients: int, rounds: int, tokens: int) -> dict:
    """All rounds at one number of clients."""
    # Nothing that an earlier call asked may be found in the prefix cache.
    firsts, rates, number = [], [], time.time_ns() % 10**9 * 1000
    for _ in range(rounds):
        bodies = [body_of(model, picture, number := number + 1 + clients * 1000, tokens) for _ in range(clients)]
        start = time.perf_counter()
        with ThreadPoolExecutor(clients) as pool:
            results = list(pool.map(lambda body: one_request(port, body), bodies))
        rates.append(clients * tokens / (time.perf_counter() - start))
        firsts += [first for first, _, _ in results]
    return {
        "ttft_ms": {"median": 1e3 * statistics.median(firsts), "min": 1e3 * min(firsts), "max": 1e3 * max(firsts)},
        "tokens_s": {"median": statistics.median(rates), "min": min(rates), "max": max(rates)},
    }


def main() -> None:
    """Start, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("model", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=32)
    options = parser.parse_args()
    began = time.perf_counter()
    command = [options.binary, "serve", str(options.model), "--port", "0", "--log-path", "none"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for line in server.stdout:
            if found := re.search(r"ready: http://[^ ]*:(\d+)", line):
                break
        else:
            raise SystemExit("bench: the server did not become ready")
        report = {"model": options.model.name, "ready_seconds": round(time.perf_counter() - began, 3)}
        threading.Thread(target=lambda: server.stdout.read(), daemon=True).start()
        port, name = int(found.group(1)), options.model.name
        for clients in (1, 16):
            measure(port, name, options.picture, clients, 1, options.tokens)
            report[f"clients_{clients}"] = measure(port, name, options.picture, clients, options.rounds, options.tokens)
        print(json.dumps(report))
    finally:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    main()
