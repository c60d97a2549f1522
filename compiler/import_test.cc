#include "compiler/import.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "compiler/model.h"
#include "compiler/random_weights.h"
#include "compiler/test_checkpoint.h"
#include "gtest/gtest.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

absl::StatusOr<Graph> ImportFolder(const std::string& folder) {
  DS_ASSIGN_OR_RETURN(const auto checkpoint, OpenCheckpoint(folder));
  DS_ASSIGN_OR_RETURN(const ModelDescription model, DescribeModel(*checkpoint));
  return ImportGraph(model);
}

// The import of a golden case is the text beside it; DS_UPDATE_GOLDENS=1
// rewrites that.
class ImportGolden : public testing::TestWithParam<const char*> {};

TEST_P(ImportGolden, IsTheTextBesideTheModel) {
  const std::string folder = GoldenCasePath(GetParam());
  DS_ASSERT_OK_AND_ASSIGN(const Graph graph, ImportFolder(folder));
  const std::string path = JoinPath(folder, "import.ir");
  const std::string text = PrintGraph(graph);
  const char* update = std::getenv("DS_UPDATE_GOLDENS");
  if (update != nullptr && std::string(update) == "1") {
    DS_ASSERT_OK(WriteFile(path, text));
  }
  DS_ASSERT_OK_AND_ASSIGN(const std::string golden, ReadFile(path, 1 << 20));
  EXPECT_EQ(text, golden) << "where the import is right, run the test with "
                             "DS_UPDATE_GOLDENS=1 and review the diff";
}

INSTANTIATE_TEST_SUITE_P(Models, ImportGolden,
                         testing::Values("gpt2", "llama-gqa-tied"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

// Gemma 3 turns by other angles in layers with a window: a model may have layers
// of one kind alone.
TEST(ImportGraph, HoldsTheAnglesThatItsLayersTurnBy) {
  const auto import = [](const std::string& types) -> absl::StatusOr<Graph> {
    TempFolder folder;
    DS_RETURN_IF_ERROR(WriteFile(
        folder.Path("config.json"),
        absl::StrCat(R"({"model_type": "gemma3_text", "vocab_size": 131,
            "hidden_size": 48, "intermediate_size": 76, "head_dim": 10,
            "num_hidden_layers": 3, "num_attention_heads": 6,
            "num_key_value_heads": 2, "sliding_window": 7,
            "max_position_embeddings": 96, "layer_types": )",
                     types, "}")));
    DS_ASSIGN_OR_RETURN(const auto checkpoint,
                        OpenRandomWeights(folder.Path("config.json"), 1));
    DS_ASSIGN_OR_RETURN(const ModelDescription model,
                        DescribeModel(*checkpoint));
    return ImportGraph(model);
  };
  const std::string window = "\"sliding_attention\"";
  const std::string full = "\"full_attention\"";
  const auto check = [&](const std::string& a, const std::string& b,
                         bool has_full, bool has_window) {
    DS_ASSERT_OK_AND_ASSIGN(
        const Graph graph,
        import(absl::StrCat("[", a, ", ", b, ", ", a, "]")));
    DS_ASSERT_OK(VerifyGraph(graph));
    EXPECT_EQ(graph.FindWeight("rope_freqs") != nullptr, has_full);
    EXPECT_EQ(graph.FindWeight("rope_local_freqs") != nullptr, has_window);
  };
  check(window, full, true, true);
  check(window, window, false, true);
  check(full, full, true, false);
}

absl::StatusOr<ModelDescription> DescribeLlama(const TempFolder& folder,
                                               absl::string_view more) {
  DS_ASSIGN_OR_RETURN(
      const auto checkpoint,
      MakeTestCheckpoint(folder, LlamaConfig(more), LlamaTensors()));
  return DescribeModel(*checkpoint);
}

TEST(ImportGraph, GivesYarnsAttentionFactorToBothRotations) {
  TempFolder folder;
  DS_ASSERT_OK_AND_ASSIGN(
      const ModelDescription model,
      DescribeLlama(folder, R"("rope_scaling": {"rope_type": "yarn",
          "factor": 4.0, "attention_factor": 1.25,
          "original_max_position_embeddings": 16})"));
  DS_ASSERT_OK_AND_ASSIGN(const Graph graph, ImportGraph(model));
  for (const char* name : {"layers.1.q_rot", "layers.1.k_rot"}) {
    const Value* v = graph.FindValue(name);
    ASSERT_NE(v, nullptr) << name;
    EXPECT_EQ(v->producer->f(attr::Rope::scale), 1.25) << name;
  }
  EXPECT_EQ(graph.FindWeight("rope_freqs")->source.formula, "rope_freqs_yarn");
}

TEST(ImportGraph, ReadsTheEmbeddingTwiceForATiedHead) {
  DS_ASSERT_OK_AND_ASSIGN(const Graph graph,
                          ImportFolder(GoldenCasePath("llama-gqa-tied")));
  const Weight* embed = graph.FindWeight("embed");
  const Weight* head = graph.FindWeight("head");
  ASSERT_NE(embed, nullptr);
  ASSERT_NE(head, nullptr);
  EXPECT_EQ(embed->source, head->source);
  EXPECT_EQ(head->role, Role::kHead);
}

TEST(ImportGraph, RefusesADescriptionWithoutAWeightThatItsAttributesNeed) {
  TempFolder folder;
  DS_ASSERT_OK_AND_ASSIGN(ModelDescription model, DescribeLlama(folder, ""));
  std::erase_if(model.weights, [](const ModelWeight& w) {
    return w.name == "layers.1.mlp_gate";
  });
  DS_EXPECT_ERROR(ImportGraph(model), kInternal,
                  "policies/llama.json: nothing makes @layers.1.mlp_gate");
}

}  // namespace
}  // namespace deepslice
