// The imported graph, interpreted with the checkpoint's weights, against the
// logits of the published implementation.
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "compiler/import.h"
#include "compiler/model.h"
#include "compiler/test_checkpoint.h"
#include "compiler/weight_reader.h"
#include "gtest/gtest.h"
#include "passes/evaluate.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr double kRelativeL2 = 1e-5;

// Prompts and logits of one case.
struct Prompt {
  std::vector<int64_t> ids;
  std::vector<float> logits;  // [ids, vocab]
};

absl::StatusOr<std::vector<Prompt>> ReadPrompts(const std::string& folder) {
  DS_ASSIGN_OR_RETURN(const auto golden,
                      OpenCheckpoint(JoinPath(folder, "golden.safetensors")));
  std::vector<Prompt> out;
  for (int n = 0;; ++n) {
    const TensorInfo* ids = golden->Find(absl::StrCat(n, ".input_ids"));
    const TensorInfo* logits = golden->Find(absl::StrCat(n, ".logits"));
    if (ids == nullptr || logits == nullptr) return out;
    Prompt p;
    const absl::string_view bytes = golden->RawRows(*ids, 0, ids->rows());
    p.ids.resize(bytes.size() / 8);
    std::memcpy(p.ids.data(), bytes.data(), bytes.size());
    p.logits.resize(logits->num_elements());
    DS_RETURN_IF_ERROR(
        golden->ReadRows(*logits, 0, logits->rows(), absl::MakeSpan(p.logits)));
    out.push_back(std::move(p));
  }
}

RefTensor Indices(const std::vector<int64_t>& values) {
  return {{static_cast<int64_t>(values.size())},
          {values.begin(), values.end()}};
}

WeightProvider FromCheckpoint(const Checkpoint& checkpoint) {
  return [&checkpoint](const Weight& w) -> absl::StatusOr<RefTensor> {
    WeightReader reader(checkpoint, w);
    std::vector<float> values(reader.rows() * reader.cols());
    DS_RETURN_IF_ERROR(
        reader.ReadRows(0, reader.rows(), absl::MakeSpan(values)));
    RefTensor out;
    for (const Dim& d : w.type.dims) out.shape.push_back(d.size);
    out.data.assign(values.begin(), values.end());
    return out;
  };
}

// Logits of all tokens of a prompt, fed `step` tokens at a time.
absl::StatusOr<std::vector<double>> Logits(const Graph& graph,
                                           const WeightProvider& weights,
                                           const std::vector<int64_t>& ids,
                                           size_t step) {
  EvaluationStates states;
  std::vector<double> logits;
  for (size_t begin = 0; begin < ids.size(); begin += step) {
    const size_t n = std::min(step, ids.size() - begin);
    std::vector<int64_t> positions, rows;
    for (size_t i = 0; i < n; ++i) {
      positions.push_back(begin + i);
      rows.push_back(i);
    }
    const std::vector<int64_t> slots(n, 0);
    NamedTensors inputs = {
        {"ids", Indices({ids.begin() + begin, ids.begin() + begin + n})},
        {"positions", Indices(positions)},
        {"slots", Indices(slots)},
        {"blocks", RefTensor{{1, 1}, {0}}},
        {"rows", Indices(rows)}};
    // longrope goes by the length that the sequence will have, dynamic NTK by
    // that of its prompt.
    for (const char* lengths : {"horizons", "prompts"}) {
      if (graph.FindValue(lengths) == nullptr) continue;
      inputs[lengths] = Indices({static_cast<int64_t>(ids.size())});
    }
    const Graph* ranks[] = {&graph};
    DS_ASSIGN_OR_RETURN(const std::vector<RefTensor> out,
                        Evaluate(ranks, weights, inputs, &states));
    logits.insert(logits.end(), out[0].data.begin(), out[0].data.end());
  }
  return logits;
}

void ExpectNear(const std::vector<double>& got,
                const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  double error = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += static_cast<double>(want[i]) * want[i];
  }
  ASSERT_GT(size, 0);
  EXPECT_LT(std::sqrt(error / size), kRelativeL2);
}

class GoldenCase : public testing::TestWithParam<const char*> {};

TEST_P(GoldenCase, ImportedGraphGivesThePublishedLogits) {
  const std::string folder = GoldenCasePath(GetParam());
  DS_ASSERT_OK_AND_ASSIGN(const auto checkpoint, OpenCheckpoint(folder));
  DS_ASSERT_OK_AND_ASSIGN(const ModelDescription model,
                          DescribeModel(*checkpoint));
  DS_ASSERT_OK_AND_ASSIGN(const Graph graph, ImportGraph(model));
  DS_ASSERT_OK_AND_ASSIGN(const std::vector<Prompt> prompts,
                          ReadPrompts(folder));
  ASSERT_FALSE(prompts.empty());
  const WeightProvider weights = FromCheckpoint(*checkpoint);
  for (const Prompt& p : prompts) {
    for (size_t step : {p.ids.size(), size_t{5}}) {
      SCOPED_TRACE(absl::StrCat(p.ids.size(), " tokens, ", step, " a step"));
      DS_ASSERT_OK_AND_ASSIGN(const std::vector<double> logits,
                              Logits(graph, weights, p.ids, step));
      ExpectNear(logits, p.logits);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GoldenCase,
    testing::Values("bloom", "cohere", "cohere-qk-norm", "falcon-mqa",
                    "falcon-new", "falcon-new-one-norm", "falcon-rw",
                    "galactica", "gemma", "gemma-bias", "gemma2", "gemma3-text",
                    "gpt-j", "gpt-neo", "gpt-neox", "gpt-neox-sequential",
                    "gpt2", "granite", "internlm2", "llama-dynamic",
                    "llama-gqa-tied", "llama-internlm-bias", "llama-yarn",
                    "llama3-rope-v4config", "megatron-core", "megatron-gpt",
                    "megatron-gpt-grouped", "megatron-gpt-rows",
                    "mistral-window", "olmo2", "opt", "opt-350m-style",
                    "opt-no-final-norm", "phi", "phi-qk-layernorm", "phi3",
                    "phi3-longrope", "qwen", "qwen2", "qwen3", "stablelm",
                    "stablelm-parallel", "starcoder2", "starcoder2-no-bias"),
    [](const auto& info) {
      std::string name = info.param;
      for (char& c : name) c = c == '-' ? '_' : c;
      return name;
    });

}  // namespace
}  // namespace deepslice
