"""The samples for proxies, with the real proxies and servers: streams are not held back, bodies not cut, and of two
servers behind HAProxy one may die without the other's requests noticing."""

import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager

import httpx2
import openai
import pytest
from conftest import BINARY, ROOT, Server, ask
from real_server import wait_for

SAMPLES = ROOT / "packaging/proxies"
LONG = {"max_tokens": 1900, "extra_body": {"ignore_eos": True}, "temperature": 0}


def needs(program: str) -> str:
    """Where it is; the test is skipped where it is not."""
    found = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin")
    if found is None:
        pytest.skip(f"{program} is not installed (packaging/install-deps.sh --proxies)")
    return found


def edited(name: str, *changes: tuple[str, str]) -> str:
    """A sample with what its head says to name; each pattern is there once."""
    text = (SAMPLES / name).read_text(encoding="utf-8")
    for pattern, value in changes:
        text, count = re.subn(pattern, lambda _, value=value: value, text, flags=re.MULTILINE)
        assert count == 1, pattern
    return text


def free_port() -> int:
    """Of this moment."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.fixture
def certificate(tmp_path):
    """For 127.0.0.1, signed by itself; certificate and key also in one file."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            needs("openssl"),
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ]
        + ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
    )
    (tmp_path / "both.pem").write_text(cert.read_text() + key.read_text())
    return cert


@contextmanager
def proxy(tmp_path, command: list, port: int, **options):
    """A proxy that runs until the test is over; ready when it answers connections."""
    with open(tmp_path / "proxy.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, **options)

    def connects() -> bool:
        assert process.poll() is None, (tmp_path / "proxy.log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_for(connects, what="the proxy")
        yield
    finally:
        process.terminate()
        process.wait(10)


def metric(server: Server, name: str, key: str = "") -> float:
    """One sample of /metrics."""
    connection = server.connection()
    connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {key}"} if key else {})
    for line in connection.getresponse().read().decode().splitlines():
        if line.startswith((name + " ", name + "{")):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no metric {name}")


def check_tls_proxy(server: Server, port: int, certificate) -> None:
    """Answers, an answer as it is made, and a body larger than proxies usually let through."""
    trust = ssl.create_default_context(cafile=str(certificate))
    url = f"https://127.0.0.1:{port}/v1"
    client = openai.OpenAI(
        base_url=url, api_key="none", max_retries=0, http_client=openai.DefaultHttpx2Client(verify=trust)
    )
    messages = ask("What is in the picture?", "picture2.jpg")
    direct = server.client().chat.completions.create(model="llava", messages=messages, temperature=0)
    through = client.chat.completions.create(model="llava", messages=messages, temperature=0)
    assert through.choices[0].message.content == direct.choices[0].message.content

    stream = client.chat.completions.create(model="llava", messages=messages, stream=True, **LONG)
    for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    # A proxy that holds answers back would have let nothing through before the end.
    assert metric(server, "vllm:num_requests_running") == 1
    assert sum(len(chunk.choices) for chunk in stream) > 100

    connection = http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=60)
    connection.request("POST", "/v1/chat/completions", b"{" + b" " * (20 << 20), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    assert reply.status == 400 and b"JSON" in reply.read()


def test_nginx_with_tls(server, tmp_path, certificate):
    """Debian's nginx with the sample as its only site."""
    port = free_port()
    site = edited(
        "nginx.conf",
        (r"listen 443 ssl http2;", f"listen 127.0.0.1:{port} ssl http2;"),
        (r"listen \[::\]:443 ssl http2;", ""),
        (r"/etc/ssl/llm.example.org.pem", str(certificate)),
        (r"/etc/ssl/private/llm.example.org.key", str(tmp_path / "key.pem")),
        (r"proxy_pass http://127.0.0.1:8080;", f"proxy_pass http://127.0.0.1:{server.port};"),
    )
    (tmp_path / "site.conf").write_text(site)
    folders = "".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("proxy", "fastcgi", "uwsgi", "scgi"))
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {tmp_path}/body; {folders} include {tmp_path}/site.conf; }}\n"
    )
    command = [needs("nginx"), "-p", tmp_path, "-c", tmp_path / "nginx.conf"]
    tested = subprocess.run([str(part) for part in [*command, "-t"]], capture_output=True, text=True)
    assert tested.returncode == 0, tested.stderr
    with proxy(tmp_path, command, port):
        check_tls_proxy(server, port, certificate)


def test_caddy_with_tls(server, tmp_path, certificate):
    """Debian's Caddy; with a certificate of the test's own, since nobody signs 127.0.0.1."""
    port = free_port()
    site = edited(
        "Caddyfile",
        (r"^llm.example.org \{", f"https://127.0.0.1:{port} {{\n\ttls {certificate} {tmp_path}/key.pem"),
        (r"reverse_proxy 127.0.0.1:8080", f"reverse_proxy 127.0.0.1:{server.port}"),
    )
    (tmp_path / "Caddyfile").write_text("{\n\tadmin off\n\tauto_https disable_redirects\n}\n" + site)
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    command = [needs("caddy"), "run", "--adapter", "caddyfile", "--config", tmp_path / "Caddyfile"]
    with proxy(tmp_path, command, port, env=environment):
        check_tls_proxy(server, port, certificate)


class Pair:
    """Two servers with the same API keys behind HAProxy."""

    def __init__(self, servers: list[Server], port: int, key: str, trust: ssl.SSLContext):
        self.servers, self.port, self.key, self.trust = servers, port, key, trust

    def client(self, conversation: str = "") -> openai.OpenAI:
        """Through the proxy; with the header where a conversation is named."""
        headers = {"X-Conversation-Id": conversation} if conversation else {}
        url = f"https://127.0.0.1:{self.port}/v1"
        web = openai.DefaultHttpx2Client(verify=self.trust)
        return openai.OpenAI(
            base_url=url, api_key=self.key, max_retries=0, timeout=60, http_client=web, default_headers=headers
        )

    def counts(self, name: str) -> list[float]:
        """A metric of each that lives."""
        return [metric(s, name, self.key) if s.process.poll() is None else 0 for s in self.servers]

    def asked(self, *arguments, **options) -> int:
        """Asks by `client(...)`, and which of them answered."""
        name = 'http_requests_total{handler="/v1/chat/completions",method="POST",status="200"}'
        before = [self.exact(s, name) for s in self.servers]
        self.client(*arguments).chat.completions.create(model="llava", temperature=0, **options)
        wait_for(lambda: [self.exact(s, name) for s in self.servers] != before, what="the count")
        changed = [self.exact(s, name) - b for s, b in zip(self.servers, before, strict=True)]
        assert sorted(changed) == [0, 1]
        return changed.index(1)

    def exact(self, server: Server, name: str) -> float:
        """A sample with its labels; 0 where it is not there yet."""
        connection = server.connection()
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {self.key}"})
        for line in connection.getresponse().read().decode().splitlines():
            if line.startswith(name + " "):
                return float(line.rsplit(" ", 1)[1])
        return 0

    def conversation_of(self, index: int) -> str:
        """A name whose requests go to that server."""
        for number in range(100):
            text = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
            if self.asked(f"name-{number}", **text) == index:
                return f"name-{number}"
        raise AssertionError(f"of a hundred conversations none goes to server {index}")


@pytest.fixture
def pair(tmp_path, certificate):
    """The sample with this test's addresses."""
    haproxy = needs("haproxy")
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()

    def new_key(*flags: str) -> str:
        command = [str(BINARY), "keys", "create", *flags, "--keys-path", str(folders[0] / "keys.db")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    key, probe = new_key("boss", "--admin"), new_key("probe")
    shutil.copy(folders[0] / "keys.db", folders[1] / "keys.db")
    servers = [Server(folder) for folder in folders]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        config = edited(
            "haproxy.cfg",
            (
                r"bind :8443 ssl crt /etc/haproxy/llm.example.org.pem",
                f"bind fd@{listener.fileno()} ssl crt {tmp_path}/both.pem",
            ),
            (r"192.0.2.11:8080", f"127.0.0.1:{servers[0].port}"),
            (r"192.0.2.12:8080", f"127.0.0.1:{servers[1].port}"),
        )
        (tmp_path / "haproxy.cfg").write_text(config)
        command = [haproxy, "-db", "-f", tmp_path / "haproxy.cfg"]
        environment = {"PATH": "/usr/bin:/bin", "PROBE_KEY": probe}
        with proxy(tmp_path, command, port, env=environment, pass_fds=[listener.fileno()]):
            made = Pair(servers, port, key, ssl.create_default_context(cafile=str(certificate)))
            wait_for(lambda: made.client().models.list().data, what="an answer")
            yield made
    for each in servers:
        assert each.stop() in (0, -signal.SIGKILL)


def test_streams_and_whole_answers_are_those_of_a_server(pair):
    """Byte for byte, and streamed while they are made."""
    messages = ask("What is in the picture?", "picture3.png")
    url = f"http://127.0.0.1:{pair.servers[0].port}/v1"
    straight = openai.OpenAI(base_url=url, api_key=pair.key)
    direct = straight.chat.completions.create(model="llava", messages=messages, **LONG)
    stream = pair.client().chat.completions.create(model="llava", messages=messages, stream=True, **LONG)
    text, running = "", 0.0
    for chunk in stream:
        if not text:
            running = sum(pair.counts("vllm:num_requests_running"))
        text += chunk.choices[0].delta.content or ""
    assert text == direct.choices[0].message.content
    assert running == 1


def test_pictures_of_a_conversation_stay_on_one_server(pair):
    """Three turns of each: one server answers all, and encodes its picture once. By how the body begins."""
    names = [
        f"picture{number}.{kind}" for number, kind in enumerate(("jpg", "png", "jpg", "png", "jpg", "png", "jpg"), 2)
    ]
    homes = []
    for name in names:
        messages = ask("What is in the picture?", name)
        turns = []
        for question in ("How many are there?", "Which colours?", ""):
            turns.append(pair.asked(messages=messages, max_tokens=8))
            messages = [*messages, {"role": "assistant", "content": "A shape."}, {"role": "user", "content": question}]
        assert len(set(turns)) == 1, (name, turns)
        homes.append(turns[0])
    assert set(homes) == {0, 1}
    assert sum(pair.counts("heteroserve_images_encoded_total")) == len(names)


def test_a_named_conversation_stays_on_one_server(pair):
    """Whatever is asked, even where the body begins differently each time."""
    homes = []
    for number in range(12):
        said = [[{"role": "user", "content": f"{turn} and {number}"}] for turn in ("Hello", "More")]
        turns = {pair.asked(f"conversation {number}", messages=messages, max_tokens=1) for messages in said}
        assert len(turns) == 1
        homes += turns
    assert set(homes) == {0, 1}


class Asking(threading.Thread):
    """A long request, of eight choices so that it lasts; `error` where it broke, `finish` where it ended well."""

    def __init__(self, client: openai.OpenAI, stream: bool):
        super().__init__(daemon=True)
        self.client, self.stream = client, stream
        self.text, self.finish, self.error = "", None, None
        self.start()

    def run(self):
        """Asks."""
        try:
            made = self.client.chat.completions.create(
                model="llava", messages=[{"role": "user", "content": "Hello"}], stream=self.stream, n=8, **LONG
            )
            if self.stream:
                for chunk in made:
                    self.text += chunk.choices[0].delta.content or ""
                    self.finish = chunk.choices[0].finish_reason or self.finish
            else:
                self.text, self.finish = made.choices[0].message.content, made.choices[0].finish_reason
        except (openai.APIError, httpx2.HTTPError) as error:
            self.error = error


def test_one_is_killed_and_only_its_requests_under_way_fail(pair):
    """With a clear error each; the other's end whole, and what comes next is answered, whoever it was for."""
    names = [pair.conversation_of(0), pair.conversation_of(1)]
    asking: list[list[Asking]] = [[], []]
    # One after the other: the proxy sends a conversation elsewhere while its server has far more to do than the other.
    expected = [0.0, 0.0]
    for stream in (True, False):
        for index in (0, 1):
            asking[index].append(Asking(pair.client(names[index]), stream))
            expected[index] += 1
            wait_for(lambda: pair.counts("vllm:num_requests_running") == expected, what=f"{expected} requests")
    pair.servers[0].process.kill()
    for each in asking[0] + asking[1]:
        each.join(60)
        assert not each.is_alive()
    assert [each.finish for each in asking[1]] == ["length", "length"], [each.error for each in asking[1]]
    streamed, whole = asking[0]
    # A cut stream is never taken for a whole answer.
    assert streamed.finish is None and streamed.error is not None
    assert isinstance(whole.error, openai.InternalServerError) and whole.error.status_code == 502
    assert whole.error.code == "bad_gateway"
    for name in (*names, ""):
        made = pair.client(name).chat.completions.create(
            model="llava", messages=[{"role": "user", "content": "Hello"}], max_tokens=1
        )
        assert made.choices[0].finish_reason is not None


def test_one_drains_and_no_request_fails(pair):
    """SIGTERM: the answer under way ends whole, and the next ones go to the other."""
    name = pair.conversation_of(0)
    under_way = Asking(pair.client(name), True)
    wait_for(lambda: pair.counts("vllm:num_requests_running")[0] == 1, what="the running request")
    pair.servers[0].process.send_signal(signal.SIGTERM)
    for _ in range(5):
        pair.client(name).chat.completions.create(
            model="llava", messages=[{"role": "user", "content": "Hello"}], max_tokens=1
        )
    under_way.join(60)
    assert under_way.finish == "length", under_way.error
    assert pair.servers[0].process.wait(30) == 0


def test_without_a_server_the_error_says_so(pair):
    """503 in the API's own shape."""
    for each in pair.servers:
        each.process.kill()
        each.process.wait(10)

    def code() -> str | None:
        with pytest.raises(openai.InternalServerError) as caught:
            pair.client().models.list()
        return caught.value.code

    wait_for(lambda: code() == "no_server_ready", what="the health check")
