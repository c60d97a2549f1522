// DS_CHECK: ends the process when our own invariant is broken. Never for input.
#ifndef DEEPSLICE_SCHEMA_BASE_CHECK_H_
#define DEEPSLICE_SCHEMA_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define DS_CHECK(cond)                                                  \
  do {                                                                  \
    if (!(cond)) {                                                      \
      std::fprintf(stderr, "%s:%d: internal error: %s does not hold\n", \
                   __FILE__, __LINE__, #cond);                          \
      std::abort();                                                     \
    }                                                                   \
  } while (false)

#endif  // DEEPSLICE_SCHEMA_BASE_CHECK_H_
