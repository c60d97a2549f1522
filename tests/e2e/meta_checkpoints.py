#!/usr/bin/env python3
"""A LLaMA in Meta's own form gives the plan of its Hugging Face folder, however
many ranks saved it.

    meta_checkpoints.py DSCOMPILE
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'support')]
import llama_writer as w  # noqa: E402
from harness import Checks, Scratch, run  # noqa: E402
from plan_weights import Compiler  # noqa: E402


class Test(Compiler):
    def meta(self, model, *options, **how):
        folder = self.folder()
        w.write_meta(folder, model, **how)
        return self.plan(folder, *options) + (folder,)


def check_cuts(t):
    models = [w.Llama(), w.Llama(kv_heads=12, dim=72, head_dim=6, tied=True),
              w.Llama(heads=4, kv_heads=1, head_dim=10, dim=28, layers=1)]
    for model in models:
        hf = t.folder()
        w.write_hf(hf, model)
        for options in ([], ['--tp', '2', '--dtype', 'bf16']):
            want, _ = t.plan(hf, *options)
            for ranks in (1, 2, 3, 4, 12):
                for embedding in ('columns', 'rows'):
                    if (model.heads % ranks or model.inner % ranks
                            or model.vocab % ranks or model.dim % ranks):
                        continue
                    what = f'{vars(model)} {ranks} {embedding} {options}'
                    got, _, _ = t.meta(model, *options, ranks=ranks,
                                       embedding=embedding)
                    t.c.check(got == want != b'', what, 'differs')


def check_params(t):
    """What params.json says is in the program that comes out."""
    c, model = t.c, w.Llama()

    cases = [({}, {}),
             ({'rope_theta': 500000.0},
              {'rope_theta': 500000.0, 'max_position_embeddings': 8192}),
             ({'norm_eps': 1e-06},
              {'rms_norm_eps': 1e-06, 'max_position_embeddings': 2048}),
             ({'rope_theta': 1e6, 'max_seq_len': 77},
              {'rope_theta': 1e6, 'max_position_embeddings': 77}),
             ({'rope_theta': 500000.0, 'use_scaled_rope': True},
              {'rope_theta': 500000.0, 'max_position_embeddings': 131072,
               'rope_scaling': {
                   'rope_type': 'llama3', 'factor': 8.0,
                   'low_freq_factor': 1.0, 'high_freq_factor': 4.0,
                   'original_max_position_embeddings': 8192}}),
             ({'sliding_window': 9, 'max_seq_len': 200},
              {'architectures': ['MistralForCausalLM'],
               'model_type': 'mistral', 'sliding_window': 9,
               'max_position_embeddings': 200})]
    seen = set()
    for params, config in cases:
        hf, meta = t.folder(), t.folder()
        w.write_hf(hf, model, **config)
        w.write_meta(meta, model, ranks=2, params=params)
        programs = []
        for source in (hf, meta):
            ir = t.folder()
            r = run(t.dscompile, source, '--selftest', 'none', '--dump-ir', ir,
                    '-o', t.folder())
            c.check(r.returncode == 0, f'{source} {params}', r.stderr)
            text = ''
            for folder, _, names in sorted(os.walk(ir)):
                for name in sorted(names):
                    with open(os.path.join(folder, name)) as f:
                        text += f.read()
            programs.append(text)
        c.check(programs[0] == programs[1] != '', f'{params}', 'differs')
        c.check(programs[0] not in seen, f'{params}', 'changes nothing')
        seen.add(programs[0])


def check_folders(t):
    c, model = t.c, w.Llama()
    want, err, folder = t.meta(model, ranks=1)
    c.check('4096 positions are taken' in err, 'positions are guessed', err)
    for name in ('params.json', 'consolidated.00.pth'):
        got, _ = t.plan(os.path.join(folder, name))
        c.check(got == want, name, 'differs')
    got, err, _ = t.meta(model, ranks=2, params={'multiple_of': 50})
    c.check(got == want, 'the width of the tensors counts', 'differs')
    c.check('50 wide, but the tensors are 36 wide' in err, 'width', err)
    # Weights of Hugging Face beside Meta's are the ones that are read.
    w.write_hf(folder, model)
    _, err = t.plan(folder)
    c.check('positions are taken' not in err, 'Hugging Face comes first', err)


def main():
    dscompile = os.path.abspath(sys.argv[1])
    c = Checks()
    with Scratch() as scratch:
        t = Test(c, dscompile, scratch)
        check_cuts(t)
        check_params(t)
        check_folders(t)
    c.finish()


main()
