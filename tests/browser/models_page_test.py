"""Models in a real browser: planned and fetched from a local hub, loaded, unloaded and removed on the page."""

import os
import sys
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from real_server import DEMO, Server
from steps import answers, ask

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "end_to_end"))
from hub_stub import HubStub  # noqa: E402


@pytest.fixture
def hub():
    """The demo model, slowly, so that somebody can watch."""
    stub = HubStub.of_folder(DEMO)
    stub.bytes_per_s = 2_000_000
    yield stub
    stub.stop()


@pytest.fixture
def empty_server(tmp_path, hub, monkeypatch):
    """A server of its own, without a model."""
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("NO_PROXY", "*")
    server = Server(tmp_path, "--models-dir", str(tmp_path / "models"), model="")
    yield server
    assert server.stop() == 0


def no_barriers(page) -> None:
    """Nothing that axe-core objects to."""
    assert Axe().run(page).response["violations"] == []


def test_a_model_is_fetched_loaded_and_removed_on_the_page(browser, hub, empty_server):
    """Closing the browser does not stop a download; what is loaded cannot be removed."""
    with browser.new_context(locale="en-GB", viewport={"width": 1280, "height": 900}) as profile:
        page = profile.new_page()
        page.goto(empty_server.url + "/#/models")
        expect(page.locator("#state")).to_have_text("no model")
        expect(page.get_by_text("None yet.")).to_be_visible()
        no_barriers(page)
        page.get_by_label("Name on Hugging Face").fill("org/other")
        page.get_by_role("button", name="Make a plan").click()
        expect(page.get_by_role("alert").filter(has_text="does not exist")).to_be_visible()
        page.get_by_label("Name on Hugging Face").fill("org/tiny")
        page.get_by_role("button", name="Make a plan").click()
        plan = page.get_by_role("dialog")
        expect(plan).to_contain_text("LlavaForConditionalGeneration")
        expect(plan).to_contain_text("fits")
        no_barriers(page)
        plan.get_by_role("button", name="Fetch it").click()
        jobs = page.locator("#pull-jobs tbody tr")
        expect(jobs).to_contain_text("running")
        no_barriers(page)
        if folder := os.environ.get("SCREENSHOTS"):
            page.screenshot(path=Path(folder) / "models.png")
        page.get_by_role("button", name="Cancel org/tiny").click()
        expect(jobs).to_contain_text("cancelled")
        expect(page.get_by_text("Not complete: org/tiny")).to_be_visible()
        page.get_by_role("button", name="Make a plan").click()
        page.get_by_role("dialog").get_by_role("button", name="Fetch it").click()
        expect(jobs.first).to_contain_text("running")
        page.close()  # the job is the server's

        page = profile.new_page()
        page.goto(empty_server.url + "/#/models")
        stored = page.locator("#stored-models tbody tr")
        expect(stored).to_contain_text("org/tiny", timeout=60_000)
        page.get_by_role("button", name="Load org/tiny").click()
        expect(stored).to_contain_text("loaded", timeout=60_000)
        expect(page.locator("#state")).to_have_text("ready")
        expect(page.get_by_role("button", name="Remove org/tiny")).to_have_count(0)
        no_barriers(page)
        page.get_by_role("link", name="Chat", exact=True).click()
        expect(page.locator("#model")).to_have_text("org/tiny")
        ask(page, "Hello")
        expect(answers(page)).not_to_be_empty()
        expect(page.locator("#send")).to_be_enabled()

        page.get_by_role("link", name="Models", exact=True).click()
        page.get_by_role("button", name="Unload").click()
        expect(page.locator("#served-model")).to_have_text("No model is loaded.")
        page.get_by_role("button", name="Remove org/tiny").click()
        no_barriers(page)
        page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
        expect(page.get_by_text("None yet.")).to_be_visible()
        page.get_by_label("Language").select_option("ko")
        expect(page.get_by_role("heading", name="모델", level=2)).to_be_visible()
        no_barriers(page)
