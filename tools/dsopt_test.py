#!/usr/bin/env python3
"""What dsopt promises to a shell: exit codes, streams and files.

    tools/dsopt_test.py build/tools/dsopt
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

DSOPT = sys.argv.pop()
GOOD = 'graph @g { param %x : f32[T, 6] %y = mul(%x, %x) return %y }'
PRINTED = '''graph @g {
  param  %x : f32[T, 6]
  %y = mul(%x, %x) : f32[T, 6]
  return %y
}
'''


def run(*args, text=''):
  return subprocess.run([DSOPT, *args], input=text, capture_output=True,
                        text=True, check=False, timeout=60)


class DsoptTest(unittest.TestCase):

  def expect(self, result, code, stdout='', stderr=''):
    self.assertEqual(result.returncode, code, result.stderr)
    self.assertEqual(result.stdout, stdout)
    if stderr:
      self.assertIn(stderr, result.stderr)
    else:
      self.assertEqual(result.stderr, '')

  def test_prints_the_graph_to_stdout(self):
    self.expect(run('-', text=GOOD), 0, stdout=PRINTED)

  def test_verify_prints_nothing(self):
    self.expect(run('--verify', '-', text=GOOD), 0)

  def test_reads_and_writes_files(self):
    with tempfile.TemporaryDirectory() as folder:
      source = pathlib.Path(folder) / 'in.ir'
      target = pathlib.Path(folder) / 'out.ir'
      source.write_text(GOOD, encoding='utf-8')
      self.expect(run(str(source), '-o', str(target)), 0)
      self.assertEqual(target.read_text(encoding='utf-8'), PRINTED)
      self.expect(run('--output', str(target), str(target)), 0)
      self.assertEqual(target.read_text(encoding='utf-8'), PRINTED)
      self.expect(run(str(source), '-o', folder), 3, stderr=folder)

  def test_lists_passes_one_a_line(self):
    result = run('--list-passes')
    self.assertEqual(result.returncode, 0)
    self.assertRegex(result.stdout, r'(?m)^tensor-slice  .*\btp=')

  def test_a_pass_runs(self):
    self.expect(run('--passes=fuse-epilogues', '-', text=GOOD), 0,
                stdout=PRINTED)

  def test_malformed_flags_are_usage_errors(self):
    self.expect(run(), 2, stderr='no input')
    self.expect(run('--passes=fuse-qvk', '-'), 2,
                stderr='--passes: found pass "fuse-qvk"')
    self.expect(run('--passes=tensor-slice(tp=2', '-'), 2,
                stderr="pass tensor-slice: expected ')'")
    self.assertEqual(run('--bogus', '-').returncode, 2)
    self.assertEqual(run('--help').returncode, 0)

  def test_bad_input_exits_with_3(self):
    self.expect(run('-', text=GOOD.replace('mul', 'mull')), 3,
                stderr="<stdin>:1:38: expected an op (mul?), got 'mull'")
    self.expect(run('-', text=GOOD.replace('%x : f32[T, 6]',
                                           '%x : f32[T, 6] weight @w : f32[6] '
                                           'role(norm)')), 3,
                stderr='<stdin>: graph @g: @w: no node reads this weight')
    self.expect(run('/nowhere/in.ir'), 3, stderr='/nowhere/in.ir')


if __name__ == '__main__':
  unittest.main()
