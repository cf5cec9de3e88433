"""What goes wrong outside leaves the server healthy: clients that vanish, damaged input, a full disk, kill -9."""

import json
import signal
import socket
import sqlite3
import subprocess
import threading
import urllib.request

import openai
import pytest
from conftest import BINARY, DEMO, PICTURES, ask, data_url
from real_server import wait_for


def gauge(server, name: str) -> float:
    """One gauge's value from /metrics."""
    with urllib.request.urlopen(server.url + "/metrics", timeout=10) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith((name + " ", name + "{")):
                return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no metric {name}")


def is_healthy(server) -> None:
    """It answers a picture question, and nothing is left running."""
    model = server.client().models.list().data[0].id
    reply = server.client().chat.completions.create(
        model=model, messages=ask("What is in the picture?", "picture1.png"), temperature=0
    )
    truth = json.loads((PICTURES / "examples.json").read_text(encoding="utf-8"))[0]["truth"]
    assert reply.choices[0].message.content == truth
    wait_for(lambda: gauge(server, "vllm:num_requests_running") == 0, what="idle")


def raw_chat(server, stream: bool) -> bytes:
    """A long request as raw HTTP bytes."""
    body = json.dumps(
        {
            "model": server.client().models.list().data[0].id,
            "messages": ask("What is in the picture?", "picture1.png"),
            "max_tokens": 1900,
            "ignore_eos": True,
            "stream": stream,
        }
    ).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
    return head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_killed_client_is_cancelled(server, stream):
    """Its request stops within moments, and its row says cancelled."""
    before = gauge(server, "vllm:generation_tokens_total")
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(raw_chat(server, stream))
        wait_for(lambda: gauge(server, "vllm:generation_tokens_total") > before, what="the first token")
    wait_for(lambda: gauge(server, "vllm:num_requests_running") == 0, seconds=5, what="cancellation")
    assert gauge(server, "vllm:generation_tokens_total") - before < 1900
    is_healthy(server)


def test_sixteen_clients_killed_at_once(server):
    """All of them are gone a moment later."""
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(16)]
    for client in clients:
        client.sendall(raw_chat(server, True))
    wait_for(lambda: gauge(server, "vllm:num_requests_running") > 0, what="a running request")
    for client in clients:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset instead of a farewell
        client.close()
    wait_for(lambda: gauge(server, "vllm:num_requests_running") == 0, what="cancellation")
    is_healthy(server)


def test_client_that_leaves_in_the_middle_of_its_body(server):
    """Half a request is no request."""
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(raw_chat(server, True)[:900])
    is_healthy(server)


@pytest.mark.parametrize("kept", [0.0, 0.02, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("name", ["picture2.jpg", "picture3.png"])
def test_truncated_picture_is_a_400(server, name, kept):
    """Cut anywhere: a clear client error."""
    data = (PICTURES / name).read_bytes()
    cut = data_url(data[: int(len(data) * kept)])
    parts = [{"type": "image_url", "image_url": {"url": cut}}, {"type": "text", "text": "What is this?"}]
    with pytest.raises(openai.BadRequestError) as caught:
        server.client().chat.completions.create(
            model=server.client().models.list().data[0].id, messages=[{"role": "user", "content": parts}]
        )
    assert caught.value.code == "invalid_image"
    is_healthy(server)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"model": "llava", "messages": [{"role": "user", "content": "\xff\xfe"}]}',
        b"[" * 100_000,
        b'{"temperature": NaN}',
        b'{"a": 1e400}',
        b'\xef\xbb\xbf{"model": 1}',
        b'{"model": "llava"} {"model": "llava"}',
    ],
    ids=["empty", "open", "null", "array", "not UTF-8", "deep", "NaN", "1e400", "BOM", "two"],
)
def test_garbage_json_is_a_400(server, body):
    """The error is OpenAI's shape, and echoes nothing."""
    call = urllib.request.Request(server.url + "/v1/chat/completions", data=body, method="POST")
    call.add_header("Content-Type", "application/json")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(call, timeout=10)
    assert caught.value.code == 400
    assert set(json.loads(caught.value.read())["error"]) == {"message", "type", "param", "code"}
    is_healthy(server)


def test_full_disk_under_the_log(start):
    """No file can grow past 96 KiB: requests go on, the server stops cleanly, and the log holds what had room."""
    server = start(file_bytes_max=96 * 1024)
    client = server.client()
    model = client.models.list().data[0].id
    for _ in range(400):
        client.chat.completions.create(model=model, messages=ask("Hello"), max_tokens=1)
    is_healthy(server)
    assert server.stop() == 0
    with sqlite3.connect(server.log_path) as log:
        assert log.execute("select count(*) from requests").fetchone()[0] < 400, "the disk was not full"


def test_more_clients_than_open_files(start):
    """Those over the limit are refused or wait; when others leave, all is well."""
    server = start(open_files_max=120)
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
    for client in clients:
        client.settimeout(30)
        client.sendall(f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
    served = sum(client.recv(12) == b"HTTP/1.1 200" for client in clients[:50])
    assert served == 50
    assert server.process.poll() is None
    for client in clients:
        client.close()

    def connections() -> float:
        try:
            return gauge(server, "heteroserve_connections")
        except OSError:  # still full
            return -1

    wait_for(lambda: connections() == 1, what="only the one that asks")
    is_healthy(server)


def test_kill_9_keeps_the_rows_written_before(start):
    """The log opens again and holds the finished requests."""
    server = start()
    client = server.client()
    model = client.models.list().data[0].id
    client.chat.completions.create(model=model, messages=ask("Hello"), max_tokens=1)

    def rows() -> int:
        with sqlite3.connect(f"file:{server.log_path}?mode=ro", uri=True) as log:
            return log.execute("select count(*) from requests where status = 200").fetchone()[0]

    wait_for(lambda: rows() == 1, what="the row")
    server.stop(signal.SIGKILL)
    assert rows() == 1
    again = start()
    again.client().chat.completions.create(model=model, messages=ask("Hello"), max_tokens=1)
    wait_for(lambda: rows() == 2, what="the second row")
    shown = subprocess.run([BINARY, "logs", "--log-path", server.log_path, "--json"], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert len([json.loads(line) for line in shown.stdout.splitlines()]) == 2
    assert "Hello" not in shown.stdout


def test_locked_log_keeps_rows_and_fails_no_request(start):
    """Another program holds the write lock: requests go on, and their rows are there once it lets go."""
    server = start()
    client = server.client()
    model = client.models.list().data[0].id
    with sqlite3.connect(server.log_path, isolation_level=None) as other:
        other.execute("begin immediate")
        for _ in range(2):
            assert client.chat.completions.create(model=model, messages=ask("Hello"), max_tokens=1).choices
        wait_for(lambda: any("cannot write" in line for line in server.lines), what="the warning")
        is_healthy(server)
        other.execute("rollback")
    other.close()
    wait_for(lambda: len(logged(server).splitlines()) == 3, seconds=20, what="the rows")
    assert server.stop() == 0


def test_damaged_log_is_begun_anew(start, tmp_path):
    """What was there is kept aside; requests are answered and logged."""
    (tmp_path / "requests.db").write_bytes(b"\x5a" * 20_000)
    server = start()
    is_healthy(server)
    assert server.stop() == 0
    assert any("is damaged" in line for line in server.lines)
    assert [path.stat().st_size for path in tmp_path.glob("requests.db.damaged-*")] == [20_000]
    assert len(logged(server).splitlines()) == 1


def test_failed_request_has_a_row_too(start):
    """With its status and error code."""
    server = start()
    with pytest.raises(openai.NotFoundError):
        server.client().chat.completions.create(model="nonsense", messages=ask("Hello"))
    assert server.stop() == 0
    with sqlite3.connect(server.log_path) as log:
        assert log.execute("select status, error_code from requests").fetchall() == [(404, "model_not_found")]


def test_refusal_before_the_body_has_a_row_too(start):
    """A field error names model and stream; a body that is too large was never read, so its row names neither."""
    server = start("--max-body-mib", "1", "--max-image-mib", "1", "--limit-mm-per-prompt", "image=0")
    model = server.client().models.list().data[0].id
    with pytest.raises(openai.BadRequestError):
        server.client().chat.completions.create(model=model, messages=ask("Hello"), temperature=9, stream=True)
    with pytest.raises(openai.APIStatusError) as caught:
        server.client().chat.completions.create(model=model, messages=ask("x" * (2 << 20)))
    assert caught.value.status_code == 413
    assert server.stop() == 0
    with sqlite3.connect(server.log_path) as log:
        rows = log.execute("select status, error_code, model, stream from requests order by row").fetchall()
    assert rows == [(400, "invalid_value", model, 1), (413, "request_too_large", None, 0)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_logs_follow_shows_requests_as_they_are_logged(start, number):
    """From a second process, beside the server that writes; a signal ends it with exit code 0."""
    server = start()
    client = server.client()
    model = client.models.list().data[0].id
    client.chat.completions.create(
        model=model, messages=ask("Hello"), max_tokens=1, extra_headers={"X-Request-Id": "before"}
    )
    wait_for(lambda: b"before" in logged(server), what="the row from before")
    command = [BINARY, "logs", "--log-path", server.log_path, "--json", "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        assert json.loads(follower.stdout.readline())["id"] == "before"
        for name in ("one", "two"):
            client.chat.completions.create(
                model=model, messages=ask("Hello"), max_tokens=1, extra_headers={"X-Request-Id": name}
            )
            assert json.loads(follower.stdout.readline())["id"] == name
        follower.send_signal(number)
        assert follower.wait(10) == 0
        assert follower.stdout.read() == ""


def logged(server) -> bytes:
    """What `heteroserve logs` prints of a server's log."""
    return subprocess.run([BINARY, "logs", "--log-path", server.log_path, "--json"], capture_output=True).stdout


def test_drain_finishes_what_runs(start):
    """SIGTERM: the running answer completes, new requests are refused, the exit code is 0."""
    server = start("--shutdown-timeout", "60")
    client = server.client()
    model = client.models.list().data[0].id
    stream = client.chat.completions.create(
        model=model, messages=ask("Hello"), max_tokens=600, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    server.process.send_signal(signal.SIGTERM)
    chunks = list(stream)
    assert chunks[-1].choices[0].finish_reason == "length"
    assert server.process.wait(30) == 0


def test_second_signal_ends_at_once(start):
    """Without waiting for the running answer."""
    server = start("--shutdown-timeout", "600")
    client = server.client()
    model = client.models.list().data[0].id
    stop = threading.Event()

    def read() -> None:
        try:
            for _ in client.chat.completions.create(
                model=model, messages=ask("Hello"), max_tokens=1900, stream=True, extra_body={"ignore_eos": True}
            ):
                stop.set()
        except openai.APIError:
            pass
        except Exception:  # the connection breaks in one of several ways
            pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert stop.wait(20)
    server.process.send_signal(signal.SIGTERM)
    # Two signals that come before the first is taken are one.
    wait_for(lambda: any("SIGTERM" in line for line in server.lines), what="the drain")
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(10)
    reader.join(10)
    assert not reader.is_alive()


def test_run_answers_once_without_a_server():
    """`heteroserve run` prints the answer and nothing else on stdout."""
    example = json.loads((PICTURES / "examples.json").read_text(encoding="utf-8"))[4]
    done = subprocess.run(
        [BINARY, "run", DEMO, "--image", PICTURES / example["images"][0], "What is in the picture?"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == example["truth"]


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["serve", "no/such/folder"], 78, "no/such/folder"),
        (["serve", str(DEMO), "--no-such-flag"], 2, "no-such-flag"),
        (["serve", str(DEMO), "--port", "99999"], 78, "port"),
        (["serve", str(DEMO), "--max-body-mib", "1", "--max-image-mib", "20"], 78, "body"),
        (["frobnicate"], 2, "frobnicate"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_bad_start_is_one_clear_line(arguments, code, word):
    """A documented exit code, and the thing at fault is named."""
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=30)
    assert done.returncode == code, done.stderr
    assert word in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 3
