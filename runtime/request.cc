#include "runtime/request.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "schema/base/checked_math.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

template <typename... Text>
absl::Status Bad(const Text&... text) {
  return absl::InvalidArgumentError(absl::StrCat(text...));
}

absl::Status CheckLengths(const Request& r, const RequestLimits& limits) {
  if (r.prompt.empty()) {
    return Bad("the prompt has no tokens; at least one is needed");
  }
  if (r.max_new_tokens <= 0) {
    return Bad("max_new_tokens is ", r.max_new_tokens, "; it must be above 0");
  }
  if (r.min_new_tokens < 0 || r.min_new_tokens > r.max_new_tokens) {
    return Bad("min_new_tokens is ", r.min_new_tokens,
               "; 0 to max_new_tokens = ", r.max_new_tokens, " are allowed");
  }
  const auto prompt = static_cast<int64_t>(r.prompt.size());
  const int64_t ceiling = limits.max_seq_len;
  if (prompt > ceiling || r.max_new_tokens > ceiling - prompt) {
    return Bad("a prompt of ", prompt, " tokens and ", r.max_new_tokens,
               " new ones exceed the sequence ceiling of ", ceiling);
  }
  return CheckFitsCache(prompt + r.max_new_tokens - 1, limits);
}

absl::Status CheckSource(const Request& r, const RequestLimits& limits) {
  const auto length = static_cast<int64_t>(r.source.size());
  if (length > 0 && limits.max_source_tokens == 0) {
    return Bad("a source of ", length, " tokens; the plan has no encoder");
  }
  if (limits.max_source_tokens == 0) return absl::OkStatus();
  if (length < 1 || length > limits.max_source_tokens) {
    return Bad("the encoder's text has ", length, " tokens; 1 to ",
               limits.max_source_tokens,
               " are allowed; compile with a higher --max-step-tokens");
  }
  return CheckIds(r.source, limits.vocab, "prompt id");
}

absl::Status CheckBeams(const Request& r, const RequestLimits& limits) {
  const BeamParams& beams = r.beams;
  if (beams.width < 1) {
    return Bad("beam width is ", beams.width, "; it must be 1 or above");
  }
  if (beams.width == 1) return absl::OkStatus();
  if (!r.sampling.greedy) {
    return Bad("beam search of ", beams.width,
               " beams takes no sampling; ask for greedy or for one beam");
  }
  if (r.logprobs >= 0) {
    return Bad(
        "beam search gives a score and no logprobs; ask for one of them");
  }
  if (r.n > beams.width) {
    return Bad(r.n, " answers of ", beams.width,
               " beams; at most as many as there are beams");
  }
  if (!std::isfinite(beams.length_penalty)) {
    return Bad("length penalty is ", beams.length_penalty,
               "; it must be finite");
  }
  if (beams.width > limits.max_batch) {
    return Bad(beams.width, " beams need as many sequences at once; at most ",
               limits.max_batch, " run together (--max-batch)");
  }
  const auto prompt = static_cast<int64_t>(r.prompt.size());
  const int64_t each =
      CeilDiv(prompt + r.max_new_tokens - 1, limits.block_tokens);
  const int64_t shared = std::min(each, prompt / limits.block_tokens);
  const int64_t blocks = shared + beams.width * (each - shared);
  if (blocks > limits.num_blocks) {
    return Bad(beams.width, " beams of ", prompt + r.max_new_tokens - 1,
               " tokens take ", blocks, " cache blocks of ",
               limits.block_tokens, " tokens; the cache has ",
               limits.num_blocks);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckIds(absl::Span<const int32_t> ids, int64_t vocab,
                      absl::string_view what) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab) {
      return Bad(what, " ", i, " is ", ids[i], "; ids are 0 to ", vocab - 1);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFitsCache(int64_t tokens, const RequestLimits& limits) {
  const int64_t blocks = CeilDiv(tokens, limits.block_tokens);
  if (blocks > limits.num_blocks) {
    return Bad(tokens, " tokens take ", blocks, " cache blocks of ",
               limits.block_tokens, " tokens; the cache has ",
               limits.num_blocks);
  }
  return absl::OkStatus();
}

absl::Status CheckRequest(const Request& r, const RequestLimits& limits) {
  DS_RETURN_IF_ERROR(CheckLengths(r, limits));
  DS_RETURN_IF_ERROR(CheckSource(r, limits));
  DS_RETURN_IF_ERROR(CheckIds(r.prompt, limits.vocab, "prompt id"));
  DS_RETURN_IF_ERROR(CheckIds(r.stop_ids, limits.vocab, "stop id"));
  DS_RETURN_IF_ERROR(CheckSampling(r.sampling));
  DS_RETURN_IF_ERROR(CheckLogitEdits(r.edits, limits.vocab));
  if (r.n < 1) return Bad("n is ", r.n, "; it must be 1 or above");
  if (r.logprobs < -1 || r.logprobs > limits.vocab) {
    return Bad("logprobs is ", r.logprobs, "; 0 to ", limits.vocab,
               " are allowed, -1 is none");
  }
  return CheckBeams(r, limits);
}

}  // namespace deepslice
