/* Steps of one's own, ranks and threads: steps_test PLAN PLAN_OF_TWO_RANKS, of
 * one checkpoint whose tokens are single bytes and three special ones. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "checks.h"

static int argmax(const float* row) {
  int best = 0;
  for (int i = 1; i < kVocab; ++i) {
    if (row[i] > row[best]) best = i;
  }
  return best;
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
  if (argc != 3) return 2;
  ds_model* model = load(argv[1]);
  check_steps(model);
  check_ranks(model, argv[2]);
  check_threads(model);
  ds_free(model);
  return finish_checks();
}
