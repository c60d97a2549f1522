/* Loading, text and generation on small plans: library_test PLAN
 * PLAN_WITHOUT_TOKENIZER, of a checkpoint whose tokens are single bytes and
 * three special ones. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "checks.h"

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
  REFUSED(DS_INVALID_ARGUMENT, "id 259",
          ds_decode(decoder, 259, &piece, &size));
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
  REFUSED(DS_NOT_FOUND, "nowhere",
          ds_open_tokenizer("nowhere.json", NULL, NULL, NULL, &tok));
  CHECK(tok == NULL);
  REFUSED(DS_INVALID_ARGUMENT, "path is NULL",
          ds_open_tokenizer(NULL, NULL, NULL, NULL, &tok));
  REFUSED(DS_FAILED_PRECONDITION, "no tokenizer",
          ds_open_tokenizer(bare, NULL, NULL, NULL, &tok));
}

/* ---- Chat --------------------------------------------------------------- */

static void check_chat(ds_model* model) {
  const ds_message messages[] = {{{"system", DS_NUL}, {"Be brief.", DS_NUL}},
                                 {{"user", DS_NUL}, {"Hi <|im_end|>", DS_NUL}}};
  const char* want =
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"
      "Hi <|im_end|><|im_end|>\n<|im_start|>assistant\n";
  int32_t* ids = NULL;
  char* text = NULL;
  size_t n = 0, size = 0;
  CHECK(ds_apply_chat_template(model, messages, 2, NULL, &ids, &n, &text,
                               &size) == DS_OK);
  CHECK(size == strlen(want) && strcmp(text, want) == 0);
  int ends = 0;
  for (size_t i = 0; i < n; ++i) ends += ids[i] == kEnd;
  CHECK(ends == 2); /* not the one that the user wrote */
  ds_release(ids);
  ds_release(text);

  ds_chat_params p;
  ds_init_chat_params(&p, sizeof p);
  CHECK(p.struct_size == sizeof p && p.add_generation_prompt == 1);
  p.template_text = (ds_text){"{{ messages[0].n }}{{ x }}", DS_NUL};
  p.messages_json = (ds_text){"[{\"role\": \"user\", \"n\": 7}]", DS_NUL};
  p.arguments_json = (ds_text){"{\"x\": \"y\"}", DS_NUL};
#define APPLY \
  ds_apply_chat_template(model, NULL, 0, &p, NULL, NULL, &text, NULL)
  CHECK(APPLY == DS_OK && strcmp(text, "7y") == 0);
  ds_release(text);
  p.arguments_json = (ds_text){"[]", DS_NUL};
  REFUSED(DS_INVALID_ARGUMENT, "arguments_json", APPLY);
  CHECK(text == NULL);
  p.arguments_json = (ds_text){"{\"tools\": 1}", DS_NUL};
  REFUSED(DS_INVALID_ARGUMENT, "\"tools\" comes from", APPLY);
  p.arguments_json = (ds_text){"{", DS_NUL};
  REFUSED(DS_INVALID_ARGUMENT, "arguments_json", APPLY);
  p.arguments_json = (ds_text){NULL, 0};
  p.messages_json = (ds_text){"{}", DS_NUL};
  REFUSED(DS_INVALID_ARGUMENT, "an object", APPLY);
  p.messages_json = (ds_text){NULL, 0};
  p.template_text = (ds_text){"a\n{% for %}", DS_NUL};
  REFUSED(DS_INVALID_ARGUMENT, "template_text: chat template: line 2", APPLY);
  p.template_text = (ds_text){"{{ raise_exception('no\nway') }}", DS_NUL};
  REFUSED(DS_FAILED_PRECONDITION, "refuses: no", APPLY);
  CHECK(strchr(ds_last_error(), '\n') == NULL);
  p.template_text = (ds_text){NULL, 0};
  p.template_name = (ds_text){"rag", DS_NUL};
  REFUSED(DS_NOT_FOUND, "\"rag\"; it has default", APPLY);
#undef APPLY
  REFUSED(
      DS_INVALID_ARGUMENT, "messages is NULL",
      ds_apply_chat_template(model, NULL, 2, NULL, NULL, NULL, &text, NULL));
  REFUSED(
      DS_INVALID_ARGUMENT, "model is NULL",
      ds_apply_chat_template(NULL, messages, 2, NULL, NULL, NULL, &text, NULL));
  REFUSED(DS_INVALID_ARGUMENT, "num_ids is NULL",
          ds_apply_chat_template(model, messages, 2, NULL, &ids, NULL, &text,
                                 NULL));
}

/* ---- Generation --------------------------------------------------------- */

typedef struct Seen {
  char text[4096];
  size_t size;
  int tokens, ends, stop_after;
  ds_finish finish;
  ds_model* model; /* not NULL: call it from within */
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
  CHECK(ds_get_answer(whole, 1, 0) == NULL &&
        ds_get_answer(NULL, 0, 0) == NULL);

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

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  check_load(argv[1]);
  check_tokenizers(argv[1], argv[2]);
  ds_model* model = load(argv[1]);
  check_text(model);
  check_chat(model);
  check_generate(model);
  check_refusals(model, argv[2]);
  ds_free(model);
  return finish_checks();
}
