/* Counting checks, for programs in C. */
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

static int finish_checks(void) {
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0 || passed == 0;
}

#endif /* DEEPSLICE_TESTS_API_CHECKS_H_ */
