"""What a person does on the page, and what the demo model answers."""

import base64
import json

from playwright.sync_api import Locator, Page, expect
from real_server import PICTURES

EXAMPLES = json.loads((PICTURES / "examples.json").read_text(encoding="utf-8"))
WHAT = "What is in the picture?"


def truth(picture: str, question: str = WHAT) -> str:
    """The right answer to a question about a picture."""
    for example in EXAMPLES:
        parts = example["messages"][-1]["content"]
        if example["images"] == [picture] and any(part.get("text") == question for part in parts):
            return example["truth"]
    raise AssertionError(f"no example asks {question!r} of {picture}")


def ask(page: Page, question: str) -> None:
    """Types and sends."""
    page.fill("#question", question)
    page.press("#question", "Enter")


def answers(page: Page) -> Locator:
    """What the model said, oldest first."""
    return page.locator(".turn.assistant .answer")


def ask_about(page: Page, picture: str, question: str = WHAT) -> None:
    """Chooses a picture, asks, and waits for the right answer."""
    page.set_input_files("#file", PICTURES / picture)
    expect(page.locator("#preview")).to_be_visible()
    ask(page, question)
    expect(answers(page).last).to_have_text(truth(picture, question))
    expect(page.locator("#send")).to_be_enabled()


def run_on(page: Page, n_tokens: int = 1900) -> None:
    """The demo model's answers are short: from here on they run on for so many tokens, as eight choices of which the
    page shows one, so that even a fast server is still at it when the page is clicked."""

    def longer(route):
        body = json.loads(route.request.post_data)
        route.continue_(post_data=json.dumps({**body, "ignore_eos": True, "max_completion_tokens": n_tokens, "n": 8}))

    page.route("**/v1/chat/completions", longer)


def file_transfer(page: Page, name: str, kind: str):
    """A file as the browser hands it over when it is dropped or pasted."""
    content = base64.b64encode((PICTURES / name).read_bytes()).decode()
    return page.evaluate_handle(
        """([content, name, type]) => {
          const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
          const transfer = new DataTransfer();
          transfer.items.add(new File([bytes], name, { type }));
          return transfer;
        }""",
        [content, name, kind],
    )
