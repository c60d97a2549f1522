/* Counting checks, for programs in C, and the plans that they use. */
#ifndef DEEPSLICE_TESTS_API_CHECKS_H_
#define DEEPSLICE_TESTS_API_CHECKS_H_

#include <stdio.h>
#include <string.h>

#include "deepslice.h"

static int passed, failed;

static void check_at(int ok, const char* what, int line) {
  if (ok) {
    ++passed;
  } else {
    ++failed;
    printf("FAILED: line %d: %s; last error: %s\n", line, what,
           ds_last_error());
  }
}
#define CHECK(condition) check_at((condition) != 0, #condition, __LINE__)

/* Failed with this status, and a line that holds these words. */
#define REFUSED(status, words, call)                                     \
  check_at((call) == (status) && strstr(ds_last_error(), words) != NULL, \
           #call " is " #status " with \"" words "\"", __LINE__)

/* The plans' checkpoint: 256 bytes, and three special tokens. */
enum { kVocab = 259, kEnd = 258, kNew = 20 };
static const int32_t kPrompt[] = {72, 101, 108, 108, 111}; /* Hello */

static inline ds_model* load(const char* plan) {
  ds_model* model = NULL;
  CHECK(ds_load(plan, NULL, &model) == DS_OK);
  CHECK(strcmp(ds_last_error(), "") == 0);
  return model;
}

static inline ds_generate_params fresh_params(void) {
  ds_generate_params p;
  ds_init_generate_params(&p, sizeof p);
  p.max_new_tokens = kNew;
  p.ignore_eos = 1;
  return p;
}

static inline int finish_checks(void) {
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0 || passed == 0;
}

#endif /* DEEPSLICE_TESTS_API_CHECKS_H_ */
