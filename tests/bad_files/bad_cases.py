"""What all generators of bad files share."""
import sys


def main(usage, cases, write_case):
    """GENERATOR FOLDER [NAME...]: writes those cases, or all, into FOLDER."""
    if len(sys.argv) < 2:
        sys.exit(usage)
    for name in sys.argv[2:] or cases:
        write_case(sys.argv[1], name)
