#!/usr/bin/env python3
"""Checks that #include lines follow the layers: each folder sees only the ones
named for it. Prints each line that does not; exit status 1 if there is one.
"""
import os
import re
import sys

# Folder -> folders whose headers it may include. Longest prefix wins.
ALLOWED = {
    'schema': {'schema'},
    'kernels': {'schema', 'kernels'},
    'ir': {'schema', 'ir'},
    'passes': {'schema', 'ir', 'kernels', 'passes'},
    'runtime/text': {'schema', 'runtime/text'},
    'runtime': {'schema', 'kernels', 'runtime/text', 'runtime'},
    'compiler': {'schema', 'ir', 'kernels', 'passes', 'runtime/text',
                 'compiler'},
    'tools': None,   # on top of everything
    'tests': None,
}


def layer(path):
    names = [f for f in ALLOWED if path == f or path.startswith(f + '/')]
    return max(names, key=len) if names else None


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    bad = checked = 0
    for folder in ALLOWED:
        if '/' in folder:
            continue
        for parent, _, files in os.walk(os.path.join(root, folder)):
            for name in sorted(files):
                if not name.endswith(('.cc', '.h', '.cuh', '.inc')):
                    continue
                path = os.path.relpath(os.path.join(parent, name), root)
                # Tests reach into tests/support; what they test does not.
                test = name.endswith('_test.cc') or '/testing/' in path
                allowed = ALLOWED[layer(path)]
                text = open(os.path.join(root, path), encoding='utf-8').read()
                for n, line in enumerate(text.splitlines(), 1):
                    m = re.match(r'#include "([^"]+)"', line)
                    if not m or allowed is None:
                        continue
                    target = layer(os.path.dirname(m[1]))
                    checked += 1
                    if target is None or target in allowed:
                        continue
                    if test and target == 'tests':
                        continue
                    print(f'{path}:{n}: {layer(path)} may not include '
                          f'{target} ({m[1]})')
                    bad += 1
    print(f'layers: {checked} includes checked, {bad} wrong')
    return 1 if bad else 0


sys.exit(main())
