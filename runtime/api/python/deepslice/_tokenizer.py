"""Text to ids and back."""
import contextlib
import ctypes as c

from . import _library as _l


class Tokenizer:
    """A model's (Model.tokenizer), or that of a plan or checkpoint on disk.

    May be used by several threads.
    """

    def __init__(self, path, pattern=None):
        """`path`: a plan folder, or a checkpoint's folder or tokenizer file.

        `pattern` names how a file of ranks (*.tiktoken) cuts its text.
        """
        self._owned = c.c_void_p()
        _l.call('ds_open_tokenizer', _l.path_bytes(path),
                pattern.encode() if pattern else None, _l.NOTE(), None,
                c.byref(self._owned))
        self._handle = self._owned
        self._keep = None

    @classmethod
    def _of(cls, model):
        out = cls.__new__(cls)
        out._owned, out._handle, out._keep = None, c.c_void_p(), model
        with model._using() as handle:
            _l.call('ds_get_tokenizer', handle, c.byref(out._handle))
        return out

    def __del__(self):
        if getattr(self, '_owned', None):
            _l.lib.ds_free_tokenizer(self._owned)
            self._owned = self._handle = None

    @contextlib.contextmanager
    def _using(self):
        if self._keep is None:
            yield self._handle
            return
        with self._keep._using():
            yield self._handle

    def _call(self, name, *arguments):
        with self._using() as handle:
            _l.call(name, handle, *arguments)

    def _info(self):
        with self._using() as handle:
            return _l.info(_l.TokenizerInfo, 'ds_get_tokenizer_info', handle)

    @property
    def vocab_size(self):
        return self._info().vocab_size

    @property
    def bos_id(self):
        """None where there is none."""
        i = self._info().bos_id
        return None if i < 0 else i

    @property
    def eos_id(self):
        i = self._info().eos_id
        return None if i < 0 else i

    def encode(self, text, add_special_tokens=True, parse_special=True):
        """-> ids. parse_special=False: special tokens' text stays text."""
        ids, count = c.POINTER(c.c_int32)(), c.c_size_t()
        self._call('ds_tokenize', _l.text(text),
                   (not add_special_tokens) | (not parse_special) << 1,
                   c.byref(ids), c.byref(count))
        return _l.take_ids(ids, count)

    def decode(self, ids, skip_special_tokens=True):
        array = _l.ids_array(ids)
        data, size = c.c_void_p(), c.c_size_t()
        self._call('ds_detokenize', array, len(array),
                   int(skip_special_tokens), c.byref(data), c.byref(size))
        return _l.take_text(data, size)

    def token_to_id(self, token):
        """None for what is no token."""
        with self._using() as handle:
            i = _l.lib.ds_token_to_id(handle, _l.text(token))
        return None if i < 0 else i

    def id_to_token(self, i):
        data, size = c.c_void_p(), c.c_size_t()
        self._call('ds_id_to_token', i, c.byref(data), c.byref(size), None)
        return _l.take_text(data, size)
