"""What all generators of bad files share."""
import pathlib
import sys
from typing import Callable, NamedTuple


class Case(NamedTuple):
    write: Callable[[pathlib.Path], None]  # into a folder that is there
    flags: tuple = ()
    source: str = ""  # below that folder; empty: the folder


def registry():
    """-> (the cases by name, the decorator that enters a writer)."""
    cases = {}

    def case(name, flags=(), source=""):
        def register(write):
            assert name not in cases, name
            cases[name] = Case(write, flags, source)
            return write
        return register

    return cases, case


def main(usage, cases, write_case):
    """GENERATOR FOLDER [NAME...]: writes those cases, or all, into FOLDER."""
    if len(sys.argv) < 2:
        sys.exit(usage)
    for name in sys.argv[2:] or cases:
        write_case(sys.argv[1], name)
