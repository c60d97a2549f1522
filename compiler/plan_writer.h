// Writes a plan folder from the graphs of all ranks: weights first, then the
// FlatBuffers that address them, the report, and the manifest last.
#ifndef DEEPSLICE_COMPILER_PLAN_WRITER_H_
#define DEEPSLICE_COMPILER_PLAN_WRITER_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "compiler/golden_sequences.h"
#include "compiler/progress.h"
#include "compiler/rendered_conversations.h"
#include "compiler/schedule.h"
#include "compiler/weight_supply.h"
#include "ir/graph.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/plan_generated.h"

namespace deepslice {

struct GenerationSettings {
  std::vector<int32_t> eos_ids;
  int32_t bos_id = -1;
  int32_t pad_id = -1;
  bool do_sample = false;
  float temperature = 1;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  float typical_p = 1;
  float repetition_penalty = 1;
  int64_t max_new_tokens = 0;  // 0: not given
  int64_t min_new_tokens = 0;
  int32_t num_beams = 1;
  float length_penalty = 1;
  uint8_t early_stopping = 0;  // BeamParams::Stop in runtime/beam_search.h
  int32_t num_return_sequences = 1;
  std::vector<int32_t> suppress_tokens;
};

struct ChatSettings {
  ChatTemplates templates;
  // bos_token, ...: what templates see; those a model lacks are not here.
  std::vector<std::pair<std::string, std::string>> tokens;
};

struct GpuPlans;  // compiler/gpu/gpu_plan.h

// A file that is written as it is.
struct KeptFile {
  std::string name;
  std::string text;
  MappedFile file;  // in place of the text, when it is open
  absl::string_view bytes() const {
    return file.path().empty() ? absl::string_view(text) : file.bytes();
  }
};

// What a plan says besides its graphs.
struct PlanContents {
  std::string family;
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  StepCeilings ceilings;
  bool cpu = true;                // has a program for the CPU
  bool encodes = false;           // which is of kind encode
  // Of a plan that reads whole sequences at once.
  absl::optional<fb::EncoderSettingsT> encoder;
  // Published names of inputs and outputs beside the program's.
  std::vector<std::pair<std::string, std::string>> published = {
      {"input_ids", "ids"}, {"logits", "logits"}};
  const GpuPlans* gpu = nullptr;  // compiled; nullptr: no GPU targets
  std::string tokenizer;      // TokenizerTables::bytes; empty: none
  ChatSettings chat;
  GenerationSettings generation;
  std::string source;    // opaque to the runtime; see plan_origin.h
  std::vector<KeptFile> source_files;  // kSourceFilePrefix of plan_origin.h
  std::vector<GoldenSequence> golden;
  std::vector<RenderedConversation> rendered;
  std::vector<std::string> passes;  // that changed the graph, for provenance
  json::Value options;   // effective compile options, for provenance
  json::Value coverage;  // of the checkpoint, for report.json
  // Of a plan made from another, whose supply has no checkpoint: its sources,
  // and the rows of "quantised" in its report.
  json::Value sources, quantised;
  // A user's or an automatic policy, null for one that is built in; and what the
  // automatic one decided.
  json::Value policy;
  std::vector<std::string> decisions;
};

struct WriteOptions {
  std::string output;
  bool replace = false;
  int threads = 1;
  ReportProgress progress;
};

struct WrittenPlan {
  std::string plan_set_id;
  uint64_t bytes = 0;          // of all files
  std::vector<int64_t> arena;  // per rank, at the ceilings
};

// `ranks` are the lowered graphs, one per rank; their collectives must agree
// unless `unchecked`. Nothing is left behind on failure.
absl::StatusOr<WrittenPlan> WritePlan(const WeightSupply& supply,
                                      const std::vector<const Graph*>& ranks,
                                      const PlanContents& contents,
                                      const WriteOptions& options,
                                      bool unchecked = false);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_PLAN_WRITER_H_
