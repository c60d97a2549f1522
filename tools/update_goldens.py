#!/usr/bin/env python3
"""Runs dsopt over tests/golden/<pass>/*.ir and checks, or rewrites, what each
file expects.

A golden file is a `# RUN PASSES` line (no pass: parse and print), a graph, and
one of

    # EXPECT
    the graph that dsopt prints
    # EXPECT ERROR INVALID_ARGUMENT
    the message that dsopt prints

    tools/update_goldens.py --dsopt build/tools/dsopt              # check all
    tools/update_goldens.py --dsopt ... tensor-slice               # one folder
    tools/update_goldens.py --dsopt ... --update tensor-slice      # diff, rewrite
"""

import argparse
import difflib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / 'tests' / 'golden'
TIMEOUT_SECONDS = 60
STATUS_LINE = re.compile(r'([A-Z][A-Z_]*): ')


class BadGolden(Exception):
  """A file that is not a golden, with the reason."""


def split(text):
  """The pass list, the input (its lines keep their numbers) and the rest."""
  lines = text.splitlines(keepends=True)
  runs = [l for l in lines if re.match(r'# RUN\b', l)]
  if len(runs) != 1:
    raise BadGolden(f'expected one "# RUN PASSES" line, got {len(runs)}')
  expects = [i for i, l in enumerate(lines) if re.match(r'# EXPECT\b', l)]
  if len(expects) > 1:
    raise BadGolden(f'expected one "# EXPECT" line, got {len(expects)}')
  end = expects[0] if expects else len(lines)
  return runs[0][len('# RUN'):].strip(), ''.join(lines[:end]), ''.join(
      lines[end:])


def observe(dsopt, passes, graph):
  """What dsopt makes of the graph, as the end of a golden file."""
  command = [dsopt] + ([f'--passes={passes}'] if passes else []) + ['-']
  run = subprocess.run(command, input=graph, capture_output=True, text=True,
                       check=False, timeout=TIMEOUT_SECONDS)
  if run.returncode == 0:
    return '# EXPECT\n' + run.stdout
  status = STATUS_LINE.match(run.stderr)
  if run.returncode < 0 or not status or run.stdout:
    raise BadGolden(f'dsopt ended with {run.returncode}, stdout '
                    f'{run.stdout!r}, stderr {run.stderr!r}')
  return (f'# EXPECT ERROR {status.group(1)}\n' + run.stderr[status.end():])


def check(dsopt, path, update):
  """Prints a diff where the file is wrong: 'right', 'differs' or 'bad'."""
  text = path.read_text(encoding='utf-8')
  name = path.relative_to(ROOT)
  try:
    passes, graph, expected = split(text)
    observed = observe(dsopt, passes, graph)
  except (BadGolden, subprocess.TimeoutExpired) as error:
    print(f'{name}: {error}')
    return 'bad'
  if observed == expected:
    return 'right'
  sys.stdout.writelines(
      difflib.unified_diff(
          text.splitlines(keepends=True),
          (graph + observed).splitlines(keepends=True),
          fromfile=f'{name} (file)', tofile=f'{name} (dsopt)'))
  if update:
    path.write_text(graph + observed, encoding='utf-8')
  return 'differs'


def main():
  parser = argparse.ArgumentParser(
      description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--dsopt', required=True, help='the program to run')
  parser.add_argument('--update', action='store_true',
                      help='rewrite what differs, after showing the diff')
  parser.add_argument('folders', nargs='*', metavar='PASS',
                      help='folders of tests/golden; all when left out')
  args = parser.parse_args()

  folders = [ROOT / f for f in args.folders] or [ROOT]
  paths = []
  for folder in folders:
    found = sorted(folder.rglob('*.ir'))
    if not found:
      sys.exit(f'{folder}: no golden there')
    paths += found
  results = [check(args.dsopt, p, args.update) for p in paths]
  differ, bad = results.count('differs'), results.count('bad')
  print(f'{len(paths)} goldens, {differ} '
        f'{"rewritten" if args.update else "wrong"}, {bad} without result')
  if differ and not args.update:
    print('run tools/update_goldens.py --update where dsopt is right')
  sys.exit(1 if bad or (differ and not args.update) else 0)


if __name__ == '__main__':
  main()
