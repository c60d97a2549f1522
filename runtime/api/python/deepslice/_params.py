"""Keyword arguments of generate() as ds_generate_params."""
import ctypes as c

from . import _library as _l
from ._errors import error_of

_NUMBERS = ('max_new_tokens', 'min_new_tokens', 'temperature', 'top_k',
            'top_p', 'min_p', 'typical_p', 'seed', 'repetition_penalty',
            'presence_penalty', 'frequency_penalty', 'n', 'logprobs',
            'num_beams', 'length_penalty')
_FLAGS = {'do_sample': 'sample', 'ignore_eos': 'ignore_eos',
          'ignore_plan_defaults': 'ignore_plan_defaults'}
_LISTS = ('stop_ids', 'suppress_tokens')


def generate_params(params):
    """-> ds_generate_params, and the stop texts."""
    p = _l.struct(_l.GenerateParams, 'ds_init_generate_params')
    stops = []
    for name, value in params.items():
        if value is None:
            continue
        try:
            if name in _NUMBERS:
                setattr(p, name, value)
            elif name in _FLAGS:
                setattr(p, _FLAGS[name], int(bool(value)))
            elif name in _LISTS:
                ids = (c.c_int32 * max(1, len(value)))(*value)
                setattr(p, name, ids)
                setattr(p, 'num_' + name, len(value))
            elif name == 'logit_bias':
                list_ = (_l.LogitBias * max(1, len(value)))(*value.items())
                p.logit_bias, p.num_logit_bias = list_, len(value)
            elif name == 'stop':
                stops = [value] if isinstance(value, str) else list(value)
                texts = (_l.Text * max(1, len(stops)))(*map(_l.text, stops))
                p.stop, p.num_stop = texts, len(stops)
            elif name == 'early_stopping':
                p.early_stopping = {False: 0, True: 1, 'never': 2}[value]
            else:
                known = sorted({*_NUMBERS, *_FLAGS, *_LISTS, 'logit_bias',
                                'stop', 'early_stopping'})
                raise TypeError(f'generate() has no parameter {name!r}; it '
                                f'has {", ".join(known)}')
        except (TypeError, ValueError, KeyError, AttributeError) as e:
            if 'no parameter' in str(e):
                raise
            raise error_of(3, f'{name}: {value!r} is not what it must be '
                           f'({e})') from None
    return p, stops
