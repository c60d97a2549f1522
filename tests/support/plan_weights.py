"""The weights that dscompile makes of a source, for scripts that compare forms
of one model.
"""
import os

from harness import run


def weights(plan):
    """The bytes of all ranks' weights; none where no plan is."""
    out = b''
    for name in sorted(os.listdir(plan)) if os.path.isdir(plan) else ():
        if name.endswith('.weights'):
            with open(os.path.join(plan, name), 'rb') as f:
                out += f.read()
    return out


class Compiler:
    """dscompile into folders of a scratch, that must succeed."""

    def __init__(self, c, dscompile, scratch):
        self.c, self.dscompile, self.scratch = c, dscompile, scratch
        self.count = 0

    def folder(self):
        """A path that is not there yet."""
        self.count += 1
        return os.path.join(self.scratch, str(self.count))

    def run(self, source, *options):
        """-> (the process, the plan's folder); it may fail."""
        plan = self.folder()
        return run(self.dscompile, source, '--selftest', 'none', *options, '-o',
                   plan), plan

    def plan(self, source, *options):
        """The bytes of all ranks' weights, and what was said."""
        r, plan = self.run(source, *options)
        self.c.check(r.returncode == 0, f'{source} {options}', r.stderr)
        return weights(plan), r.stderr
