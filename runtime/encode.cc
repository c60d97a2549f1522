#include "runtime/encode.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

template <typename... Text>
absl::Status Bad(const Text&... text) {
  return absl::InvalidArgumentError(absl::StrCat(text...));
}

absl::Status CheckInput(const EncodeInput& input, const fb::Plan& plan,
                        const Executor& executor) {
  const auto length = static_cast<int64_t>(input.ids.size());
  const int64_t most = MostEncodeTokens(executor);
  if (length == 0) return Bad("has no tokens");
  if (length > most) {
    return Bad("has ", length, " tokens; at most ", most, " are allowed");
  }
  if (!input.types.empty() && input.types.size() != input.ids.size()) {
    return Bad("has ", length, " ids and ", input.types.size(), " token types");
  }
  const fb::EncoderSettings* settings = plan.encoder();
  const int32_t pad = settings == nullptr ? -1 : settings->pad_id();
  const int64_t types = settings == nullptr ? 0 : settings->types();
  for (int64_t t = 0; t < length; ++t) {
    if (input.ids[t] < 0 || input.ids[t] >= executor.vocab_size()) {
      return Bad("token ", t, ": id ", input.ids[t], "; 0 to ",
                 executor.vocab_size() - 1, " are allowed");
    }
    if (input.ids[t] == pad) {
      return Bad("token ", t, " is padding (id ", pad,
                 "), which this model gives no position; mask it");
    }
    if (!input.types.empty() &&
        (input.types[t] < 0 || input.types[t] >= std::max<int64_t>(1, types))) {
      return Bad("token ", t, ": type ", input.types[t], "; 0 to ",
                 std::max<int64_t>(1, types) - 1, " are allowed");
    }
  }
  return absl::OkStatus();
}

// The token that input "rows" names of a sequence.
int64_t RowOf(const EncodeInput& input, const fb::EncoderSettings* settings) {
  if (settings == nullptr) return 0;
  const auto begin = input.ids.begin(), end = input.ids.end();
  switch (settings->row_rule()) {
    case fb::RowRule::HighestId:
      return std::max_element(begin, end) - begin;
    case fb::RowRule::FirstOf: {
      const auto found = std::find(begin, end, settings->row_id());
      return found == end ? 0 : found - begin;
    }
    default:
      return 0;
  }
}

// A step of sequences [begin, end).
struct Step {
  std::vector<int32_t> ids, positions, slots, types, rows;

  void Add(const EncodeInput& input, const fb::EncoderSettings* settings) {
    const auto slot = static_cast<int32_t>(rows.size());
    rows.push_back(static_cast<int32_t>(ids.size() + RowOf(input, settings)));
    for (size_t t = 0; t < input.ids.size(); ++t) {
      ids.push_back(input.ids[t]);
      positions.push_back(static_cast<int32_t>(t));
      slots.push_back(slot);
      types.push_back(input.types.empty() ? 0 : input.types[t]);
    }
  }
  StepBatch batch(bool reads_types) const {
    StepBatch b;
    b.ids = ids;
    b.positions = positions;
    b.slots = slots;
    b.rows = rows;
    if (reads_types) b.types = types;
    return b;
  }
};

}  // namespace

int64_t MostEncodeTokens(const Executor& executor) {
  return std::min(executor.limits().max_seq_len,
                  executor.limits().max_step_tokens);
}

absl::Status EncodeSequences(const std::vector<EncodeInput>& inputs,
                             const fb::Plan& plan, const Executor& executor,
                             Engine* engine, const EncodeSink& sink) {
  if (!executor.encodes()) {
    return absl::FailedPreconditionError(
        "the plan generates text, it is no encoder");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    DS_RETURN_IF_ERROR(
        Annotate(CheckInput(inputs[i], plan, executor), "sequence ", i));
  }
  const auto count = static_cast<int64_t>(inputs.size());
  for (int64_t begin = 0; begin < count;) {
    Step step;
    int64_t end = begin;
    while (end < count && end - begin < executor.limits().max_batch &&
           static_cast<int64_t>(step.ids.size() + inputs[end].ids.size()) <=
               executor.limits().max_step_tokens) {
      step.Add(inputs[end++], plan.encoder());
    }
    DS_ASSIGN_OR_RETURN(const std::vector<NamedOutput> outputs,
                        engine->Encode(step.batch(executor.reads_types())));
    int64_t token = 0;
    for (int64_t i = begin; i < end; ++i) {
      const auto length = static_cast<int64_t>(inputs[i].ids.size());
      std::vector<NamedOutput> mine;
      for (const NamedOutput& o : outputs) {
        if (o.of != NamedOutput::Of::kImage) mine.push_back(o);
      }
      for (NamedOutput& o : mine) {
        const bool of_token = o.of == NamedOutput::Of::kToken;
        o.data += (of_token ? token : i - begin) * o.cols;
        o.rows = of_token ? length : 1;
      }
      DS_RETURN_IF_ERROR(sink(static_cast<int>(i), mine));
      token += length;
    }
    begin = end;
  }
  return absl::OkStatus();
}

std::vector<float> PatchesOf(const std::vector<float>& pixels, int64_t size,
                             int64_t patch) {
  constexpr int64_t kChannels = 3;
  const int64_t side = size / patch, elements = kChannels * patch * patch;
  std::vector<float> out((side * side + 1) * elements, 0);
  float* to = out.data() + elements;
  for (int64_t y = 0; y < side; ++y) {
    for (int64_t x = 0; x < side; ++x) {
      for (int64_t c = 0; c < kChannels; ++c) {
        for (int64_t row = 0; row < patch; ++row, to += patch) {
          const int64_t at = (c * size + y * patch + row) * size + x * patch;
          std::copy_n(pixels.begin() + at, patch, to);
        }
      }
    }
  }
  return out;
}

absl::Status EncodeImages(const std::vector<std::vector<float>>& images,
                          const fb::Plan& plan, const Executor& executor,
                          Engine* engine, const EncodeSink& sink) {
  const fb::ImageInput* input =
      plan.encoder() == nullptr ? nullptr : plan.encoder()->image();
  if (!executor.encodes() || input == nullptr || executor.max_images() == 0) {
    return absl::FailedPreconditionError("the plan takes no images");
  }
  const int64_t size = input->size(), side = size / input->patch();
  const int64_t tokens = side * side + 1;
  // CheckPlan looks at each of these alone.
  if (executor.patch_elements() != 3 * input->patch() * input->patch() ||
      executor.max_image_tokens() < tokens) {
    return absl::DataLossError(
        "the plan's patches are not those of its program; rebuild it");
  }
  for (size_t i = 0; i < images.size(); ++i) {
    if (static_cast<int64_t>(images[i].size()) == 3 * size * size) continue;
    return Bad("image ", i, " has ", images[i].size(), " values; 3 x ", size,
               " x ", size, " are wanted");
  }
  const int64_t at_once =
      std::min(executor.max_images(), executor.max_image_tokens() / tokens);
  const auto count = static_cast<int64_t>(images.size());
  for (int64_t begin = 0; begin < count; begin += at_once) {
    const int64_t end = std::min(count, begin + at_once);
    std::vector<int32_t> positions, slots, rows;
    std::vector<float> pixels;
    for (int64_t i = begin; i < end; ++i) {
      const std::vector<float> patches =
          PatchesOf(images[i], size, input->patch());
      pixels.insert(pixels.end(), patches.begin(), patches.end());
      rows.push_back(static_cast<int32_t>(positions.size()));
      for (int64_t t = 0; t < tokens; ++t) {
        positions.push_back(static_cast<int32_t>(t));
        slots.push_back(static_cast<int32_t>(i - begin));
      }
    }
    StepBatch batch;
    batch.image_positions = positions;
    batch.image_slots = slots;
    batch.image_rows = rows;
    batch.pixels = pixels;
    DS_ASSIGN_OR_RETURN(const std::vector<NamedOutput> outputs,
                        engine->Encode(batch));
    for (int64_t i = begin; i < end; ++i) {
      std::vector<NamedOutput> mine;
      for (NamedOutput o : outputs) {
        if (o.of != NamedOutput::Of::kImage) continue;
        o.data += (i - begin) * o.cols;
        o.rows = 1;
        mine.push_back(std::move(o));
      }
      DS_RETURN_IF_ERROR(sink(static_cast<int>(i), mine));
    }
  }
  return absl::OkStatus();
}

}  // namespace deepslice
