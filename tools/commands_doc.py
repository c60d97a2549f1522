#!/usr/bin/env python3
"""Writes the manual of the commands from what --help says.

    commands_doc.py markdown OUT.md TOOL...   (- is stdout)
    commands_doc.py man OUT.1 TOOL            one page with the tool's verbs
    commands_doc.py check FILE.md TOOL...     whether FILE.md is up to date, and
                                              the man pages hold

A TOOL is the path of a built program. It gives its help as data for the hidden
flag --help-json, alone or behind one of its verbs.
"""
import difflib
import json
import os
import re
import shutil
import subprocess
import sys

# The verbs that read their own command line; a program's help lists the others.
VERBS = {'dsrun': ['bench', 'classify', 'embed', 'fill-mask', 'selftest',
                   'template', 'tokenize', 'tune'],
         'dscompile': ['deepspeed-keys', 'families', 'limits']}
# What a description lists, a line each: "  bench     how many tokens a second".
LISTED = re.compile(r'  ([\w-]+) +(\S.*)')
# What a man page of these programs may ask troff for.
REQUESTS = {'.TH', '.SH', '.SS', '.TP', '.PP', '.nf', '.fi'}


def plain_environment():
    """Without the variables that a program takes for flags."""
    return {k: v for k, v in os.environ.items()
            if not k.startswith(('DSRUN_', 'DSCOMPILE_', 'DSPLAN_', 'DSOPT_'))}


def output_of(*command):
    return subprocess.run(command, check=True, text=True, encoding='utf-8',
                          stdout=subprocess.PIPE,
                          env=plain_environment()).stdout


def pages_of(tool):
    """The help of a program, then of its verbs."""
    first = json.loads(output_of(tool, '--help-json'))
    verbs = [v['name'] for v in first['verbs']]
    verbs += VERBS.get(os.path.basename(tool), [])
    pages = [first] + [json.loads(output_of(tool, v, '--help-json'))
                       for v in verbs]
    for page in pages[1:]:
        if page['footer'] == first['footer']:
            page['footer'] = ''  # it stands once
    return pages


def sentence(text):
    return text if text.endswith(('.', ')', '"')) else text + '.'


def cut_description(page):
    """-> (running text, [(listed word, what it is)])"""
    lines = page['description'].split('\n')
    listed = [m.groups() for m in map(LISTED.fullmatch, lines) if m]
    return ('\n'.join(line for line in lines if not LISTED.fullmatch(line)),
            listed)


# ---- Markdown ----------------------------------------------------------------

def cell(text):
    return (text.replace('\\', '\\\\').replace('|', '\\|').replace('<', '&lt;')
            .replace('\n', ' '))


def code(text):
    return '`' + text.replace('`', "'") + '`'


def table(head, rows):
    """Lines of a table and an empty one; none without rows."""
    if not rows:
        return []
    return ([f'| {" | ".join(head)} |', '|' + '---|' * len(head)] +
            [f'| {" | ".join(row)} |' for row in rows] + [''])


def markdown_page(page):
    text, listed = cut_description(page)
    lines = [f'## {page["command"]}', '', text, '', f'    {page["usage"]}', '']
    lines += table(['verb', ''], [[code(n), cell(h)] for n, h in listed])
    lines += table(['argument', ''], [[code(a['name']),
                                       cell(sentence(a['help']))]
                                      for a in page['arguments']])
    lines += table(['verb', ''], [[code(v['name']), cell(v['help'])]
                                  for v in page['verbs']])
    for group in page['groups']:
        lines += table([cell(group['name']), 'value', ''],
                       [[', '.join(code(n) for n in flag['names']),
                         code(flag['value']) if flag['value'] else '',
                         cell(sentence(flag['help']))]
                        for flag in group['flags']])
    if page['footer']:
        lines += [page['footer'], '']
    return lines


def markdown(tools):
    lines = ['# The commands', '',
             'Made from the programs\' own `--help` by '
             '`ninja -C build commands-doc`; a test compares.', '']
    for tool in tools:
        for page in pages_of(tool):
            lines += markdown_page(page)
    # No white space at the end of a line, one newline at the end of the file.
    lines = '\n'.join(lines).split('\n')
    return '\n'.join(line.rstrip() for line in lines).rstrip() + '\n'


# ---- man ---------------------------------------------------------------------

# What troff would print as another character, or take for its own.
ROFF = str.maketrans({'\\': '\\e', '-': '\\-', "'": '\\(aq', '`': '\\(ga',
                      '^': '\\(ha', '~': '\\(ti'})


def roff(text):
    """Text that troff prints as it is."""
    return '\n'.join('\\&' + line if line.startswith('.') else line
                     for line in text.translate(ROFF).split('\n'))


def bold(text):
    return '\\fB' + roff(text) + '\\fR'


def item(name, text):
    return ['.TP', name, roff(sentence(text))]


def man_body(page):
    text, listed = cut_description(page)
    out = [roff(text)]
    for name, what in listed + [(v['name'], v['help']) for v in page['verbs']]:
        out += item(bold(name), what)
    for a in page['arguments']:
        out += item('\\fI' + roff(a['name']) + '\\fR', a['help'])
    for group in page['groups']:
        if group['name'] != 'Flags':
            out += ['.PP', roff(group['name'] + ':')]
        for flag in group['flags']:
            value = ' \\fI' + roff(flag['value']) + '\\fR' if flag['value'] else ''
            out += item(', '.join(bold(n) for n in flag['names']) + value,
                        flag['help'])
    return out


def notes(page):
    return ['.PP', '.nf', roff(page['footer']), '.fi'] if page['footer'] else []


def summary_of(page):
    """Of "text: command line" or the other way round the text."""
    parts = page['description'].split('\n')[0].rstrip('.').split(': ')
    return next(p for p in parts if page['command'] not in p.split())


def man(tool):
    pages = pages_of(tool)
    name = pages[0]['command']
    version = ' '.join(output_of(tool, '--version').split()[:2])
    out = [f'.TH {name.upper()} 1 "" "{roff(version)}" "deepslice"', '.SH NAME',
           f'{name} \\- {roff(summary_of(pages[0]))}', '.SH SYNOPSIS', '.nf']
    out += [roff(page['usage']) for page in pages] + ['.fi', '.SH DESCRIPTION']
    out += man_body(pages[0])
    if len(pages) > 1:
        out.append('.SH VERBS')
    for page in pages[1:]:
        out += [f'.SS {roff(page["command"])}'] + man_body(page) + notes(page)
    if pages[0]['footer']:
        out += ['.SH NOTES'] + notes(pages[0])[1:]
    others = sorted({'dscompile', 'dsopt', 'dsplan', 'dsrun'} - {name})
    out += ['.SH SEE ALSO', ', '.join(bold(n) + '(1)' for n in others)]
    return '\n'.join(out) + '\n'


# ---- checks ------------------------------------------------------------------

def check_markdown(path, tools):
    """What is wrong with the file, as lines."""
    with open(path, encoding='utf-8') as f:
        have = f.read()
    diff = list(difflib.unified_diff(
        have.splitlines(True), markdown(tools).splitlines(True), path,
        'from --help'))
    return diff + (['run ninja -C BUILD commands-doc\n'] if diff else [])


def check_verbs(tool):
    """That VERBS has what the program's own description lists."""
    page = json.loads(output_of(tool, '--help-json'))
    _, listed = cut_description(page)
    missing = {n for n, what in listed if not what.startswith('the same as ')}
    missing -= set(VERBS.get(page['command'], []))
    return [f'{page["command"]}: VERBS has no {v}\n' for v in sorted(missing)]


def check_man(tool):
    name, text = os.path.basename(tool), man(tool)
    wrong = []
    for line in text.split('\n'):
        if line[:1] in ('.', "'") and line.split(' ')[0] not in REQUESTS:
            wrong.append(f'{name}.1: a request that is none: {line}\n')
        if re.search(r'\\(?![&e\-]|f[BIR]|\((?:aq|ga|ha|ti))', line):
            wrong.append(f'{name}.1: an escape that is none: {line}\n')
    if not shutil.which('groff'):
        print(f'left out: {name}.1 as groff prints it: no groff here')
        return wrong
    r = subprocess.run(['groff', '-man', '-Tutf8', '-ww', '-rLL=200n', '-P-c',
                        '-P-b', '-P-u', '-K', 'utf8'], input=text, text=True,
                       encoding='utf-8', stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, check=False)
    if r.returncode != 0 or r.stderr:
        wrong.append(f'{name}.1: groff: {r.stderr}\n')
    for page in pages_of(tool):
        for group in page['groups']:
            for flag in group['flags']:
                wrong += [f'{name}.1: {n} is not printed\n'
                          for n in flag['names'] if n not in r.stdout]
    return wrong


def check(path, tools):
    wrong = check_markdown(path, tools)
    for tool in tools:
        wrong += check_verbs(tool) + check_man(tool)
    sys.stdout.writelines(wrong)
    print('0 passed, 1 failed' if wrong else '1 passed, 0 failed')
    return 1 if wrong else 0


def main():
    what, path, *tools = sys.argv[1:]
    if what == 'check':
        return check(path, tools)
    text = markdown(tools) if what == 'markdown' else man(*tools)
    if path == '-':
        sys.stdout.write(text)
    else:
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)
    return 0


if __name__ == '__main__':
    sys.exit(main())
