#!/usr/bin/env python3
"""Builds the wheel of the Python module: the module, libdeepslice and the
libraries that it needs beyond libc and libstdc++, with their licences.

    build_wheel.py --library LIBDEEPSLICE.SO --version X.Y.Z --output FILE|DIR

In a folder the file has the name that pip expects. The same library gives the
same bytes. Standard library only; ldd and readelf tell what is needed.
"""
import argparse
import base64
import csv
import glob
import hashlib
import io
import os
import re
import subprocess
import sysconfig
import zipfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODULE = os.path.join(TOP, 'runtime', 'api', 'python', 'deepslice')
# What every Linux with Python has.
SYSTEM = re.compile(r'(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so\.|ld-linux|'
                    r'linux-vdso)')
# Debian packages whose static libraries or headers are inside libdeepslice.
INSIDE = ('libpcre2-dev', 'libutf8proc-dev', 'libxxhash-dev', 'libssl-dev',
          'libflatbuffers-dev', 'nlohmann-json3-dev')


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True,
                          check=True).stdout


def needed(path):
    """-> names of the libraries that the file at `path` names itself."""
    return re.findall(r'\(NEEDED\).*\[(.+)\]',
                      output_of('readelf', '-d', path))


def libraries(library):
    """-> {name: file}, each behind those that it needs; the library is not."""
    places = {}
    for line in output_of('ldd', library).splitlines():
        m = re.match(r'\s*(\S+) => (\S+)', line)
        if m:
            if m[2] == 'not':
                raise SystemExit(f'build_wheel: {library} needs {m[1]}, which '
                                 'is not found; install it')
            places[m[1]] = m[2]
    done = {}

    def visit(path):
        for name in needed(path):
            if SYSTEM.match(name) or name in done or name not in places:
                continue
            visit(places[name])
            done[name] = places[name]
    visit(library)
    return done


def licences(files):
    """-> {name: bytes}: the project's, and those of what is packed with it."""
    out = {'LICENSE': read(os.path.join(TOP, 'LICENSE'))}
    packages = set(INSIDE)
    for path in files:
        for name in (path, os.path.realpath(path)):
            found = subprocess.run(['dpkg', '-S', name], capture_output=True,
                                   text=True, check=False).stdout
            packages.update(re.findall(r'^([^:,\s]+)', found, re.M))
    for package in packages:
        path = f'/usr/share/doc/{package}/copyright'
        if os.path.exists(path):
            out[f'{package}.copyright'] = read(path)
    return out


def read(path):
    with open(path, 'rb') as f:
        return f.read()


def digest(data):
    raw = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return 'sha256=' + raw.rstrip(b'=').decode()


def write(path, info, files):
    record = io.StringIO()
    rows = csv.writer(record, lineterminator='\n')
    for name, data in files.items():
        rows.writerow([name, digest(data), len(data)])
    rows.writerow([f'{info}/RECORD', '', ''])
    files[f'{info}/RECORD'] = record.getvalue().encode()
    temporary = path + '.part'
    with zipfile.ZipFile(temporary, 'w', zipfile.ZIP_DEFLATED) as z:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            mode = 0o755 if '.so' in name else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            z.writestr(entry, data)
    os.replace(temporary, path)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--library', required=True)
    p.add_argument('--version', required=True)
    p.add_argument('--output', required=True)
    a = p.parse_args()

    tag = 'py3-none-' + re.sub(r'[-.]', '_', sysconfig.get_platform())
    info = f'deepslice-{a.version}.dist-info'
    path = a.output
    if os.path.isdir(path):
        path = os.path.join(path, f'deepslice-{a.version}-{tag}.whl')

    others = libraries(a.library)
    files = {}
    for source in sorted(glob.glob(os.path.join(MODULE, '*.py'))):
        files['deepslice/' + os.path.basename(source)] = read(source)
    files['deepslice/lib/libdeepslice.so.1'] = read(a.library)
    for name in sorted(others):
        files[f'deepslice/lib/{name}'] = read(others[name])
    # The order in which the module opens them.
    files['deepslice/lib/needed.txt'] = ''.join(
        f'{name}\n' for name in others).encode()
    for name, data in sorted(licences(others.values()).items()):
        files[f'{info}/licenses/{name}'] = data
    files[f'{info}/METADATA'] = (
        'Metadata-Version: 2.1\nName: deepslice\n'
        f'Version: {a.version}\n'
        'Summary: Runs plans that dscompile makes of transformer checkpoints\n'
        'License: Apache-2.0\nRequires-Python: >=3.8\n').encode()
    files[f'{info}/WHEEL'] = (
        'Wheel-Version: 1.0\nGenerator: deepslice\n'
        f'Root-Is-Purelib: false\nTag: {tag}\n').encode()
    write(path, info, files)
    print(f'{path}: {os.path.getsize(path) / 1e6:.1f} MB, '
          f'{len(others) + 1} libraries')


main()
