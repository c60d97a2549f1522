"""Plans, loaded."""
import array
import collections
import contextlib
import ctypes as c
import json
import queue
import threading
import warnings

from . import _library as _l
from ._answer import answers_of
from ._errors import DeepsliceError, error_of
from ._params import generate_params
from ._tokenizer import Tokenizer


def load(plan, *, device='auto', threads=0, max_batch=0, max_step_tokens=0,
         max_seq_len=0, rank=None, world_size=None, launch_id=None,
         init_timeout=60.0):
    """-> Model of the plan folder.

    device: 'auto', 'cpu', 'cuda', 'cuda:1'. threads: 0 for all cores. The
    max_... are ceilings that decide what memory is taken; 0: the plan's. rank
    and world_size, with launch_id, say which rank this process is where no
    launcher does.
    """
    p = _l.struct(_l.LoadParams, 'ds_init_load_params')
    p.device = str(device).encode()
    p.threads = threads
    p.max_batch, p.max_step_tokens = max_batch, max_step_tokens
    p.max_seq_len = max_seq_len
    if rank is not None:
        p.rank = rank
    if world_size is not None:
        p.world_size = world_size
    if launch_id is not None:
        p.launch_id = launch_id.encode()
    p.init_timeout_seconds = init_timeout
    note = _l.NOTE(lambda _, text: warnings.warn(
        text.decode('utf-8', 'replace'), stacklevel=2))
    p.on_note = note
    handle = c.c_void_p()
    _l.call('ds_load', _l.path_bytes(plan), c.byref(p), c.byref(handle))
    return Model._of(handle, note)


class Model:
    """A loaded plan; close() it, or use it in a `with`.

    Threads may share it: calls that run it wait for each other.
    """

    @classmethod
    def _of(cls, handle, note):
        self = cls.__new__(cls)
        self._handle = handle
        self._note = note  # called as long as the model lives
        self._calls = 0
        self._closing = threading.Condition()
        self._stepping = threading.Lock()  # rows are the next step's to change
        i = _l.info(_l.ModelInfo, 'ds_get_model_info', handle)
        self.rank, self.world_size = i.rank, i.world_size
        self.vocab_size = i.vocab_size
        self.max_batch, self.max_seq_len = i.max_batch, i.max_seq_len
        self.max_step_tokens = i.max_step_tokens
        self.device = i.device.decode()
        self.plan_set_id = i.plan_set_id.decode()
        self.has_chat_template = bool(i.has_chat_template)
        self.has_tokenizer = bool(i.has_tokenizer)
        return self

    def __init__(self):
        raise TypeError('use deepslice.load(plan)')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, '_handle', None):
            self.close()

    def close(self):
        """Frees the model, once calls that run it have returned."""
        with self._closing:
            handle, self._handle = self._handle, None
            self._closing.wait_for(lambda: self._calls == 0)
        if handle:
            _l.lib.ds_free(handle)

    def _open(self):
        if not self._handle:
            raise DeepsliceError('the model is closed', 9)
        return self._handle

    @contextlib.contextmanager
    def _using(self):
        """The handle, which close() leaves alone meanwhile."""
        with self._closing:
            handle = self._open()
            self._calls += 1
        try:
            yield handle
        finally:
            with self._closing:
                self._calls -= 1
                self._closing.notify_all()

    def _run(self, name, *arguments):
        with self._using() as handle:
            _l.call(name, handle, *arguments)

    def follow(self):
        """On ranks above 0: runs what rank 0 runs until it closes its model."""
        self._run('ds_follow')

    # ---- Text ---------------------------------------------------------------

    @property
    def tokenizer(self):
        """Its Tokenizer, which keeps the model from being forgotten."""
        return Tokenizer._of(self)

    def tokenize(self, text, **options):
        """-> ids; see Tokenizer.encode."""
        return self.tokenizer.encode(text, **options)

    def detokenize(self, ids, **options):
        return self.tokenizer.decode(ids, **options)

    def apply_chat_template(self, messages, *, tokenize=True,
                            add_generation_prompt=True, chat_template=None,
                            tools=None, documents=None, **arguments):
        """The prompt of a conversation: a list of {'role', 'content', ...}.

        -> ids, or text with tokenize=False. chat_template: the name of one of
        the plan's templates, or a template ('{% for ...'). Further keyword
        arguments are variables of the template. What messages say is never
        read as a special token.
        """
        p = _l.struct(_l.ChatParams, 'ds_init_chat_params')
        p.add_generation_prompt = int(add_generation_prompt)
        if chat_template is not None:
            is_text = '{' in chat_template or '\n' in chat_template
            setattr(p, 'template_text' if is_text else 'template_name',
                    _l.text(chat_template))
        p.messages_json = _l.text(json.dumps(messages))
        for field, value in (('tools_json', tools),
                             ('documents_json', documents),
                             ('arguments_json', arguments or None)):
            if value is not None:
                setattr(p, field, _l.text(json.dumps(value)))
        ids, count = c.POINTER(c.c_int32)(), c.c_size_t()
        data, size = c.c_void_p(), c.c_size_t()
        self._run('ds_apply_chat_template', None, 0, c.byref(p), c.byref(ids),
                  c.byref(count), c.byref(data), c.byref(size))
        got_ids, got = _l.take_ids(ids, count), _l.take_text(data, size)
        return got_ids if tokenize else got

    # ---- Generation ---------------------------------------------------------

    def generate(self, prompts, *, stream=False, on_token=None, **params):
        """Goes on from a prompt: a str, or a list of ids.

        A list of prompts runs as one batch and gives a list. Each prompt gives
        an Answer, or a list of them with n > 1. stream=True, of one prompt,
        gives an iterator over pieces of text; closing it stops the answer.
        on_token(piece, id, prompt, answer) is called for each token (id None:
        only text); a true result stops that answer.

        Parameters, each with the plan's generation_config.json as its default:
        max_new_tokens, min_new_tokens, do_sample, temperature, top_k, top_p,
        min_p, typical_p, seed, repetition_penalty, presence_penalty,
        frequency_penalty, logit_bias (dict), suppress_tokens, stop (text or
        list), stop_ids, ignore_eos, n, logprobs, num_beams, length_penalty,
        early_stopping (False, True, 'never'), ignore_plan_defaults.
        """
        one = isinstance(prompts, str) or (
            len(prompts) > 0 and isinstance(prompts[0], int))
        if stream:
            if not one or params.get('n', 1) != 1 or on_token is not None:
                raise error_of(3, 'stream=True takes one prompt and one '
                               'answer, and no on_token')
            return self._stream(prompts, params)
        answers = self._generate([prompts] if one else list(prompts), on_token,
                                 params)
        n = params.get('n', 1)
        if n == 1:
            answers = [a[0] if len(a) == 1 else a for a in answers]
        return answers[0] if one else answers

    def chat(self, messages, *, stream=False, on_token=None, tools=None,
             chat_template=None, template_args=None, **params):
        """The answer to a conversation; as generate() of its prompt."""
        ids = self.apply_chat_template(messages, tools=tools,
                                       chat_template=chat_template,
                                       **(template_args or {}))
        return self.generate(ids, stream=stream, on_token=on_token, **params)

    def _generate(self, prompts, on_token, params):
        p, stops = generate_params(params)
        requests = (_l.Request * max(1, len(prompts)))()
        arrays = []  # alive during the call
        for request, prompt in zip(requests, prompts):
            if isinstance(prompt, str):
                request.prompt = _l.text(prompt)
            else:
                ids = _l.ids_array(prompt)
                arrays.append(ids)
                request.ids = c.cast(ids, c.POINTER(c.c_int32))
                request.num_ids = len(ids)
            request.params = c.pointer(p)
        raised = []

        def see(_, event):
            if raised:
                return 1
            e = event.contents
            try:
                return int(bool(on_token(
                    _l.utf8(e.text, e.text_size), None if e.id < 0 else e.id,
                    e.request, e.answer)))
            except BaseException as error:  # it can't pass through C
                raised.append(error)
                return 1
        callback = _l.EVENT(see) if on_token else _l.EVENT()
        generation = c.c_void_p()
        self._run('ds_generate', requests, len(prompts), callback, None,
                  c.byref(generation))
        try:
            if raised:
                raise raised[0]
            return [answers_of(generation, i, stops, p.num_beams > 1)
                    for i in range(len(prompts))]
        finally:
            _l.lib.ds_free_generation(generation)

    def _stream(self, prompt, params):
        pieces = queue.Queue()
        stop = threading.Event()
        end = object()

        def on_token(piece, *_):
            if piece:
                pieces.put(piece)
            return stop.is_set()

        def run():
            try:
                answer = self._generate([prompt], on_token, params)[0][0]
                pieces.put(error_of(13, answer.error) if answer.error else end)
            except BaseException as error:  # told where it is waited for
                pieces.put(error)

        generate_params(params)  # a slip is told at once
        self._open()

        def iterate():
            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            try:
                while True:
                    piece = pieces.get()
                    if piece is end:
                        return
                    if isinstance(piece, BaseException):
                        raise piece
                    yield piece
            finally:
                stop.set()
                thread.join()
        return iterate()

    # ---- Logits -------------------------------------------------------------

    def logits(self, ids):
        """-> a row of vocab_size floats for each position of `ids`.

        Rows are array.array('f'), which numpy reads as it is.
        """
        return self.score([ids])[0]

    def score(self, sequences):
        """logits() of several sequences, together."""
        arrays = [_l.ids_array(s) for s in sequences]
        views = (_l.Ids * max(1, len(arrays)))()
        for view, ids in zip(views, arrays):
            view.ids = c.cast(ids, c.POINTER(c.c_int32))
            view.num_ids = len(ids)
        out = [[] for _ in arrays]
        size = self.vocab_size * c.sizeof(c.c_float)

        def see(_, sequence, position, row):
            values = array.array('f')
            values.frombytes(c.string_at(row, size))
            out[sequence].append(values)
        self._run('ds_score', views, len(arrays), _l.ROW(see), None)
        return out

    def step(self, feeds, rows='last'):
        """Appends ids to sequences: {sequence: ids}. -> {sequence: rows}.

        For samplers of one's own: sequences are numbers below max_batch, and
        hold what was fed to them until generate(), logits() or score() run. A
        row is an array.array('f') of vocab_size logits; `rows` is 'last',
        'all' or 'none'.
        """
        kinds = {'last': 0, 'all': 1, 'none': 2}
        if rows not in kinds:
            raise error_of(3, f'rows is {rows!r}; last, all and none are '
                           'allowed')
        arrays = {s: _l.ids_array(ids) for s, ids in feeds.items()}
        views = (_l.Feed * max(1, len(arrays)))()
        for view, (s, ids) in zip(views, arrays.items()):
            view.sequence, view.num_ids, view.rows = s, len(ids), kinds[rows]
            view.ids = c.cast(ids, c.POINTER(c.c_int32))
        logits, count = c.POINTER(c.c_float)(), c.c_size_t()
        size = self.vocab_size * c.sizeof(c.c_float)
        values = collections.deque()
        with self._using() as handle, self._stepping:
            _l.call('ds_step', handle, views, len(arrays), c.byref(logits),
                    c.byref(count))
            address = c.cast(logits, c.c_void_p).value
            for r in range(count.value):
                row = array.array('f')
                row.frombytes(c.string_at(address + r * size, size))
                values.append(row)
        per = {0: lambda ids: 1, 1: len, 2: lambda ids: 0}[kinds[rows]]
        return {s: [values.popleft() for _ in range(per(ids))]
                for s, ids in arrays.items()}

    def truncate(self, sequence, length=0):
        """Cuts a sequence of step() to its first `length` tokens."""
        self._run('ds_truncate', sequence, length)
