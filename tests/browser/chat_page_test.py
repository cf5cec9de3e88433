"""The chat in a real browser: alive, takes a picture each way, shows the right answer, stops when told, and can be
carried elsewhere as a program."""

import json
import os
import subprocess
import sys
import urllib.request

from playwright.sync_api import Page, expect
from real_server import Server
from steps import WHAT, answers, ask, ask_about, file_transfer, run_on, truth


def running(server: Server) -> float:
    """Requests in the batch."""
    with urllib.request.urlopen(server.url + "/metrics", timeout=10) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith("vllm:num_requests_running{"):
                return float(line.rsplit(" ", 1)[1])
    raise AssertionError("no gauge of running requests")


def test_the_page_shows_a_live_server(page, server):
    """State, model and version, without a reload."""
    expect(page.locator("#state")).to_have_text("ready")
    expect(page.locator("#model")).to_have_text(server.client().models.list().data[0].id)
    expect(page.locator("#version")).not_to_be_empty()
    expect(page.locator("#base-url")).to_have_text(server.url + "/v1")


def test_a_chosen_picture_is_answered_rightly(page):
    """Through the file field, as a screen reader's user would; what it took is told below."""
    ask_about(page, "picture3.png")  # of which nothing is in a cache yet
    facts = page.locator(".facts")
    for words in ("tokens/s", "first token after", "tokens in", "of them pictures", "pictures encoded in"):
        expect(facts).to_contain_text(words)
    page.get_by_text("Where the time went").click()
    expect(page.locator(".stages")).to_contain_text("encode")
    expect(page.locator("#error")).to_be_hidden()


def test_a_dropped_picture_is_answered_rightly(page):
    """Dropped beside the field, anywhere on the page; a JPEG."""
    page.dispatch_event("main", "drop", {"dataTransfer": file_transfer(page, "picture2.jpg", "image/jpeg")})
    expect(page.locator(".picture-name")).to_have_text("picture2.jpg")
    ask(page, WHAT)
    expect(answers(page)).to_have_text(truth("picture2.jpg"))


def test_a_pasted_picture_is_chosen(page):
    """From the clipboard, and taken out again."""
    transfer = file_transfer(page, "picture1.png", "image/png")
    paste = "data => document.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, cancelable: true }))"
    page.evaluate(paste, transfer)
    expect(page.locator(".picture-name")).to_have_text("picture1.png")
    page.get_by_role("button", name="Remove picture1.png").click()
    expect(page.locator("#preview")).to_be_hidden()


def test_a_shipped_sample_brings_its_question(page):
    """One click chooses picture and question."""
    page.locator("#sample-list button").first.click()
    expect(page.locator("#preview")).to_be_visible()
    expect(page.locator("#question")).not_to_have_value("")
    page.click("#send")
    expect(answers(page)).to_contain_text(".")


def test_another_kind_of_file_is_refused_in_words(page, tmp_path):
    """Nothing is sent."""
    text = tmp_path / "notes.txt"
    text.write_text("not a picture", encoding="utf-8")
    page.set_input_files("#file", text)
    expect(page.locator("#error")).to_contain_text("JPEG, PNG, WebP, GIF or BMP")
    expect(page.locator("#preview")).to_be_hidden()


def test_stop_ends_the_answer_here_and_on_the_server(page, server):
    """The words so far stay."""
    run_on(page)
    ask(page, WHAT)
    expect(answers(page)).not_to_be_empty()
    assert running(server) == 1
    page.click("#stop")
    expect(page.locator(".facts")).to_have_text("stopped")
    expect(page.locator("#send")).to_be_enabled()
    page.wait_for_function(
        """async () => /num_requests_running{[^}]*} 0\\n/.test(await (await fetch("/metrics")).text())"""
    )
    assert running(server) == 0
    expect(answers(page)).not_to_be_empty()


def test_an_answer_is_made_again_and_a_question_changed(page):
    """The likeliest answer is the same again; a changed question gets its own, and what came after is gone."""
    ask_about(page, "picture1.png")
    page.get_by_role("button", name="Answer again").click()
    expect(page.locator("#send")).to_be_enabled()
    expect(answers(page)).to_have_text(truth("picture1.png"))
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Edit the question").fill("How many shapes are there?")
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".said")).to_have_text("How many shapes are there?")
    expect(page.locator("#send")).to_be_enabled()
    expect(answers(page)).to_have_count(1)
    expect(answers(page)).not_to_have_text(truth("picture1.png"))
    expect(page.locator(".turn.user img")).to_have_count(1)


def test_sampling_settings_are_sent_and_kept(page):
    """An empty field is not sent; a reload forgets nothing."""
    page.get_by_text("Sampling settings").click()
    page.get_by_label("Most tokens to answer with").fill("3")
    page.get_by_label("Temperature").fill("")
    with page.expect_request("**/v1/chat/completions") as sent:
        ask(page, "Hello")
    body = json.loads(sent.value.post_data)
    assert body["max_completion_tokens"] == 3
    assert "temperature" not in body
    expect(page.locator(".facts")).to_contain_text("cut at the token limit")
    page.reload()
    page.get_by_text("Sampling settings").click()
    expect(page.get_by_label("Most tokens to answer with")).to_have_value("3")


def test_a_reload_keeps_the_conversation_until_a_new_one(page):
    """Words, picture and what the answer took; the next question goes on from there."""
    ask_about(page, "picture1.png")
    page.reload()
    expect(answers(page)).to_have_text(truth("picture1.png"))
    expect(page.locator(".turn.user img")).to_have_count(1)
    expect(page.locator(".facts")).to_contain_text("tokens in")
    ask(page, "How many shapes are there?")
    expect(answers(page)).to_have_count(2)
    expect(page.locator("#send")).to_be_enabled()
    page.get_by_role("button", name="New conversation").click()
    page.reload()
    expect(page.locator("#sample-list button").first).to_be_visible()
    expect(answers(page)).to_have_count(0)


def copied(page: Page, button: str) -> str:
    """The whole program behind a button, out of the clipboard."""
    page.get_by_role("button", name=button).last.click()
    page.get_by_role("button", name="Copy all of it").click()
    text = page.evaluate("navigator.clipboard.readText()")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    return text


def test_the_question_as_curl_and_as_python_gives_the_same_answer(page):
    """Both are run as they were copied, picture and all."""
    ask_about(page, "picture1.png")
    curl = subprocess.run(["bash", "-c", copied(page, "Copy as curl")], capture_output=True, timeout=60, check=True)
    assert json.loads(curl.stdout)["choices"][0]["message"]["content"] == truth("picture1.png")
    python = copied(page, "Copy as Python")
    environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    ran = subprocess.run([sys.executable, "-c", python], capture_output=True, timeout=60, check=True, env=environment)
    assert ran.stdout.decode().strip() == truth("picture1.png")


SAID = r"""# Title

**bold** and `code`, <img src=x onerror=alert(1)> [bad](javascript:alert(1)) [good](https://example.org/)

![away](https://example.org/a.png)

| a | b |
|---|--:|
| 1 | 2 |

The sum $a^2 + b^2$ and

$$\int_0^1 \frac{x}{2}\,dx$$

```python
def f(x): return "<b>"  # it
```
<script>alert(1)</script>
"""


def test_what_a_model_says_is_shown_and_never_run(page):
    """The demo model writes no Markdown, so its words are put into the stream on their way."""

    def say(route):
        chunks = [{"choices": [{"delta": {"content": SAID}}]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]}]
        body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        route.fulfill(status=200, headers={"Content-Type": "text/event-stream"}, body=body)

    page.route("**/v1/chat/completions", say)
    ask(page, "Anything")
    answer = answers(page)
    expect(answer.locator("h3")).to_have_text("Title")
    expect(answer.locator("strong")).to_have_text("bold")
    expect(answer.locator("td").last).to_have_text("2")
    expect(answer.locator("math")).to_have_count(2)
    expect(answer.locator("math mfrac")).to_have_count(1)
    expect(answer.locator("pre .hljs-keyword").first).to_have_text("def")
    expect(answer.locator("pre")).to_contain_text('return "<b>"  # it')
    expect(answer).to_contain_text("<img src=x onerror=alert(1)>")
    expect(answer).to_contain_text("<script>alert(1)</script>")
    assert answer.locator("img, script, [style]").count() == 0
    assert [link.get_attribute("href") for link in answer.locator("a").all()] == [
        "https://example.org/",
        "https://example.org/a.png",
    ]


def test_the_page_says_when_the_server_is_gone(browser, tmp_path):
    """And does not pretend to be ready."""
    short_lived = Server(tmp_path)
    page = browser.new_page(locale="en-GB")
    page.goto(short_lived.url)
    expect(page.locator("#state")).to_have_text("ready")
    assert short_lived.stop() == 0
    expect(page.locator("#state")).to_have_text("not reachable")
    page.close()
