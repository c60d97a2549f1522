"""What the script tests share: running the tools, tensors in files, counting.

Standard library only. A test script makes a Checks, calls check() for each
thing that must hold, and exits with finish().
"""
import array
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CASES = os.path.join(TOP, 'tests', 'golden_cases')


SKIPPED = 77  # the exit status that meson takes for a test left out


class Checks:
    """Counts what held; prints what did not."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, ok, what, detail=''):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print(f'FAILED: {what}: {detail}', flush=True)
        return ok

    @staticmethod
    def left_out(result, what):
        """Whether a compile for GPUs found no NVRTC here; says so.

        The rest of the product does without.
        """
        missing = (result.returncode == 4
                   and 'libnvrtc: not found' in result.stderr)
        if missing:
            print(f'left out: {what}: no NVRTC here; tools/setup.sh installs it',
                  flush=True)
        return missing

    def finish(self):
        print(f'{self.passed} passed, {self.failed} failed')
        sys.exit(1 if self.failed or not self.passed else 0)


class Scratch:
    """A folder for the length of a with block."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix='deepslice-')
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def run(*cmd, timeout=120, **kw):
    """-> CompletedProcess with text output; never raises on exit status."""
    return subprocess.run([str(c) for c in cmd], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors='replace', timeout=timeout,
                          check=False, **kw)


def read_tensors(path):
    """safetensors file -> {name: (shape, list)} for F32, I64 and I32."""
    codes = {'F32': 'f', 'I64': 'q', 'I32': 'i'}
    with open(path, 'rb') as f:
        head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        data = f.read()
    out = {}
    for name, t in head.items():
        if name == '__metadata__':
            continue
        begin, end = t['data_offsets']
        values = array.array(codes[t['dtype']])
        values.frombytes(data[begin:end])
        out[name] = (t['shape'], values.tolist())
    return out


def write_tensors(path, tensors):
    """{name: (dtype, shape, list)} -> safetensors file."""
    codes = {'F32': 'f', 'I64': 'q', 'I32': 'i'}
    head, body = {}, b''
    for name, (dtype, shape, values) in tensors.items():
        raw = array.array(codes[dtype], values).tobytes()
        head[name] = {'dtype': dtype, 'shape': shape,
                      'data_offsets': [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(head).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + body)


def relative_l2(got, want):
    """Infinite when a value is not finite or lengths differ."""
    if len(got) != len(want) or not all(math.isfinite(x) for x in got):
        return math.inf
    num = math.sqrt(sum((a - b) ** 2 for a, b in zip(got, want)))
    return num / (math.sqrt(sum(b * b for b in want)) or 1.0)
