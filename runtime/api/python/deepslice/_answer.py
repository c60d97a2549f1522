"""What comes of a prompt."""
import dataclasses

from . import _library as _l

_FINISH = {1: 'stop', 2: 'length', 3: 'cancelled', 4: 'error'}


@dataclasses.dataclass(frozen=True)
class TokenLogprob:
    """A token of an answer, how likely it was, and what else was likely."""
    id: int
    logprob: float
    top: tuple = ()  # of (id, logprob), the likeliest first


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came of a prompt."""
    text: str  # None where the plan holds no tokenizer
    ids: list
    finish_reason: str  # 'stop', 'length', 'cancelled', 'error'
    stop_reason: object  # the stop text or id that ended it, or None
    prompt_tokens: int
    logprobs: list  # of TokenLogprob, or None
    score: float  # of beam search, or None
    error: str  # with finish_reason 'error', else None
    first_token_seconds: float
    other_tokens_seconds: float

    def __str__(self):
        return self.text if self.text is not None else repr(self.ids)


def _logprob(view):
    return TokenLogprob(view.chosen.id, view.chosen.logprob,
                        tuple((t.id, t.logprob)
                              for t in view.top[:view.num_top]))


def answers_of(generation, request, stops, beams):
    out = []
    while True:
        view = _l.lib.ds_get_answer(generation, request, len(out))
        if not view:
            return out
        a = view.contents
        stop = (stops[a.stop_index] if a.stop_index >= 0
                else a.stop_id if a.stop_id >= 0 else None)
        out.append(Answer(
            text=_l.utf8(a.text, a.text_size) if a.text else None,
            ids=a.ids[:a.num_ids], finish_reason=_FINISH[a.finish],
            stop_reason=stop, prompt_tokens=a.prompt_tokens,
            logprobs=[_logprob(v) for v in a.logprobs[:a.num_ids]]
            if a.logprobs else None,
            score=a.score if beams else None,
            error=a.error_message.decode('utf-8', 'replace')
            if a.error else None,
            first_token_seconds=a.first_token_seconds,
            other_tokens_seconds=a.other_tokens_seconds))
