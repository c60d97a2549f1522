#!/usr/bin/env python3
"""Models that no policy names: by the tensors' names, a user's policy, DeepSpeed's
injection.

    unknown_models.py DSCOMPILE DSRUN DSPLAN

Golden cases under another architecture and other names give their reference
logits, or are refused in one line.
"""
import json
import os
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'support'))
from harness import (CASES, Checks, Scratch, read_tensors, relative_l2,  # noqa: E402
                     run, write_tensors)

META_NAMES = [('self_attn.q_proj', 'attention.wq'),
              ('self_attn.k_proj', 'attention.wk'),
              ('self_attn.v_proj', 'attention.wv'),
              ('self_attn.o_proj', 'attention.wo'),
              ('mlp.gate_proj', 'feed_forward.w1'),
              ('mlp.up_proj', 'feed_forward.w3'),
              ('mlp.down_proj', 'feed_forward.w2'),
              ('input_layernorm', 'attention_norm'),
              ('post_attention_layernorm', 'ffn_norm'),
              ('model.embed_tokens', 'tok_embeddings'),
              ('model.norm', 'norm'), ('model.layers', 'blocks'),
              ('lm_head', 'output')]


# What a module is shows in what lies beside it.
ODD_MODULES = [('self_attn.q_proj', 'mix.query'), ('self_attn.k_proj', 'mix.k'),
               ('self_attn.v_proj', 'mix.v'), ('self_attn.o_proj', 'mix.o'),
               ('mlp.gate_proj', 'think.gate'), ('mlp.up_proj', 'think.up'),
               ('mlp.down_proj', 'think.down')]


def rename_tensors(folder, pairs, more=None):
    """Other names for tensors; `more` adds {name: (dtype, shape, bytes)}."""
    path = os.path.join(folder, 'model.safetensors')
    with open(path, 'rb') as f:
        head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        data = f.read()
    out = {}
    for name, t in head.items():
        for a, b in pairs:
            name = name.replace(a, b)
        out[name] = t
    for name, (dtype, shape, raw) in (more or {}).items():
        out[name] = {'dtype': dtype, 'shape': shape,
                     'data_offsets': [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(out).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + data)


def stranger(case, folder, pairs=(), config=None, more=None):
    """A golden case as a model of an unknown architecture."""
    shutil.copytree(os.path.join(CASES, 'models', case), folder)
    path = os.path.join(folder, 'config.json')
    with open(path, encoding='utf-8') as f:
        c = json.load(f)
    c.update({'architectures': ['StrangerForCausalLM'],
              'model_type': 'stranger'})
    c.update(config or {})
    with open(path, 'w', encoding='utf-8') as f:
        json.dump(c, f)
    if pairs or more:
        rename_tensors(folder, pairs, more)


class Tools:
    def __init__(self, c, dscompile, dsrun, dsplan):
        self.c, self.dscompile, self.dsrun, self.dsplan = (c, dscompile, dsrun,
                                                           dsplan)

    def answers(self, source, plan, what, *flags, tps=(1, 2, 3)):
        """Compiles and compares with the golden logits."""
        gold = read_tensors(os.path.join(source, 'golden.safetensors'))
        ids = gold['0.input_ids'][1]
        result = None
        for tp in tps:
            shutil.rmtree(plan, ignore_errors=True)
            result = run(self.dscompile, source, '--dtype', 'fp32', '--tp', tp,
                         '-o', plan, *flags)
            if not self.c.check(result.returncode == 0, (what, tp),
                                result.stderr):
                return result
            write_tensors('in.st', {'input_ids': ('I64', [1, len(ids)], ids)})
            r = run(self.dsrun, plan, '--feed', 'in.st', '--fetch', 'out.st')
            if self.c.check(r.returncode == 0, (what, tp), r.stderr):
                e = relative_l2(read_tensors('out.st')['logits'][1],
                                gold['0.logits'][1])
                self.c.check(e < 2e-5, (what, tp), f'relative L2 {e:.1e}')
        return result

    def refuses(self, source, words, *flags, code=4):
        r = run(self.dscompile, source, '-o', 'refused', *flags)
        lines = [l for l in r.stderr.splitlines() if not l.startswith('note:')]
        self.c.check(r.returncode == code and len(lines) == 1
                     and all(w in lines[0] for w in words)
                     and not os.path.exists('refused'), (source, words), r)


def automatic(t, c):
    stranger('llama-gqa-tied', 'same')
    r = t.answers('same', 'plan', 'the usual names')
    c.check('automatic: row-parallel: model.layers.{i}.self_attn.o_proj.weight'
            in r.stderr, 'the notes say what was decided', r.stderr)
    with open('plan/report.json', encoding='utf-8') as f:
        report = json.load(f)
    c.check(len(report['decisions']) == 5 and report['policy']['weights'],
            'report.json', report.get('decisions'))
    r = run(t.dsplan, 'inspect', 'plan')
    c.check('row-parallel: model.layers.{i}.self_attn.o_proj.weight, '
            'model.layers.{i}.mlp.down_proj.weight' in r.stdout, 'inspect', r)
    r = run(t.dsplan, 'verify', 'plan', '--against', 'same')
    c.check(r.returncode == 0, 'verify', r)
    stranger('llama-gqa-tied', 'meta', META_NAMES)
    t.answers('meta', 'plan', "Meta's names")
    stranger('llama-gqa-tied', 'modules', ODD_MODULES)
    t.answers('modules', 'plan', 'modules of any name', tps=(1, 2))
    stranger('llama-internlm-bias', 'biased')
    t.answers('biased', 'plan', 'biases')

    stranger('gpt2', 'fused')
    t.refuses('fused', ['StrangerForCausalLM', 'nor by the tensors',
                        'c_attn', '--policy'])
    stranger('llama-gqa-tied', 'odd', [('mlp.up_proj', 'mlp.widen')])
    t.refuses('odd', ['mlp.widen.weight" has no name that is known'])
    stranger('llama-gqa-tied', 'scaled', config={'logits_multiplier': 2.5})
    t.refuses('scaled', ['logits_multiplier: found 2.5'])
    stranger('llama-gqa-tied', 'window', config={'sliding_window': 16})
    t.refuses('window', ['sliding_window: found 16'])
    stranger('llama-gqa-tied', 'window_off',
             config={'sliding_window': 16, 'use_sliding_window': False})
    t.answers('window_off', 'plan', 'a window that is off', tps=(2,))
    extra = {'model.layers.1.mlp.extra_norm.weight':
             ('F32', [2], struct.pack('<2f', 1, 1))}
    stranger('llama-gqa-tied', 'differs', more=extra)
    t.refuses('differs', ['extra_norm.weight" is in 1 of 3 layers'])
    stranger('llama-gqa-tied', 'nowhere',
             config={'rope_parameters': None, 'rope_theta': None})
    t.refuses('nowhere', ['show 0 kinds of positions'])


def by_policy(t, c):
    pairs = [('self_attn.q_proj', 'mix.ask'), ('mlp.gate_proj', 'think.gate_a')]
    stranger('llama-gqa-tied', 'own', pairs)
    t.refuses('own', ['mix.ask.weight", "', 'think.gate_a.weight" have no name '
                      'that is known'])
    with open('plan_policy.json', 'w', encoding='utf-8') as f:
        with open('report_same.json', encoding='utf-8') as g:
            policy = json.load(g)['policy']
        text = json.dumps(policy)
        for a, b in pairs:
            text = text.replace(a, b)
        f.write(text)
    r = t.answers('own', 'plan', '--policy', '--policy', 'plan_policy.json')
    c.check('automatic: ' not in r.stderr, 'a policy is not automatic', r.stderr)
    r = run(t.dsplan, 'verify', 'plan', '--against', 'own')
    c.check(r.returncode == 0, 'verify finds the policy in the plan', r)
    with open('broken.json', 'w', encoding='utf-8') as f:
        f.write(text.replace('"attn_out"', '"attn_away"'))
    t.refuses('own', ['broken.json: ', 'attn_away'], '--policy', 'broken.json',
              code=3)
    t.refuses('own', ['missing.json'], '--policy', 'missing.json', code=3)


def by_injection(t, c):
    right = 'LlamaDecoderLayer=self_attn.o_proj,mlp.down_proj'
    known = os.path.join(CASES, 'models', 'llama-gqa-tied')
    r = run(t.dscompile, known, '--tp', 2, '-o', 'inj', '--injection', right)
    c.check(r.returncode == 0 and 'row-parallel linears of llama' in r.stderr,
            'what the policy does', r)
    t.refuses(known, ['mlp.down_proj.weight" is row-parallel, but not named'],
              '--injection', 'LlamaDecoderLayer=self_attn.o_proj')
    t.refuses(known, ['mlp.up_proj.weight" is named, but'], '--injection',
              right + ',mlp.up_proj')
    t.refuses(known, ['no tensor ends in "attn.z.weight"'], '--injection',
              right + ',attn.z')
    for text in ('o_proj', 'A=', '=b', 'A=b,,c', 'A=b=c'):
        t.refuses(known, ['--injection', 'T5Block=SelfAttention.o'],
                  '--injection', text, code=2)
    pairs = [('self_attn.o_proj', 'self_attn.mix_back'),
             ('mlp.down_proj', 'mlp.narrow')]
    stranger('llama-gqa-tied', 'hinted', pairs)
    t.refuses('hinted', ['mlp.narrow.weight", "', 'mix_back.weight" have no name '
                         'that is known'])
    r = t.answers('hinted', 'plan', '--injection', '--injection',
                  'Block=self_attn.mix_back,mlp.narrow')
    c.check('row-parallel: model.layers.{i}.self_attn.mix_back.weight, '
            'model.layers.{i}.mlp.narrow.weight' in r.stderr, 'the hint', r)
    pairs = [(a, b) for a, b in ODD_MODULES if b not in ('mix.o', 'think.down')]
    stranger('llama-gqa-tied', 'hinted_odd', pairs + [
        ('self_attn.o_proj', 'mix.collect'), ('mlp.down_proj', 'think.shrink')])
    t.answers('hinted_odd', 'plan', '--injection in odd modules', '--injection',
              'Petal=mix.collect,think.shrink', tps=(2,))


def main():
    c = Checks()
    t = Tools(c, *(os.path.abspath(p) for p in sys.argv[1:4]))
    with Scratch() as tmp:
        os.chdir(tmp)
        automatic(t, c)
        r = run(t.dscompile, 'same', '-o', 'same_plan')
        shutil.copy('same_plan/report.json', 'report_same.json')
        by_policy(t, c)
        by_injection(t, c)
        os.chdir('/')
    c.finish()


main()
