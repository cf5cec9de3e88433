"""The first page in a real browser: alive, takes a picture each way, shows the right answer, stops when told."""

import base64
import json
import urllib.request

from playwright.sync_api import Page, expect
from real_server import PICTURES, Server

EXAMPLES = json.loads((PICTURES / "examples.json").read_text(encoding="utf-8"))
WHAT = "What is in the picture?"


def truth(picture: str) -> str:
    """The right answer to WHAT."""
    for example in EXAMPLES:
        parts = example["messages"][-1]["content"]
        if example["images"] == [picture] and any(part.get("text") == WHAT for part in parts):
            return example["truth"]
    raise AssertionError(f"no example asks {WHAT!r} of {picture}")


def running(server: Server) -> float:
    """Requests in the batch."""
    with urllib.request.urlopen(server.url + "/metrics", timeout=10) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith("vllm:num_requests_running{"):
                return float(line.rsplit(" ", 1)[1])
    raise AssertionError("no gauge of running requests")


def ask(page: Page, question: str) -> None:
    """Types and sends."""
    page.fill("#question", question)
    page.press("#question", "Enter")


def test_the_page_shows_a_live_server(page, server):
    """State, model and version, without a reload."""
    expect(page.locator("#state")).to_have_text("ready")
    expect(page.locator("#model")).to_have_text(server.client().models.list().data[0].id)
    expect(page.locator("#version")).not_to_be_empty()
    expect(page.locator("#base-url")).to_have_text(server.url + "/v1")


def test_a_chosen_picture_is_answered_rightly(page):
    """Through the file field, as a screen reader's user would."""
    page.set_input_files("#file", PICTURES / "picture1.png")
    expect(page.locator("#preview")).to_be_visible()
    ask(page, WHAT)
    expect(page.locator("#answer")).to_have_text(truth("picture1.png"))
    expect(page.locator("#rate")).to_contain_text("tokens in")
    expect(page.locator("#error")).to_be_hidden()
    expect(page.locator("#send")).to_be_enabled()


def test_a_dropped_picture_is_answered_rightly(page):
    """Dropped beside the field, anywhere on the page; a JPEG."""
    content = base64.b64encode((PICTURES / "picture2.jpg").read_bytes()).decode()
    drop = page.evaluate_handle(
        """content => {
          const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
          const drop = new DataTransfer();
          drop.items.add(new File([bytes], "picture2.jpg", { type: "image/jpeg" }));
          return drop;
        }""",
        content,
    )
    page.dispatch_event("main", "drop", {"dataTransfer": drop})
    expect(page.locator("#picture-name")).to_have_text("picture2.jpg")
    ask(page, WHAT)
    expect(page.locator("#answer")).to_have_text(truth("picture2.jpg"))


def test_a_shipped_sample_brings_its_question(page):
    """One click chooses picture and question."""
    page.locator("#sample-list button").first.click()
    expect(page.locator("#preview")).to_be_visible()
    expect(page.locator("#question")).not_to_have_value("")
    page.click("#send")
    expect(page.locator("#answer")).to_contain_text(".")
    page.click("#remove")
    expect(page.locator("#preview")).to_be_hidden()


def test_another_kind_of_file_is_refused_in_words(page, tmp_path):
    """Nothing is sent."""
    text = tmp_path / "notes.txt"
    text.write_text("not a picture", encoding="utf-8")
    page.set_input_files("#file", text)
    expect(page.locator("#error")).to_contain_text("PNG or JPEG")
    expect(page.locator("#preview")).to_be_hidden()


def test_stop_ends_the_answer_here_and_on_the_server(page, server):
    """The demo model's answers are short, so the question is made to run on."""

    def run_on(route):
        body = json.loads(route.request.post_data)
        route.continue_(post_data=json.dumps({**body, "ignore_eos": True, "max_tokens": 1900}))

    page.route("**/v1/chat/completions", run_on)
    ask(page, WHAT)
    expect(page.locator("#answer")).not_to_be_empty()
    assert running(server) == 1
    page.click("#stop")
    expect(page.locator("#rate")).to_have_text("stopped")
    expect(page.locator("#send")).to_be_enabled()
    page.wait_for_function(
        """async () => /num_requests_running{[^}]*} 0\\n/.test(await (await fetch("/metrics")).text())"""
    )
    assert running(server) == 0


def test_the_page_says_when_the_server_is_gone(browser, tmp_path):
    """And does not pretend to be ready."""
    short_lived = Server(tmp_path)
    page = browser.new_page()
    page.goto(short_lived.url)
    expect(page.locator("#state")).to_have_text("ready")
    assert short_lived.stop() == 0
    expect(page.locator("#state")).to_have_text("not reachable", timeout=15_000)
    page.close()
