"""Pictures by URL with the real server: fetched from listed hosts only, told in the request log and metrics."""

import base64
import http.server
import json
import sqlite3
import threading
import urllib.request

import openai
import pytest
from conftest import PICTURES
from real_server import wait_for


class PictureHost(http.server.BaseHTTPRequestHandler):
    """The shipped pictures by name; /away redirects to what the query says."""

    asked: list[str] = []

    def do_GET(self) -> None:  # noqa: N802 - the library's name
        """A file, or a redirect."""
        self.asked.append(self.path)
        if self.path.startswith("/away?"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/away?"))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = (PICTURES / self.path.strip("/")).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None:
        """Quiet."""


@pytest.fixture
def host():
    """A picture host on this machine; its address, as --allowed-media-domains takes it."""
    PictureHost.asked = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), PictureHost) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def ask(server, url: str, **options):
    """What is in the picture at a URL."""
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is in the picture?"}]
    messages = [{"role": "user", "content": parts}]
    return server.client().chat.completions.create(model="llava", messages=messages, temperature=0, **options)


def test_a_picture_by_url_is_answered_like_its_bytes(start, host):
    """Chat (streamed, too), responses and counting; the time stands in answer, log and metrics."""
    server = start(
        "--allowed-media-domains", "images.invalid", "--allowed-media-domains", host, "--allow-private-media", "on"
    )
    answer = ask(server, f"http://{host}/picture1.png", extra_body={"timings": True})
    assert answer.choices[0].message.content == "A red circle."
    assert answer.model_extra["timings"]["image_fetch_ms"] >= 0
    data = base64.b64encode((PICTURES / "picture1.png").read_bytes()).decode()
    same = ask(server, f"data:image/png;base64,{data}")
    assert same.choices[0].message.content == answer.choices[0].message.content
    assert same.usage.prompt_tokens == answer.usage.prompt_tokens
    chunks = list(ask(server, f"http://{host}/away?/picture1.png", stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "A red circle."
    part = {"type": "input_image", "image_url": f"http://{host}/picture1.png", "detail": "auto"}
    question = {"type": "input_text", "text": "What is in the picture?"}
    reply = server.client().responses.create(
        model="llava", input=[{"role": "user", "content": [part, question]}], temperature=0
    )
    assert reply.output_text == "A red circle."

    def logged() -> list:
        if not server.log_path.exists():
            return []
        with sqlite3.connect(f"file:{server.log_path}?mode=ro", uri=True) as log:
            return log.execute("SELECT image_fetch_ms, id FROM v_requests WHERE image_fetch_ms IS NOT NULL").fetchall()

    wait_for(lambda: len(logged()) == 3, what="three rows with pictures by URL")
    text = urllib.request.urlopen(server.url + "/metrics").read().decode()
    assert 'heteroserve_image_fetches_total{model_name="llava",engine="0",outcome="ok"} 3' in text


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://169.254.169.254/latest/meta-data/", "image_url_refused"),
        ("http://{host}/away?http://169.254.169.254/latest/meta-data/", "image_url_refused"),
        ("http://{host}/away?http://[::ffff:169.254.169.254]/", "image_url_refused"),
        ("http://{host}/away?file:///etc/passwd", "image_url_refused"),
        ("http://elsewhere.invalid/x.png", "image_url_refused"),
        ("http://{host}@elsewhere.invalid/x.png", "invalid_image_url"),
        ("http://{host}/examples.json", "invalid_image"),
    ],
)
def test_what_leads_elsewhere_is_a_400_with_its_code(start, host, url, code):
    """And the part at fault."""
    server = start("--allowed-media-domains", host, "--allow-private-media", "on")
    with pytest.raises(openai.BadRequestError) as raised:
        ask(server, url.replace("{host}", host))
    assert raised.value.code == code, raised.value.body
    assert raised.value.param == "messages[0].content[0].image_url"


def test_listed_hosts_inside_need_leave_and_unlisted_servers_say_what_to_set(start, server, host):
    """Nothing is connected to in either case."""
    inside = start("--allowed-media-domains", host)
    with pytest.raises(openai.BadRequestError) as raised:
        ask(inside, f"http://{host}/picture1.png")
    assert raised.value.code == "image_url_refused"
    with pytest.raises(openai.BadRequestError) as raised:
        ask(server, f"http://{host}/picture1.png")
    assert "--allowed-media-domains" in json.dumps(raised.value.body)
    assert PictureHost.asked == []
