#include "compiler/golden_sequences.h"

#include <cmath>
#include <set>

#include "compiler/import.h"
#include "compiler/model.h"
#include "compiler/pipeline.h"
#include "compiler/stored_rows.h"
#include "compiler/stream_graph.h"
#include "compiler/test_checkpoint.h"
#include "passes/evaluate.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

struct Model {
  std::unique_ptr<Checkpoint> checkpoint;
  Graph graph;
  int64_t vocab = 0;
};

Model Compiled(const std::string& name, StorageChoice storage) {
  Model m;
  auto checkpoint = OpenCheckpoint(GoldenCasePath(name));
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  m.checkpoint = *std::move(checkpoint);
  const auto model = DescribeModel(*m.checkpoint, {});
  EXPECT_TRUE(model.ok()) << model.status();
  m.vocab = model->vocab_size;
  auto imported = ImportGraph(*model);
  EXPECT_TRUE(imported.ok()) << imported.status();
  PipelineOptions options;
  options.storage = storage;
  auto graphs = RunPipeline(*std::move(imported), options);
  EXPECT_TRUE(graphs.ok()) << graphs.status();
  EXPECT_FALSE(graphs->passes.empty());
  m.graph = std::move(graphs->unsliced);
  return m;
}

StorageChoice Int8() {
  StorageChoice s;
  s.weights = Encoding::kI8Row;
  return s;
}

RefTensor Ints(std::vector<int64_t> shape, std::vector<double> values) {
  RefTensor t;
  t.shape = std::move(shape);
  t.data = std::move(values);
  return t;
}

// What is read in pieces equals what is held whole, at every thread count.
TEST(StreamedGraph, EqualsTheEvaluator) {
  for (const char* name : {"qwen2", "gpt2", "llama-gqa-tied"}) {
    for (const StorageChoice& storage : {StorageChoice(), Int8()}) {
      const Model m = Compiled(name, storage);
      const NamedTensors inputs = {{"ids", Ints({5}, {3, 1, 4, 1, 5})},
                                   {"positions", Ints({5}, {0, 1, 2, 0, 1})},
                                   {"slots", Ints({5}, {0, 0, 0, 1, 1})},
                                   {"blocks", Ints({1, 1}, {0})},
                                   {"rows", Ints({2}, {2, 4})}};
      const WeightProvider whole =
          [&](const Weight& w) -> absl::StatusOr<RefTensor> {
        StoredRows reader(*m.checkpoint, w);
        RefTensor t;
        int64_t count = 1;
        for (const Dim& d : w.type.dims) {
          t.shape.push_back(d.size);
          count *= d.size;
        }
        std::vector<float> values(count);
        const absl::Status read =
            reader.Read(0, t.shape[0], absl::MakeSpan(values));
        if (!read.ok()) return read;
        t.data.assign(values.begin(), values.end());
        return t;
      };
      EvaluationStates states;
      const Graph* const graphs[] = {&m.graph};
      const auto want = Evaluate(graphs, whole, inputs, &states);
      DS_ASSERT_OK(want);
      std::vector<double> first;
      for (const int threads : {1, 3}) {
        StreamedGraph streamed(m.graph, *m.checkpoint, threads,
                               /*work_of_thread=*/1000);
        const auto got =
            streamed.Run(inputs, [](size_t) { return absl::OkStatus(); });
        DS_ASSERT_OK(got);
        ASSERT_EQ(got->shape, (*want)[0].shape);
        for (size_t i = 0; i < got->data.size(); ++i) {
          ASSERT_NEAR(got->data[i], (*want)[0].data[i], 1e-9) << name << i;
        }
        if (threads == 1) first = got->data;
        EXPECT_EQ(got->data, first) << "other bits with " << threads;
      }
    }
  }
}

GoldenOptions Options(const Model& m) {
  GoldenOptions o;
  o.budget = int64_t{1} << 40;
  o.vocab_size = m.vocab;
  o.max_seq_len = 128;
  o.margin = 2e-3;
  return o;
}

TEST(GoldenSequences, AreTheSameWhateverTheThreads) {
  const Model m = Compiled("qwen2", StorageChoice());
  const auto prompts = GoldenPrompts("", m.vocab);
  GoldenOptions options = Options(m);
  const auto one =
      MakeGoldenSequences(m.graph, *m.checkpoint, prompts, options);
  options.threads = 3;
  const auto three =
      MakeGoldenSequences(m.graph, *m.checkpoint, prompts, options);
  DS_ASSERT_OK(one);
  DS_ASSERT_OK(three);
  ASSERT_EQ(one->size(), static_cast<size_t>(kGoldenSequences));
  ASSERT_EQ(one->size(), three->size());
  for (size_t i = 0; i < one->size(); ++i) {
    EXPECT_EQ((*one)[i].prompt, (*three)[i].prompt);
    EXPECT_EQ((*one)[i].continuation, (*three)[i].continuation);
    EXPECT_GE((*one)[i].continuation.size(), 1u);
    EXPECT_LE((*one)[i].continuation.size(), 8u);
  }
}

// A token at a time gives the tokens that the whole sequence at once gives.
TEST(GoldenSequences, AreGreedy) {
  const Model m = Compiled("llama-gqa-tied", StorageChoice());
  const auto sequences = MakeGoldenSequences(
      m.graph, *m.checkpoint, GoldenPrompts("", m.vocab), Options(m));
  DS_ASSERT_OK(sequences);
  ASSERT_FALSE(sequences->empty());
  for (const GoldenSequence& s : *sequences) {
    std::vector<double> ids(s.prompt.begin(), s.prompt.end());
    ids.insert(ids.end(), s.continuation.begin(), s.continuation.end());
    const int64_t n = static_cast<int64_t>(ids.size());
    std::vector<double> positions(n), slots(n), rows(n);
    for (int64_t i = 0; i < n; ++i) positions[i] = rows[i] = i;
    StreamedGraph graph(m.graph, *m.checkpoint, 1);
    const auto logits = graph.Run({{"ids", Ints({n}, ids)},
                                   {"positions", Ints({n}, positions)},
                                   {"slots", Ints({n}, slots)},
                                   {"blocks", Ints({1, 1}, {0})},
                                   {"rows", Ints({n}, rows)}},
                                  [](size_t) { return absl::OkStatus(); });
    DS_ASSERT_OK(logits);
    for (int64_t i = s.prompt.size() - 1; i + 1 < n; ++i) {
      const double* row = logits->row(i);
      EXPECT_EQ(std::max_element(row, row + logits->cols()) - row, ids[i + 1]);
    }
  }
}

TEST(GoldenSequences, CostNoMoreThanTheBudget) {
  const Model m = Compiled("qwen2", StorageChoice());
  const auto prompts = GoldenPrompts("", m.vocab);
  const int64_t token =
      MatrixElements(m.graph) * static_cast<int64_t>(prompts.size());
  GoldenOptions options = Options(m);
  options.budget = token - 1;
  auto got = MakeGoldenSequences(m.graph, *m.checkpoint, prompts, options);
  DS_ASSERT_OK(got);
  EXPECT_TRUE(got->empty());
  options.budget = token;  // a prompt of one token, and one new one
  got = MakeGoldenSequences(m.graph, *m.checkpoint, prompts, options);
  DS_ASSERT_OK(got);
  ASSERT_FALSE(got->empty());
  EXPECT_EQ((*got)[0].prompt.size(), 1u);
  EXPECT_EQ((*got)[0].continuation.size(), 1u);
}

TEST(GoldenSequences, LeaveOutWhatDoesNotLeadClearly) {
  const Model m = Compiled("qwen2", StorageChoice());
  GoldenOptions options = Options(m);
  options.margin = 100;  // nothing leads by so much
  const auto got = MakeGoldenSequences(m.graph, *m.checkpoint,
                                       GoldenPrompts("", m.vocab), options);
  DS_ASSERT_OK(got);
  EXPECT_TRUE(got->empty());
}

TEST(GoldenSequences, StopWhenAskedTo) {
  const Model m = Compiled("qwen2", StorageChoice());
  GoldenOptions options = Options(m);
  options.stopped = [] { return true; };
  DS_EXPECT_ERROR(MakeGoldenSequences(m.graph, *m.checkpoint,
                                      GoldenPrompts("", m.vocab), options),
                  kCancelled, "interrupted");
}

TEST(GoldenPrompts, AreDistinctAndInTheVocabulary) {
  std::set<std::vector<int32_t>> seen;
  for (const auto& ids : GoldenPrompts("", 300)) {
    EXPECT_TRUE(seen.insert(ids).second);
    for (const int32_t id : ids) {
      EXPECT_GE(id, 0);
      EXPECT_LT(id, 300);
    }
  }
  EXPECT_GT(seen.size(), static_cast<size_t>(kGoldenSequences));
}

}  // namespace
}  // namespace deepslice
