"""API keys from the command line to the refused request: made, used, limited, revoked, counted."""

import json
import socket
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from real_server import BINARY, DEMO, Server


def keys(folder, *arguments: str) -> str:
    """`heteroserve keys ...` on the files of a test's server."""
    paths = ("--keys-path", str(folder / "keys.db"), "--log-path", str(folder / "requests.db"))
    ran = subprocess.run([str(BINARY), "keys", *arguments, *paths], capture_output=True, text=True, timeout=30)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def status(server: Server, path: str, key: str = "") -> tuple[int, dict]:
    """The status of a GET, and the headers."""
    request = urllib.request.Request(server.url + path, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, dict(reply.headers)
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers)


def until(condition) -> None:
    """Waits for what a server does within seconds."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ask(server: Server, key: str, **fields) -> str:
    """One short answer."""
    client = openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0, timeout=60)
    made = client.chat.completions.create(
        model="llava", messages=[{"role": "user", "content": "Hello"}], **{"max_tokens": 4, **fields}
    )
    return made.choices[0].message.content


@pytest.fixture
def locked(tmp_path):
    """A server with an admin's key and one that may do little, and their secrets."""
    admin = keys(tmp_path, "create", "boss", "--admin")
    user = keys(tmp_path, "create", "user", "--concurrency", "1", "--per-minute", "100")
    server = Server(tmp_path)
    yield server, admin, user
    assert server.stop() == 0


def test_every_route_but_health_wants_a_key(locked):
    """The page itself is there, to ask for it."""
    server, admin, user = locked
    assert status(server, "/health")[0] == 200
    assert status(server, "/")[0] == 200
    for path in ("/v1/models", "/ready", "/version", "/metrics", "/debug/timeline", "/admin/state", "/nothing"):
        code, headers = status(server, path)
        assert (code, headers["WWW-Authenticate"]) == (401, "Bearer"), path
        assert status(server, path, "hs-wrong")[0] == 401
    for path in ("/metrics", "/debug/timeline", "/admin/state", "/admin/settings", "/admin/requests"):
        assert status(server, path, user)[0] == 403, path
        assert status(server, path, admin)[0] == 200, path
    assert ask(server, user) is not None
    with pytest.raises(openai.AuthenticationError):
        ask(server, "hs-wrong")


def test_limits_are_told_as_429_with_a_time(locked):
    """One at a time: of several at once some are refused, and later all goes well again."""
    server, _, user = locked

    def one(_):
        try:
            return ask(server, user, max_tokens=400, extra_body={"ignore_eos": True}) is not None
        except openai.RateLimitError as error:
            assert int(error.response.headers["retry-after"]) >= 1
            assert error.code == "concurrency_limit_exceeded"
            return False

    with ThreadPoolExecutor(4) as pool:
        answered = list(pool.map(one, range(4)))
    assert answered.count(True) >= 1
    assert answered.count(False) >= 1
    assert ask(server, user) is not None


def waiting(server: Server, admin: str) -> float:
    """Requests that wait, as /metrics says."""
    request = urllib.request.Request(server.url + "/metrics", headers={"Authorization": f"Bearer {admin}"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        lines = reply.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith("vllm:num_requests_waiting{")).rsplit(" ", 1)[1])


def test_a_key_that_queues_many_lets_another_pass(tmp_path):
    """The other's single request waits for the one that runs, not for the dozen before it."""
    admin, many, single = (keys(tmp_path, "create", *made) for made in (("boss", "--admin"), ("many",), ("single",)))
    server = Server(tmp_path, "--max-num-seqs", "1")
    messages = [{"role": "user", "content": "Hello"}]
    wanted = {"model": "llava", "messages": messages, "max_tokens": 1900, "ignore_eos": True, "stream": True}
    body = json.dumps(wanted).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {many}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(12)]
    for client in clients:
        client.sendall(head.encode() + body)
    until(lambda: waiting(server, admin) >= 10)
    ask(server, single)
    assert waiting(server, admin) >= 5
    for client in clients:
        client.close()
    until(lambda: waiting(server, admin) == 0)
    assert server.stop() == 0


def test_only_an_admins_key_goes_before_others(locked):
    """A user's may stand back."""
    server, admin, user = locked
    assert ask(server, admin, extra_body={"priority": -1}) is not None
    assert ask(server, user, extra_body={"priority": 1}) is not None
    with pytest.raises(openai.PermissionDeniedError) as caught:
        ask(server, user, extra_body={"priority": -1})
    assert (caught.value.code, caught.value.param) == ("admin_key_needed", "priority")


def test_keys_made_and_revoked_count_without_a_restart(tmp_path):
    """The first one locks a server that was open; revoking it does not open it again."""
    server = Server(tmp_path)
    assert status(server, "/v1/models")[0] == 200
    key = keys(tmp_path, "create", "late")
    until(lambda: status(server, "/v1/models")[0] == 401)
    assert status(server, "/v1/models", key)[0] == 200
    keys(tmp_path, "revoke", "late")
    until(lambda: status(server, "/v1/models", key)[0] == 401)
    assert status(server, "/v1/models")[0] == 401
    (tmp_path / "keys.db").unlink()
    for _ in range(30):  # two looks of the server at its file
        assert status(server, "/v1/models")[0] == 401
        time.sleep(0.1)
    assert server.stop() == 0


def test_exit_codes_tell_whose_fault_it_is(tmp_path):
    """2: no key may be called so; 1: taken, or unknown; 78: the file is no file of keys; 69: no request log."""

    def code(*arguments: str, path: str = "keys.db") -> int:
        paths = ("--keys-path", str(tmp_path / path), "--log-path", str(tmp_path / "requests.db"))
        ran = subprocess.run([str(BINARY), "keys", *arguments, *paths], capture_output=True, text=True, timeout=30)
        assert (ran.stderr == "") == (ran.returncode == 0 and arguments[0] != "create")
        return ran.returncode

    assert code("create", "a b") == 2
    assert code("create", "lab") == 0
    assert code("create", "lab") == 1
    assert code("revoke", "lab") == 0
    assert code("create", "lab") == 0
    assert code("revoke", "nobody") == 1
    assert code("usage") == 69
    (tmp_path / "notes.txt").write_text("x" * 5000, encoding="utf-8")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("create table t (x)")
    for wrong in ("notes.txt", "other.db"):
        assert [code(*words, path=wrong) for words in (("create", "lab"), ("list",), ("revoke", "lab"))] == [78] * 3


def test_usage_is_counted_by_key_and_model(locked, tmp_path):
    """In the totals, and in the rows of the log."""
    server, admin, user = locked
    for _ in range(3):
        ask(server, user)
    ask(server, admin)
    assert server.stop() == 0
    rows = [json.loads(line) for line in keys(tmp_path, "usage", "--json").splitlines()]
    counts = {(row["key_name"], row["model"]): row["requests"] for row in rows}
    assert counts == {("user", "llava"): 3, ("boss", "llava"): 1}
    assert all(row["prompt_tokens"] > 0 and row["completion_tokens"] > 0 for row in rows)
    listed = [json.loads(line) for line in keys(tmp_path, "list", "--json").splitlines()]
    assert [(key["name"], key["admin"], key["concurrency_max"]) for key in listed] == [
        ("boss", True, None),
        ("user", False, 1),
    ]
    assert user not in (tmp_path / "keys.db").read_bytes().decode("latin-1")


def test_without_keys_other_machines_are_not_served(tmp_path):
    """The refusal says what to do, and that a restart changes nothing."""
    command = [str(BINARY), "serve", str(DEMO), "--host", "0.0.0.0", "--port", "0"]
    command += ["--log-path", "none", "--keys-path", str(tmp_path / "keys.db")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 78
    assert "heteroserve keys create" in ran.stderr


def test_a_damaged_file_of_keys_opens_nothing(tmp_path):
    """The server does not start."""
    (tmp_path / "keys.db").write_bytes(b"x" * 5000)
    command = [str(BINARY), "serve", str(DEMO), "--port", "0", "--log-path", "none"]
    command += ["--keys-path", str(tmp_path / "keys.db")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0
    assert "keys.db" in ran.stderr
