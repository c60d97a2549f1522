#include "tools/plan_verify.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/emit_weight.h"
#include "compiler/import.h"
#include "compiler/weight_reader.h"
#include "kernels/thread_pool.h"
#include "passes/evaluate.h"
#include "passes/quantize_weights.h"
#include "runtime/comm/local.h"
#include "runtime/executor.h"
#include "schema/base/dtype.h"
#include "schema/base/status_macros.h"
#include "schema/encoding.h"
#include "schema/roles.h"
#include "tools/plan_view.h"

namespace deepslice {
namespace {

// Tokens after the prefill that run one at a time.
constexpr int kDecodeSteps = 2;

// How the plan stores matrices, as passes/quantize_weights.h chose it.
StorageChoice StorageOf(const fb::Plan& plan) {
  StorageChoice choice;
  for (const fb::Weight* w : *plan.weights()) {
    if (w->shape()->size() < 2) continue;
    const Encoding e = static_cast<Encoding>(w->encoding());
    if (e == Encoding::kF32) continue;
    (GetRole(static_cast<Role>(w->role())).quantised ? choice.weights
                                                     : choice.base) = e;
  }
  for (const fb::Weight* w : *plan.weights()) {
    if (w->shape()->size() < 2) continue;
    const absl::string_view name = w->name()->c_str();
    const auto role = static_cast<Role>(w->role());
    if (static_cast<Encoding>(w->encoding()) == Encoding::kF32 &&
        MatrixEncoding(choice, name, role) != Encoding::kF32) {
      choice.precise.emplace_back(name.substr(name.rfind('.') + 1));
    }
  }
  for (const fb::State* s : *plan.states()) {
    choice.cache = static_cast<Encoding>(s->encoding());
  }
  return choice;
}

// The interpretation reads the weights as the plan rounds them, so what may
// differ is float against double, and keys and values rounded in the cache.
double ToleranceOf(const StorageChoice& choice) {
  switch (choice.cache) {
    case Encoding::kF16:
      return 3e-2;
    case Encoding::kBF16:
      return 8e-2;
    default:
      return 2e-4;
  }
}

struct Chunk {
  int begin, end;  // of the sequence
};

// A prefill, in several chunks where a step takes fewer than its tokens, then
// single tokens.
std::vector<Chunk> ChunksOf(int count, int most) {
  const int prefill = std::max(1, count - kDecodeSteps);
  std::vector<Chunk> chunks;
  for (int i = 0; i < count; i = chunks.back().end) {
    chunks.push_back({i, i < prefill ? std::min(prefill, i + most) : i + 1});
  }
  return chunks;
}

bool Encodes(const Plan& plan) {
  const fb::Program* program = CpuProgram(plan);
  return program != nullptr && program->kind() == fb::ProgramKind::Encode;
}

// The most tokens of a step; without a program for the CPU nothing runs.
int MostTokens(const Plan& plan) {
  const fb::Program* program = CpuProgram(plan);
  if (program == nullptr) return 1;
  for (const fb::NamedDim* d : *program->dims()) {
    // No probe is longer.
    if (d->name()->str() == "T") {
      return static_cast<int>(std::min<int64_t>(d->maximum(), 1 << 20));
    }
  }
  return 1;
}

// Values by name, one entry per chunk.
struct Recorded {
  int64_t rows = 0, cols = 0;
  std::vector<double> data;
};
using ByName = std::map<std::string, std::vector<Recorded>>;

// Rounds a row as the plan stores it. Internal when that moves a value by more
// than half a step, which would be a fault of the rounding itself: the bound is
// of the format, not of the code that rounds.
absl::Status RoundRow(Encoding encoding, absl::Span<float> row) {
  float largest = 0;
  for (const float v : row) largest = std::max(largest, std::fabs(v));
  std::vector<float> rounded(row.begin(), row.end());
  double step = 0, relative = 0;
  if (encoding == Encoding::kI8Row) {
    std::vector<int8_t> q(row.size());
    const float scale = RowScale(row.data(), row.size());
    QuantizeRow(row.data(), row.size(), scale, q.data());
    for (size_t i = 0; i < row.size(); ++i) rounded[i] = q[i] * scale;
    // Rows too small for a normal scale are zeros.
    step = std::max(largest / 127.0, 254 * std::ldexp(1.0, -126));
  } else if (encoding == Encoding::kBF16) {
    for (float& v : rounded) v = BF16ToFloat(FloatToBF16(v));
    relative = std::ldexp(1.0, -7);
  } else if (encoding == Encoding::kF16) {
    for (float& v : rounded) v = F16ToFloat(FloatToF16(v));
    relative = std::ldexp(1.0, -10);
    step = std::ldexp(1.0, -24);  // subnormal
  }
  for (size_t i = 0; i < row.size(); ++i) {
    const double allowed =
        0.5001 * (step + relative * std::fabs(row[i])) + 1e-45;
    if (std::fabs(static_cast<double>(rounded[i]) - row[i]) > allowed) {
      return absl::InternalError(absl::StrFormat(
          "column %d: %g is stored as %g in %s, more than half a step away", i,
          row[i], rounded[i], EncodingName(encoding)));
    }
    row[i] = rounded[i];
  }
  return absl::OkStatus();
}

WeightProvider ProviderOf(const Checkpoint& checkpoint,
                          const StorageChoice& storage) {
  return [&checkpoint, storage](const Weight& w) -> absl::StatusOr<RefTensor> {
    WeightReader reader(checkpoint, w);
    RefTensor out;
    int64_t count = 1;
    for (const Dim& d : w.type.dims) {
      out.shape.push_back(d.size);
      count *= d.size;
    }
    std::vector<float> values(count);
    DS_RETURN_IF_ERROR(
        reader.ReadRows(0, w.type.dims[0].size, absl::MakeSpan(values)));
    if (w.type.rank() == 2) {
      const Encoding e = MatrixEncoding(storage, w.name, w.role);
      const int64_t cols = w.type.dims[1].size;
      for (int64_t r = 0; r < w.type.dims[0].size; ++r) {
        DS_RETURN_IF_ERROR(Annotate(
            RoundRow(e, absl::MakeSpan(values.data() + r * cols, cols)), "@",
            w.name, ": row ", r));
      }
    }
    out.data.assign(values.begin(), values.end());
    return out;
  };
}

RefTensor Ints(const std::vector<int64_t>& shape,
               const std::vector<int32_t>& values) {
  RefTensor t;
  t.shape = shape;
  t.data.assign(values.begin(), values.end());
  return t;
}

// What an encoder beside the decoder reads in a chunk: in the first one all
// ids, in the others nothing.
struct Source {
  std::vector<int32_t> ids, positions, slots;
  int64_t size() const { return static_cast<int64_t>(ids.size()); }
};
Source SourceOf(const std::vector<int32_t>& ids, const Chunk& chunk) {
  Source source;
  if (chunk.begin > 0) return source;
  source.ids = ids;
  for (size_t i = 0; i < ids.size(); ++i) {
    source.positions.push_back(static_cast<int32_t>(i));
  }
  source.slots.assign(ids.size(), 0);
  return source;
}

// A made-up picture's tokens, for a plan that takes images; none for size 0.
struct Image {
  std::vector<int32_t> positions, slots;
  std::vector<double> pixels;  // [tokens, cols], zeros for the class token
  int64_t cols = 0;
  int64_t size() const { return static_cast<int64_t>(positions.size()); }
};
Image ImageOf(int64_t size, int64_t patch) {
  Image image;
  if (size == 0 || patch == 0) return image;
  const int64_t tokens = size / patch * (size / patch) + 1;
  image.cols = 3 * patch * patch;
  for (int64_t t = 0; t < tokens; ++t) {
    image.positions.push_back(static_cast<int32_t>(t));
    for (int64_t c = 0; c < image.cols; ++c) {
      // Exact in float.
      const auto wave = static_cast<double>((t * 31 + c * 7) % 97) / 64 - 0.75;
      image.pixels.push_back(t == 0 ? 0 : wave);
    }
  }
  image.slots.assign(tokens, 0);
  return image;
}

using OnValue = std::function<void(uint64_t done, uint64_t all)>;

absl::StatusOr<ByName> Interpret(const Checkpoint& checkpoint,
                                 const ModelDescription& model,
                                 const StorageChoice& storage,
                                 const std::vector<int32_t>& ids,
                                 const std::vector<Chunk>& chunks,
                                 const OnValue& on_value) {
  DS_ASSIGN_OR_RETURN(const Graph graph, ImportGraph(model));
  ByName out;
  uint64_t done = 0;
  EvaluationStates states;
  const Graph* const graphs[] = {&graph};
  const WeightProvider weights = ProviderOf(checkpoint, storage);
  for (const Chunk& c : chunks) {
    const int64_t n = c.end - c.begin;
    const Source source = SourceOf(ids, c);
    const Image image = ImageOf(
        model.towers.empty() ? 0 : model.towers[0].image_size,
        model.towers.empty() ? 1 : model.towers[0].patch_size);
    std::vector<int32_t> part(ids.begin() + c.begin, ids.begin() + c.end);
    std::vector<int32_t> positions, slots(n, 0), rows;
    for (int i = c.begin; i < c.end; ++i) positions.push_back(i);
    for (int i = 0; i < n; ++i) rows.push_back(i);
    const bool encodes = model.head != TaskHead::kCausalLm;
    if (encodes) rows.resize(1);
    const auto num_rows = static_cast<int64_t>(rows.size());
    const NamedTensors known = {
        {"ids", Ints({n}, part)},
        {"positions", Ints({n}, positions)},
        {"slots", Ints({n}, slots)},
        {"blocks", Ints({1, 1}, {0})},
        {"rows", Ints({num_rows}, rows)},
        {"horizons", Ints({1}, {static_cast<int32_t>(ids.size())})},
        {"prompts", Ints({1}, {static_cast<int32_t>(ids.size())})},
        {"types", Ints({n}, std::vector<int32_t>(n, 0))},
        {"source_ids", Ints({source.size()}, source.ids)},
        {"source_positions", Ints({source.size()}, source.positions)},
        {"source_slots", Ints({source.size()}, source.slots)},
        {"sources", Ints({1, 2}, {0, static_cast<int32_t>(ids.size())})},
        {"pixels", {{image.size(), image.cols}, image.pixels}},
        {"image_positions", Ints({image.size()}, image.positions)},
        {"image_slots", Ints({image.size()}, image.slots)},
        {"image_rows", Ints({1}, {0})}};
    NamedTensors inputs;
    for (const auto& p : graph.params()) {
      const auto found = known.find(p->name);
      if (found != known.end()) inputs.insert(*found);
    }
    EvaluateOptions options;
    options.observer = [&](int, const Value& v, const RefTensor& t) {
      out[v.name].push_back({t.rows(), t.cols(), t.data});
      if (on_value) on_value(++done, graph.nodes().size() * chunks.size());
    };
    DS_RETURN_IF_ERROR(
        Evaluate(graphs, weights, inputs, &states, options).status());
  }
  return out;
}

// Runs one rank over all chunks; rank 0 records.
absl::Status RunRank(const Plan& plan, Comm* comm,
                     const std::vector<int32_t>& ids,
                     const std::vector<Chunk>& chunks, ByName* recorded,
                     std::vector<std::string>* order) {
  ThreadPool pool(1);
  RunLimits limits;
  limits.max_batch = 1;
  DS_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                      Executor::Prepare(plan, limits, comm, &pool));
  const fb::Program& program = *CpuProgram(plan);
  if (recorded != nullptr) {
    executor->SetObserver(
        [&](int step, const float* data, int64_t rows, int64_t cols) {
          const std::string name = program.steps()->Get(step)->name()->str();
          std::vector<Recorded>& list = (*recorded)[name];
          if (list.empty()) order->push_back(name);
          list.push_back({rows, cols, {data, data + rows * cols}});
        });
  }
  std::vector<int32_t> blocks(executor->blocks_per_seq() *
                              executor->limits().max_batch);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = i;
  const int64_t longest = executor->limits().max_seq_len;
  if (static_cast<int64_t>(ids.size()) > longest) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the plan takes sequences of %d tokens, the probe has "
                        "%d; give fewer --prompt-ids, or --tokens %d",
                        longest, ids.size(), longest));
  }
  const std::vector<int32_t> horizons(executor->limits().max_batch,
                                      static_cast<int32_t>(ids.size()));
  for (const Chunk& c : chunks) {
    std::vector<int32_t> positions, rows;
    for (int i = c.begin; i < c.end; ++i) {
      positions.push_back(i);
      rows.push_back(i - c.begin);
    }
    const std::vector<int32_t> slots(positions.size(), 0);
    if (executor->encodes()) rows.resize(1);  // the first token's
    StepBatch batch;
    if (executor->reads_types()) batch.types = slots;  // zeros, too
    batch.ids = absl::MakeConstSpan(ids).subspan(c.begin, c.end - c.begin);
    batch.positions = positions;
    batch.slots = slots;
    batch.blocks = blocks;
    batch.rows = rows;
    batch.horizons = horizons;
    const Source source = SourceOf(ids, c);
    const int32_t sources[] = {0, static_cast<int32_t>(ids.size())};
    if (executor->max_source_tokens() > 0) {
      batch.source_ids = source.ids;
      batch.source_positions = source.positions;
      batch.source_slots = source.slots;
      batch.sources = sources;
    }
    const fb::EncoderSettings* settings = plan.fb().encoder();
    const fb::ImageInput* input =
        settings == nullptr ? nullptr : settings->image();
    const bool sees = input != nullptr && executor->max_images() > 0;
    const Image image = ImageOf(sees ? input->size() : 0,
                                sees ? input->patch() : 1);
    const std::vector<float> pixels(image.pixels.begin(), image.pixels.end());
    const int32_t image_rows[] = {0};
    if (sees) {
      batch.image_positions = image.positions;
      batch.image_slots = image.slots;
      batch.image_rows = image_rows;
      batch.pixels = pixels;
    }
    DS_RETURN_IF_ERROR(executor->Execute(batch));
  }
  return absl::OkStatus();
}

absl::Status RunAllRanks(const std::vector<Plan>& ranks,
                         const std::vector<int32_t>& ids,
                         const std::vector<Chunk>& chunks, ByName* recorded,
                         std::vector<std::string>* order) {
  if (ranks.size() == 1) {
    return RunRank(ranks[0], nullptr, ids, chunks, recorded, order);
  }
  std::vector<std::unique_ptr<Comm>> comms =
      MakeLocalComms(static_cast<int>(ranks.size()));
  std::vector<absl::Status> statuses(ranks.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.size(); ++r) {
    threads.emplace_back([&, r] {
      statuses[r] = RunRank(ranks[r], comms[r].get(), ids, chunks,
                            r == 0 ? recorded : nullptr, order);
      if (!statuses[r].ok()) comms[r]->Abort(statuses[r]);
    });
  }
  for (std::thread& t : threads) t.join();
  for (size_t r = 0; r < ranks.size(); ++r) {
    DS_RETURN_IF_ERROR(Annotate(statuses[r], "rank ", r));
  }
  return absl::OkStatus();
}

// The layer of each step by the name of its result.
std::map<std::string, int> LayersOf(const Plan& plan) {
  std::map<std::string, int> layers;
  const fb::Program* program = CpuProgram(plan);
  if (program == nullptr) return layers;
  for (const fb::Step* step : *program->steps()) {
    layers[step->name()->str()] = step->layer();
  }
  return layers;
}

// By fb::CollectiveKind.
constexpr const char* kCollectiveNames[] = {"all_reduce", "all_gather",
                                            "broadcast", "all_to_all"};
}  // namespace

absl::Status VerifyCollectives(const std::vector<Plan>& ranks) {
  const auto lines_of = [](const Plan& plan) {
    std::vector<std::string> lines;
    for (const fb::Target* t : *plan.fb().targets()) {
      for (const fb::Program* p : *t->programs()) {
        for (const fb::Step* s : *p->steps()) {
          const fb::CollectiveStep* c = s->collective();
          if (c == nullptr) continue;
          const auto& members = *plan.fb().groups()->Get(c->group())->ranks();
          lines.push_back(absl::StrFormat(
              "%s of %%%s over ranks %s, %s x %d (%s, %s)",
              kCollectiveNames[static_cast<int>(c->kind())], s->name()->str(),
              absl::StrJoin(members, ","),
              DTypeName(static_cast<DType>(c->dtype())), c->columns(),
              t->name()->str(), p->name()->str()));
        }
      }
    }
    return lines;
  };
  const std::vector<std::string> first = lines_of(ranks[0]);
  for (size_t r = 1; r < ranks.size(); ++r) {
    const std::vector<std::string> other = lines_of(ranks[r]);
    for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      const std::string a = i < first.size() ? first[i] : "none";
      const std::string b = i < other.size() ? other[i] : "none";
      if (a != b) {
        return absl::InternalError(absl::StrFormat(
            "collective %d differs: rank 0 has %s, rank %d has %s; they would "
            "wait for each other",
            i, a, r, b));
      }
    }
  }
  return absl::OkStatus();
}

const ComparedValue* Comparison::FirstOutside() const {
  for (const ComparedValue& v : values) {
    if (!v.within) return &v;
  }
  return nullptr;
}

absl::StatusOr<Comparison> CompareWithSource(const std::vector<Plan>& ranks,
                                             const Checkpoint& checkpoint,
                                             const ModelDescription& model,
                                             const std::vector<int32_t>& ids,
                                             const OnValue& on_value) {
  const StorageChoice storage = StorageOf(ranks[0].fb());
  ByName plan_values;
  std::vector<std::string> order;
  const int count = static_cast<int>(ids.size());
  // An encoder reads a sequence whole.
  const std::vector<Chunk> chunks =
      Encodes(ranks[0]) ? std::vector<Chunk>{{0, count}}
                        : ChunksOf(count, MostTokens(ranks[0]));
  DS_RETURN_IF_ERROR(Annotate(
      RunAllRanks(ranks, ids, chunks, &plan_values, &order), "the plan"));
  DS_ASSIGN_OR_RETURN(
      const ByName reference,
      Interpret(checkpoint, model, storage, ids, chunks, on_value));
  Comparison out;
  out.tolerance = ToleranceOf(storage);
  const std::map<std::string, int> layers = LayersOf(ranks[0]);
  for (const std::string& name : order) {
    const auto found = reference.find(name);
    if (found == reference.end()) continue;
    const std::vector<Recorded>& got = plan_values[name];
    ComparedValue v;
    v.name = name;
    v.layer = layers.at(name);
    double difference = 0, total = 0, largest = 0, worst = 0;
    bool comparable = got.size() == found->second.size();
    for (size_t c = 0; comparable && c < got.size(); ++c) {
      const Recorded& a = got[c];
      const Recorded& b = found->second[c];
      // A part of a sharded value has fewer columns than the whole.
      comparable = a.rows == b.rows && a.cols == b.cols;
      for (size_t i = 0; comparable && i < a.data.size(); ++i) {
        const double d = a.data[i] - b.data[i];
        difference += d * d;
        total += b.data[i] * b.data[i];
        largest = std::max(largest, std::fabs(b.data[i]));
        worst = std::max(worst, std::fabs(d));
        // NaN loses every comparison.
        if (!(std::fabs(d) <= 1e300)) difference = HUGE_VAL;
      }
    }
    if (!comparable) continue;
    v.relative_l2 =
        total > 0 ? std::sqrt(difference / total) : std::sqrt(difference);
    v.max_error = largest > 0 ? worst / largest : worst;
    v.within = v.relative_l2 <= out.tolerance;
    out.values.push_back(std::move(v));
  }
  const fb::Program& program = *CpuProgram(ranks[0]);
  for (const int32_t b : *program.outputs()) {
    const std::string name = program.buffers()->Get(b)->name()->str();
    const bool compared =
        std::any_of(out.values.begin(), out.values.end(),
                    [&](const ComparedValue& v) { return v.name == name; });
    if (compared) continue;
    return absl::InternalError(absl::StrCat(
        "the plan has no ", name, " of the checkpoint's shape to compare"));
  }
  return out;
}

std::vector<int32_t> ProbeIds(int64_t vocab_size, int count) {
  std::vector<int32_t> ids;
  uint64_t x = 88172645463325252u;  // xorshift64
  for (int i = 0; i < count; ++i) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    ids.push_back(static_cast<int32_t>(x % static_cast<uint64_t>(vocab_size)));
  }
  return ids;
}

}  // namespace deepslice
