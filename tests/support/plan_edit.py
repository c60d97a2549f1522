"""Changes a plan's tables in place, with digests that hold afterwards.

Standard library only. Fields are named by their ids in schema/plan.fbs.
"""
import hashlib
import json
import os
import re
import struct


class PlanFile:
    """A FlatBuffer: what a field refers to, and bytes to put there."""

    def __init__(self, path):
        self.path = path
        with open(path, 'rb') as f:
            self.data = bytearray(f.read())
        self.root = self.u32(0)

    def write(self):
        with open(self.path, 'wb') as f:
            f.write(self.data)

    def u32(self, at):
        return struct.unpack_from('<I', self.data, at)[0]

    def i32(self, at):
        return struct.unpack_from('<i', self.data, at)[0]

    def _field(self, table, index):
        """The place of what a field refers to: a vector, a string, a table."""
        entries = table - self.i32(table)
        size, = struct.unpack_from('<H', self.data, entries)
        assert 4 + 2 * index < size, f'field {index} is absent'
        offset, = struct.unpack_from('<H', self.data, entries + 4 + 2 * index)
        assert offset, f'field {index} is absent'
        return table + offset + self.u32(table + offset)

    def vector(self, table, index):
        """The first element of a field's vector, which is not empty."""
        at = self._field(table, index)
        assert self.u32(at) > 0, f'field {index} is empty'
        return at + 4

    text = vector

    def table(self, table, index, element):
        """An element of a field's vector of tables."""
        at = self.vector(table, index)
        assert element < self.u32(at - 4), f'field {index} has too few'
        place = at + 4 * element
        return place + self.u32(place)

    def find(self, what, start):
        at = self.data.find(what, start)
        assert at >= 0, f'{what} is not there'
        return at

    def put(self, at, new):
        assert self.data[at:at + len(new)] != new, 'nothing would change'
        self.data[at:at + len(new)] = new

    def put_i32(self, at, value):
        self.put(at, struct.pack('<i', value))


def seal(folder):
    """Makes manifest.json hold for the files as they are now."""
    path = os.path.join(folder, 'manifest.json')
    with open(path, encoding='utf-8') as f:
        text = f.read()
    for row in json.loads(text)['files']:
        with open(os.path.join(folder, row['name']), 'rb') as f:
            digest = hashlib.sha256(f.read()).hexdigest()
        text = text.replace(row['sha256'], digest)
    # Its own digest is of the text with zeros in the digest's place.
    own = re.compile(r'("manifest_sha256": ")[0-9a-f]{64}')
    text, n = own.subn(r'\g<1>' + '0' * 64, text)
    assert n == 1, 'manifest_sha256 is not there'
    digest = hashlib.sha256(text.encode()).hexdigest()
    text = own.sub(r'\g<1>' + digest, text)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)
