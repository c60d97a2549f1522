"""Templates as Python's jinja2 renders them, set up as transformers does.

Debian's python3-jinja2, so run with /usr/bin/python3. The time that
strftime_now tells is fixed, in UTC.
"""
import datetime
import functools
import json

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1753444800  # 25 July 2025, noon


class Raised(Exception):
    """What raise_exception raises."""


class Generation(Extension):
    """{% generation %}: its body, in a scope of its own."""
    tags = {'generation'}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(['name:endgeneration'], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method('_body'), [], [],
                                      body).set_lineno(line)

    def _body(self, caller):
        return caller()


class TemplateNamespace(jinja2.utils.Namespace):
    """No attribute may start with an underscore."""

    def __init__(*args, **kwargs):  # pylint: disable=no-method-argument
        self, args = args[0], args[1:]
        attrs = dict(*args, **kwargs)
        for name in attrs:
            TemplateNamespace.check(name)
        jinja2.utils.Namespace.__init__(self, attrs)

    def __setitem__(self, name, value):
        TemplateNamespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith('_'):
            raise jinja2.exceptions.SecurityError(name)


def tojson(x, ensure_ascii=False, indent=None, separators=None,
           sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent,
                      separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise Raised(message)


def strftime_now(form):
    now = datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)
    return now.replace(tzinfo=None).strftime(form)


def make_environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[Generation, loopcontrols])
    env.filters['tojson'] = tojson
    env.globals['raise_exception'] = raise_exception
    env.globals['strftime_now'] = strftime_now
    env.globals['namespace'] = TemplateNamespace
    return env


ENVIRONMENT = make_environment()


@functools.lru_cache(maxsize=4)
def compiled(template):
    return ENVIRONMENT.from_string(template)


def render(template, context):
    """-> ('text', text), ('raised', message) or ('failed', error)."""
    variables = {'tools': None, 'documents': None,
                 'add_generation_prompt': False, **context}
    variables.update(variables.pop('tokens', {}))
    try:
        text = compiled(template).render(**variables)
        text.encode()
        return 'text', text
    except Raised as e:
        return 'raised', str(e)
    except Exception as e:  # pylint: disable=broad-except
        return 'failed', f'{type(e).__name__}: {e}'
