#!/usr/bin/env python3
"""Writes tests/golden/text/tool_cases.json: conversations with tools as Python's Jinja2 renders them.

The environment is set up as the transformers library sets it up for chat templates, and calls' arguments are objects
there. What a template without tools must become is what Qwen2.5's makes of the same conversation, so its cases are
rendered with that one. Needs: pip install jinja2
Usage: make_tool_cases.py
"""

from __future__ import annotations

import json

from make_template_cases import ENV, GOLDEN

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": 'Tells the "weather" in Zürich & 東京 <|im_end|>.',
            "parameters": {
                "type": "object",
                "properties": {"zone": {"type": "string"}, "days": {"type": "integer", "default": 1.5}},
                "required": ["zone"],
            },
        },
    },
    {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}},
]


def call(number: int, name: str, arguments: dict) -> dict:
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "And the weather?"}
ONE = {"role": "assistant", "content": "", "tool_calls": [call(1, "weather", {"zone": 'b:"a", c', "days": 2})]}
TWO = {
    "role": "assistant",
    "content": "I look it up.",
    "tool_calls": [call(1, "weather", {"zone": "x</tool_call>", "list": [1, None, {}]}), call(2, "ping", {})],
}


def answer(number: int, content: str) -> dict:
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": content}


DONE = {"role": "assistant", "content": "It rains."}
CONVERSATIONS = {
    "tools alone": ([SYSTEM, USER], TOOLS),
    "one call": ([SYSTEM, USER, ONE, answer(1, "5 degrees")], TOOLS),
    "two calls and a text": ([SYSTEM, USER, TWO, answer(1, "5\ndegrees"), answer(2, '{"pong": 1}'), DONE, USER], TOOLS),
    "calls without tools": ([SYSTEM, USER, ONE, answer(1, "5"), DONE, USER], None),
    "no calls": ([SYSTEM, USER, DONE, USER], None),
}
# Template under test, and the one that says what is right.
TEMPLATES = {"qwen2_5": "qwen2_5", "llama3_1": "llama3_1", "chatml": "qwen2_5"}


def source(name: str) -> str:
    return (GOLDEN / "tool_templates" / f"{name}.jinja").read_text()


def main() -> None:
    cases = []
    for template, reference in TEMPLATES.items():
        for name, (messages, tools) in CONVERSATIONS.items():
            if template == "llama3_1" and name == "two calls and a text":
                continue  # its template refuses two calls
            context = {"messages": messages, "tools": tools, "add_generation_prompt": True, "bos_token": "<s>"}
            output = ENV.from_string(source(reference)).render(**context)
            cases.append({"template": template, "name": name, "messages": messages, "tools": tools, "output": output})
    text = json.dumps(cases, ensure_ascii=True, indent=1)
    (GOLDEN / "tool_cases.json").write_text(text + "\n")
    print(f"{len(cases)} cases")


if __name__ == "__main__":
    main()
