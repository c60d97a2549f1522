/* The whole interface on a small plan: library_test PLAN PLAN_OF_TWO_RANKS
 * PLAN_WITHOUT_TOKENIZER. The first two are of one checkpoint, whose tokens are
 * single bytes and three special ones. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "checks.h"

enum { kVocab = 259, kEnd = 258, kNew = 20 };
static const int32_t kPrompt[] = {72, 101, 108, 108, 111};

static ds_model* load(const char* plan) {
  ds_model* model = NULL;
  CHECK(ds_load(plan, NULL, &model) == DS_OK);
  CHECK(strcmp(ds_last_error(), "") == 0);
  return model;
}

static ds_generate_params fresh_params(void) {
  ds_generate_params p;
  ds_init_generate_params(&p, sizeof p);
  p.max_new_tokens = kNew;
  p.ignore_eos = 1;
  return p;
}

static int argmax(const float* row) {
  int best = 0;
  for (int i = 1; i < kVocab; ++i) {
    if (row[i] > row[best]) best = i;
  }
  return best;
}

/* ---- Loading ------------------------------------------------------------ */

static void check_load(const char* plan) {
  ds_model* model = (ds_model*)&model;
  REFUSED(DS_NOT_FOUND, "no-such-plan", ds_load("no-such-plan", NULL, &model));
  CHECK(model == NULL);
  REFUSED(DS_INVALID_ARGUMENT, "folder is NULL", ds_load(NULL, NULL, &model));
  REFUSED(DS_INVALID_ARGUMENT, "model is NULL", ds_load(plan, NULL, NULL));

  ds_load_params p;
  ds_init_load_params(&p, sizeof p);
  CHECK(p.struct_size == sizeof p && p.rank == -1);
  p.device = "toaster";
  REFUSED(DS_INVALID_ARGUMENT, "toaster", ds_load(plan, &p, &model));
  ds_init_load_params(&p, sizeof p);
  p.struct_size = 3;
  REFUSED(DS_INVALID_ARGUMENT, "struct_size is 3", ds_load(plan, &p, &model));
  ds_init_load_params(&p, sizeof p);
  p.threads = -4;
  REFUSED(DS_INVALID_ARGUMENT, "threads is -4", ds_load(plan, &p, &model));
  ds_init_load_params(&p, sizeof p);
  p.init_timeout_seconds = NAN;
  REFUSED(DS_INVALID_ARGUMENT, "init_timeout", ds_load(plan, &p, &model));
  ds_init_load_params(&p, sizeof p);
  p.max_seq_len = 1 << 20;
  REFUSED(DS_FAILED_PRECONDITION, "1048576", ds_load(plan, &p, &model));
  ds_init_load_params(&p, sizeof p);
  p.rank = 5;
  p.world_size = 6;
  REFUSED(DS_FAILED_PRECONDITION, "6", ds_load(plan, &p, &model));

  /* A later version's struct is longer: what is known counts. */
  struct {
    ds_load_params known;
    char later[64];
  } longer;
  memset(&longer, 1, sizeof longer);
  ds_init_load_params(&longer.known, sizeof longer);
  CHECK(longer.later[0] == 0 && longer.later[63] == 0);
  CHECK(longer.known.struct_size == sizeof longer);
  longer.known.threads = 1;
  longer.known.max_batch = 2;
  longer.known.max_seq_len = 40;
  longer.known.device = "cpu";
  CHECK(ds_load(plan, &longer.known, &model) == DS_OK);
  ds_model_info info;
  CHECK(ds_get_model_info(model, &info, sizeof info) == DS_OK);
  CHECK(info.struct_size == sizeof info && info.rank == 0);
  CHECK(info.world_size == 1 && info.vocab_size == kVocab);
  CHECK(info.max_batch == 2 && info.max_seq_len == 40);
  CHECK(info.has_tokenizer == 1 && info.has_chat_template == 1);
  CHECK(strcmp(info.device, "cpu") == 0 && strlen(info.plan_set_id) > 16);
  /* An older version's is shorter. */
  memset(&info, 7, sizeof info);
  CHECK(ds_get_model_info(model, &info, offsetof(ds_model_info, vocab_size)) ==
        DS_OK);
  CHECK(info.world_size == 1 && info.vocab_size == 0x0707070707070707);
  REFUSED(DS_INVALID_ARGUMENT, "model is NULL",
          ds_get_model_info(NULL, &info, sizeof info));
  REFUSED(DS_INVALID_ARGUMENT, "info is NULL",
          ds_get_model_info(model, NULL, 0));
  REFUSED(DS_FAILED_PRECONDITION, "this is rank 0", ds_follow(model));
  ds_free(model);
  ds_free(NULL);
  CHECK(ds_api_version() == DS_API_VERSION);
  CHECK(strlen(ds_version()) >= 5);
}

/* ---- Text --------------------------------------------------------------- */

static void check_text(ds_model* model) {
  const ds_tokenizer* tok = NULL;
  CHECK(ds_get_tokenizer(model, &tok) == DS_OK);
  int32_t* ids = NULL;
  size_t n = 0;
  const ds_text text = {"a\0<|im_end|>\xc3\xa9", 14};
  CHECK(ds_tokenize(tok, text, 0, &ids, &n) == DS_OK);
  CHECK(n == 5 && ids[0] == 97 && ids[1] == 0 && ids[2] == kEnd);
  char* back = NULL;
  size_t size = 0;
  CHECK(ds_detokenize(tok, ids, n, 0, &back, &size) == DS_OK);
  CHECK(size == 14 && memcmp(back, text.data, 15) == 0);
  ds_release(back);
  CHECK(ds_detokenize(tok, ids, n, 1, &back, NULL) == DS_OK);
  CHECK(memcmp(back, "a\0\xc3\xa9", 5) == 0);
  ds_release(back);

  /* Half of a code point is held back, and U+FFFD at the end. */
  ds_decoder* decoder = NULL;
  const char* piece = NULL;
  CHECK(ds_new_decoder(tok, 1, &decoder) == DS_OK);
  CHECK(ds_decode(decoder, ids[3], &piece, &size) == DS_OK && size == 0);
  CHECK(ds_decode(decoder, ids[4], &piece, &size) == DS_OK && size == 2);
  CHECK(strcmp(piece, "\xc3\xa9") == 0);
  CHECK(ds_decode(decoder, ids[3], &piece, &size) == DS_OK && size == 0);
  CHECK(ds_decode(decoder, -1, &piece, &size) == DS_OK);
  CHECK(strcmp(piece, "\xef\xbf\xbd") == 0 && size == 3);
  REFUSED(DS_INVALID_ARGUMENT, "id 259", ds_decode(decoder, 259, &piece, &size));
  CHECK(size == 0);
  ds_free_decoder(decoder);
  ds_free_decoder(NULL);
  ds_release(ids);

  CHECK(ds_tokenize(tok, (ds_text){"<|im_end|>", DS_NUL}, DS_PLAIN_TEXT, &ids,
                    &n) == DS_OK);
  CHECK(n == 10 && ids[0] == '<');
  ds_release(ids);
  CHECK(ds_tokenize(tok, (ds_text){NULL, 0}, 0, &ids, &n) == DS_OK);
  CHECK(n == 0 && ids != NULL);
  ds_release(ids);

  CHECK(ds_token_to_id(tok, (ds_text){"<|im_end|>", DS_NUL}) == kEnd);
  CHECK(ds_token_to_id(tok, (ds_text){"<|im_", DS_NUL}) == -1);
  CHECK(ds_token_to_id(NULL, (ds_text){"a", 1}) == -1);
  int32_t special = 0;
  CHECK(ds_id_to_token(tok, kEnd, &back, &size, &special) == DS_OK);
  CHECK(special == 1 && size == 10 && strcmp(back, "<|im_end|>") == 0);
  ds_release(back);
  CHECK(ds_id_to_token(tok, 'x', &back, NULL, NULL) == DS_OK);
  CHECK(strcmp(back, "x") == 0);
  ds_release(back);
  ds_tokenizer_info info;
  CHECK(ds_get_tokenizer_info(tok, &info, sizeof info) == DS_OK);
  CHECK(info.vocab_size == kVocab && info.eos_id == kEnd && info.bos_id == -1);

  REFUSED(DS_INVALID_ARGUMENT, "0 to 258",
          ds_id_to_token(tok, -1, &back, NULL, NULL));
  const int32_t bad[] = {1, 300};
  REFUSED(DS_INVALID_ARGUMENT, "300",
          ds_detokenize(tok, bad, 2, 0, &back, NULL));
  CHECK(back == NULL);
  REFUSED(DS_INVALID_ARGUMENT, "flags are 8",
          ds_tokenize(tok, text, 8, &ids, &n));
  REFUSED(DS_INVALID_ARGUMENT, "size of 7 bytes",
          ds_tokenize(tok, (ds_text){NULL, 7}, 0, &ids, &n));
  REFUSED(DS_INVALID_ARGUMENT, "tokenizer is NULL",
          ds_tokenize(NULL, text, 0, &ids, &n));
  REFUSED(DS_INVALID_ARGUMENT, "NULL", ds_tokenize(tok, text, 0, NULL, &n));
  REFUSED(DS_INVALID_ARGUMENT, "NULL",
          ds_detokenize(tok, NULL, 2, 0, &back, NULL));
  REFUSED(DS_INVALID_ARGUMENT, "NULL", ds_get_tokenizer(NULL, &tok));
  REFUSED(DS_INVALID_ARGUMENT, "NULL", ds_decode(NULL, 1, &piece, &size));
  REFUSED(DS_INVALID_ARGUMENT, "NULL", ds_new_decoder(NULL, 1, &decoder));
}

static void check_tokenizers(const char* plan, const char* bare) {
  ds_tokenizer* tok = NULL;
  CHECK(ds_open_tokenizer(plan, NULL, NULL, NULL, &tok) == DS_OK);
  CHECK(ds_token_to_id(tok, (ds_text){"<|im_end|>", DS_NUL}) == kEnd);
  ds_free_tokenizer(tok);
  ds_free_tokenizer(NULL);
  REFUSED(DS_NOT_FOUND, "nowhere", ds_open_tokenizer("nowhere.json", NULL, NULL, NULL, &tok));
  CHECK(tok == NULL);
  REFUSED(DS_INVALID_ARGUMENT, "path is NULL",
          ds_open_tokenizer(NULL, NULL, NULL, NULL, &tok));
  REFUSED(DS_FAILED_PRECONDITION, "no tokenizer",
          ds_open_tokenizer(bare, NULL, NULL, NULL, &tok));
}

/* ---- Generation --------------------------------------------------------- */

typedef struct Seen {
  char text[4096];
  size_t size;
  int tokens, ends, stop_after;
  ds_finish finish;
  ds_model* model;  /* not NULL: call it from within */
  ds_status inside;
} Seen;

static int see(void* user, const ds_event* e) {
  Seen* seen = user;
  if (seen->size + e->text_size < sizeof seen->text) {
    memcpy(seen->text + seen->size, e->text, e->text_size);
    seen->size += e->text_size;
  }
  if (e->id >= 0 && !e->is_stop) ++seen->tokens;
  if (e->finish != DS_GOES_ON) {
    ++seen->ends;
    seen->finish = e->finish;
  }
  if (seen->model != NULL) {
    const ds_request request = {{"x", 1}, NULL, 0, NULL};
    seen->inside = ds_generate(seen->model, &request, 1, NULL, NULL, NULL);
    const ds_tokenizer* tok = NULL;
    CHECK(ds_get_tokenizer(seen->model, &tok) == DS_OK);
  }
  return seen->stop_after > 0 && seen->tokens >= seen->stop_after;
}

static void check_generate(ds_model* model) {
  ds_generate_params p = fresh_params();
  const ds_request request = {{"Hello", DS_NUL}, NULL, 0, &p};
  ds_generation* whole = NULL;
  Seen seen = {.finish = DS_GOES_ON};
  CHECK(ds_generate(model, &request, 1, see, &seen, &whole) == DS_OK);
  const ds_answer* a = ds_get_answer(whole, 0, 0);
  CHECK(a != NULL && a->num_ids == kNew && a->finish == DS_LENGTH);
  CHECK(a->prompt_tokens == 5 && a->stop_id == -1 && a->stop_index == -1);
  CHECK(a->error == DS_OK && strcmp(a->error_message, "") == 0);
  CHECK(a->logprobs == NULL && a->first_token_seconds > 0);
  CHECK(seen.tokens == kNew && seen.ends == 1 && seen.finish == DS_LENGTH);
  CHECK(seen.size == a->text_size && a->text[a->text_size] == '\0');
  CHECK(memcmp(seen.text, a->text, seen.size) == 0);
  CHECK(ds_get_answer(whole, 0, 1) == NULL);
  CHECK(ds_get_answer(whole, 1, 0) == NULL && ds_get_answer(NULL, 0, 0) == NULL);

  /* The same from ids, beside other requests; each has its own parameters. */
  ds_generate_params warm = fresh_params(), few = fresh_params();
  warm.temperature = 0.9f;
  warm.top_p = 0.95f;
  warm.seed = 7;
  warm.n = 2;
  warm.logprobs = 3;
  few.max_new_tokens = 4;
  few.num_beams = 3;
  few.n = 2;
  few.want_text = 0;
  const ds_request several[] = {{{NULL, 0}, kPrompt, 5, &p},
                                {{"Hi", 2}, NULL, 0, &warm},
                                {{"Hi", 2}, NULL, 0, &few}};
  ds_generation* batch = NULL;
  CHECK(ds_generate(model, several, 3, NULL, NULL, &batch) == DS_OK);
  const ds_answer* b = ds_get_answer(batch, 0, 0);
  CHECK(memcmp(a->ids, b->ids, kNew * sizeof *a->ids) == 0);
  const ds_answer* one = ds_get_answer(batch, 1, 0);
  const ds_answer* two = ds_get_answer(batch, 1, 1);
  CHECK(one->num_ids == kNew && two->num_ids == kNew);
  CHECK(memcmp(one->ids, two->ids, kNew * sizeof *one->ids) != 0);
  CHECK(one->logprobs[0].num_top == 3 &&
        one->logprobs[0].chosen.id == one->ids[0] &&
        one->logprobs[0].top[0].logprob >= one->logprobs[0].top[1].logprob &&
        one->logprobs[0].top[0].logprob < 0);
  const ds_answer* beam = ds_get_answer(batch, 2, 0);
  CHECK(beam->num_ids == 4 && beam->text == NULL);
  CHECK(beam->score >= ds_get_answer(batch, 2, 1)->score && beam->score < 0);

  /* A stop text ends the answer in front of it. */
  ds_text stop[] = {{"never\xff", DS_NUL}, {a->text + 6, 3}};
  p.stop = stop;
  p.num_stop = 2;
  ds_generation* stopped = NULL;
  memset(&seen, 0, sizeof seen);
  CHECK(ds_generate(model, &request, 1, see, &seen, &stopped) == DS_OK);
  b = ds_get_answer(stopped, 0, 0);
  CHECK(b->finish == DS_STOP && b->stop_index == 1 && b->text_size <= 6);
  CHECK(seen.size == b->text_size && seen.finish == DS_STOP && seen.ends == 1);
  ds_free_generation(stopped);
  p.stop = NULL;
  p.num_stop = 0;

  /* So does a stop id. */
  p.stop_ids = &a->ids[3];
  p.num_stop_ids = 1;
  CHECK(ds_generate(model, &request, 1, NULL, NULL, &stopped) == DS_OK);
  b = ds_get_answer(stopped, 0, 0);
  CHECK(b->finish == DS_STOP && b->stop_id == a->ids[3] && b->num_ids <= 3);
  ds_free_generation(stopped);
  p.stop_ids = NULL;
  p.num_stop_ids = 0;

  /* So does the callback, from within which the model is not run. */
  memset(&seen, 0, sizeof seen);
  seen.stop_after = 5;
  seen.model = model;
  CHECK(ds_generate(model, &request, 1, see, &seen, &stopped) == DS_OK);
  b = ds_get_answer(stopped, 0, 0);
  CHECK(b->finish == DS_STOPPED && b->num_ids == 5 && seen.ends == 1);
  CHECK(memcmp(a->ids, b->ids, 5 * sizeof *a->ids) == 0);
  CHECK(seen.size == b->text_size && seen.finish == DS_STOPPED);
  CHECK(seen.inside == DS_FAILED_PRECONDITION);
  ds_free_generation(stopped);

  CHECK(ds_generate(model, NULL, 0, NULL, NULL, NULL) == DS_OK);
  ds_free_generation(batch);
  ds_free_generation(whole);
  ds_free_generation(NULL);
}

static void check_refusals(ds_model* model, const char* bare) {
  ds_generate_params p = fresh_params();
  ds_request request = {{"Hello", DS_NUL}, NULL, 0, &p};
  ds_generation* none = NULL;
#define GENERATE ds_generate(model, &request, 1, NULL, NULL, &none)
  p.temperature = -2;
  REFUSED(DS_INVALID_ARGUMENT, "temperature is -2", GENERATE);
  p = fresh_params();
  p.top_p = 1.5f;
  REFUSED(DS_INVALID_ARGUMENT, "top-p is 1.5", GENERATE);
  p = fresh_params();
  p.n = -1;
  REFUSED(DS_INVALID_ARGUMENT, "n is -1", GENERATE);
  p.n = 2000000000;
  REFUSED(DS_INVALID_ARGUMENT, "n is 2000000000", GENERATE);
  p = fresh_params();
  p.max_new_tokens = 0;
  REFUSED(DS_INVALID_ARGUMENT, "max_new_tokens is 0", GENERATE);
  p.max_new_tokens = 100000;
  REFUSED(DS_FAILED_PRECONDITION, "100000", GENERATE);
  p.max_new_tokens = INT64_MAX;
  REFUSED(DS_FAILED_PRECONDITION, "9223372036854775807", GENERATE);
  p = fresh_params();
  p.num_beams = 1000;
  REFUSED(DS_FAILED_PRECONDITION, "1000 beams", GENERATE);
  p.num_beams = 3;
  p.temperature = 0.5f;
  REFUSED(DS_INVALID_ARGUMENT, "beam", GENERATE);
  p = fresh_params();
  p.num_beams = 3;
  p.early_stopping = 9;
  REFUSED(DS_INVALID_ARGUMENT, "early_stopping is 9", GENERATE);
  p = fresh_params();
  p.sample = 4;
  REFUSED(DS_INVALID_ARGUMENT, "sample is 4", GENERATE);
  p = fresh_params();
  p.num_stop_ids = 2;
  REFUSED(DS_INVALID_ARGUMENT, "stop_ids is NULL", GENERATE);
  p = fresh_params();
  const ds_logit_bias bias = {kVocab, 1};
  p.logit_bias = &bias;
  p.num_logit_bias = 1;
  REFUSED(DS_INVALID_ARGUMENT, "259", GENERATE);
  p = fresh_params();
  p.struct_size = sizeof p - 8;
  REFUSED(DS_INVALID_ARGUMENT, "struct_size", GENERATE);
  p = fresh_params();

  request = (ds_request){{NULL, 0}, NULL, 0, &p};
  REFUSED(DS_INVALID_ARGUMENT, "no prompt", GENERATE);
  request.prompt = (ds_text){"", 0};
  REFUSED(DS_INVALID_ARGUMENT, "the prompt is empty", GENERATE);
  request.num_ids = 3;
  REFUSED(DS_INVALID_ARGUMENT, "ids is NULL", GENERATE);
  const int32_t bad[] = {1, -7};
  request.ids = bad;
  request.num_ids = 2;
  REFUSED(DS_INVALID_ARGUMENT, "-7", GENERATE);
  CHECK(none == NULL);
  const ds_request two[] = {{{"Hello", DS_NUL}, NULL, 0, &p},
                            {{NULL, 0}, bad, 2, &p}};
  REFUSED(DS_INVALID_ARGUMENT, "prompt 1",
          ds_generate(model, two, 2, NULL, NULL, NULL));
  REFUSED(DS_INVALID_ARGUMENT, "requests is NULL",
          ds_generate(model, NULL, 1, NULL, NULL, NULL));
  REFUSED(DS_INVALID_ARGUMENT, "model is NULL",
          ds_generate(NULL, two, 1, NULL, NULL, NULL));

  /* A plan without a tokenizer answers in ids. */
  model = load(bare);
  request = (ds_request){{"Hello", DS_NUL}, NULL, 0, NULL};
  REFUSED(DS_FAILED_PRECONDITION, "no tokenizer", GENERATE);
  const int32_t ids[] = {3, 4};
  request = (ds_request){{NULL, 0}, ids, 2, &p};
  CHECK(GENERATE == DS_OK);
  CHECK(ds_get_answer(none, 0, 0)->text == NULL);
  CHECK(ds_get_answer(none, 0, 0)->num_ids == kNew);
  ds_free_generation(none);
  const ds_text stop = {"x", 1};
  p.stop = &stop;
  p.num_stop = 1;
  REFUSED(DS_FAILED_PRECONDITION, "stop ids", GENERATE);
#undef GENERATE
  ds_free(model);
}

/* ---- Steps -------------------------------------------------------------- */

static void see_row(void* user, size_t sequence, int64_t position,
                    const float* logits) {
  float* rows = user;
  memcpy(rows + (sequence * 5 + (size_t)position) * kVocab, logits,
         kVocab * sizeof *logits);
}

static void check_steps(ds_model* model) {
  ds_generate_params p = fresh_params();
  const ds_request request = {{NULL, 0}, kPrompt, 5, &p};
  ds_generation* done = NULL;
  CHECK(ds_generate(model, &request, 1, NULL, NULL, &done) == DS_OK);
  const ds_answer* want = ds_get_answer(done, 0, 0);

  /* A greedy sampler of one's own, beside a second sequence that lags. */
  const float* logits = NULL;
  size_t rows = 0;
  const ds_feed prompt = {3, kPrompt, 5, DS_ALL_ROWS};
  CHECK(ds_step(model, &prompt, 1, &logits, &rows) == DS_OK && rows == 5);
  float* all = malloc(2 * 5 * kVocab * sizeof *all);
  memcpy(all, logits, 5 * kVocab * sizeof *all);
  int32_t id = argmax(logits + 4 * kVocab);
  for (size_t i = 0; i < want->num_ids; ++i) {
    CHECK(id == want->ids[i]);
    const ds_feed feeds[] = {{0, &kPrompt[i % 5], 1, DS_NO_ROW},
                             {3, &id, 1, DS_LAST_ROW}};
    CHECK(ds_step(model, feeds, 2, &logits, &rows) == DS_OK && rows == 1);
    id = argmax(logits);
  }
  CHECK(ds_sequence_length(model, 0) == kNew);
  CHECK(ds_sequence_length(model, 3) == 5 + kNew);
  CHECK(ds_sequence_length(model, 99) == -1);

  /* Back to an earlier point, and on from there. */
  CHECK(ds_truncate(model, 3, 5) == DS_OK);
  const ds_feed again = {3, &want->ids[0], 2, DS_LAST_ROW};
  CHECK(ds_step(model, &again, 1, &logits, &rows) == DS_OK && rows == 1);
  CHECK(argmax(logits) == want->ids[2]);
  CHECK(ds_truncate(model, 3, 0) == DS_OK);
  CHECK(ds_sequence_length(model, 3) == 0);
  CHECK(ds_step(model, &prompt, 1, NULL, NULL) == DS_OK);

  const int32_t bad = kVocab;
  ds_feed wrong[] = {{3, kPrompt, 5, DS_LAST_ROW}, {0, &bad, 1, DS_LAST_ROW}};
  REFUSED(DS_INVALID_ARGUMENT, "feed 1: id",
          ds_step(model, wrong, 2, &logits, &rows));
  CHECK(ds_sequence_length(model, 3) == 5 && logits == NULL && rows == 0);
  wrong[1].sequence = 3;
  wrong[1].ids = kPrompt;
  REFUSED(DS_INVALID_ARGUMENT, "sequence 3 again",
          ds_step(model, wrong, 2, NULL, NULL));
  wrong[1].sequence = -1;
  REFUSED(DS_INVALID_ARGUMENT, "sequence -1",
          ds_step(model, wrong, 2, NULL, NULL));
  wrong[1] = (ds_feed){0, kPrompt, 0, DS_LAST_ROW};
  REFUSED(DS_INVALID_ARGUMENT, "no ids", ds_step(model, wrong, 2, NULL, NULL));
  wrong[1] = (ds_feed){0, NULL, 2, DS_LAST_ROW};
  REFUSED(DS_INVALID_ARGUMENT, "NULL", ds_step(model, wrong, 2, NULL, NULL));
  REFUSED(DS_INVALID_ARGUMENT, "can't be cut to 6", ds_truncate(model, 3, 6));
  REFUSED(DS_INVALID_ARGUMENT, "sequence 99", ds_truncate(model, 99, 0));
  REFUSED(DS_INVALID_ARGUMENT, "model is NULL", ds_truncate(NULL, 0, 0));
  CHECK(ds_step(model, NULL, 0, &logits, &rows) == DS_OK && rows == 0);

  /* Longer than one step takes: chunks, and then the ceiling. */
  ds_model_info info;
  CHECK(ds_get_model_info(model, &info, sizeof info) == DS_OK);
  const size_t length = (size_t)info.max_seq_len;
  int32_t* many = calloc(length + 1, sizeof *many);
  const ds_feed whole = {1, many, length, DS_ALL_ROWS};
  CHECK(ds_step(model, &whole, 1, &logits, &rows) == DS_OK && rows == length);
  REFUSED(DS_INVALID_ARGUMENT, "sequence ceiling",
          ds_step(model, &(ds_feed){1, many, 1, DS_NO_ROW}, 1, NULL, NULL));
  CHECK(ds_sequence_length(model, 1) == info.max_seq_len);
  free(many);

  /* Scores are the rows of steps. */
  const ds_ids texts[] = {{kPrompt, 5}, {kPrompt, 3}};
  float* scored = calloc(2 * 5 * kVocab, sizeof *scored);
  CHECK(ds_score(model, texts, 2, see_row, scored) == DS_OK);
  CHECK(memcmp(scored, all, 5 * kVocab * sizeof *all) == 0);
  CHECK(argmax(scored + 7 * kVocab) == argmax(all + 2 * kVocab));
  CHECK(ds_sequence_length(model, 1) == 0);
  const ds_ids empty = {kPrompt, 0};
  REFUSED(DS_INVALID_ARGUMENT, "0 tokens",
          ds_score(model, &empty, 1, see_row, scored));
  REFUSED(DS_INVALID_ARGUMENT, "row is NULL",
          ds_score(model, texts, 1, NULL, NULL));
  free(scored);
  free(all);
  ds_free_generation(done);
}

/* ---- Ranks and threads -------------------------------------------------- */

/* Two ranks, as threads of this process, say what one says. */
static void check_ranks(ds_model* one, const char* plan) {
  ds_load_params params;
  ds_init_load_params(&params, sizeof params);
  ds_model* two = NULL;
  params.device = "cuda";
  CHECK(ds_load(plan, &params, &two) != DS_OK && two == NULL);
  params.device = NULL;
  params.max_batch = 1 << 20;
  REFUSED(DS_FAILED_PRECONDITION, "1048576", ds_load(plan, &params, &two));

  two = load(plan);
  ds_model_info info;
  CHECK(ds_get_model_info(two, &info, sizeof info) == DS_OK);
  CHECK(info.world_size == 2 && info.rank == 0);
  ds_generate_params p = fresh_params();
  const ds_request request = {{"Hello", DS_NUL}, NULL, 0, &p};
  ds_generation *a = NULL, *b = NULL;
  CHECK(ds_generate(one, &request, 1, NULL, NULL, &a) == DS_OK);
  CHECK(ds_generate(two, &request, 1, NULL, NULL, &b) == DS_OK);
  CHECK(strcmp(ds_get_answer(a, 0, 0)->text, ds_get_answer(b, 0, 0)->text) ==
        0);
  const float* logits = NULL;
  size_t rows = 0;
  const ds_feed feed = {0, kPrompt, 5, DS_LAST_ROW};
  CHECK(ds_step(two, &feed, 1, &logits, &rows) == DS_OK && rows == 1);
  CHECK(argmax(logits) == ds_get_answer(a, 0, 0)->ids[0]);
  ds_free_generation(a);
  ds_free_generation(b);
  ds_free(two);
}

typedef struct Worker {
  ds_model* model;
  char text[512];
  int good;
} Worker;

static void* work(void* argument) {
  Worker* w = argument;
  ds_generate_params p = fresh_params();
  const ds_request request = {{"Hello", DS_NUL}, NULL, 0, &p};
  ds_generation* done = NULL;
  w->good = ds_load("nowhere", NULL, &(ds_model*){NULL}) == DS_NOT_FOUND;
  w->good = w->good && strstr(ds_last_error(), "nowhere") != NULL;
  if (ds_generate(w->model, &request, 1, NULL, NULL, &done) != DS_OK) {
    w->good = 0;
    return NULL;
  }
  w->good = w->good && strcmp(ds_last_error(), "") == 0;
  const ds_answer* a = ds_get_answer(done, 0, 0);
  w->good = w->good && a->text_size < sizeof w->text;
  if (w->good) memcpy(w->text, a->text, a->text_size + 1);
  ds_free_generation(done);
  return NULL;
}

static void check_threads(ds_model* model) {
  Worker workers[4];
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) {
    workers[i] = (Worker){.model = model};
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  for (int i = 0; i < 4; ++i) {
    pthread_join(threads[i], NULL);
    CHECK(workers[i].good && strcmp(workers[i].text, workers[0].text) == 0);
  }
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  check_load(argv[1]);
  check_tokenizers(argv[1], argv[3]);
  ds_model* model = load(argv[1]);
  check_text(model);
  check_generate(model);
  check_refusals(model, argv[3]);
  check_steps(model);
  check_ranks(model, argv[2]);
  check_threads(model);
  ds_free(model);
  return finish_checks();
}
