"""deepslice.h for ctypes: its structs, its functions, and where the library is.

The library is the one in the wheel (lib/), else that of DEEPSLICE_LIBRARY, else
the system's.
"""
import ctypes as c
import os

from ._errors import DeepsliceError, error_of

API_VERSION = 1
NOT_GIVEN = -2**31
NUL = c.c_size_t(-1).value


class Text(c.Structure):
    _fields_ = [('data', c.c_char_p), ('size', c.c_size_t)]


def text(string):
    """A ds_text of a str or bytes; no text of None. It holds the bytes."""
    if string is None:
        return Text(None, 0)
    data = string if isinstance(string, bytes) else string.encode(
        'utf-8', 'surrogatepass')
    return Text(data, len(data))


NOTE = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p)


class LoadParams(c.Structure):
    _fields_ = [('struct_size', c.c_size_t), ('device', c.c_char_p),
                ('threads', c.c_int32), ('max_batch', c.c_int64),
                ('max_step_tokens', c.c_int64), ('max_seq_len', c.c_int64),
                ('rank', c.c_int32), ('world_size', c.c_int32),
                ('local_rank', c.c_int32), ('launch_id', c.c_char_p),
                ('init_timeout_seconds', c.c_double), ('share_gpu', c.c_int32),
                ('on_note', NOTE), ('user', c.c_void_p)]


class ModelInfo(c.Structure):
    _fields_ = [('struct_size', c.c_size_t), ('rank', c.c_int32),
                ('world_size', c.c_int32), ('vocab_size', c.c_int64),
                ('max_batch', c.c_int64), ('max_step_tokens', c.c_int64),
                ('max_seq_len', c.c_int64), ('has_tokenizer', c.c_int32),
                ('has_chat_template', c.c_int32), ('device', c.c_char_p),
                ('plan_set_id', c.c_char_p)]


class TokenizerInfo(c.Structure):
    _fields_ = [('struct_size', c.c_size_t), ('vocab_size', c.c_int32),
                ('bos_id', c.c_int32), ('eos_id', c.c_int32)]


class LogitBias(c.Structure):
    _fields_ = [('id', c.c_int32), ('bias', c.c_float)]


class GenerateParams(c.Structure):
    _fields_ = [
        ('struct_size', c.c_size_t), ('ignore_plan_defaults', c.c_int32),
        ('max_new_tokens', c.c_int64), ('min_new_tokens', c.c_int64),
        ('sample', c.c_int32), ('temperature', c.c_float),
        ('top_k', c.c_int32), ('top_p', c.c_float), ('min_p', c.c_float),
        ('typical_p', c.c_float), ('seed', c.c_uint64),
        ('repetition_penalty', c.c_float), ('presence_penalty', c.c_float),
        ('frequency_penalty', c.c_float), ('logit_bias', c.POINTER(LogitBias)),
        ('num_logit_bias', c.c_size_t),
        ('suppress_tokens', c.POINTER(c.c_int32)),
        ('num_suppress_tokens', c.c_size_t), ('stop', c.POINTER(Text)),
        ('num_stop', c.c_size_t), ('stop_ids', c.POINTER(c.c_int32)),
        ('num_stop_ids', c.c_size_t), ('ignore_eos', c.c_int32),
        ('n', c.c_int32), ('logprobs', c.c_int32), ('num_beams', c.c_int32),
        ('length_penalty', c.c_float), ('early_stopping', c.c_int32),
        ('want_text', c.c_int32)]


class Request(c.Structure):
    _fields_ = [('prompt', Text), ('ids', c.POINTER(c.c_int32)),
                ('num_ids', c.c_size_t), ('params', c.POINTER(GenerateParams))]


class TokenLogprob(c.Structure):
    _fields_ = [('id', c.c_int32), ('logprob', c.c_float)]


class Logprobs(c.Structure):
    _fields_ = [('chosen', TokenLogprob), ('top', c.POINTER(TokenLogprob)),
                ('num_top', c.c_size_t)]


class Event(c.Structure):
    _fields_ = [('request', c.c_size_t), ('answer', c.c_int32),
                ('id', c.c_int32), ('is_stop', c.c_int32),
                ('text', c.POINTER(c.c_char)), ('text_size', c.c_size_t),
                ('logprobs', c.POINTER(Logprobs)), ('finish', c.c_int)]


EVENT = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(Event))


class AnswerView(c.Structure):
    _fields_ = [('ids', c.POINTER(c.c_int32)), ('num_ids', c.c_size_t),
                ('text', c.POINTER(c.c_char)), ('text_size', c.c_size_t),
                ('finish', c.c_int), ('stop_id', c.c_int32),
                ('stop_index', c.c_int32), ('logprobs', c.POINTER(Logprobs)),
                ('score', c.c_double), ('error', c.c_int),
                ('error_message', c.c_char_p), ('prompt_tokens', c.c_size_t),
                ('first_token_seconds', c.c_double),
                ('other_tokens_seconds', c.c_double)]


class Message(c.Structure):
    _fields_ = [('role', Text), ('content', Text)]


class ChatParams(c.Structure):
    _fields_ = [('struct_size', c.c_size_t),
                ('add_generation_prompt', c.c_int32), ('template_name', Text),
                ('template_text', Text),
                ('messages_json', Text), ('tools_json', Text),
                ('documents_json', Text), ('arguments_json', Text)]


class Feed(c.Structure):
    _fields_ = [('sequence', c.c_int32), ('ids', c.POINTER(c.c_int32)),
                ('num_ids', c.c_size_t), ('rows', c.c_int)]


class Ids(c.Structure):
    _fields_ = [('ids', c.POINTER(c.c_int32)), ('num_ids', c.c_size_t)]


ROW = c.CFUNCTYPE(None, c.c_void_p, c.c_size_t, c.c_int64,
                  c.POINTER(c.c_float))

_P = c.c_void_p
_OUT_IDS = [c.POINTER(c.POINTER(c.c_int32)), c.POINTER(c.c_size_t)]
_OUT_TEXT = [c.POINTER(_P), c.POINTER(c.c_size_t)]

# Name -> (result, arguments). A result of `int` is a ds_status.
FUNCTIONS = {
    'ds_api_version': (c.c_uint32, []),
    'ds_version': (c.c_char_p, []),
    'ds_last_error': (c.c_char_p, []),
    'ds_release': (None, [_P]),
    'ds_init_load_params': (None, [c.POINTER(LoadParams), c.c_size_t]),
    'ds_load': (int, [c.c_char_p, c.POINTER(LoadParams), c.POINTER(_P)]),
    'ds_free': (None, [_P]),
    'ds_get_model_info': (int, [_P, c.POINTER(ModelInfo), c.c_size_t]),
    'ds_follow': (int, [_P]),
    'ds_get_tokenizer': (int, [_P, c.POINTER(_P)]),
    'ds_open_tokenizer': (int, [c.c_char_p, c.c_char_p, NOTE, _P,
                                c.POINTER(_P)]),
    'ds_free_tokenizer': (None, [_P]),
    'ds_tokenize': (int, [_P, Text, c.c_uint32, *_OUT_IDS]),
    'ds_detokenize': (int, [_P, c.POINTER(c.c_int32), c.c_size_t, c.c_int32,
                            *_OUT_TEXT]),
    'ds_get_tokenizer_info': (int, [_P, c.POINTER(TokenizerInfo),
                                    c.c_size_t]),
    'ds_token_to_id': (c.c_int32, [_P, Text]),
    'ds_id_to_token': (int, [_P, c.c_int32, *_OUT_TEXT,
                             c.POINTER(c.c_int32)]),
    'ds_new_decoder': (int, [_P, c.c_int32, c.POINTER(_P)]),
    'ds_decode': (int, [_P, c.c_int32, c.POINTER(c.POINTER(c.c_char)),
                        c.POINTER(c.c_size_t)]),
    'ds_free_decoder': (None, [_P]),
    'ds_init_chat_params': (None, [c.POINTER(ChatParams), c.c_size_t]),
    'ds_apply_chat_template': (int, [_P, c.POINTER(Message), c.c_size_t,
                                     c.POINTER(ChatParams), *_OUT_IDS,
                                     *_OUT_TEXT]),
    'ds_init_generate_params': (None, [c.POINTER(GenerateParams),
                                       c.c_size_t]),
    'ds_generate': (int, [_P, c.POINTER(Request), c.c_size_t, EVENT, _P,
                          c.POINTER(_P)]),
    'ds_get_answer': (c.POINTER(AnswerView), [_P, c.c_size_t, c.c_size_t]),
    'ds_free_generation': (None, [_P]),
    'ds_step': (int, [_P, c.POINTER(Feed), c.c_size_t,
                      c.POINTER(c.POINTER(c.c_float)), c.POINTER(c.c_size_t)]),
    'ds_truncate': (int, [_P, c.c_int32, c.c_int64]),
    'ds_sequence_length': (c.c_int64, [_P, c.c_int32]),
    'ds_score': (int, [_P, c.POINTER(Ids), c.c_size_t, ROW, _P]),
}


def library_path():
    """The library's file, or its name where the system is to find it."""
    bundled = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'lib')
    here = os.path.join(bundled, 'libdeepslice.so.1')
    if os.path.exists(here):
        return here
    return os.environ.get('DEEPSLICE_LIBRARY', 'libdeepslice.so.1')


def _open():
    path = library_path()
    folder = os.path.dirname(path)
    needed = os.path.join(folder, 'needed.txt')
    if folder and os.path.exists(needed):
        # In the order in which they need each other, the library last.
        with open(needed, encoding='utf-8') as f:
            for name in f.read().split():
                c.CDLL(os.path.join(folder, name))
    try:
        library = c.CDLL(path)
    except OSError as e:
        raise ImportError(
            f'deepslice: {e}; install a wheel that holds the library, or name '
            'it in DEEPSLICE_LIBRARY') from None
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is None:
            raise ImportError(f'deepslice: {path} has no {name}; it is of '
                              'another version than this module')
        function.restype = c.c_int if result is int else result
        function.argtypes = arguments
    if library.ds_api_version() < API_VERSION:
        raise ImportError(f'deepslice: {path} has interface version '
                          f'{library.ds_api_version()}, not {API_VERSION}')
    return library


lib = _open()


def version():
    return lib.ds_version().decode()


def last_error():
    return lib.ds_last_error().decode('utf-8', 'replace')


def call(name, *arguments):
    """Calls a function that gives a ds_status; an error is raised."""
    status = getattr(lib, name)(*arguments)
    if status != 0:
        raise error_of(status, last_error())


def struct(kind, init):
    """A struct with the library's defaults."""
    out = kind()
    getattr(lib, init)(c.byref(out), c.sizeof(out))
    return out


def info(kind, name, handle):
    out = kind()
    call(name, handle, c.byref(out), c.sizeof(out))
    return out


def ids_array(ids):
    try:
        return (c.c_int32 * len(ids))(*ids)
    except (TypeError, ValueError) as e:
        raise error_of(3, f'ids: {e}; integers are needed') from None


def take_ids(ids, count):
    """The list in an array that the library gave, which is released."""
    try:
        return ids[:count.value]
    finally:
        lib.ds_release(ids)


def take_text(data, size):
    try:
        return c.string_at(data.value, size.value).decode('utf-8', 'replace')
    finally:
        lib.ds_release(data)


def utf8(data, size):
    return c.string_at(data, size).decode('utf-8', 'replace') if size else ''


def path_bytes(path):
    data = os.fsencode(path)
    if b'\0' in data:
        raise DeepsliceError('a path holds a NUL', 3)
    return data
