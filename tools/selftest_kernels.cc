#include "tools/selftest_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/reference.h"
#include "schema/base/checked_math.h"
#include "schema/base/dtype.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Source = KernelUse::Operand::Source;

constexpr int64_t kMostRows = 512;  // of a matrix
// Two sequences, of 5 and 2 tokens.
constexpr int32_t kPositions[] = {0, 1, 2, 3, 4, 0, 1};
constexpr int32_t kSlots[] = {0, 0, 0, 0, 0, 1, 1};
constexpr int32_t kWanted[] = {4, 6, 0};
constexpr int64_t kTokens = std::size(kPositions);
constexpr int64_t kRows = std::size(kWanted);
constexpr int64_t kSequences = 2;

// splitmix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [-1, 1).
  float Value() {
    return static_cast<float>(static_cast<int64_t>(Next() >> 40) -
                              (int64_t{1} << 23)) /
           static_cast<float>(1 << 23);
  }

 private:
  uint64_t state_;
};

constexpr std::align_val_t kAlignment{256};
struct AlignedDeleter {
  void operator()(char* p) const { ::operator delete(p, kAlignment); }
};
using Aligned = std::unique_ptr<char, AlignedDeleter>;

// Zeros.
Aligned Allocate(int64_t bytes) {
  const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  Aligned memory(static_cast<char*>(::operator new(size, kAlignment)));
  std::memset(memory.get(), 0, size);
  return memory;
}

// An operand as the kernel reads it and as the reference does.
struct Tensor {
  Aligned memory;
  std::vector<float> scales;
  CpuOperand cpu;
  RefTensor ref;
};

Tensor MakeInts(const std::vector<int32_t>& values, int64_t rows) {
  Tensor t;
  const int64_t n = static_cast<int64_t>(values.size());
  t.memory = Allocate(n * 4);
  std::memcpy(t.memory.get(), values.data(), n * 4);
  t.cpu.data = t.memory.get();
  t.cpu.rows = rows;
  t.cpu.cols = n / rows;
  t.ref.shape = rows == 1 ? std::vector<int64_t>{n}
                          : std::vector<int64_t>{rows, n / rows};
  t.ref.data.assign(values.begin(), values.end());
  return t;
}

Tensor MakeFloats(Encoding encoding, int64_t rows, int64_t cols, bool vector,
                  float mean, Random* random) {
  Tensor t;
  const int64_t n = rows * cols;
  t.memory = Allocate(n * 4);
  t.cpu.data = t.memory.get();
  t.cpu.encoding = encoding;
  t.cpu.rows = rows;
  t.cpu.cols = cols;
  t.ref.shape =
      vector ? std::vector<int64_t>{cols} : std::vector<int64_t>{rows, cols};
  t.ref.data.resize(n);
  for (int64_t r = 0; r < rows; ++r) {
    const float scale = 0.01f * (1 + static_cast<float>(r % 7));
    if (encoding == Encoding::kI8Row) t.scales.push_back(scale);
    for (int64_t i = r * cols; i < (r + 1) * cols; ++i) {
      const float v = mean + random->Value();
      char* at = t.memory.get();
      if (encoding == Encoding::kI8Row) {
        const int8_t q = static_cast<int8_t>(std::lround(v * 100));
        std::memcpy(at + i, &q, 1);
        t.ref.data[i] = static_cast<double>(q) * scale;
      } else if (encoding == Encoding::kF32) {
        std::memcpy(at + 4 * i, &v, 4);
        t.ref.data[i] = v;
      } else {
        const bool half = encoding == Encoding::kF16;
        const uint16_t h = half ? FloatToF16(v) : FloatToBF16(v);
        std::memcpy(at + 2 * i, &h, 2);
        t.ref.data[i] = half ? F16ToFloat(h) : BF16ToFloat(h);
      }
    }
  }
  if (!t.scales.empty()) t.cpu.scales = t.scales.data();
  return t;
}

// Of a source, whose keys are in one block.
int32_t LastPosition(const KernelUse& use) {
  return static_cast<int32_t>(
      std::clamp<int64_t>(use.block_tokens, 1, kTokens) - 1);
}

Tensor MakeInput(const KernelUse& use, const std::string& name) {
  if (name == "positions") {
    return MakeInts({std::begin(kPositions), std::end(kPositions)}, 1);
  }
  if (name == "slots") {
    return MakeInts({std::begin(kSlots), std::end(kSlots)}, 1);
  }
  if (name == "rows") {
    return MakeInts({std::begin(kWanted), std::end(kWanted)}, 1);
  }
  if (name == "ids") {
    // Inside the table's rows, and of another rank's.
    const int64_t begin = use.attrs[attr::Embed::begin].i;
    const int64_t rows = std::clamp<int64_t>(
        use.operands[operand::Embed::table].rows, 1, kMostRows);
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < kTokens; ++t) {
      ids.push_back(static_cast<int32_t>(
          t == 2 ? std::max<int64_t>(begin - 1, 0) : begin + t * 11 % rows));
    }
    return MakeInts(ids, 1);
  }
  if (name == "source_positions") {
    std::vector<int32_t> within(std::begin(kPositions), std::end(kPositions));
    for (int32_t& p : within) p = std::min(p, LastPosition(use));
    return MakeInts(within, 1);
  }
  if (name == "source_slots") {
    return MakeInts({std::begin(kSlots), std::end(kSlots)}, 1);
  }
  if (name == "sources") {
    // The second sequence has the first one's source, without its end.
    const int32_t most = LastPosition(use) + 1;
    return MakeInts({0, std::min(5, most), 0, std::min(3, most)}, kSequences);
  }
  if (name == "horizons") {
    // One sequence that the longer table serves, one that it does not.
    const int64_t from = use.attrs[attr::Rope::long_from].i;
    const int32_t most = std::numeric_limits<int32_t>::max();
    return MakeInts(
        {static_cast<int32_t>(std::clamp<int64_t>(from, 0, most)),
         static_cast<int32_t>(std::clamp<int64_t>(from, 0, most - 1) + 1)},
        1);
  }
  // The block table: blocks in any order.
  const int64_t per_sequence =
      (kTokens + use.block_tokens - 1) / use.block_tokens;
  std::vector<int32_t> blocks;
  for (int64_t i = 0; i < kSequences * per_sequence; ++i) {
    blocks.push_back(static_cast<int32_t>(kSequences * per_sequence - 1 - i));
  }
  return MakeInts(blocks, kSequences);
}

// As a part of the largest result. A float sum of n numbers is off by some
// units in the last place times the root of n; caches round what they keep.
double ToleranceOf(const KernelUse& use) {
  if (use.block_tokens > 0 && use.cache == Encoding::kF16) return 4e-3;
  if (use.block_tokens > 0 && use.cache == Encoding::kBF16) return 3e-2;
  double depth = 1;
  for (const KernelUse::Operand& o : use.operands) {
    depth = std::max(depth, static_cast<double>(o.cols));
  }
  return 1e-5 + 1e-6 * std::sqrt(depth);
}

absl::Status Compare(const float* got, const RefTensor& want,
                     double tolerance) {
  double largest = 0;
  for (const double v : want.data) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < want.data.size(); ++i) {
    // NaN loses every comparison.
    if (std::fabs(got[i] - want.data[i]) <= tolerance * largest + 1e-30) {
      continue;
    }
    return absl::InternalError(absl::StrFormat(
        "row %d, column %d is %g, the reference has %g; allowed is a "
        "difference of %.1e",
        static_cast<int64_t>(i) / want.cols(),
        static_cast<int64_t>(i) % want.cols(), got[i], want.data[i],
        tolerance * largest));
  }
  return absl::OkStatus();
}

// Elements of all operands together that a test may take.
constexpr int64_t kMostElements = int64_t{1} << 26;
constexpr int64_t kMostCacheBytes = int64_t{1} << 28;

// Whose matrix may as well have fewer rows.
bool IsCut(OpKind op) { return op == OpKind::kLinear || op == OpKind::kEmbed; }

absl::Status CheckSize(const KernelUse& use) {
  int64_t elements = 0;
  for (const KernelUse::Operand& o : use.operands) {
    int64_t count;
    const bool fits = CheckedMul(std::min(o.rows, kMostRows), o.cols, &count) &&
                      CheckedAdd(elements, count, &elements);
    if (!fits || elements > kMostElements) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "operand ", o.name, " of ", o.cols, " columns is too large to test"));
    }
  }
  return absl::OkStatus();
}

// Whether a row is for a token (or image) that wants results, not for each.
bool IsOfWantedRows(const fb::Program& program, const fb::Buffer& b) {
  const int dim = b.extents()->Get(0)->dim();
  if (dim < 0) return false;
  const auto name = program.dims()->Get(dim)->name()->string_view();
  return name == "R" || name == "I";
}

}  // namespace

std::string KernelUse::Text() const {
  std::string out(GetOp(op).spelling);
  for (const Operand& o : operands) {
    if (o.source == Source::kValue) {
      absl::StrAppend(&out, " x ", o.cols);
      break;
    }
  }
  for (const Operand& o : operands) {
    if (o.source == Source::kWeight && !o.vector) {
      absl::StrAppend(&out, ", ", EncodingName(o.encoding), "[", o.rows, ", ",
                      o.cols, "]");
    }
  }
  for (const Operand& o : operands) {
    if (o.source == Source::kAbsent) continue;
    if (o.name == "bias" || o.name == "residual" || o.name == "freqs" ||
        o.name == "long_freqs" || o.name == "slopes") {
      absl::StrAppend(&out, ", ", o.name);
    }
  }
  if (block_tokens > 0) {
    absl::StrAppend(&out, ", cache ", EncodingName(cache));
  }
  if (out_rows_are_wanted) absl::StrAppend(&out, ", wanted rows");
  return out;
}

std::vector<KernelUse> KernelUses(const fb::Plan& plan,
                                  const fb::Program& program) {
  std::vector<KernelUse> uses;
  std::set<std::string> seen;
  for (const fb::Step* step : *program.steps()) {
    if (step->kind() != fb::StepKind::CpuOp) continue;
    const fb::CpuOpStep* op = step->cpu_op();
    KernelUse use;
    const OpDef& def = *FindOpByTag(op->op());
    use.op = def.kind;
    std::string key = absl::StrCat(op->op());
    for (size_t i = 0; op->attrs() != nullptr && i < op->attrs()->size(); ++i) {
      use.attrs.push_back({op->attrs()->Get(i)->i(), op->attrs()->Get(i)->f()});
      absl::StrAppend(&key, ",", use.attrs.back().i, "/", use.attrs.back().f);
    }
    for (size_t i = 0; i < def.operands.size(); ++i) {
      KernelUse::Operand& o = use.operands.emplace_back();
      o.name = std::string(def.operands[i].name);
      const fb::OperandRef* ref =
          i < op->operands()->size() ? op->operands()->Get(i) : nullptr;
      if (ref != nullptr && ref->kind() == fb::OperandKind::Buffer) {
        const fb::Buffer& b = *program.buffers()->Get(ref->index());
        // Pixels are an input, but any numbers as far as a kernel goes.
        const bool whole = static_cast<DType>(b.dtype()) == DType::kI32;
        o.source = b.slot() < 0 && whole ? Source::kInput : Source::kValue;
        o.cols = b.extents()->size() > 1 ? b.extents()->Get(1)->size() : 0;
        // Rows of logits, as of the tokens that want them.
        o.rows = IsOfWantedRows(program, b) ? kRows : kTokens;
      } else if (ref != nullptr && ref->kind() == fb::OperandKind::Weight) {
        const fb::Weight& w = *plan.weights()->Get(ref->index());
        o.source = Source::kWeight;
        o.encoding = static_cast<Encoding>(w.encoding());
        o.vector = w.shape()->size() == 1;
        o.rows = o.vector ? 1 : w.shape()->Get(0);
        o.cols = w.shape()->Get(o.vector ? 0 : 1);
      }
      absl::StrAppend(&key, ";", static_cast<int>(o.source), ",",
                      static_cast<int>(o.encoding), ",", o.rows, ",", o.cols);
    }
    const fb::Buffer& out = *program.buffers()->Get(op->output());
    use.out_cols = out.extents()->Get(1)->size();
    use.out_rows_are_wanted = IsOfWantedRows(program, out);
    if (op->state() >= 0) {
      const fb::State& s = *plan.states()->Get(op->state());
      use.cache = static_cast<Encoding>(s.encoding());
      use.block_tokens = s.block_tokens();
      use.block_bytes = s.bytes_per_block();
      absl::StrAppend(&key, ";", static_cast<int>(use.cache), ",",
                      use.block_tokens, ",", use.block_bytes);
    }
    if (seen.insert(key).second) uses.push_back(std::move(use));
  }
  return uses;
}

absl::Status TestKernel(const KernelUse& use, ThreadPool* pool,
                        CpuKernel kernel) {
  DS_RETURN_IF_ERROR(CheckSize(use));
  Random random(1);
  // Fewer rows of a linear's matrix are fewer columns of what it makes.
  const int64_t out_cols = use.op == OpKind::kLinear
                               ? std::min(use.out_cols, kMostRows)
                               : use.out_cols;
  std::vector<Tensor> tensors(use.operands.size());
  CpuCall call;
  RefCall ref;
  CpuShape shape;
  for (size_t i = 0; i < use.operands.size(); ++i) {
    const KernelUse::Operand& o = use.operands[i];
    if (o.source == Source::kAbsent) continue;
    if (o.source == Source::kInput) {
      tensors[i] = MakeInput(use, o.name);
    } else {
      int64_t rows = o.rows, cols = o.cols;
      if (o.source == Source::kWeight && !o.vector && IsCut(use.op)) {
        rows = std::min(rows, kMostRows);
      }
      const bool as_out = o.name == "bias" || o.name == "residual";
      if (use.op == OpKind::kLinear && as_out) cols = out_cols;
      // Scales of norms are near 1, sums of squares are not negative.
      tensors[i] =
          MakeFloats(o.encoding, rows, cols, o.vector,
                     o.name == "scale" || o.name == "sums" ? 1 : 0, &random);
      if (o.source == Source::kWeight && !o.vector) {
        shape.weight_encoding = o.encoding;
      }
    }
    call.in[i] = tensors[i].cpu;
    ref.operands[i] = &tensors[i].ref;
  }
  RefTensor want;
  RefState ref_state;
  ref.attrs = use.attrs.data();
  ref.state = &ref_state;
  DS_RETURN_IF_ERROR(RunReference(use.op, ref, &want));
  if (want.cols() != out_cols) {
    return absl::InternalError(absl::StrCat(
        "the plan has ", out_cols, " columns, the op makes ", want.cols()));
  }

  CpuState state;
  Aligned cache;
  if (use.block_tokens > 0) {
    const auto* blocks = &call.in[0];
    for (size_t i = 0; i < use.operands.size(); ++i) {
      const std::string& name = use.operands[i].name;
      if (name == "blocks" || name == "sources") blocks = &call.in[i];
    }
    state.encoding = use.cache;
    state.block_tokens = use.block_tokens;
    state.block_bytes = use.block_bytes;
    state.num_blocks = blocks->rows * blocks->cols;
    if (state.block_bytes > kMostCacheBytes / state.num_blocks) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a cache of ", state.num_blocks, " blocks of ",
                       state.block_bytes, " bytes is too large to test"));
    }
    cache = Allocate(state.block_bytes * state.num_blocks);
    state.data = cache.get();
    call.state = &state;
  }
  const int64_t out_rows = want.rows();
  Aligned out = Allocate(out_rows * out_cols * 4);
  call.out = reinterpret_cast<float*>(out.get());
  call.out_rows = out_rows;
  call.out_cols = out_cols;
  call.attrs = use.attrs.data();
  call.pool = pool;
  shape.max_rows = std::max(call.in[0].rows, out_rows);
  shape.in_cols = call.in[0].cols;
  shape.out_cols = out_cols;
  shape.max_context = kTokens;
  shape.attrs = use.attrs.data();
  shape.num_threads = pool->num_threads();
  Aligned scratch = Allocate(CpuScratchBytes(use.op, shape));
  call.scratch = scratch.get();
  (kernel != nullptr ? kernel : FindCpuKernel(use.op))(call);
  return Compare(call.out, want, ToleranceOf(use));
}

}  // namespace deepslice
