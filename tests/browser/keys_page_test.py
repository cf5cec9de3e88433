"""API keys in a real browser: the first one made on the page locks the server, and the page goes on with it."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from real_server import Server
from steps import answers, ask


@pytest.fixture
def open_server(tmp_path):
    """A server of its own, without keys yet."""
    server = Server(tmp_path)
    yield server
    assert server.stop() == 0


def test_keys_are_made_used_and_revoked_on_the_page(browser, open_server):
    """An admin's first, then a user's; each tab with its own."""
    with browser.new_context(locale="en-GB", viewport={"width": 1280, "height": 900}) as profile:
        admin = profile.new_page()
        admin.goto(open_server.url + "/#/keys")
        expect(admin.get_by_text("Nobody needs a key yet")).to_be_visible()
        admin.get_by_label("Whose").fill("boss")
        admin.get_by_role("button", name="Make a key").click()
        expect(admin.locator("#new-key")).to_have_text(re.compile(r"^hs-[\w-]{43}$"))
        assert Axe().run(admin).response["violations"] == []
        admin.keyboard.press("Escape")
        expect(admin.get_by_text("Requests need a key.")).to_be_visible()

        admin.get_by_label("Whose").fill("guest")
        admin.get_by_label("Requests at a time").fill("2")
        admin.get_by_role("button", name="Make a key").click()
        secret = admin.locator("#new-key").inner_text()
        admin.keyboard.press("Escape")
        expect(admin.locator("tbody tr", has_text="guest")).to_contain_text("user")

        guest = profile.new_page()
        guest.goto(open_server.url)
        expect(guest.locator("#state")).to_have_text("key needed")
        guest.get_by_role("dialog").get_by_label("Key").fill("hs-wrong")
        guest.get_by_role("button", name="Use this key").click()
        expect(guest.get_by_text("did not take this key")).to_be_visible()
        guest.get_by_role("dialog").get_by_label("Key").fill(secret)
        guest.get_by_role("button", name="Use this key").click()
        expect(guest.locator("#state")).to_have_text("ready")
        ask(guest, "Hello")
        expect(answers(guest)).not_to_be_empty()
        expect(guest.locator("#send")).to_be_enabled()
        guest.get_by_role("link", name="Dashboard").click()
        expect(guest.get_by_text("needs an admin key").first).to_be_visible()

        admin.reload()
        usage = admin.get_by_role("group", name="Used in the last 30 days")
        expect(usage.locator("tbody tr", has_text="guest")).to_be_visible()
        assert Axe().run(admin).response["violations"] == []
        admin.get_by_role("button", name="Revoke the key of guest").click()
        admin.get_by_role("dialog").get_by_role("button", name="Revoke", exact=True).click()
        expect(admin.locator("tbody tr", has_text="guest").first).to_contain_text("revoked")
        expect(guest.get_by_role("dialog")).to_be_visible()
        expect(guest.locator("#state")).to_have_text("key needed")
        guest.keyboard.press("Escape")
        guest.get_by_role("link", name="Chat").click()
        expect(guest.get_by_role("dialog")).to_have_count(0)
