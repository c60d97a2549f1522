// A plan of --random-weights holds no numbers, and is the plan of a checkpoint
// that holds them: the same bytes in memory, the same logits, at every tp.
#include "compiler/random_weights.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/checkpoint/test_files.h"
#include "compiler/compile.h"
#include "compiler/test_checkpoint.h"
#include "gtest/gtest.h"
#include "runtime/comm/local.h"
#include "runtime/executor.h"
#include "runtime/plan.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr uint64_t kSeed = 0x9e3779b97f4a7c15u;

struct Case {
  const char* name;
  const char* config;
};
// Joined and interleaved rows; biases; columns cut; tensors published
// transposed, tied heads, learned positions, no formula.
const Case kCases[] = {
    {"llama",
     R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 12,
         "intermediate_size": 40, "num_hidden_layers": 2,
         "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10,
         "vocab_size": 131, "max_position_embeddings": 64,
         "attention_bias": true, "mlp_bias": true})"},
    {"gpt2",
     R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 30, "n_layer": 2,
         "n_head": 3, "n_inner": 44, "vocab_size": 131, "n_positions": 48})"},
};

// A checkpoint of the numbers that the seed means, as float.
void WriteCheckpoint(const TempFolder& folder, const std::string& config) {
  DS_ASSERT_OK_AND_ASSIGN(const auto made, OpenRandomWeights(config, kSeed));
  TestTensors tensors;
  for (const TensorInfo& t : made->tensors()) {
    TestTensor& out = tensors[t.name];
    out.shape = t.shape;
    out.values.resize(t.num_elements());
    DS_ASSERT_OK(made->ReadRows(t, 0, t.rows(), absl::MakeSpan(out.values)));
  }
  folder.Write("model.safetensors", SafetensorsOf(tensors));
}

CompileOptions OptionsFor(const std::string& source, const std::string& output,
                          int tp, const std::string& dtype) {
  CompileOptions o;
  o.source = source;
  o.output = output;
  o.force = true;
  o.tp = tp;
  o.dtype = dtype;
  o.threads = 2;
  return o;
}

std::vector<Plan> LoadAll(const std::string& folder, int ranks) {
  std::vector<Plan> out;
  for (int r = 0; r < ranks; ++r) {
    absl::StatusOr<Plan> plan = Plan::Load(folder, r);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) return {};
    out.push_back(*std::move(plan));
  }
  return out;
}

// The last token's logits of a prompt, from rank 0.
std::vector<float> Logits(const std::vector<Plan>& ranks) {
  const std::vector<int32_t> ids = {5, 100, 7, 130, 0}, rows = {4};
  std::vector<std::unique_ptr<Comm>> comms = MakeLocalComms(ranks.size());
  std::vector<float> out;
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      ThreadPool pool(1);
      auto executor =
          Executor::Prepare(ranks[r], {.max_batch = 2}, comms[r].get(), &pool);
      ASSERT_TRUE(executor.ok()) << executor.status();
      std::vector<int32_t> positions, slots(ids.size(), 1), blocks;
      for (size_t i = 0; i < ids.size(); ++i) positions.push_back(i);
      for (int64_t i = 0; i < (*executor)->num_blocks(); ++i) {
        blocks.push_back(i);
      }
      const absl::Status done =
          (*executor)->Execute({ids, positions, slots, blocks, rows, {}});
      ASSERT_TRUE(done.ok()) << done;
      const auto logits = (*executor)->Logits();
      ASSERT_TRUE(logits.ok()) << logits.status();
      if (r == 0) {
        out.assign(*logits, *logits + (*executor)->vocab_size());
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return out;
}

class RandomWeights : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(All, RandomWeights, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST_P(RandomWeights, AreThoseOfACheckpointAtEveryTp) {
  TempFolder folder, plans;
  const std::string config = folder.Write("config.json", GetParam().config);
  WriteCheckpoint(folder, config);
  const std::string made = plans.Path("made"), stored = plans.Path("stored");
  std::vector<float> first;
  for (const std::string dtype : {"fp32", "bf16", "fp16"}) {
    for (const int tp : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat(dtype, " tp ", tp));
      CompileOptions o = OptionsFor(config, made, tp, dtype);
      o.random_weights = kSeed;
      DS_ASSERT_OK(Compile(o));
      DS_ASSERT_OK(Compile(OptionsFor(folder.path(), stored, tp, dtype)));
      const std::vector<Plan> a = LoadAll(made, tp), b = LoadAll(stored, tp);
      ASSERT_EQ(a.size(), static_cast<size_t>(tp));
      ASSERT_EQ(b.size(), static_cast<size_t>(tp));
      for (int r = 0; r < tp; ++r) {
        // The file has no more than the table of rotary frequencies.
        EXPECT_LE(a[r].weights().size(), 4096u);
        DS_ASSERT_OK(a[r].FillSynthetic(2));
        const auto& weights = *a[r].fb().weights();
        ASSERT_EQ(weights.size(), b[r].fb().weights()->size());
        for (uint32_t i = 0; i < weights.size(); ++i) {
          ASSERT_EQ(weights[i]->bytes(), b[r].fb().weights()->Get(i)->bytes());
          EXPECT_EQ(std::memcmp(a[r].weight_data(i), b[r].weight_data(i),
                                weights[i]->bytes()),
                    0)
              << "rank " << r << ", @" << weights[i]->name()->c_str();
        }
      }
      const std::vector<float> logits = Logits(a);
      ASSERT_EQ(logits, Logits(b));
      double most = 0;
      for (const float x : logits) most = std::max<double>(most, std::fabs(x));
      EXPECT_GT(most, 1e-3);
      if (first.empty()) first = logits;
      ASSERT_EQ(logits.size(), first.size());
      const double tolerance = dtype == "fp32" ? 2e-5 : 4e-2;
      for (size_t i = 0; i < logits.size(); ++i) {
        ASSERT_NEAR(logits[i], first[i], tolerance * most) << "token " << i;
      }
    }
  }
  for (const std::string& plan : {made, stored}) {
    std::filesystem::remove_all(plan);
  }
}

TEST(RandomWeightsInt8, AreWrittenToThePlan) {
  TempFolder folder, plans;
  const std::string config = folder.Write("config.json", kCases[0].config);
  CompileOptions o = OptionsFor(config, plans.Path("made"), 2, "int8");
  o.random_weights = 7;
  DS_ASSERT_OK(Compile(o));
  EXPECT_EQ(Logits(LoadAll(o.output, 2)).size(), 131u);
  std::filesystem::remove_all(o.output);
}

TEST(RandomWeightsErrors, NameTheConfig) {
  TempFolder folder;
  const std::string config = folder.Write("tiny.json", R"({
      "architectures": ["LlamaForCausalLM"], "hidden_size": "12"})");
  DS_EXPECT_ERROR(OpenRandomWeights(config, 1), kInvalidArgument,
                  "tiny.json: hidden_size: found \"12\"");
  DS_EXPECT_ERROR(OpenCheckpoint(config), kInvalidArgument,
                  "a config without weights");
  DS_EXPECT_ERROR(OpenRandomWeights(folder.Path("model.gguf"), 1), kNotFound,
                  "with --random-weights give a config.json");
  DS_EXPECT_ERROR(OpenRandomWeights(folder.path(), 1), kNotFound,
                  "config.json: no such file");
}

}  // namespace
}  // namespace deepslice
