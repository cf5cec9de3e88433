#!/usr/bin/env python3
"""Writes tests/golden/text/template_cases.json: chat templates, contexts, and what Python's Jinja2 renders.

The environment is set up as the transformers library sets it up for chat templates. The families' templates are written
from their documented prompt formats. Needs: pip install jinja2
Usage: make_template_cases.py [more-template-files ...] (each tokenizer_config.json or .jinja file adds its template)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "text"


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


ENV = environment()

FAMILIES = {
    "chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "llama2": """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}
{%- for message in loop_messages -%}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}
{%- if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}
{%- if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}
{%- endfor %}""",
    "llama31": """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- The system message goes into the prompt, if there is one #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("Cannot put tools in the first user message when there's no first user message!") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + tool_call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- tool_call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "mistral": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
""",
    "gemma": """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}""",
    "gemma3": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\n'}}
{%- endif -%}
""",
    "phi3": "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\\n' + message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\\n' + message['content'] + '<|end|>\\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\\n' + message['content'] + '<|end|>\\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}",
    "zephyr": "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
    "vicuna": "{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] + ' ' }}{% set messages = messages[1:] %}{% endif %}{% for message in messages %}{% if message['role'] == 'user' %}{{ 'USER: ' + message['content'].strip() + ' ' }}{% elif message['role'] == 'assistant' %}{{ 'ASSISTANT: ' + message['content'].strip() + eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}",
    "llava_hf": "{% for message in messages %}{% if message['role'] != 'system' %}{{ message['role'].upper() + ': '}}{% endif %}{# Render all images first #}{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}{# Render all text next #}{% if message['role'] != 'assistant' %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' '}}{% endfor %}{% else %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{% generation %}{{ content['text'] + ' '}}{% endgeneration %}{% endfor %}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}",
    "qwen2_5": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\n{\\"name\\": <function-name>, \\"arguments\\": <args-json-object>}\\n</tool_call><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    "qwen2_5_vl": "{% set image_count = namespace(value=0) %}{% set video_count = namespace(value=0) %}{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n{% else %}{% for content in message['content'] %}{% if content['type'] == 'image' or 'image' in content or 'image_url' in content %}{% set image_count.value = image_count.value + 1 %}{% if add_vision_id %}Picture {{ image_count.value }}: {% endif %}<|vision_start|><|image_pad|><|vision_end|>{% elif content['type'] == 'video' or 'video' in content %}{% set video_count.value = video_count.value + 1 %}{% if add_vision_id %}Video {{ video_count.value }}: {% endif %}<|vision_start|><|video_pad|><|vision_end|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "idefics": "{{ bos_token }}{% for message in messages %}{{message['role'].capitalize()}}{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}",
    "macros": """{% macro image(n, label='Picture') -%}{{ label }} {{ n }}: <img>{%- endmacro %}
{% macro turn(role, body) %}<{{ role }}>{{ body }}{{ caller() if caller is defined else '' }}</{{ role }}>{% endmacro %}
{%- set ns = namespace(images=0, seen=[]) -%}
{% for message in messages -%}
  {% set body %}{% if message.content is string %}{{ message.content | trim }}{% else %}{% for p in message.content %}{% if p.type == 'image' %}{% set ns.images = ns.images + 1 %}{{ image(ns.images) }}{{ image(n=ns.images, label='P') }}{% elif p.type == 'text' %}{{ p.text }}{% else %}{% continue %}{% endif %}{% endfor %}{% endif %}{% endset %}
  {{- turn(message.role, body) }}
  {% if not loop.last %}{{ loop.nextitem.role }}{% else %}{{ loop.previtem.role if not loop.first else 'none' }}{% endif %}
  {% set ns.seen = ns.seen + [message.role] %}
{% else %}empty{% endfor -%}
{{ ns.seen | unique | join(',') }}|{{ ns.images }}|{% call turn('x', 'y') %}z{% endcall %}
""",
}

TEXT = "  What is in <image>? \n"
IMAGE = {"type": "image"}
CHATS = [
    [],
    [{"role": "user", "content": "Hi"}],
    [{"role": "user", "content": TEXT}],
    [{"role": "user", "content": ""}],
    [{"role": "system", "content": "Be brief."}],
    [{"role": "system", "content": " Be brief.\n"}, {"role": "user", "content": "Hi there"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": " b "}, {"role": "user", "content": "c"}],
    [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    [{"role": "assistant", "content": "first"}],
    [
        {"role": "system", "content": "s"},
        {"role": "system", "content": "t"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "v"},
    ],
    [{"role": "user", "content": [IMAGE, {"type": "text", "text": "What is this?"}]}],
    [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "one "},
                IMAGE,
                {"type": "text", "text": " two"},
                IMAGE,
                {"type": "text", "text": "three"},
            ],
        }
    ],
    [
        {"role": "system", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]},
        {"role": "user", "content": [{"type": "text", "text": "C"}]},
    ],
    [
        {"role": "user", "content": [IMAGE]},
        {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]},
        {"role": "user", "content": [{"type": "text", "text": "Sure?"}]},
    ],
    [{"role": "user", "content": "emoji 😀 中文 \u00e9 <|im_end|> </s> {{ x }} {% y %}"}],
    [
        {"role": "user", "content": "<think>x</think>"},
        {"role": "assistant", "content": "<think>\nwhy\n</think>\n\nok"},
        {"role": "user", "content": "<tool_response>r</tool_response>"},
    ],
    [
        {"role": "user", "content": "w"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"type": "function", "function": {"name": "f", "arguments": {"a": 1, "b": [1.5, None, True, 'é"\n']}}}
            ],
        },
        {"role": "tool", "content": "42"},
        {"role": "tool", "content": "43"},
        {"role": "assistant", "content": "done"},
    ],
    [{"role": "user"}],
    [{"content": "x"}],
    [{"role": "narrator", "content": "odd"}],
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "description": "d <b> & 'q'",
            "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        },
    }
]


def contexts():
    for chat in CHATS:
        for generation in (True, False):
            yield {
                "messages": chat,
                "add_generation_prompt": generation,
                "bos_token": "<s>",
                "eos_token": "</s>",
                "tools": None,
                "documents": None,
            }
    yield {"messages": CHATS[5], "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", "tools": TOOLS}
    yield {
        "messages": CHATS[16],
        "add_generation_prompt": True,
        "tools": TOOLS,
        "tools_in_user_message": False,
        "add_vision_id": True,
        "enable_thinking": False,
    }
    yield {"messages": CHATS[11], "add_generation_prompt": True, "add_vision_id": True}
    yield {}


DATA = {
    "s": "Hello World",
    "t": "  spaced out\t\n",
    "e": "",
    "n": 7,
    "m": -3,
    "f": 2.5,
    "g": 1e20,
    "h": 0.1,
    "b": True,
    "z": None,
    "l": [3, 1, 2],
    "w": ["b", "A", "c", "a"],
    "d": {"k": "v", "a": 1, "items": [1]},
    "u": "\u00e9\u00df\u4e2d\U0001f600 \"q\" 'p' \\ \n",
    "o": [{"x": 1, "y": "b"}, {"x": 2, "y": "a"}, {"y": "c"}],
    "nested": {"a": {"b": ["c", {"d": 5}]}},
}

EXPRESSIONS = """
1 + 2 * 3 - 4 ;; 7 // 2 ;; -7 // 2 ;; -7 % 3 ;; 7 % -3 ;; 7 / 2 ;; 2 ** 10 ;; 2 ** -1 ;; 1 / 3 ;; -n ;; +n ;; --n ;; 1.5 + 1 ;; 1e3 ;; 1.0 ;; 1e16 ;; 1e15
123456789.123 ;; 1e-5 ;; 0.0001 ;; 2 ** 3 ** 2 ;; -2 ** 2 ;; 0x1F ;; 0b101 ;; 0o17 ;; 1_000 ;; 5.0 // 2 ;; 5.5 % 2 ;; -5.5 % 2 ;; 7 // 2.0 ;; true + 1
True ;; none ;; None ;; false ;; 'a' ~ 1 ~ none ~ true ;; 'a' + 'b' ;; 'a' * 3 ;; [1] * 2 ;; [1] + [2] ;; (1,) + (2,) ;; 'a' 'b' ;; "x\\n\\t\\x41\\u00e9"
'it\\'s' ;; '\\q' ;; 'a' ~ [1, 'b', 2.0, none, {'k': (1,)}] ~ () ;; 1 < 2 < 3 ;; 1 < 3 < 2 ;; 1 == 1.0 ;; true == 1 ;; 'a' < 'b' ;; [1, 2] < [1, 3]
'a' == 1 ;; 'a' != 1 ;; none == none ;; [] == () ;; {'a': 1} == {'a': 1.0} ;; 1 <= 1 ;; 2 >= 3 ;; 1 < 'a' ;; none < 1 ;; 'a' in 'abc' ;; 'z' not in 'abc'
1 in [1, 2] ;; 'k' in d ;; 'v' in d ;; 1 in 'abc' ;; 'a' in nothing ;; 1 in 5 ;; not 1 in [2] ;; not true ;; not not 0 ;; true and 'x' ;; false and 'x'
'' or 'y' ;; 0 or none ;; 1 if true else 2 ;; 1 if false ;; (1 if false) is undefined ;; 1 if 0 else 2 if 0 else 3 ;; 'a' if s is string else 'b'
not s is string ;; s[0] ;; s[-1] ;; s[99] ;; s[1:4] ;; s[:-1] ;; s[::-1] ;; s[::2] ;; s[-3:] ;; s[5:2] ;; s[10:0:-3] ;; l[0] ;; l[-1] ;; l[9] ;; l[1:]
l[::-1] ;; l[:2] ;; u[0:4] ;; u[::-1] ;; (1, 2, 3)[1:] ;; l['a'] ;; s['x'] ;; l[none:2] ;; d.k ;; d['k'] ;; d.missing ;; d['items']
d.get('k') ;; d.get('x') ;; d.get('x', 5) ;; d.keys() | list ;; d.values() | list ;; d.items() | list ;; d ;; nested.a.b[1].d ;; nested['a']['b'].0 ;; d.x.y ;; nothing.x
d['x']['y'] ;; d.update({}) ;; d.pop('k') ;; l.append(1) ;; s.upper() ;; s.lower() ;; s.title() ;; 'aBC dEF'.capitalize() ;; t.strip() ;; t.lstrip()
t.rstrip() ;; 'xxaxx'.strip('x') ;; 'xyaxy'.lstrip('yx') ;; s.split() ;; s.split(' ') ;; 'a,b,,c'.split(',') ;; 'a b c d'.split(none, 2)
'a b c d'.split(' ', 1) ;; 'a b c d'.rsplit(' ', 1) ;; 'a  b c'.rsplit(maxsplit=1) ;; ''.split() ;; ''.split(',') ;; 'ab'.split('')
s.startswith('Hell') ;; s.endswith(('x', 'ld')) ;; s.find('o') ;; s.find('zz') ;; u.find('q') ;; s.rfind('o') ;; s.index('W') ;; s.index('zz')
s.count('l') ;; s.replace('l', 'L') ;; s.replace('l', 'L', 1) ;; 'abc'.replace('', '-') ;; s.join(['a', 'b']) ;; ','.join([1])
'a\\nb\\r\\nc\\n'.splitlines() ;; 'a-b-c'.partition('-') ;; 'a-b-c'.rpartition('-') ;; 'abc'.partition('x') ;; 'abc'.removeprefix('a')
'abc'.removesuffix('bc') ;; s.nosuch ;; s.nosuch() ;; 'abc'.isalpha() ;; '12'.isdigit() ;; ' '.isspace() ;; 'AB'.isupper() ;; 'ab1'.islower()
'ab1'.isalnum() ;; s | upper ;; s | lower ;; 'hello wORLD-foo (bar)' | title ;; 'hELLO' | capitalize ;; t | trim ;; 'xxaxx' | trim('x') ;; s | length
l | length ;; nothing | length ;; d | count ;; 5 | length ;; l | first ;; l | last ;; [] | first ;; s | first ;; '' | last ;; l | join ;; l | join(',')
o | join(',', attribute='y') ;; nothing | join ;; nothing | default('x') ;; nothing | d('x') ;; '' | default('x') ;; '' | default('x', true)
none | default('x') ;; d.missing | default ;; s | replace('o', '0') ;; s | replace('l', '', 2) ;; s | list ;; d | list ;; nothing | list
nothing | upper ;; none | upper ;; 5 | upper ;; l | reverse | list ;; s | reverse ;; l | sort ;; l | sort(reverse=true) ;; w | sort
w | sort(case_sensitive=true) ;; o | selectattr('x') | list ;; o | sort(attribute='y') | map(attribute='y') | list ;; o | map(attribute='x') | list
o | map(attribute='x', default=0) | list ;; w | map('upper') | list ;; w | map('replace', 'a', 'z') | list ;; o | selectattr('x', 'equalto', 1) | list
o | rejectattr('x', 'defined') | list ;; l | select('odd') | list ;; l | reject('odd') | list ;; [0, 1, ''] | select | list
o | selectattr('y', 'in', ['a', 'b']) | map(attribute='y') | join ;; l | select('>', 1) | list ;; w | unique | list ;; ['a', 'A', 'b'] | unique | list
[1, 1.0, 2] | unique | list ;; d | dictsort ;; d | items | list ;; nothing | items | list ;; {'b': 1, 'a': 2} | dictsort(by='value')
{'B': 1, 'a': 2} | dictsort ;; {'b': 1, 'a': 2} | dictsort(reverse=true) ;; 'a\\nb\\n\\nc' | indent ;; 'a\\nb' | indent(2, true)
'a\\n\\nb' | indent(2, blank=true) ;; 'a\\nb' | indent('> ') ;; '42' | int ;; ' 42 ' | int ;; 'x' | int ;; 'x' | int(5) ;; '3.9' | int ;; 3.9 | int
-3.9 | int ;; '0x1f' | int(base=16) ;; 'ff' | int(0, 16) ;; none | int ;; '3.5' | float ;; 'x' | float ;; 3 | float ;; true | int ;; -5 | abs ;; 2.5 | abs
2.5 | round ;; 3.5 | round ;; 2.675 | round(2) ;; 42.55 | round(1, 'floor') ;; 42.51 | round(1, 'ceil') ;; 7 | round ;; 1234 | round(-2) ;; l | min
l | max ;; w | min ;; [] | max ;; l | sum ;; o | selectattr('x', 'defined') | sum(attribute='x') ;; ['a', 'b'] | sum(start='') ;; 5 | string
none | string ;; [1, 'a'] | string ;; s | safe ;; 'a b  c' | wordcount ;; l | batch(2) | list ;; l | batch(2, 0) | list ;; d | attr('k')
d | tojson ;; u | tojson ;; l | tojson ;; o | tojson(indent=2) ;; [] | tojson(indent=2) ;; {} | tojson(indent=2)
nested | tojson(indent=4) ;; u | tojson(ensure_ascii=true) ;; {'b': 1, 'a': [1, 2.5, none, true]} | tojson(sort_keys=true)
d | tojson(separators=(',', ':')) ;; nothing | tojson ;; 1e20 | tojson ;; g | tojson ;; (1, 2) | tojson ;; {1: 2, none: 3, true: 4} | tojson
'<>&\\'' | tojson ;; s is defined ;; nothing is defined ;; nothing is undefined ;; z is none ;; s is string ;; 5 is string ;; d is mapping ;; l is sequence
d is sequence ;; s is sequence ;; 5 is sequence ;; nothing is sequence ;; l is iterable ;; 5 is iterable ;; nothing is iterable ;; 5 is number
true is number ;; 5 is integer ;; true is integer ;; 2.5 is float ;; 5 is float ;; true is boolean ;; 1 is boolean ;; true is true ;; 1 is true
false is false ;; 0 is false ;; range is callable ;; s is callable ;; 5 is equalto 5 ;; 5 is eq(5) ;; 5 is ne 4 ;; 3 is lt 4 ;; 3 is gt 4 ;; 3 is le 3
3 is ge(4) ;; 1 is in [1] ;; 3 is odd ;; 4 is even ;; 9 is divisibleby 3 ;; 'AB' is upper ;; 'ab' is lower ;; none is sameas none ;; s is not string
s is not defined or true ;; 1 is sameas 1 ;; not 3 is odd ;; range(5) | list ;; range(2, 10, 3) | list ;; range(5, 0, -2) | list ;; range(0) | list
range(3) | join(',') ;; dict(a=1, b=2) ;; dict({'a': 1}, b=2) ;; namespace(a=1).a ;; range(1, 2, 0) ;; nofunction(1) ;; raise_exception('boom') ;; s()
nothing() ;; dict([('a', 1)]) ;; {'a': 1, 'a': 2} ;; {'a': {'b': {}}} ;; [1, [2, [3]]] ;; (1,) ;; () ;; (1) ;; [] ;; {} ;; {1: 'a', 'b': none}
{'a b': "it's", "q\\"": '"'} ;; ['\\n\\t\\\\', '\\x00\\x7f', 'é中😀', '\\u200b\\ufeff'] ;; [1.0, 1e100, -0.0, 0.1, 1e-7] ;; [true, none, nothing]
'%s is %d' % ('a', 5) ;; '%s' % s ;; '%.2f%%' % 2.5 ;; '%s' % (1, 2) ;; '%d' % 'a' ;; s ;; nosuchattr.x if false else 1 ;; (s | length) > 3 and not e
s | length > 3 ;; (l | sort)[0] ;; l | sort | first ;; -1 | abs ;; (s ~ '!') | upper ;; s ~ '!' | upper ;; n + 1 | string + 'x' ;; s|upper|lower|title
'a' + 1 ;; 1 + 'a' ;; none + 1 ;; nothing + 'a' ;; 'a' + nothing ;; nothing ~ 'a' ;; -s ;; 5 % 0 ;; 1 // 0 ;; 1 / 0 ;; l + 1 ;; d + d ;; [1, 'a'] | sort
s * 2.5 ;; s - 1 ;; s < 5 ;; l.nosuch ;; l.nosuch.x ;; d.k.x.y
"""

STATEMENTS = [
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }};{% endfor %}",
    "{% for i in l %}{{ loop.changed(i > 1) }}{% endfor %}",
    "{% for i in l if i > 1 %}{{ i }}{{ loop.index }}/{{ loop.length }}{% else %}none{% endfor %}",
    "{% for i in [] %}x{% else %}none{% endfor %}{% for i in l if i > 9 %}x{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [(1,)] %}{% endfor %}",
    "{% for i in 5 %}{% endfor %}",
    "{% for c in s %}{{ c }}.{% endfor %}{% for x in nothing %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}",
    "{% for i in l %}{% if loop.first %}{% set q = i %}{% endif %}{{ q }},{% endfor %}{{ q }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}{% set d = (3) %}{{ d }}{% set e = 1, %}{{ e }}",
    "{% set ns = namespace(n=0) %}{% for i in l %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "{% set d.k = 1 %}",
    "{% set nothing2.k = 1 %}",
    "{% set x %}a{{ n }}b{% endset %}{{ x }}{{ x | length }}{% set y | upper %}abc{% endset %}{{ y }}",
    "{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }}|{{ f(1, 3) }}|{{ f(b=5, a=4) }}|{{ f() }}|{{ f(1, 2, 3) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(q=2) }}",
    "{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, z=4) }}",
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% set g = 5 %}{% macro f() %}{{ g }}{{ n }}{% endmacro %}{% set g = 6 %}{{ f() }}",
    "{% macro f() %}[{{ caller('x') }}]{% endmacro %}{% call(v) f() %}<{{ v }}{{ n }}>{% endcall %}",
    "{% macro f(x) %}{% for i in l %}{{ i * x }} {% endfor %}{% endmacro %}{{ f(2) | trim }}{{ f is callable }}",
    "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in l %}{% for j in l %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{{ loop.index }};{% endfor %}",
    "{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}{% if e %}x{% elif none %}y{% endif %}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% filter upper | trim %} abc {{ s }} {% endfilter %}",
    "{% raw %}{{ x }} {% y %} {# z #}{% endraw %}|{%- raw -%}  a  {%- endraw -%}  b",
    "{# comment #}a{#- c -#}  b\n{# line #}\nc\n   {# x #}\n  d",
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n",
    "a \n {%- if true -%} \n b \n {%- endif -%} \n c",
    "a\n  {%+ if true %}\n  b\n  {%+ endif +%}\nc",
    "  {% if true +%}\n x{% endif %}\n\n y",
    "  {{ n }}\n  {{- n }}  {{ n -}}  \n x {{- n -}} y",
    "{{ n }}\n{{ n }}\n",
    "a\r\nb\rc{% if true %}\r\nd{% endif %}\r\n",
    "x  {# a #}  {% if true %}  y {% endif %}  z",
    "\n\n  {%- if true %} a{% endif %}\n\n",
    "{% generation %}\n{{ s }}\n{% endgeneration %}\nx",
    "{{ {'a': {'b': 1}}['a']['b'] }}{{ {'a': {'b': {}}} }}",
    "{{ '}}' }}{{ \"%}\" }}{{ '{{' }}",
    "{{ 'a'\n   ~ 'b' }}{% set x = [\n 1,\n 2,\n] %}{{ x }}",
    "{{ s if s else 'none' }}{{ (n, s) }}{{ n, s }}",
    "{{ loop is defined }}{% for i in l %}{{ loop is defined }}{{ loop.nosuch is defined }}{% endfor %}",
    "{% set x = 'outer' %}{% macro f(x) %}{{ x }}{% endmacro %}{{ f('inner') }}{{ x }}{{ f(x) }}",
    "{% for m in o %}{{ m.x | default('-') }}{{ m['y'] }}{{ 'x' in m }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for m in o | sort(attribute='y') | selectattr('x', 'defined') %}{{ m.y }}{% endfor %}",
    "{%- for i in range(3) -%}\n  {{- i -}}\n{%- endfor -%}",
    "{% set _ = 1 %}{{ _ }}{% set x = y = 1 %}",
    "{{ undefined_thing }}{{ undefined_thing is undefined }}{{ undefined_thing.x is undefined }}",
    "{% if undefined_thing %}a{% else %}b{% endif %}{% if undefined_thing == none %}a{% else %}b{% endif %}",
    "{{ true if undefined_thing is defined and undefined_thing.x else false }}",
    "{% set x = [] %}{% for i in l %}{% set x = x + [i] %}{% endfor %}{{ x }}",
    "{% for i in l %}{% set ns = namespace(v=i) %}{{ ns.v }}{% endfor %}{{ ns is defined }}",
    "{% for i in l | reverse %}{{ i }}{% endfor %}{% for i in l[::-1] %}{{ i }}{{ loop.index }}{% endfor %}",
    "{% set messages = o[1:] %}{{ messages | length }}{{ o[0].x if o else '' }}",
    "{{ x | nosuch }}",
    "{{ x is nosuch }}",
    "{% if %}{% endif %}",
    "{{ }}",
    "{% for %}{% endfor %}",
    "{{ 1 2 }}",
    "{% endfor %}",
    "{{ a. }}",
    "{{ [1, }}",
]


def run(source, context):
    try:
        return {"context": context, "output": ENV.from_string(source).render(**json.loads(json.dumps(context)))}
    except Exception as error:  # whatever a template may raise is an error of the template
        return {"context": context, "error": f"{type(error).__name__}: {error}"[:200]}


def compiles(source):
    try:
        ENV.from_string(source)
        return True
    except jinja2.TemplateError:
        return False


def sorted_keys(value):
    """Contexts reach the C++ test through a JSON library that sorts the keys of objects."""
    return json.loads(json.dumps(value, sort_keys=True))


def expressions():
    """They stand between double semicolons or alone on a line."""
    return [e for line in EXPRESSIONS.strip().splitlines() for e in line.split(" ;; ")]


def main() -> None:
    table = []
    for name, source in FAMILIES.items():
        table.append({"name": name, "template": source, "cases": [run(source, sorted_keys(c)) for c in contexts()]})
    for name in ("llava", "qwen"):
        source = json.loads((GOLDEN / name / "tokenizer_config.json").read_text())["chat_template"]
        table.append(
            {"name": f"demo {name}", "template": source, "cases": [run(source, sorted_keys(c)) for c in contexts()]}
        )
    for path in map(Path, sys.argv[1:]):
        source = path.read_text() if path.suffix == ".jinja" else json.loads(path.read_text()).get("chat_template")
        if source:
            table.append(
                {
                    "name": path.parent.name,
                    "template": source,
                    "cases": [run(source, sorted_keys(c)) for c in contexts()],
                }
            )
    data = sorted_keys(DATA)
    refused = []
    for number, source in enumerate(["{{ " + e + " }}" for e in expressions()] + STATEMENTS):
        if compiles(source):
            table.append({"name": f"language {number}: {source}", "template": source, "cases": [run(source, data)]})
        else:
            refused.append(source)
    lines = ",\n".join(json.dumps(entry, ensure_ascii=True, separators=(",", ":")) for entry in table)
    (GOLDEN / "template_cases.json").write_text(f"[\n{lines}\n]\n")
    (GOLDEN / "template_refused.json").write_text(json.dumps(refused, indent=0) + "\n")
    print(f"{sum(len(e['cases']) for e in table)} cases, {len(refused)} refused templates")


if __name__ == "__main__":
    main()
