"""Runs plans of deepslice.

    import deepslice
    with deepslice.load('plan/') as model:
        print(model.generate('Once upon a time', max_new_tokens=32).text)
        for piece in model.generate('Once upon a time', stream=True):
            print(piece, end='', flush=True)

A plan of several ranks runs as threads of this process, on the CPU; started by
torchrun or mpirun it is one rank of them (see Model.follow).
"""
from ._answer import Answer, TokenLogprob
from ._errors import (DeepsliceError, DoesNotFit, InvalidInput, NotFound,
                      RankLost)
from ._library import library_path, version
from ._model import Model, load
from ._tokenizer import Tokenizer

__version__ = version()
__all__ = ['Answer', 'DeepsliceError', 'DoesNotFit', 'InvalidInput', 'Model',
           'NotFound', 'RankLost', 'TokenLogprob', 'Tokenizer', 'library_path',
           'load']
