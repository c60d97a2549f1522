#!/usr/bin/env python3
"""Writes chat templates that are at fault (TK-21 to TK-26, TK-34), one folder a
case: template.jinja and the messages.json it is rendered with.

    make_bad_templates.py FOLDER [CASE...]

CASES maps a name to its template and messages; those named "legal" render.
"""
import json
import pathlib
import sys
from typing import NamedTuple

HELLO = [{"role": "user", "content": "Hello"}]


class Case(NamedTuple):
    template: bytes
    messages: object = HELLO
    raw: bytes = b""  # instead of messages


def case(template, messages=None, raw=b""):
    if isinstance(template, str):
        template = template.encode()
    return Case(template, HELLO if messages is None else messages, raw)


CASES = {
    "TK-21-legal-chatml": case(
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"),
    "TK-21-empty-template-legal": case(""),
    # Syntax.
    "TK-22-open-tag": case("a\nb {{ messages\nc"),
    "TK-22-open-block": case("{% for m in messages %}\n{{ m.content }}\n"),
    "TK-22-wrong-end": case("{% if a %}\n\n{% endfor %}"),
    "TK-22-open-string": case("\n\n{{ 'no end }}"),
    "TK-22-open-comment": case("{# for ever"),
    "TK-22-open-raw": case("{% raw %} for ever"),
    "TK-22-operator": case("{{ 1 + }}"),
    "TK-22-bracket": case("{{ (1, [2) }}"),
    "TK-22-unknown-sign": case("{{ a ? b : c }}"),
    "TK-22-not-utf8": case(b"{{ '\xff\xfe' }}"),
    "TK-22-2-MiB": case(b"x" * (2 << 20)),
    "TK-22-65-blocks": case("{% if 1 %}" * 65 + "{% endif %}" * 65),
    "TK-22-100000-parentheses": case("{{ " + "(" * 100000),
    "TK-22-100000-minus": case("{{ " + "-" * 100000 + "1 }}"),
    "TK-22-100000-plus": case("{{ 1" + " + 1" * 100000 + " }}"),
    "TK-22-break-outside": case("{% break %}"),
    "TK-22-number-too-large": case("{{ 123456789012345678901234567890 }}"),
    # Names.
    "TK-23-unknown-filter": case("\n{{ messages | pretty }}"),
    "TK-23-unknown-filter-in-if": case("{% if messages %}\n{{ 1 | pretty }}{% endif %}"),
    "TK-23-unknown-filter-not-reached-legal": case(
        "{% if not messages %}{{ 1 | pretty }}{% endif %}"),
    "TK-23-unknown-test": case("{{ messages is pretty }}"),
    "TK-23-unknown-statement": case("{% execute 'rm' %}"),
    "TK-23-include": case("{% include '/etc/passwd' %}"),
    "TK-23-import": case("{% import 'os' as os %}"),
    "TK-23-unknown-function": case("{{ open('/etc/passwd') }}"),
    "TK-23-unknown-method": case("{{ messages[0].content.encode() }}"),
    "TK-23-undefined-attribute": case("\n\n{{ nobody.name }}"),
    "TK-23-class-legal": case("{{ ''.__class__ }}"),
    "TK-23-class-of-class": case("{{ ''.__class__.__mro__ }}"),
    "TK-23-globals": case("{{ messages.__init__.__globals__ }}"),
    "TK-23-globals-by-filter": case("{{ (messages | attr('__init__')).__globals__ }}"),
    "TK-23-globals-by-format": case("{{ '{0.__class__.__init__}'.format(messages) }}"),
    "TK-23-mutation": case("{{ messages.append(1) }}"),
    # Loops without end.
    "TK-24-range": case("{% for i in range(1000000000) %}{% endfor %}"),
    "TK-24-nested-loops": case("{% for a in range(9999) %}{% for b in range(9999) %}"
                               "{% for c in range(9999) %}{% endfor %}{% endfor %}"
                               "{% endfor %}"),
    "TK-24-nested-filters": case("{{ range(99999)|map('string')|map('length')|sum }}"
                                 "{% for i in range(99999) %}{{ range(99999)|sum }}"
                                 "{% endfor %}"),
    "TK-24-replace": case("{% set ns = namespace(s='a') %}{% for i in range(60) %}"
                          "{% set ns.s = ns.s.replace('a', 'aa') %}{% endfor %}"),
    "TK-24-split": case("{% for i in range(99999) %}{% set x = ('a ' * 100000).split() %}"
                        "{% endfor %}"),
    "TK-24-sort": case("{% for i in range(9999) %}{% set x = range(99999)|sort(reverse=true) %}"
                       "{% endfor %}"),
    # Recursion.
    "TK-25-macro": case("{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}"),
    "TK-25-two-macros": case("{% macro a() %}{{ b() }}{% endmacro %}"
                             "{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"),
    "TK-25-loop": case("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
    "TK-25-list-in-list": case("{% set ns = namespace(x=[]) %}{% for i in range(99) %}"
                               "{% set ns.x = [ns.x] %}{% endfor %}"),
    "TK-25-iterator-of-iterator": case(
        "{% set ns = namespace(x=[1]) %}{% for i in range(99999) %}"
        "{% set ns.x = ns.x|map('string') %}{% endfor %}{{ ns.x|list }}"),
    "TK-25-namespace-in-itself": case("{% set n = namespace() %}{% set n.n = n %}"),
    # Output.
    "TK-25-100-MB": case("{{ 'x' * 100000000 }}"),
    "TK-25-100-MB-of-pieces": case("{% for i in range(1000) %}{{ 'x' * 100000 }}{% endfor %}"),
    "TK-25-100-MB-twice-as-long": case(
        "{% set ns = namespace(s='abcdefgh') %}{% for i in range(40) %}"
        "{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}"),
    "TK-25-100-MB-of-width": case("{{ '%100000000d' % 1 }}"),
    "TK-25-100-MB-of-center": case("{{ 'x'.center(100000000) }}"),
    "TK-25-100-MB-of-indent": case("{{ ('\\n' * 100000) | indent(1000, true, true) }}"),
    "TK-25-100-MB-of-json": case("{{ ([1] * 100000) | tojson(indent=1000) }}"),
    # The template's own words.
    "TK-26-raise": case("{{ raise_exception('Roles must take turns, not ' ~ messages[0].role) }}"),
    "TK-26-raise-lines": case("{{ raise_exception('one\\ntwo') }}"),
    "TK-26-bos-null-legal": case("{{ bos_token }}{{ eos_token is defined }}"),
    "TK-26-bos-null-added": case("{{ bos_token + 'x' }}"),
    # Messages.
    "TK-34-null-content": case("{{ messages[0].content + '!' }}",
                               [{"role": "user", "content": None}]),
    "TK-34-no-content": case("{{ messages[0].content + '!' }}", [{"role": "user"}]),
    "TK-34-no-list": case("", {"a": 1}),
    "TK-34-no-objects": case("", ["hello"]),
    "TK-34-no-json": case("", raw=b'[{"role": "user", }]'),
    "TK-34-deep-json": case("", raw=b"[" * 100000),
    "TK-34-not-utf8": case("{{ messages[0].content }}",
                           raw=b'[{"role": "user", "content": "\xff"}]'),
    "TK-34-lone-surrogate": case("{{ messages[0].content }}",
                                 raw=b'[{"role": "user", "content": "\\ud800"}]'),
}


def write_case(folder, name):
    c = CASES[name]
    d = pathlib.Path(folder) / name
    d.mkdir(parents=True, exist_ok=True)
    (d / "template.jinja").write_bytes(c.template)
    (d / "messages.json").write_bytes(
        c.raw or json.dumps(c.messages).encode())
    return d


if __name__ == "__main__":
    for case_name in sys.argv[2:] or CASES:
        print(write_case(sys.argv[1], case_name))
