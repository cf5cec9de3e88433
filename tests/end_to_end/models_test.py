"""Models from the hub to the answer: pulled over a broken line, checked, served by name, swapped while in use."""

import json
import os
import resource
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from hub_stub import COMMIT, HubStub
from real_server import BINARY, DEMO, ROOT, Server

QWEN = ROOT / "models/demo/qwen2_5_vl"


@pytest.fixture
def hub():
    """The demo model on a hub of its own."""
    stub = HubStub.of_folder(DEMO)
    yield stub
    stub.stop()


def command(folder: Path, *arguments: str, stub: HubStub | None = None, file_bytes_max: int | None = None, **more: str):
    """`heteroserve ...` on a test's store."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("HETEROSERVE_", "HF_"))}
    environment = keep | {"HETEROSERVE_MODELS_DIR": str(folder / "models"), "NO_PROXY": "*"} | more
    if stub:
        environment["HF_ENDPOINT"] = stub.url

    def limit_files() -> None:
        if file_bytes_max is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))

    return subprocess.run(
        [str(BINARY), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limit_files,
    )


def stored(folder: Path) -> Path:
    """Where org/tiny lies."""
    return folder / "models/org/tiny" / COMMIT


def post(server: Server, path: str, body: dict) -> tuple[int, dict]:
    """A POST with JSON."""
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def get(server: Server, path: str) -> tuple[int, dict]:
    """A GET of JSON."""
    try:
        with urllib.request.urlopen(server.url + path, timeout=30) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def until(condition):
    """Waits for what a server does within seconds, and gives what it came to."""
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def settled(server: Server) -> dict:
    """The served model once nothing changes any more."""

    def look():
        served = get(server, "/admin/models")[1]["served"]
        return served if served["state"] in ("ready", "empty") else None

    return until(look)


def answer(server: Server, model: str) -> str:
    """One short answer."""
    made = server.client().chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Hello"}], max_tokens=4
    )
    return made.choices[0].message.content


def test_a_pull_survives_a_broken_line_and_brings_only_what_runs(hub, tmp_path):
    """Resumed at the byte where it broke, from the other host without the token; then there is nothing to do."""
    hub.cuts, hub.cut_after, hub.token = 2, 100_000, "hf_secret"
    pulled = command(tmp_path, "pull", "org/tiny", stub=hub, HF_TOKEN="hf_secret")
    assert pulled.returncode == 0, pulled.stderr
    assert pulled.stdout.strip() == f"org/tiny@{COMMIT}"
    assert "100 %" in pulled.stderr
    assert "\r" not in pulled.stderr
    assert "hf_secret" not in pulled.stderr
    for name in ("config.json", "tokenizer.json", "model.safetensors", "preprocessor_config.json"):
        assert (stored(tmp_path) / name).read_bytes() == hub.files[name]
    assert not (stored(tmp_path) / "pytorch_model.bin").exists()
    ranges = [headers.get("Range") for host, _, headers in hub.seen if host == "cdn"]
    assert ranges == [None, "bytes=100000-", "bytes=200000-"]
    assert all("Authorization" not in headers for host, _, headers in hub.seen if host == "cdn")
    before = len(hub.paths("cdn"))
    assert command(tmp_path, "pull", "org/tiny", stub=hub, HF_TOKEN="hf_secret").returncode == 0
    assert len(hub.paths("cdn")) == before


def test_a_dry_run_tells_the_plan_and_fetches_nothing(hub, tmp_path):
    """As JSON: files, disk, memory, cards."""
    told = command(tmp_path, "pull", "org/tiny@main", "--dry-run", "--json", stub=hub)
    assert told.returncode == 0, told.stderr
    plan = json.loads(told.stdout)
    assert plan["architecture"] == "LlavaForConditionalGeneration"
    assert plan["bytes_missing"] == plan["bytes_total"] == sum(file["bytes"] for file in plan["files"])
    assert plan["disk"]["free_bytes"] > 0
    assert plan["memory"]["fits"] is True
    assert any(card["name"].find("4090") >= 0 and card["fits"] for card in plan["cards"])
    assert hub.paths("cdn") == []
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ("gated", 77, "HF_TOKEN"),
        ("absent", 66, "does not exist"),
        ("hash", 65, "hash"),
        ("offline", 69, "HF_HUB_OFFLINE"),
        ("gone", 69, ""),
        ("name", 2, "ORG/NAME"),
    ],
)
def test_what_went_wrong_is_told_apart(hub, tmp_path, fault, code, words):
    """By exit status and in words, and nothing that is not whole is ever listed."""
    more = {}
    if fault == "gated":
        hub.token = "needed"
    if fault == "hash":
        damaged = bytearray(hub.files["model.safetensors"])
        damaged[-1] ^= 1
        hub.sent["model.safetensors"] = bytes(damaged)
    if fault == "offline":
        more["HF_HUB_OFFLINE"] = "1"
    if fault == "gone":
        more["HF_ENDPOINT"] = "http://127.0.0.1:1"
    name = {"absent": "org/other", "name": "tiny"}.get(fault, "org/tiny")
    pulled = command(tmp_path, "pull", name, stub=None if fault == "gone" else hub, **more)
    assert pulled.returncode == code, pulled.stderr
    assert words in pulled.stderr
    assert command(tmp_path, "list", "--json").stdout == ""


def test_a_full_disk_ends_a_pull_and_the_next_goes_on(hub, tmp_path):
    """What came stays, is told, and can be thrown away."""
    full = command(tmp_path, "pull", "org/tiny", stub=hub, file_bytes_max=300_000)
    assert full.returncode == 73, full.stderr
    listed = command(tmp_path, "list")
    assert "not complete: org/tiny" in listed.stderr
    pulled = command(tmp_path, "pull", "org/tiny", stub=hub)
    assert pulled.returncode == 0, pulled.stderr
    assert [h.get("Range") for at, _, h in hub.seen if at == "cdn"] == [None, "bytes=300000-"]
    assert (stored(tmp_path) / "model.safetensors").read_bytes() == hub.files["model.safetensors"]
    command(tmp_path, "rm", "org/tiny")
    assert command(tmp_path, "pull", "org/tiny", stub=hub, file_bytes_max=300_000).returncode == 73
    assert json.loads(command(tmp_path, "rm", "--partial", "--json").stdout) == {"removed": 1}
    assert list((tmp_path / "models/.partial").iterdir()) == []


def test_a_server_without_ranges_is_taken_from_the_start(hub, tmp_path):
    """And the result is whole all the same."""
    hub.ranges, hub.cuts, hub.cut_after = False, 1, 5000
    assert command(tmp_path, "pull", "org/tiny", stub=hub).returncode == 0
    assert (stored(tmp_path) / "model.safetensors").read_bytes() == hub.files["model.safetensors"]


def test_imported_models_are_listed_shown_run_and_removed(tmp_path):
    """By a name of one's own."""
    taken = command(tmp_path, "import", str(DEMO), "--name", "lab/demo")
    assert taken.returncode == 0, taken.stderr
    rows = [json.loads(line) for line in command(tmp_path, "ls", "--json").stdout.splitlines()]
    assert [(row["model"], row["architecture"]) for row in rows] == [("lab/demo", "LlavaForConditionalGeneration")]
    assert "lab/demo" in command(tmp_path, "list").stdout
    shown = json.loads(command(tmp_path, "show", "demo", "--json").stdout)
    assert {file["path"] for file in shown["files"]} >= {"config.json", "model.safetensors"}
    assert "sha256" in shown["files"][0]
    ran = command(tmp_path, "run", "lab/demo", "Hello", "--max-tokens", "2")
    assert ran.returncode == 0, ran.stderr
    assert command(tmp_path, "rm", "lab/demo").returncode == 0
    assert command(tmp_path, "show", "lab/demo").returncode == 66
    assert command(tmp_path, "run", "lab/demo", "Hello").returncode == 78


@pytest.fixture
def serve(tmp_path):
    """Starts a server on a store with two models."""
    for name, folder in (("lab/llava", DEMO), ("lab/qwen", QWEN)):
        assert command(tmp_path, "import", str(folder), "--name", name).returncode == 0
    servers = []

    def start(model: str, *flags: str, **options) -> Server:
        servers.append(Server(tmp_path, "--models-dir", str(tmp_path / "models"), *flags, model=model, **options))
        return servers[-1]

    yield start
    for server in servers:
        assert server.stop() == 0, "\n".join(server.lines[-30:])


def test_a_model_is_swapped_without_cutting_off_a_request(serve):
    """The stream that the old one began ends whole; meanwhile others get 503 with a time."""
    server = serve("lab/llava")
    assert [model.id for model in server.client().models.list()] == ["lab/llava"]
    pieces = []
    begun = threading.Event()

    def stream() -> None:
        for event in server.client().chat.completions.create(
            model="lab/llava",
            messages=[{"role": "user", "content": "Hello"}],
            max_tokens=300,
            stream=True,
            extra_body={"ignore_eos": True},
        ):
            pieces.append(event.choices[0].finish_reason)
            begun.set()

    thread = threading.Thread(target=stream)
    thread.start()
    assert begun.wait(30)
    status, served = post(server, "/admin/models/load", {"model": "lab/qwen"})
    assert (status, served["state"]) == (202, "draining")
    status, refused = post(server, "/v1/chat/completions", {"model": "lab/llava", "messages": []})
    assert (status, refused["error"]["code"]) == (503, "model_loading")
    assert get(server, "/ready")[0] == 503
    assert post(server, "/admin/models/load", {"model": "lab/llava"})[1]["error"]["code"] == "model_changing"
    thread.join(60)
    assert pieces[-1] == "length"
    assert settled(server)["model"] == "lab/qwen"
    assert get(server, "/ready")[0] == 200
    assert answer(server, "lab/qwen") is not None
    assert [model.id for model in server.client().models.list()] == ["lab/qwen"]


def test_unload_failed_load_and_removal_leave_the_server_alive(serve, tmp_path):
    """And each state is told in words."""
    server = serve("lab/llava")
    assert post(server, "/admin/models/remove", {"model": "lab/llava"})[0] == 409
    assert command(tmp_path, "rm", "lab/llava").returncode == 69
    assert post(server, "/admin/models/unload", {})[0] == 202
    assert settled(server)["state"] == "empty"
    assert get(server, "/ready")[1]["status"] == "empty"
    status, refused = post(server, "/v1/chat/completions", {"model": "lab/llava", "messages": []})
    assert (status, refused["error"]["code"]) == (503, "no_model")
    assert post(server, "/admin/models/unload", {})[0] == 409
    assert post(server, "/admin/models/load", {"model": "lab/none"})[0] == 404
    assert post(server, "/admin/models/load", {"model": "/etc"})[0] in (400, 404)
    rows = [json.loads(line) for line in command(tmp_path, "ls", "--json").stdout.splitlines()]
    qwen = next(Path(row["path"]) for row in rows if row["model"] == "lab/qwen")
    (qwen / "tokenizer.json").unlink()
    (qwen / "tokenizer.json").write_text("damaged")
    assert post(server, "/admin/models/load", {"model": "lab/qwen"})[0] == 202
    failed = settled(server)
    assert failed["state"] == "empty"
    assert "tokenizer.json" in failed["error"]["message"]
    ready = get(server, "/ready")
    assert (ready[0], ready[1]["status"]) == (503, "failed")
    assert post(server, "/admin/models/load", {"model": "lab/llava"})[0] == 202
    assert settled(server)["state"] == "ready"
    assert answer(server, "lab/llava") is not None
    assert post(server, "/admin/models/remove", {"model": "lab/qwen"})[0] == 200


def test_load_unload_and_ps_from_the_command_line(serve, tmp_path):
    """They find the server by its port, wait, and use an admin key where one is needed."""
    server = serve("")
    port = ("--port", str(server.port))
    assert get(server, "/ready")[1]["status"] == "empty"
    loaded = command(tmp_path, "load", "lab/llava", *port)
    assert loaded.returncode == 0, loaded.stderr
    assert "lab/llava" in loaded.stdout
    assert answer(server, "lab/llava") is not None
    key = subprocess.run(
        [str(BINARY), "keys", "create", "boss", "--admin", "--keys-path", str(server.keys_path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout.strip()
    until(lambda: command(tmp_path, "ps", *port).returncode == 77)
    told = command(tmp_path, "ps", "--json", *port, HETEROSERVE_ADMIN_KEY=key)
    assert json.loads(told.stdout)["state"] == "ready"
    assert command(tmp_path, "load", "lab/none", "--key", key, *port).returncode == 66
    assert command(tmp_path, "unload", "--key", key, *port).returncode == 0
    assert json.loads(command(tmp_path, "ps", "--json", "--key", key, *port).stdout)["state"] == "empty"
    assert command(tmp_path, "ps", "--port", "1").returncode == 69


def test_a_pull_is_the_servers_own_job(hub, serve, tmp_path, monkeypatch):
    """It goes on when the client is gone, tells how far it is, can be cancelled and taken up again."""
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("NO_PROXY", "*")
    hub.bytes_per_s = 200_000
    server = serve("")
    plan = post(server, "/admin/models/pull", {"model": "org/tiny", "dry_run": True})
    assert plan[0] == 200
    assert plan[1]["bytes_missing"] > 0
    status, job = post(server, "/admin/models/pull", {"model": "org/tiny"})
    assert status == 202

    def jobs() -> list[dict]:
        return get(server, "/admin/jobs")[1]["jobs"]

    moving = until(lambda: next((j for j in jobs() if j["bytes_done"] > 100_000), None))
    assert moving["state"] == "running"
    assert post(server, "/admin/models/pull", {"model": "org/tiny"})[0] == 409
    assert post(server, f"/admin/jobs/{job['id']}/cancel", {})[0] == 200
    ended = until(lambda: next((j for j in jobs() if j["finished_ms"]), None))
    assert ended["state"] == "cancelled"
    assert get(server, "/admin/models")[1]["partials"][0]["bytes"] > 0
    hub.bytes_per_s = 0
    assert post(server, "/admin/models/pull", {"model": "org/tiny"})[0] == 202
    until(lambda: jobs()[0]["state"] == "done")
    assert post(server, "/admin/models/load", {"model": "org/tiny"})[0] == 202
    assert settled(server)["id"] == f"org/tiny@{COMMIT}"
    assert answer(server, "org/tiny") is not None
    assert post(server, "/admin/models/pull", {"model": "../x"})[0] == 400
    assert post(server, "/admin/jobs/pull-99/cancel", {})[0] == 404
