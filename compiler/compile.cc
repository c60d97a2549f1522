#include "compiler/compile.h"

#include <algorithm>
#include <limits>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/chat_settings.h"
#include "compiler/checkpoint/checkpoint.h"
#include "compiler/compile_targets.h"
#include "compiler/dtype_option.h"
#include "compiler/encoder_settings.h"
#include "compiler/generation_settings.h"
#include "compiler/golden_sequences.h"
#include "compiler/import.h"
#include "compiler/model.h"
#include "compiler/pipeline.h"
#include "compiler/plan_folder.h"
#include "compiler/plan_lock.h"
#include "compiler/plan_origin.h"
#include "compiler/random_weights.h"
#include "compiler/rendered_conversations.h"
#include "compiler/tokenizer_source.h"
#include "compiler/weight_supply.h"
#include "runtime/text/tokenizer_tables.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::StatusOr<StepCeilings> ChooseCeilings(
    const CompileOptions& o, const ModelDescription& model,
    const std::vector<CompileTarget>& targets) {
  StepCeilings c;
  // A GPU needs that many tokens to be busy.
  if (!HasCpu(targets)) c.max_step_tokens = 2048;
  c.max_seq_len = std::min<int64_t>(model.max_positions, 4096);
  if (o.max_seq_len > 0) {
    c.max_seq_len = o.lower_max_seq_len
                        ? std::min(o.max_seq_len, model.max_positions)
                        : o.max_seq_len;
  }
  if (IsEncoder(model)) {
    // Whole sequences, and several short ones together.
    c.max_batch = 32;
    c.max_step_tokens = std::max(c.max_step_tokens, c.max_seq_len);
  }
  if (o.max_batch > 0) c.max_batch = o.max_batch;
  if (o.max_step_tokens > 0) c.max_step_tokens = o.max_step_tokens;
  if (o.kv_block > 0) c.kv_block = o.kv_block;
  if (c.max_seq_len > model.max_positions) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "--max-seq-len %d: the model has %d positions; use at most %d",
        c.max_seq_len, model.max_positions, model.max_positions));
  }
  // A source is whole, and several share a step.
  if (!IsEncoder(model) && !model.towers.empty()) {
    c.max_source_tokens = c.max_step_tokens;
  }
  if (!model.towers.empty() && model.towers[0].image_size > 0) {
    // As many as keep the arena small.
    constexpr int64_t kImageTokens = 4096;
    c.image_tokens = model.towers[0].max_positions;
    c.max_images =
        std::clamp<int64_t>(kImageTokens / c.image_tokens, 1, c.max_batch);
  }
  if (IsEncoder(model) && c.max_step_tokens < c.max_seq_len) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "--max-step-tokens %d: an encoder reads a sequence in one step, and "
        "--max-seq-len is %d; use at least that, or lower --max-seq-len",
        c.max_step_tokens, c.max_seq_len));
  }
  // A step holds at least one token of every sequence.
  if (c.max_step_tokens < c.max_batch) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "--max-step-tokens %d: smaller than --max-batch %d; use at least %d",
        c.max_step_tokens, c.max_batch, c.max_batch));
  }
  return c;
}

// What a plan says of a model that reads whole sequences, and the published
// names of its inputs and outputs.
absl::Status SetEncoder(const Checkpoint& checkpoint,
                        const ModelDescription& model, const Graph& graph,
                        const std::function<void(const std::string&)>& log,
                        PlanContents* contents) {
  contents->encodes = IsEncoder(model);
  if (!contents->encodes && model.towers.empty()) return absl::OkStatus();
  DS_ASSIGN_OR_RETURN(contents->encoder,
                      MakeEncoderSettings(checkpoint, model, log));
  if (!contents->encodes) {
    contents->published = {{"input_ids", "source_ids"},
                           {"decoder_input_ids", "ids"},
                           {"logits", "logits"}};
    return absl::OkStatus();
  }
  contents->published = {{"input_ids", "ids"}};
  if (contents->encoder->image != nullptr) {
    contents->published.emplace_back("pixel_values", "pixels");
  }
  if (model.types > 0) contents->published.emplace_back("token_type_ids", "types");
  for (const Value* v : graph.returns()) {
    contents->published.emplace_back(v->name, v->name);
  }
  return absl::OkStatus();
}

json::Value EffectiveOptions(const CompileOptions& o, const StepCeilings& c,
                             absl::string_view dtype) {
  json::Value v = json::Value::Object();
  v.Set("target", absl::StrJoin(o.targets, ","));
  v.Set("dtype", dtype);
  v.Set("tp", o.tp);
  v.Set("max_seq_len", c.max_seq_len);
  v.Set("max_batch", c.max_batch);
  v.Set("max_step_tokens", c.max_step_tokens);
  v.Set("kv_block", c.kv_block);
  if (o.device_memory > 0) v.Set("device_memory", o.device_memory);
  if (o.random_weights.has_value()) {
    // As text: JSON's integers end at 2^63.
    v.Set("random_weights", absl::StrCat(*o.random_weights));
  }
  if (o.vocab_size > 0) v.Set("vocab_size", o.vocab_size);
  if (!o.qkv_layout.empty()) v.Set("qkv_layout", o.qkv_layout);
  return v;
}

// Multiply-adds that golden sequences may take: a second or two.
constexpr int64_t kGoldenBudget = int64_t{8} << 30;

// What a token must lead by, as a part of the logits' spread, to be the same on
// every target: how far activations and caches of a type put logits apart.
double GoldenMargin(const StorageChoice& storage, bool gpu) {
  const Encoding type = gpu ? storage.base : storage.cache;
  switch (type) {
    case Encoding::kF16:
      return gpu ? 3e-2 : 1e-2;
    case Encoding::kBF16:
      return gpu ? 0.2 : 5e-2;
    default:
      return 2e-3;
  }
}

absl::StatusOr<std::vector<GoldenSequence>> MakeGolden(
    const CompileOptions& o, const Graph& unsliced,
    const Checkpoint& checkpoint, const PlanContents& contents,
    const StorageChoice& storage, bool gpu, int threads) {
  // An encoder has nothing to continue; a decoder beside one needs its source.
  if (contents.encoder.has_value()) return std::vector<GoldenSequence>();
  GoldenOptions golden;
  golden.budget = o.selftest == "full" ? std::numeric_limits<int64_t>::max()
                  : o.selftest == "none" ? 0
                                         : kGoldenBudget;
  golden.vocab_size = contents.vocab_size;
  golden.max_seq_len = contents.ceilings.max_seq_len;
  golden.margin = GoldenMargin(storage, gpu);
  golden.threads = threads;
  golden.stopped = PlanWritingInterrupted;
  golden.progress = o.progress;
  return MakeGoldenSequences(
      unsliced, checkpoint,
      GoldenPrompts(contents.tokenizer, contents.vocab_size), golden);
}

GpuCompileOptions GpuOptions(const CompileOptions& o, int threads) {
  GpuCompileOptions out;
  out.dump_ir = o.dump_ir;
  out.dump_filter = o.dump_filter;
  out.unchecked = o.unchecked;
  out.kernel_cache = o.kernel_cache;
  out.threads = threads;
  out.log = o.log;
  out.progress = o.progress;
  return out;
}

// The source; of a vocabulary that may be padded, the tokenizer's part.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenSource(
    const CompileOptions& o) {
  OpenOptions open;
  open.ignore_index = o.ignore_index;
  open.vocab_size = o.vocab_size;
  open.qkv_layout = o.qkv_layout;
  open.base_dir = o.base_dir;
  open.list_in_config = o.list_in_config;
  DS_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                      OpenCheckpoint(o.source, open));
  const int ranks = checkpoint->training_mp_size();
  if (o.training_mp_size > 0 && ranks == 0 && o.log) {
    o.log(absl::StrFormat(
        "--training-mp-size %d: not checked: %s holds whole tensors",
        o.training_mp_size, o.source));
  }
  if (o.training_mp_size > 0 && ranks > 0 && o.training_mp_size != ranks) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--training-mp-size %d: %s was saved by %d tensor-parallel rank%s; "
        "name the checkpoint that is meant, or leave the flag out",
        o.training_mp_size, o.source, ranks, ranks == 1 ? "" : "s"));
  }
  if (checkpoint->padded_vocab() == 0) return checkpoint;
  DS_ASSIGN_OR_RETURN(open.vocab_size,
                      TokenizerSize(*checkpoint, o.tiktoken_pattern));
  if (open.vocab_size == 0 || open.vocab_size >= checkpoint->padded_vocab()) {
    return checkpoint;
  }
  if (o.log) {
    o.log(absl::StrFormat("%s: the vocabulary is cut from %d rows to the %d of "
                          "the tokenizer; --vocab-size N keeps the first N",
                          o.source, checkpoint->padded_vocab(),
                          open.vocab_size));
  }
  return OpenCheckpoint(o.source, open);
}

}  // namespace

absl::StatusOr<CompileResult> Compile(const CompileOptions& o) {
  const auto log = [&](const std::string& line) {
    if (o.log) o.log(line);
  };
  DS_ASSIGN_OR_RETURN(const std::vector<CompileTarget> targets,
                      ParseTargets(o.targets, o.device_memory, log));
  if (o.tp < 1 || o.tp > limits::kWorldSize) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "--tp %d: allowed are 1 to %d", o.tp, limits::kWorldSize));
  }
  const bool writes = o.stop_after.empty();
  std::unique_ptr<PlanLock> lock;
  if (writes) {
    DS_RETURN_IF_ERROR(CheckOutputApart(o.output, o.source));
    // Refuses an output that exists before anything is read.
    DS_RETURN_IF_ERROR(PlanFolder::Create(o.output, o.force).status());
    DS_ASSIGN_OR_RETURN(lock, PlanLock::Take(o.output));
  }

  std::string policy_text;
  if (!o.policy.empty()) {
    DS_ASSIGN_OR_RETURN(policy_text,
                        ReadFile(o.policy, limits::kConfigFileBytes));
  }
  DS_ASSIGN_OR_RETURN(
      const std::unique_ptr<Checkpoint> checkpoint,
      o.random_weights.has_value()
          ? OpenRandomWeights(o.source, *o.random_weights, policy_text,
                              o.policy)
          : OpenSource(o));
  for (const std::string& note : checkpoint->notes()) log(note);
  DS_ASSIGN_OR_RETURN(
      const ModelDescription model,
      DescribeModel(*checkpoint, {.policy_text = policy_text,
                                  .policy_name = o.policy,
                                  .injection = o.injection,
                                  .assume_tied = o.assume_tied,
                                  .trust_lm_head = o.trust_lm_head}));
  for (const std::string& note : model.notes) log(note);

  PipelineOptions pipeline;
  pipeline.tp = o.tp;
  DS_ASSIGN_OR_RETURN(pipeline.storage, ChooseStorage(o.dtype, model.dtype));
  // Who asks for less than 16 bits has asked for small weights, and GPUs
  // multiply by weights of one type.
  if (pipeline.storage.weights == pipeline.storage.base && !HasGpu(targets)) {
    pipeline.storage.precise = model.precise;
  }
  pipeline.dump_dir = o.dump_ir;
  pipeline.dump_filter = o.dump_filter;
  pipeline.stop_after = o.stop_after;
  pipeline.start_from = o.start_from;
  pipeline.time_passes = o.time_passes;
  pipeline.log = o.log;

  CompileResult result;
  result.family = model.family;
  result.dtype = std::string(StorageName(pipeline.storage));
  DS_ASSIGN_OR_RETURN(const StepCeilings ceilings,
                      ChooseCeilings(o, model, targets));
  if (o.max_seq_len > ceilings.max_seq_len) {
    log(absl::StrFormat(
        "sequences hold the model's %d positions, not the %d tokens asked for",
        ceilings.max_seq_len, o.max_seq_len));
  }
  DS_ASSIGN_OR_RETURN(Graph imported, ImportGraph(model));
  DS_ASSIGN_OR_RETURN(const CompiledGraphs graphs,
                      RunPipeline(std::move(imported), pipeline));
  if (graphs.stopped) {
    result.stopped = true;
    return result;
  }

  PlanContents contents;
  contents.family = model.family;
  contents.vocab_size = model.vocab_size;
  contents.max_positions = model.max_positions;
  contents.ceilings = ceilings;
  DS_ASSIGN_OR_RETURN(const TokenizerTables tokenizer,
                      ReadTokenizer(*checkpoint, o.tiktoken_pattern,
                                    model.vocab_size));
  for (const std::string& note : tokenizer.notes) log(note);
  contents.tokenizer = tokenizer.bytes;
  contents.chat = MakeChatSettings(*checkpoint, tokenizer.bytes, log);
  DS_ASSIGN_OR_RETURN(contents.generation,
                      MakeGenerationSettings(*checkpoint, tokenizer.bytes,
                                             model.vocab_size, o.log));
  DS_RETURN_IF_ERROR(SetEncoder(*checkpoint, model, graphs.unsliced, log,
                                &contents));
  contents.options = EffectiveOptions(o, ceilings, result.dtype);
  contents.coverage = CoverageJson(model.coverage);
  if (!model.policy_text.empty()) {
    DS_ASSIGN_OR_RETURN(contents.policy, json::Parse(model.policy_text));
    for (const std::string& line : model.decisions) {
      contents.decisions.push_back(line);
    }
  }
  DS_ASSIGN_OR_RETURN(WrittenOrigin origin,
                      WriteOrigin({.graphs = &graphs,
                                   .checkpoint = checkpoint.get(),
                                   .model = &model,
                                   .ceilings = ceilings,
                                   .options = contents.options,
                                   .policy = contents.policy,
                                   .decisions = contents.decisions,
                                   .head_by_flag =
                                       o.assume_tied || o.trust_lm_head}));
  contents.source = std::move(origin.source);
  if (!checkpoint->tokenizer_json_path().empty()) {
    KeptFile kept;
    DS_ASSIGN_OR_RETURN(kept.file,
                        MappedFile::Open(checkpoint->tokenizer_json_path()));
    kept.name = absl::StrCat(kSourceFilePrefix, Basename(kept.file.path()));
    contents.source_files.push_back(std::move(kept));
  }
  if (!origin.exact.empty()) {
    KeptFile kept;
    kept.name = std::string(kExactTensorsFile);
    kept.text = std::move(origin.exact);
    contents.source_files.push_back(std::move(kept));
  }

  std::vector<const Graph*> ranks;
  for (const Graph& g : graphs.ranks) ranks.push_back(&g);
  const int threads = o.threads > 0
                          ? o.threads
                          : std::max(1u, std::thread::hardware_concurrency());
  contents.passes = graphs.passes;
  contents.rendered =
      RenderConversations(contents.chat, contents.tokenizer);
  DS_ASSIGN_OR_RETURN(
      contents.golden,
      MakeGolden(o, graphs.unsliced, *checkpoint, contents, pipeline.storage,
                 HasGpu(targets), threads));
  const CheckpointSupply supply(*checkpoint);
  GpuPlans gpu;
  contents.cpu = HasCpu(targets);
  if (HasGpu(targets)) {
    DS_ASSIGN_OR_RETURN(gpu, CompileForGpus(GpuOptions(o, threads), supply,
                                            ranks, ceilings, targets));
    contents.gpu = &gpu;
  }

  WriteOptions write;
  write.output = o.output;
  write.replace = o.force;
  write.threads = threads;
  write.progress = o.progress;
  DS_ASSIGN_OR_RETURN(
      result.plan, WritePlan(supply, ranks, contents, write, o.unchecked));
  return result;
}

}  // namespace deepslice
