"""A golden model and how close to it an answer must come.

For scripts that run many of them; the bounds are those of the conformance suite.
"""
import json
import math
import os

from harness import read_tensors, write_tensors

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Relative L2 and largest error over the largest value.
BOUNDS = {'fp32': (2e-5, 1e-4), 'fp16': (6e-3, 2e-2), 'bf16': (4e-2, 1.2e-1)}


# Families that encode, or have an encoder beside the decoder.
ENCODERS = {'bert', 'clip', 'distilbert', 'mt5', 'roberta', 't5'}


def encodes(name):
    """Whether it is a case of such a family."""
    return name.split('-')[0] in ENCODERS


def claimed():
    """The decoders that the CPU passes: conformance cases and golden ones."""
    path = os.path.join(TESTS, 'conformance_cases.txt')
    with open(path, encoding='utf-8') as f:
        rows = [l.split() for l in f if l.strip() and not l.startswith('#')]
    golden = os.listdir(os.path.join(TESTS, 'golden_cases', 'models'))
    names = {name for row in rows for name in row[0].split(',')} | set(golden)
    return sorted(name for name in names if not encodes(name))


class Case:
    """A golden case as one padded batch."""

    def __init__(self, folder):
        self.folder = folder
        self.name = os.path.basename(folder)
        with open(os.path.join(folder, 'golden.json'), encoding='utf-8') as f:
            self.meta = json.load(f)
        # Megatron's files hold their arguments themselves.
        config = {}
        path = os.path.join(folder, 'config.json')
        if os.path.exists(path):
            with open(path, encoding='utf-8') as f:
                config = json.load(f)
        rope = (config.get('rope_parameters') or config.get('rope_scaling') or
                {})
        self.keeps_angles = 'dynamic' in (rope.get('rope_type'),
                                          rope.get('type'))
        gold = read_tensors(os.path.join(folder, 'golden.safetensors'))
        self.prompts, self.logits, self.greedy = [], [], []
        if 'input_ids' in gold:
            shape, ids = gold['input_ids']
            mask = gold['attention_mask'][1]
            want_shape, want = gold['logits']
            self.vocab = want_shape[-1]
            for b in range(shape[0]):
                keep = [i for i in range(b * shape[1], (b + 1) * shape[1])
                        if mask[i]]
                self.prompts.append([ids[i] for i in keep])
                self.logits.append([x for i in keep for x in want[
                    i * self.vocab:(i + 1) * self.vocab]])
                self.greedy.append(None)
            return
        for i in range(self.meta.get('prompts', 1)):
            self.prompts.append(gold[f'{i}.input_ids'][1])
            want_shape, want = gold[f'{i}.logits']
            self.vocab = want_shape[-1]
            self.logits.append(want)
            self.greedy.append(gold.get(f'{i}.greedy', (None, None))[1])

    def write_feed(self, path):
        """All prompts, padded on the left."""
        longest = max(len(p) for p in self.prompts)
        ids, mask = [], []
        for p in self.prompts:
            ids += [0] * (longest - len(p)) + p
            mask += [0] * (longest - len(p)) + [1] * len(p)
        shape = [len(self.prompts), longest]
        write_tensors(path, {'input_ids': ('I64', shape, ids),
                             'attention_mask': ('I64', shape, mask)})

    def rows(self, got):
        """A prompt's logits in the fetched batch, for each prompt.

        Without the columns that pad the vocabulary.
        """
        longest = max(len(p) for p in self.prompts)
        width = self.vocab
        padded = self.meta.get('padded_vocab')
        if padded and len(got) == len(self.prompts) * longest * padded:
            width = padded
        for i, p in enumerate(self.prompts):
            end = (i + 1) * longest * width
            row = got[end - len(p) * width:end]
            yield [x for at in range(0, len(row), width)
                   for x in row[at:at + self.vocab]]


def compare(got, want, dtype, band):
    """-> (agrees, relative L2, largest error)."""
    if len(got) != len(want) or not all(math.isfinite(x) for x in got):
        return False, math.inf, math.inf
    num = math.sqrt(sum((a - b) ** 2 for a, b in zip(got, want)))
    den = math.sqrt(sum(b * b for b in want)) or 1.0
    big = max(abs(b) for b in want) or 1.0
    worst = max(abs(a - b) for a, b in zip(got, want)) / big
    l2, most = BOUNDS[dtype]
    if band:
        l2, most = max(l2, 2 * band[0]), max(most, 2.5 * band[1])
    return num / den <= l2 and worst <= most, num / den, worst


def find_cases(roots):
    """-> {name: folder} of the folders that hold a golden answer."""
    return {name: os.path.join(root, name) for root in roots
            for name in os.listdir(root)
            if os.path.exists(os.path.join(root, name, 'golden.safetensors'))}
