#!/usr/bin/env python3
"""Writes chat_goldens.json: templates with what Jinja2 makes of them.

Run in an environment with jinja2 3.1. Templates are in the style of published
ones, the environment is the one that chat templates are written for.
"""
import json
import pathlib

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


def tojson(x, ensure_ascii=False, indent=None, separators=None,
           sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent,
                      separators=separators, sort_keys=sort_keys)


class Raised(Exception):
    pass


def raise_exception(message):
    raise Raised(message)


CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] "
    "!= 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant "
    "named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}")

LLAMA3 = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{#- The system message comes out of the list, so that it is always first. #}
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
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {{- raise_exception("no calls here") }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set ns = namespace(index=0) %}
{%- for message in loop_messages %}
    {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
        {{- raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif %}
    {%- set ns.index = ns.index + 1 %}
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
        {{- " " + message["content"]|trim + eos_token }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported!") }}
    {%- endif %}
{%- endfor %}
"""

QWEN3 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}{{ tools | tojson }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}
"""

ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
"""

MACROS = """{%- macro turn(role, content, end='<end>') -%}
    [{{ role|upper }}] {{ content|trim }}{{ end }}
{% endmacro -%}
{%- macro nested(n) -%}
    {%- if n > 0 -%}{{ n }},{{ nested(n - 1) }}{%- else -%}.{%- endif -%}
{%- endmacro -%}
{% for m in messages -%}
    {{ turn(m.role, m.content) if not loop.last else turn(m.role, m.content, end='') }}
{%- endfor %}
{{ nested(5) }} {{ turn(content='by name', role='x') }}"""

LOOPS = """{% for m in messages if m.role != 'system' %}
{{ loop.index }}/{{ loop.length }} {{ loop.revindex }} {{ loop.revindex0 }} {{ loop.first }} {{ loop.last }} {{ loop.cycle('odd', 'even') }} {{ loop.previtem.role if loop.previtem is defined }} {{ loop.nextitem.role if not loop.last else '-' }}
{% else %}
nobody
{% endfor %}
{% for x in [] %}never{% else %}empty{% endfor %}
{% for k, v in {'a': 1, 'b': [2, 3.5, none, true, 'x']}.items() %}{{ k }}={{ v }};{% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in range(2, 10, 3) %}{% for j in range(i, 0, -2) %}{{ i * j }} {% endfor %}{% endfor %}
{% set x = 1 %}{% for i in range(3) %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(t=0) %}{% for i in range(4) %}{% set ns.t = ns.t + i %}{% endfor %}{{ ns.t }}
{%- for a, b in [[1, 2], (3, 4)] %} {{ a + b }}{% endfor %}"""

STRINGS = """{% set s = messages[-1].content %}
{{ s|length }} {{ s.upper() }} {{ s|lower }} {{ s|title }} {{ s.title() }} {{ s|capitalize }}
{{ s[1:4] }}|{{ s[:-2] }}|{{ s[::-1] }}|{{ s[::2] }}|{{ s[10:2:-3] }}|{{ s[0] }}|{{ s[-1] }}|{{ s[99] }}
{{ s.split() }} {{ s.split('l') }} {{ s.split('l', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' x  y '.split(' ') }}
{{ s.replace('l', 'L') }} {{ s|replace('o', '0', 1) }} {{ s.startswith('He') }} {{ s.endswith(('x', '!')) }}
{{ '  pad '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xxaxx'.lstrip('x') }}|{{ 'xxaxx'.rstrip('x') }}
{{ '%s has %d and %%' % ('a', 3) }} {{ '%s' | format(s) }} {{ '{} and {1} {n}'.format if false else '{0}-{1}'.format('a', 'b') }}
{{ 'a' ~ 1 ~ none ~ 2.0 ~ true }} {{ 'ab' * 3 }} {{ 'b' in s }} {{ 'ell' in s }} {{ 'x' not in s }}
{{ ['b', 'A', 'c']|sort|join(', ') }} {{ [3, 1, 2]|sort(reverse=true) }} {{ 'q\\t\\u00e9\\x41\\'"' }} {{ "it's" "joined" }}
{{ s.find('l') }} {{ s.count('l') }} {{ 'line1\\nline2\\r\\nline3'.splitlines() }} {{ 'abc'.removeprefix('a') }}
{{ 'one\\ntwo\\n\\nthree'|indent(2) }}
{{ 'one\\ntwo'|indent(width=3, first=true) }}
{{ ['x', "y'z", '\\n\\\\', 'é\\u200b'] }} {{ s|string|trim|safe }}"""

VALUES = """{{ 1 + 2 * 3 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 1.5 * 2 }} {{ 1e20 }} {{ 1/3 }} {{ 100000.0 }} {{ 1e-7 }}
{{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] == [1, 2] }} {{ {'a': 1} == {'a': 1} }} {{ none == none }} {{ 1 if false }}|
{{ not true or 1 and 'x' }} {{ 0 or '' or none }} {{ (1, 2) + (3,) }} {{ [1] + [2] }} {{ (1,) }} {{ () }} {{ {} }} {{ {'k': {'n': none}} }}
{{ x is defined }} {{ x is not defined }} {{ none is none }} {{ 1 is number }} {{ 1.0 is float }} {{ true is boolean }} {{ true is number }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is iterable }} {{ 3 is odd }} {{ 4 is divisibleby 2 }} {{ 1 is in [1, 2] }} {{ 1 is eq 1 }} {{ false is false }} {{ 'a' is sequence }}
{{ x|default('d') }} {{ ''|default('d', true) }} {{ none|d('d') }} {{ '42'|int + 1 }} {{ 'z'|int(-1) }} {{ '1.5'|float }} {{ 3.7|int }} {{ -3|abs }} {{ 2.567|round(2) }} {{ 2.5|round }}
{{ [1, 2, 3]|first }} {{ [1, 2, 3]|last }} {{ [1, 2, 3]|sum }} {{ [1, 2, 3]|max }} {{ 'abc'|list }} {{ [3, 3, 1]|unique|list }} {{ [1, 2]|reverse|list }} {{ 'abc'|reverse }}
{{ messages|map(attribute='role')|join(',') }} {{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ messages|rejectattr('role', 'eq', 'user')|map(attribute='role')|list }} {{ [1, none, 2]|select|list }} {{ [1, 2, 3]|select('odd')|list }} {{ ['a', 'b']|map('upper')|list }} {{ [1, 2, 3, 4]|reject('divisibleby', 2)|list }}
{{ {'b': 1, 'a': 'x"y'}|tojson }} {{ {'b': [1, {'c': 2}], 'a': []}|tojson(indent=2) }} {{ 'é\\n<'|tojson }} {{ [true, none, 1.5]|tojson }} {{ {'b': 1, 'A': 2}|dictsort }} {{ {'a': 1}|items|list }}
{{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 'c') }} {{ {'a': 1}['b'] is defined }} {{ {'a': 1}.a }} {{ {'a': 1}.keys()|list }} {{ {'a': 1, 'b': 2}.values()|list }} {{ 'a' in {'a': 1} }} {{ {'a': 1}|length }}
{{ dict(a=1, b=2) }} {{ [[1, 2], [3, 4]][1][0] }} {{ (messages|last)['role'] }} {{ [1, 2, 3, 4][1:3] }} {{ [1, 2, 3][::-1] }} {{ range(5)|list }} {{ [1,2,3] | map('string') | join('-') }} {{ -1|abs }} {{ (-1)|abs }} {{ 'a' if 0 else 'b' if 1 else 'c' }}
{{ [none, true] }} {{ 'x' is in 'xyz' }} {{ undefined_thing }}|{{ undefined_thing is none }} {{ messages is sequence }} {{ tools is none }} {{ 10|string ~ '%' }} {{ 5 > 3 and 3 > 1 }} {{ 1 != 2 }}"""

SPACES = """  {% if true %}
    kept
  {% endif %}
a  {%- if true -%}   b   {%- endif -%}  c
  {# comment #}
d {#- x -#} e
  {{ 'out' }}  
	{%+ if true %}plus{% endif %}
{% if true +%}
after plus
{% endif %}
{%- set block %}
  text {{ 1 }}
{% endset %}
[{{ block }}]
{% set up | upper | trim %} body {% endset %}({{ up }})
{% raw %}{{ not run }} {% if %}{% endraw %}
{{ 'a'
   ~ 'b' }}
{%- generation %}gen{% endgeneration %}
{{- '  x  ' -}}
   end
"""

LONG = """{%- set roles = {'user': 'Human', 'assistant': 'AI'} -%}
{%- for message in messages -%}
{%- if message.role in roles -%}
{{ roles[message.role] }}: {{ message.content.strip().replace('<', '&lt;') }}
{% elif message['role'] == 'system' %}
{{ '<<SYS>>\\n' ~ message.content | trim | upper ~ '\\n<</SYS>>' }}
{% else %}
{{ raise_exception('unknown role: ' ~ message.role) }}
{% endif %}
{%- endfor -%}
{{ messages | map(attribute='content') | map('length') | sum }} {{ messages | tojson }}
{%- if add_generation_prompt %}
AI:{% endif %}"""

PAIRS = [{"role": "user", "content": "  Hi <|im_end|> there\n"},
         {"role": "assistant",
          "content": "<think>\nhm\n</think>\n\nHello. "},
         {"role": "user", "content": "Hello Wörld!"}]
SYSTEM = [{"role": "system", "content": " Be brief. "}] + PAIRS
ODD = [{"role": "tool", "content": "x"}]

TEMPLATES = {
    "chatml": CHATML, "llama3": LLAMA3, "mistral": MISTRAL, "qwen3": QWEN3,
    "gemma": GEMMA, "zephyr": ZEPHYR, "macros": MACROS, "loops": LOOPS,
    "strings": STRINGS, "values": VALUES, "spaces": SPACES, "long": LONG,
}


def main():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    cases = []
    for name, text in TEMPLATES.items():
        # Jinja2 itself does not know this tag; it writes its body.
        known = text.replace("{%- generation %}", "{%- if true %}").replace(
            "{% endgeneration %}", "{% endif %}")
        for messages in (PAIRS, SYSTEM, SYSTEM[:2], ODD):
            for prompt in (True, False):
                case = {"template": name, "messages": messages,
                        "add_generation_prompt": prompt}
                try:
                    case["text"] = env.from_string(known).render(
                        messages=messages, add_generation_prompt=prompt,
                        bos_token="<s>", eos_token="</s>", tools=None,
                        documents=None)
                except Raised as e:
                    case["raised"] = str(e)
                except jinja2.exceptions.UndefinedError:
                    case["fails"] = True
                cases.append(case)
    out = pathlib.Path(__file__).parent / "chat_goldens.json"
    out.write_text(json.dumps({"templates": TEMPLATES, "cases": cases},
                              indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
