"""Fixtures and messages that the end-to-end tests share."""

import base64
from collections.abc import Callable, Iterator

import pytest
from real_server import BINARY, DEMO, PICTURES, ROOT, Server

__all__ = ["BINARY", "DEMO", "PICTURES", "ROOT", "Server"]


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[Server]:
    """A server that many tests share; it must be healthy and stop cleanly after all of them."""
    running = Server(tmp_path_factory.mktemp("server"))
    yield running
    assert running.process.poll() is None, "\n".join(running.lines[-30:])
    assert running.stop() == 0, "\n".join(running.lines[-30:])


@pytest.fixture
def start(tmp_path) -> Iterator[Callable[..., Server]]:
    """Starts servers with flags of the test's own; kills what the test left running."""
    servers: list[Server] = []

    def begin(*flags: str, **options) -> Server:
        servers.append(Server(tmp_path, *flags, **options))
        return servers[-1]

    yield begin
    for running in servers:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()


def data_url(data: bytes, kind: str = "image/png") -> str:
    """Bytes as a data URL."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def picture_part(name: str) -> dict:
    """One shipped picture as a content part."""
    kind = "image/jpeg" if name.endswith(".jpg") else "image/png"
    return {"type": "image_url", "image_url": {"url": data_url((PICTURES / name).read_bytes(), kind)}}


def ask(text: str, *pictures: str) -> list[dict]:
    """Messages of one user turn with pictures."""
    return [{"role": "user", "content": [*(picture_part(p) for p in pictures), {"type": "text", "text": text}]}]
