"""Dashboard, request log and settings in a real browser: they tell what the server did, and act on it."""

import csv
import io
import json

import openai
import pytest
from playwright.sync_api import expect
from steps import ask, ask_about, run_on


def open_page(page, name: str) -> None:
    """By its link."""
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", name=name, level=2)).to_be_visible()


def test_the_dashboard_shows_the_pools_and_their_work(page):
    """A picture's way: encoded on the one device (no other test shows it this one), moved, answered on the other."""
    ask_about(page, "picture6.jpg")
    open_page(page, "Dashboard")
    pipeline = page.locator(".pipeline")
    expect(pipeline.get_by_text("Consumer pool")).to_be_visible()
    expect(pipeline.get_by_text("Datacenter pool")).to_be_visible()
    expect(pipeline).to_contain_text("cpu:0")
    expect(pipeline).to_contain_text("cpu:1")
    moved = pipeline.locator("dl > div", has_text="moved between devices").locator("dd")
    expect(moved).not_to_have_text("0 B")
    lanes = page.locator(".lanes")
    expect(lanes.locator(".lane", has_text="cpu:0")).to_contain_text("encode")
    expect(lanes.locator(".lane", has_text="cpu:1")).to_contain_text("decode")
    expect(page.locator(".lane-rows path").first).to_be_visible()


def test_charts_follow_the_traffic_and_are_tables_too(page):
    """Numbers of answers made while the dashboard is open."""
    open_page(page, "Dashboard")
    chart = page.locator(".chart", has_text="Time to first token")
    page.evaluate(
        """async () => {
          const body = { model: (await (await fetch("/v1/models")).json()).data[0].id, max_tokens: 8, ignore_eos: true,
            messages: [{ role: "user", content: "Hello" }] };
          await fetch("/v1/chat/completions", { method: "POST", body: JSON.stringify(body),
            headers: { "Content-Type": "application/json" } });
        }"""
    )
    expect(chart.locator(".legend b").first).not_to_have_text("–")
    chart.get_by_text("As a table").click()
    expect(chart.locator("tbody tr").first).to_be_visible()


def test_a_running_request_is_cancelled_from_the_dashboard(context, page, server):
    """It ends in the other tab, which says who ended it."""
    run_on(page)
    ask(page, "Hello")
    expect(page.locator("#stop")).to_be_enabled()
    other = context.new_page()
    other.goto(server.url + "/#/dashboard")
    other.locator("#running-requests button").first.click()
    expect(page.locator(".turn.assistant .error")).to_contain_text("cancelled by the server's operator")
    expect(other.get_by_text("No request is under way.")).to_be_visible()
    other.close()


def test_requests_are_found_and_looked_into(page, server):
    """The waterfall of a request with a picture; a failed one is told apart."""
    ask_about(page, "picture1.png")
    with pytest.raises(openai.BadRequestError):
        server.client().chat.completions.create(model="demo", messages=[], extra_body={"messages": 1})
    open_page(page, "Requests")
    rows = page.locator("#log-rows tbody tr")
    expect(rows.first).to_be_visible()
    page.get_by_label("with pictures").check()
    page.get_by_label("Result").select_option("ok")
    rows.first.get_by_role("button").click()
    detail = page.get_by_role("dialog")
    for words in ("queued", "prefill", "decode", "Picture tokens", "/v1/chat/completions"):
        expect(detail).to_contain_text(words)
    page.keyboard.press("Escape")
    expect(detail).to_have_count(0)
    page.get_by_label("with pictures").uncheck()
    page.get_by_label("Result").select_option("failed")
    expect(rows.first.locator("td").first).to_have_text("400")


def test_the_log_is_exported(page):
    """As CSV and as JSON lines, the same rows."""
    ask_about(page, "picture1.png")
    open_page(page, "Requests")
    expect(page.locator("#log-rows tbody tr").first).to_be_visible()
    with page.expect_download() as first:
        page.get_by_role("button", name="Export CSV").click()
    table = list(csv.DictReader(io.StringIO(first.value.path().read_text(encoding="utf-8"))))
    with page.expect_download() as second:
        page.get_by_role("button", name="Export JSON lines").click()
    lines = [json.loads(line) for line in second.value.path().read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in table] == [row["id"] for row in lines]
    assert any(row["n_images"] == 1 for row in lines)


def test_settings_tell_where_they_came_from(page):
    """A flag of this run, and a default."""
    open_page(page, "Settings")
    row = page.locator("tbody tr", has_text="tiers.consumer")
    expect(row).to_contain_text("cpu:0")
    expect(row.locator("td.set")).to_have_text("flag")
    expect(page.locator("tbody tr", has_text="engine.block_size")).to_contain_text("default")
    page.get_by_label("only what was set").check()
    expect(page.locator("tbody tr", has_text="engine.block_size")).to_have_count(0)


def test_doctor_tells_what_it_found(page):
    """Of the real machine: the two devices and the links between them; what is good can be left out."""
    open_page(page, "Doctor")
    findings = page.locator("#findings tbody tr")
    expect(findings.filter(has_text="kernels:")).to_be_visible()
    for link in ("cpu:0 -> cpu:1: peer", "cpu:1 -> cpu:0: peer"):
        expect(findings.filter(has_text=link)).to_contain_text("GB/s")
    expect(findings.filter(has_text="this server listens there")).to_contain_text("good")
    expect(page.get_by_role("status").filter(has_text="failures")).to_contain_text("0 failures")
    before = findings.count()
    page.get_by_label("only what is not good").check()
    assert findings.count() < before
    page.get_by_label("only what is not good").uncheck()
    page.get_by_role("button", name="Look again").click()
    expect(page.get_by_role("button", name="Look again")).to_be_enabled()
    expect(findings).to_have_count(before)


KEYS = {"2": "Dashboard", "3": "Requests", "4": "Models", "5": "Keys", "6": "Settings", "7": "Doctor", "1": "Chat"}


@pytest.mark.parametrize(("key", "heading"), KEYS.items())
def test_pages_are_reached_by_keys(page, key, heading):
    """Without a mouse."""
    expect(page.locator("#state")).to_have_text("ready")
    page.keyboard.press(f"Alt+{key}")
    expect(page.get_by_role("heading", name=heading, level=2)).to_be_visible()


def test_language_and_colours_are_chosen_and_kept(page):
    """Korean and dark, over a reload."""
    page.get_by_label("Language").select_option("ko")
    page.get_by_label("색상").select_option("dark")
    page.reload()
    expect(page.get_by_role("heading", name="대화", level=2)).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "ko"
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
