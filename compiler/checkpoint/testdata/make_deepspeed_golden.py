#!/usr/bin/env python3
"""Lets DeepSpeed train and save small models, and writes what they are whole.

    make_deepspeed_golden.py FOLDER

Needs torch, safetensors and deepspeed (pip install; made with torch 2.15 and
deepspeed 0.19.8) and no GPU. Every FOLDER/CASE is a checkpoint folder as save_checkpoint
leaves it, a config.json of nothing, and whole.safetensors: the tensors as
DeepSpeed's own zero_to_fp32 joins them. The model_states of zero2 lose their
weights for it.
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys

# Stage of ZeRO and ranks.
CASES = {'zero3': (3, 3), 'zero2': (2, 2)}


def odd_model(torch):
    """Tied, frozen and small tensors of shapes that no number of ranks
    divides, and a buffer."""
    nn = torch.nn

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(7, 5)
            self.norm = nn.LayerNorm(5)
            self.up = nn.Linear(5, 11)
            self.still = nn.Linear(11, 5)
            self.head = nn.Linear(5, 7, bias=False)
            self.head.weight = self.words.weight
            self.register_buffer('places', torch.arange(3.0))
            for p in self.still.parameters():
                p.requires_grad = False

        def forward(self, input_ids):
            x = self.norm(self.words(input_ids))
            return self.head(x + self.still(self.up(x).relu())).square().mean()
    return Odd()


def train(case, folder):
    import deepspeed
    import torch
    stage, _ = CASES[case]
    deepspeed.init_distributed(dist_backend='gloo')
    torch.manual_seed(1)
    model = odd_model(torch)
    for p in model.parameters():
        torch.nn.init.normal_(p)
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [{'params': [p for p in trained if p.dim() > 1]},
              {'params': [p for p in trained if p.dim() == 1]}]
    config = {'train_micro_batch_size_per_gpu': 1,
              'zero_allow_untested_optimizer': True,
              'zero_optimization': {'stage': stage, 'sub_group_size': 40,
                                    'stage3_param_persistence_threshold': 6}}
    engine = deepspeed.initialize(
        model=model, config=config,
        optimizer=torch.optim.SGD(groups, lr=0.1))[0]
    engine.backward(engine(torch.tensor([[1, 5, 3]])))
    engine.step()
    engine.save_checkpoint(folder)


def whole(case, folder):
    import torch
    from deepspeed.utils.zero_to_fp32 import \
        get_fp32_state_dict_from_zero_checkpoint as join
    from safetensors.torch import save_file
    step = folder / (folder / 'latest').read_text().strip()
    if case == 'zero2':
        path = step / 'mp_rank_00_model_states.pt'
        state = torch.load(path, weights_only=False)
        state['module'] = {n: state['module'][n]
                           for n in state['buffer_names']}
        torch.save(state, path)
    out = join(str(folder))
    save_file({n: x.float().clone().contiguous() for n, x in out.items()},
              folder / 'whole.safetensors')


def main():
    os.environ['DS_ACCELERATOR'] = 'cpu'
    folder = pathlib.Path(sys.argv[1]).resolve()
    if len(sys.argv) == 3:
        return train(sys.argv[2], str(folder))
    for case, (_, ranks) in CASES.items():
        to = folder / case
        shutil.rmtree(to, ignore_errors=True)
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            port = s.getsockname()[1]
        running = [subprocess.Popen(
            [sys.executable, __file__, str(to), case],
            env={**os.environ, 'RANK': str(r), 'LOCAL_RANK': str(r),
                 'WORLD_SIZE': str(ranks), 'LOCAL_SIZE': str(ranks),
                 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(port),
                 'OMP_NUM_THREADS': '1'}) for r in range(ranks)]
        assert not any(p.wait() for p in running), case
        for script in to.glob('zero_to_*.py'):
            script.unlink()
        (to / 'config.json').write_text('{}\n')
        whole(case, to)
    return None


main()
