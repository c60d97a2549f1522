/* Streams an answer: example PLAN PROMPT [MAX_NEW_TOKENS]. */
#include <stdio.h>
#include <stdlib.h>

#include "deepslice.h"

/* Called for each token; not 0 would stop the answer. */
static int print_piece(void* user, const ds_event* event) {
  FILE* out = user;
  fwrite(event->text, 1, event->text_size, out);
  fflush(out);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: example PLAN PROMPT [MAX_NEW_TOKENS]\n");
    return 2;
  }
  ds_model* model = NULL;
  if (ds_load(argv[1], NULL, &model) != DS_OK) {
    fprintf(stderr, "example: %s\n", ds_last_error());
    return 1;
  }

  ds_generate_params params;
  ds_init_generate_params(&params, sizeof params);
  if (argc > 3) params.max_new_tokens = atoi(argv[3]);

  ds_request request = {{argv[2], DS_NUL}, NULL, 0, &params};
  ds_generation* done = NULL;
  ds_status status =
      ds_generate(model, &request, 1, print_piece, stdout, &done);
  if (status == DS_OK) {
    const ds_answer* answer = ds_get_answer(done, 0, 0);
    printf("\n");
    fprintf(stderr, "%zu tokens, %.1f a second\n", answer->num_ids,
            answer->num_ids / (answer->other_tokens_seconds + 1e-9));
  } else {
    fprintf(stderr, "example: %s\n", ds_last_error());
  }
  ds_free_generation(done);
  ds_free(model);
  return status == DS_OK ? 0 : 1;
}
