"""Every page in both colour schemes and at a phone's width: nothing that axe-core objects to, nothing wider than the
screen. With SCREENSHOTS=FOLDER the pictures of the README are taken on the way."""

import os
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from real_server import PICTURES, Server
from steps import ask, ask_about, run_on

PAGES = {
    "chat": "Chat",
    "dashboard": "Dashboard",
    "requests": "Requests",
    "models": "Models",
    "keys": "Keys",
    "settings": "Settings",
    "doctor": "Doctor",
}


def violations(page) -> list[str]:
    """What axe-core finds, one line each."""
    found = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['target']} {node['failureSummary']}" for rule in found for node in rule["nodes"]]


def show(page, name: str) -> None:
    """A page with something on it."""
    page.evaluate("name => { location.hash = `#/${name}`; }", name)
    if name == "dashboard":
        expect(page.locator(".lane-rows path").first).to_be_visible()
    elif name == "models":
        expect(page.locator("#served-model")).to_be_visible()
    elif name != "chat":
        expect(page.locator("tbody tr").first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_barrier(page, scheme):
    """With an answer, a log row and dialogs open."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    ask_about(page, "picture1.png")
    page.get_by_text("Where the time went").click()
    page.get_by_text("Sampling settings").click()
    for name in PAGES:
        show(page, name)
        assert violations(page) == [], name
    show(page, "requests")
    page.locator("#log-rows tbody button").first.click()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page) == []


def test_pages_fit_a_phone(page):
    """360 pixels: only tables scroll sideways, within themselves."""
    page.set_viewport_size({"width": 360, "height": 740})
    ask_about(page, "picture1.png")
    for name in PAGES:
        show(page, name)
        wide = page.evaluate(
            """() => [...document.querySelectorAll("body *")]
                .filter((one) => !one.closest(".wide, .top ul, .skip, pre"))
                .filter((one) => one.getBoundingClientRect().right > 360)
                .map((one) => one.outerHTML.slice(0, 80))"""
        )
        assert wide == [], name
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name


@pytest.mark.skipif("SCREENSHOTS" not in os.environ, reason="SCREENSHOTS names no folder")
def test_pictures_for_the_readme(context, page, server, tmp_path):
    """What README and docs show."""
    folder = Path(os.environ["SCREENSHOTS"])
    ask_about(page, "picture1.png")
    page.screenshot(path=folder / "chat.png")
    run_on(page, 400)
    other = context.new_page()
    other.set_viewport_size({"width": 1280, "height": 1050})
    other.goto(server.url + "/#/dashboard")
    for n_left in (3, 2, 1, 0):
        page.get_by_role("button", name="New conversation").click()  # a longer one would not fit the context
        page.set_input_files("#file", PICTURES / "picture1.png")
        expect(page.locator("#preview")).to_be_visible()
        if n_left == 0:
            run_on(page, 1400)
        ask(page, "Describe the picture.")
        if n_left > 0:
            expect(page.locator("#send")).to_be_enabled(timeout=60_000)
    expect(other.locator("#running-requests tbody tr").first).to_be_visible()
    other.wait_for_timeout(1500)
    other.screenshot(path=folder / "dashboard.png")
    expect(page.locator("#send")).to_be_enabled(timeout=60_000)
    show(other, "requests")
    other.set_viewport_size({"width": 1280, "height": 800})
    other.get_by_label("with pictures").check()
    other.locator("#log-rows tbody button").last.click()
    other.screenshot(path=folder / "requests.png")
    # With something to say.
    flags = ["--transfer", "staged", "--cut", "pre", "--max-model-len", "512", "--kv-blocks", "48"]
    warned = Server(tmp_path, *flags)
    other.goto(warned.url + "/#/doctor")
    other.get_by_label("only what is not good").check()
    expect(other.get_by_text("has no effect").first).to_be_visible(timeout=60_000)
    other.set_viewport_size({"width": 1280, "height": 420})
    other.screenshot(path=folder / "doctor.png")
    other.close()
    assert warned.stop() == 0
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 780})
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=folder / "phone.png")
