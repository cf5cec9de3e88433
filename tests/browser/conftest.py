"""A real browser in front of the real server."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "end_to_end"))
from real_server import DEMO, Server  # noqa: E402

expect.set_options(timeout=15_000)


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[Server]:
    """Two CPU devices in two pools, for all tests; it must stop cleanly after them.

    The model lies under a long path: whoever's home that is, the page must show it whole.
    """
    folder = tmp_path_factory.mktemp("a-folder-with-a-name-longer-than-most-people-would-choose")
    (folder / "llava").symlink_to(DEMO)
    running = Server(folder, "--consumer", "cpu:0", "--datacenter", "cpu:1", "--steal", "off", model=folder / "llava")
    yield running
    assert running.stop() == 0, "\n".join(running.lines[-30:])


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium without a window. It sees nothing but the server, so it needs no sandbox of its own."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def context(browser, server) -> Iterator[BrowserContext]:
    """A fresh profile: English, light, nothing remembered."""
    with browser.new_context(locale="en-GB", color_scheme="light", viewport={"width": 1280, "height": 900}) as fresh:
        fresh.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
        yield fresh


@pytest.fixture
def page(context, server) -> Iterator[Page]:
    """The first page, ready. Whatever the browser complains of (the content security policy, say) fails the test."""
    opened = context.new_page()
    complaints: list[str] = []
    foreign: list[str] = []

    def on_console(message) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    def on_request(request) -> None:
        if not request.url.startswith((server.url, "data:", "blob:")):
            foreign.append(request.url)

    opened.on("console", on_console)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", on_request)
    opened.goto(server.url)
    yield opened
    opened.close()
    assert complaints == []
    assert foreign == []
