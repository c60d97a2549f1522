/* deepslice as a C library: loads a plan that dscompile made, and tokenizes,
 * generates and steps with it.
 *
 *   ds_model* model = NULL;
 *   if (ds_load("plan/", NULL, &model) != DS_OK) { puts(ds_last_error()); ... }
 *   ds_request request = {{"Once upon a time", DS_NUL}, NULL, 0, NULL};
 *   ds_generation* done = NULL;
 *   if (ds_generate(model, &request, 1, NULL, NULL, &done) == DS_OK) {
 *     puts(ds_get_answer(done, 0, 0)->text);
 *   }
 *   ds_free_generation(done);
 *   ds_free(model);
 *
 * Errors. Functions that can fail return a ds_status; what was found, what is
 * allowed and what to do says ds_last_error(), one line, of the calling thread,
 * until its next call. Then every output is NULL or 0. No function throws or
 * prints, and none crashes on null pointers, indices out of range or damaged
 * files; a pointer that is neither null nor valid is the caller's to avoid.
 *
 * Ownership. What a call gives through a pointer to a plain array or text is
 * the caller's, for ds_release; handles have a function each that frees them,
 * and that takes NULL. Everything behind a `const` pointer belongs to the
 * handle it came from. Arguments are copied or read only during the call.
 *
 * Threads. Any thread may call with any handle. Calls that run a model wait for
 * each other; those on tokenizers and on what ds_generate gave run at once. A
 * callback may call anything but what runs its own model. Freeing a handle is
 * for when nobody uses it.
 *
 * Text is UTF-8 with its size in bytes; DS_NUL for a size means up to the first
 * NUL. What is given need not be valid (bad bytes read as U+FFFD); what comes
 * back is, and ends in a NUL that its size does not count.
 *
 * Growing. Structs with struct_size may get fields at their end: fill them
 * through their ds_init function, which sets it, and older programs keep
 * working. The others stay as they are. A library serves headers of its own
 * DS_API_VERSION and of lower ones since its soname changed; ds_api_version()
 * tells it.
 */
#ifndef DEEPSLICE_RUNTIME_API_DEEPSLICE_H_
#define DEEPSLICE_RUNTIME_API_DEEPSLICE_H_

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define DS_NOEXCEPT noexcept
extern "C" {
#else
#define DS_NOEXCEPT
#endif

#if defined(__GNUC__)
#define DS_API __attribute__((visibility("default")))
#else
#define DS_API
#endif

#define DS_API_VERSION 1

/* ---- Errors and memory ------------------------------------------------- */

/* Who acts: the numbers are those of gRPC and Abseil. */
typedef enum ds_status {
  DS_OK = 0,
  DS_CANCELLED = 1, /* the launch was interrupted */
  DS_UNKNOWN = 2,
  DS_INVALID_ARGUMENT = 3,    /* the caller */
  DS_DEADLINE_EXCEEDED = 4,   /* a rank did not come in time */
  DS_NOT_FOUND = 5,           /* no such plan, template, ... */
  DS_RESOURCE_EXHAUSTED = 8,  /* memory, threads, blocks of the cache */
  DS_FAILED_PRECONDITION = 9, /* does not fit this plan, device or launch */
  DS_ABORTED = 10,            /* another rank is lost */
  DS_UNIMPLEMENTED = 12,
  DS_INTERNAL = 13,    /* the library, or logits that hold NaN */
  DS_UNAVAILABLE = 14, /* another rank is lost */
  DS_DATA_LOSS = 15    /* a file is damaged */
} ds_status;

/* DS_API_VERSION of the library, and its version ("0.1.0"). */
DS_API uint32_t ds_api_version(void) DS_NOEXCEPT;
DS_API const char* ds_version(void) DS_NOEXCEPT;

/* Why this thread's last call failed; "" when it did not. Valid until the
 * thread's next call. */
DS_API const char* ds_last_error(void) DS_NOEXCEPT;

/* Frees an array or a text that a call gave; NULL does nothing. */
DS_API void ds_release(void* memory) DS_NOEXCEPT;

/* A text that the caller keeps during the call; data NULL: none. */
typedef struct ds_text {
  const char* data;
  size_t size; /* bytes, or DS_NUL */
} ds_text;
#define DS_NUL ((size_t)-1)

/* ---- Models ------------------------------------------------------------- */

/* One rank of a plan, ready to run. */
typedef struct ds_model ds_model;

typedef struct ds_load_params {
  size_t struct_size;
  /* "auto": a GPU that the plan has a target for, else the CPU; "cpu", "cuda",
   * "cuda:1". NULL: auto. */
  const char* device;
  int32_t threads; /* on the CPU; 0: the cores over this host's ranks */
  /* Ceilings, at most the plan's; 0: the plan's. They decide what memory the
   * cache takes: sequences at once, tokens of one step, of one sequence. */
  int64_t max_batch, max_step_tokens, max_seq_len;

  /* Which rank of a plan of several this process is. -1: what torchrun,
   * deepspeed, mpirun or srun set in the environment. Where nothing is set
   * there, and always with a world_size of 1, all ranks run as threads of this
   * process, on the CPU. A plan of one rank ignores the environment. The
   * library starts no processes. */
  int32_t rank, world_size, local_rank;
  /* Ranks of one launch name the same; NULL: as the launcher's variables say.
   */
  const char* launch_id;
  double init_timeout_seconds; /* for the other ranks to come; 60 */
  int32_t share_gpu; /* not 0: all local ranks on one GPU, for tests */

  /* Told what a person may like to know (one line without its end), by any
   * thread; NULL: nobody. */
  void (*on_note)(void* user, const char* text);
  void* user;
} ds_load_params;
/* Sets the defaults. `size` is sizeof(ds_load_params). */
DS_API void ds_init_load_params(ds_load_params* params,
                                size_t size) DS_NOEXCEPT;

/* Loads the plan in `folder`: checks it, meets the other ranks, takes all the
 * memory that it will need. `params` may be NULL. While it is loaded the
 * folder's files must stay as they are: who shortens them ends the process.
 * With ranks in other processes this one may not fork until ds_free. On a GPU
 * of several ranks it sets NCCL_* variables that are not set. */
DS_API ds_status ds_load(const char* folder, const ds_load_params* params,
                         ds_model** model) DS_NOEXCEPT;
/* Ends the followers, too. */
DS_API void ds_free(ds_model* model) DS_NOEXCEPT;

typedef struct ds_model_info {
  size_t struct_size;
  int32_t rank, world_size;
  int64_t vocab_size;
  int64_t max_batch, max_step_tokens, max_seq_len; /* as they are now */
  int32_t has_tokenizer, has_chat_template;
  const char* device;      /* "cpu", or the plan's target: "sm_90a" */
  const char* plan_set_id; /* what the ranks of a plan share */
} ds_model_info;
/* Fills `size` bytes, sizeof(ds_model_info). */
DS_API ds_status ds_get_model_info(const ds_model* model, ds_model_info* info,
                                   size_t size) DS_NOEXCEPT;

/* For ranks above 0 in processes of their own: runs what rank 0 runs, until
 * rank 0 frees its model. All else that runs a model is for rank 0. */
DS_API ds_status ds_follow(ds_model* model) DS_NOEXCEPT;

/* ---- Tokenizers --------------------------------------------------------- */

typedef struct ds_tokenizer ds_tokenizer;

/* The model's, valid as long as the model. DS_FAILED_PRECONDITION: the plan
 * holds none. */
DS_API ds_status ds_get_tokenizer(ds_model* model,
                                  const ds_tokenizer** tokenizer) DS_NOEXCEPT;
/* The tokenizer of a plan folder, whose weights are not read, or that of a
 * checkpoint's files: a folder, tokenizer.json, tokenizer.model, *.tiktoken.
 * `pattern` names how a file of ranks cuts its text (gpt2, cl100k_base, ...);
 * NULL: by the files' names. `on_note` as in ds_load_params, may be NULL. */
DS_API ds_status ds_open_tokenizer(const char* path, const char* pattern,
                                   void (*on_note)(void* user,
                                                   const char* text),
                                   void* user,
                                   ds_tokenizer** tokenizer) DS_NOEXCEPT;
/* Of ds_open_tokenizer alone. */
DS_API void ds_free_tokenizer(ds_tokenizer* tokenizer) DS_NOEXCEPT;

typedef enum ds_tokenize_flags {
  DS_NO_SPECIAL = 1, /* do not add BOS, EOS and the like */
  DS_PLAIN_TEXT = 2  /* the text of special tokens stays text */
} ds_tokenize_flags;
/* `flags`: of ds_tokenize_flags, joined. */
DS_API ds_status ds_tokenize(const ds_tokenizer* tokenizer, ds_text text,
                             uint32_t flags, int32_t** ids,
                             size_t* num_ids) DS_NOEXCEPT;
/* skip_special: not 0 leaves special tokens out. `size` may be NULL. */
DS_API ds_status ds_detokenize(const ds_tokenizer* tokenizer,
                               const int32_t* ids, size_t num_ids,
                               int32_t skip_special, char** text,
                               size_t* size) DS_NOEXCEPT;

typedef struct ds_tokenizer_info {
  size_t struct_size;
  int32_t vocab_size;
  int32_t bos_id, eos_id; /* -1: none */
} ds_tokenizer_info;
/* Fills `size` bytes, sizeof(ds_tokenizer_info). */
DS_API ds_status ds_get_tokenizer_info(const ds_tokenizer* tokenizer,
                                       ds_tokenizer_info* info,
                                       size_t size) DS_NOEXCEPT;
/* The id of exactly this token, special or not; -1: none. */
DS_API int32_t ds_token_to_id(const ds_tokenizer* tokenizer,
                              ds_text token) DS_NOEXCEPT;
/* The token as the vocabulary spells it; not 0 in *is_special (may be NULL) for
 * a special one. */
DS_API ds_status ds_id_to_token(const ds_tokenizer* tokenizer, int32_t id,
                                char** token, size_t* size,
                                int32_t* is_special) DS_NOEXCEPT;

/* The text of ids that come one at a time, for those who sample themselves:
 * half a code point is held back. For one thread at a time; the tokenizer must
 * outlive it. */
typedef struct ds_decoder ds_decoder;
DS_API ds_status ds_new_decoder(const ds_tokenizer* tokenizer,
                                int32_t skip_special,
                                ds_decoder** decoder) DS_NOEXCEPT;
/* What `id` adds to the text, valid until the next call with this decoder; -1:
 * what was held back, and the decoder starts anew. */
DS_API ds_status ds_decode(ds_decoder* decoder, int32_t id, const char** text,
                           size_t* size) DS_NOEXCEPT;
DS_API void ds_free_decoder(ds_decoder* decoder) DS_NOEXCEPT;

/* ---- Chat --------------------------------------------------------------- */

typedef struct ds_message {
  ds_text role; /* "system", "user", "assistant" */
  ds_text content;
} ds_message;

typedef struct ds_chat_params {
  size_t struct_size;
  int32_t add_generation_prompt; /* 1: the answer comes next */
  /* Name of one of the plan's templates; none: "tool_use" with tools where the
   * plan has it, else the default one. Or a template's own text. */
  ds_text template_name, template_text;
  /* JSON texts, each or none: a list of messages with more than role and
   * content, in place of ds_message; a list of tools' schemas; a list of
   * documents; an object of further variables of the template. */
  ds_text messages_json, tools_json, documents_json, arguments_json;
} ds_chat_params;
/* Sets the defaults. `size` is sizeof(ds_chat_params). */
DS_API void ds_init_chat_params(ds_chat_params* params,
                                size_t size) DS_NOEXCEPT;
/* The prompt that the plan's chat template makes of a conversation: ids for
 * ds_request, and text for people. Both, or one with NULL for the other. The
 * template writes BOS itself; what the messages say is never read as a special
 * token. `params` may be NULL. */
DS_API ds_status ds_apply_chat_template(
    ds_model* model, const ds_message* messages, size_t num_messages,
    const ds_chat_params* params, int32_t** ids, size_t* num_ids, char** text,
    size_t* text_size) DS_NOEXCEPT;

/* ---- Generation --------------------------------------------------------- */

/* Fields that are not given are those of the plan's generation_config.json,
 * else the defaults named here. */
#define DS_NOT_GIVEN INT32_MIN         /* of an integer */
#define DS_NOT_GIVEN_REAL ((float)NAN) /* of a number with a fraction */

typedef struct ds_logit_bias {
  int32_t id;
  float bias; /* added to the logit; -infinity: never this token */
} ds_logit_bias;

typedef struct ds_generate_params {
  size_t struct_size;
  /* Not 0: what the plan's generation_config.json says counts not. */
  int32_t ignore_plan_defaults;

  /* Length, in tokens of the answer. max_new_tokens: 128, or what fits. */
  int64_t max_new_tokens, min_new_tokens;

  /* Not given: sampled when one of the next five is given, else greedy; a
   * temperature of 0 is greedy, too. */
  int32_t sample;
  float temperature; /* 1 */
  int32_t top_k;     /* 0: off */
  float top_p;       /* 1: off */
  float min_p;       /* 0: off */
  float typical_p;   /* 1: off */
  /* Random numbers are a function of seed, answer and position: batch mates
   * and ranks do not change them. */
  uint64_t seed;

  float repetition_penalty; /* 1: off */
  float presence_penalty;   /* 0: off */
  float frequency_penalty;  /* 0: off */
  /* Lists: NULL is not given. */
  const ds_logit_bias* logit_bias;
  size_t num_logit_bias;
  const int32_t* suppress_tokens; /* never chosen */
  size_t num_suppress_tokens;

  /* The answer ends in front of such a text; no part of one is streamed. */
  const ds_text* stop;
  size_t num_stop;
  const int32_t* stop_ids; /* beside the plan's end-of-sequence ids */
  size_t num_stop_ids;
  int32_t ignore_eos; /* not 0: the plan's end nothing */

  int32_t n;        /* answers; 1 */
  int32_t logprobs; /* of each token and of so many likeliest; none */
  /* Beam search by transformers' rules; the n best answers. Its text comes
   * whole. */
  int32_t num_beams;      /* 1: none */
  float length_penalty;   /* 1 */
  int32_t early_stopping; /* 0: false, 1: true, 2: "never" */

  /* 0: no text is made, only ids. Without a tokenizer none is made anyway. */
  int32_t want_text;
} ds_generate_params;
/* Sets the defaults: not given. `size` is sizeof(ds_generate_params). */
DS_API void ds_init_generate_params(ds_generate_params* params,
                                    size_t size) DS_NOEXCEPT;

typedef struct ds_request {
  ds_text prompt; /* where there are no ids; encoded with special tokens */
  const int32_t* ids;
  size_t num_ids;
  const ds_generate_params* params; /* NULL: the defaults */
} ds_request;

typedef enum ds_finish {
  DS_GOES_ON = 0,
  DS_STOP = 1,    /* an end-of-sequence id, a stop id or a stop text */
  DS_LENGTH = 2,  /* max_new_tokens */
  DS_STOPPED = 3, /* by the callback */
  DS_FAILED = 4   /* its own logits hold NaN: see ds_answer.error */
} ds_finish;

typedef struct ds_token_logprob {
  int32_t id;
  float logprob; /* natural; of the model's own logits, before all edits */
} ds_token_logprob;
typedef struct ds_logprobs {
  ds_token_logprob chosen;
  const ds_token_logprob* top; /* the likeliest first */
  size_t num_top;
} ds_logprobs;

/* What a callback is told of an answer. Fields may be added at the end. */
typedef struct ds_event {
  size_t request;  /* index into the requests */
  int32_t answer;  /* 0 .. n - 1 */
  int32_t id;      /* the new token; -1: none, only text and finish */
  int32_t is_stop; /* not 0: an id that ends the answer and is no part of it */
  /* What is decided of the text since the last event: whole code points. Those
   * of all events, joined, are the answer's text. */
  const char* text;
  size_t text_size;
  const ds_logprobs* logprobs; /* NULL: not asked for */
  ds_finish finish;            /* not DS_GOES_ON: this answer's last event */
} ds_event;
/* Called by the thread that generates, for each token. Not 0 stops this answer,
 * whose other tokens stay. */
typedef int (*ds_event_callback)(void* user, const ds_event* event);

typedef struct ds_generation ds_generation;
/* Answers all requests as one continuous batch. A request that can't be run
 * fails the call before anything runs ("request 2: ..." with several).
 * `callback` may be NULL. Sequences of ds_step are empty afterwards. */
DS_API ds_status ds_generate(ds_model* model, const ds_request* requests,
                             size_t num_requests, ds_event_callback callback,
                             void* user,
                             ds_generation** generation) DS_NOEXCEPT;

/* Fields may be added at the end. */
typedef struct ds_answer {
  const int32_t* ids; /* without the id that ended it */
  size_t num_ids;
  const char* text; /* NULL: none was made */
  size_t text_size;
  ds_finish finish;
  int32_t stop_id;             /* that ended it; -1: none did */
  int32_t stop_index;          /* of the request's stop texts; -1: none did */
  const ds_logprobs* logprobs; /* of each of ids; NULL: not asked for */
  double score;                /* of beam search, else 0 */
  ds_status error;             /* of DS_FAILED, else DS_OK */
  const char* error_message;   /* "" */
  size_t prompt_tokens;
  double first_token_seconds, other_tokens_seconds;
} ds_answer;
/* Valid until the generation is freed; NULL when there is no such one. */
DS_API const ds_answer* ds_get_answer(const ds_generation* generation,
                                      size_t request,
                                      size_t answer) DS_NOEXCEPT;
DS_API void ds_free_generation(ds_generation* generation) DS_NOEXCEPT;

/* ---- Steps, for those who bring their own sampler ------------------------ */

typedef enum ds_rows {
  DS_LAST_ROW = 0, /* logits of the last id */
  DS_ALL_ROWS = 1,
  DS_NO_ROW = 2
} ds_rows;
typedef struct ds_feed {
  int32_t sequence;   /* 0 .. max_batch - 1 */
  const int32_t* ids; /* go behind what the sequence holds; at least one */
  size_t num_ids;
  ds_rows rows;
} ds_feed;
/* Runs ids of different sequences, together where a step takes them, and gives
 * their logits: num_rows x vocab_size, in the order of feeds and ids, valid
 * until the next call that runs this model. A call that is refused leaves the
 * sequences as they were. */
DS_API ds_status ds_step(ds_model* model, const ds_feed* feeds,
                         size_t num_feeds, const float** logits,
                         size_t* num_rows) DS_NOEXCEPT;
/* Cuts a sequence to its first `length` tokens; 0 empties it. */
DS_API ds_status ds_truncate(ds_model* model, int32_t sequence,
                             int64_t length) DS_NOEXCEPT;
/* Tokens that a sequence holds; -1: no such sequence. */
DS_API int64_t ds_sequence_length(ds_model* model,
                                  int32_t sequence) DS_NOEXCEPT;

/* Logits of all positions of whole texts, as many together as fit; `row` is
 * told of each, in order. Sequences of ds_step are empty afterwards. */
typedef struct ds_ids {
  const int32_t* ids;
  size_t num_ids;
} ds_ids;
typedef void (*ds_row_callback)(void* user, size_t sequence, int64_t position,
                                const float* logits);
DS_API ds_status ds_score(ds_model* model, const ds_ids* sequences,
                          size_t num_sequences, ds_row_callback row,
                          void* user) DS_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* DEEPSLICE_RUNTIME_API_DEEPSLICE_H_ */
