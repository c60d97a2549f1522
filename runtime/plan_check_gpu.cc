// What only GPU targets have: kernels, launches, matrix products and programs
// for a fixed number of tokens. Kernels check nothing, so that a launch may
// rely on its sizes is the compiler's promise; what can be told from outside is
// checked here.
#include <set>

#include "absl/strings/match.h"
#include "runtime/plan_check.h"
#include "schema/base/checked_math.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// Of every card: blocks of a grid by axis, threads of a block by axis and in
// all, and shared memory of a block where it is largest (sm_90, sm_100).
constexpr int64_t kMostBlocks[] = {0x7fffffff, 65535, 65535};
constexpr uint32_t kMostThreads[] = {1024, 1024, 64};
constexpr int64_t kMostThreadsInAll = 1024;
constexpr uint32_t kMostSharedBytes = 227 << 10;
// 4 KiB of parameters hold more, but no kernel of ours takes as many.
constexpr uint32_t kMostParameters = 64;

const fb::NamedDim* FindDim(const fb::Program& program,
                            absl::string_view name) {
  for (const fb::NamedDim* d : *program.dims()) {
    if (Text(d->name()) == name) return d;
  }
  return nullptr;
}

int32_t FindInput(const fb::Program& program, absl::string_view name) {
  for (const int32_t b : *program.inputs()) {
    if (Text(program.buffers()->Get(b)->name()) == name) return b;
  }
  return -1;
}

absl::Status CheckGrid(const ProgramView& view,
                       const flatbuffers::Vector<const fb::GridDim*>& grid) {
  const int64_t num_dims = view.program.dims()->size();
  if (grid.size() != 3 || !IsAligned(&grid)) {
    return Senseless("grid: ", grid.size(),
                     " axes, or unaligned; 3 are "
                     "allowed");
  }
  for (uint32_t i = 0; i < 3; ++i) {
    const fb::GridDim& g = *grid.Get(i);
    int64_t blocks = g.times();
    if (g.dim() < -1 || g.dim() >= num_dims) {
      return Senseless("grid[", i, "]: dim ", g.dim(), " of ", num_dims);
    }
    if (g.dim() >= 0) {
      if (g.per_block() < 1 || g.per_block() > kMaxExtent) {
        return Senseless("grid[", i, "]: per_block ", g.per_block(), "; 1 to ",
                         kMaxExtent, " are allowed");
      }
      const int64_t most = view.program.dims()->Get(g.dim())->maximum();
      if (!CheckedMul(blocks, CeilDiv(most, g.per_block()), &blocks)) {
        blocks = -1;
      }
    }
    if (g.times() < 1 || blocks < 1 || blocks > kMostBlocks[i]) {
      return Senseless("grid[", i, "]: ", g.times(), " times: not 1 to ",
                       kMostBlocks[i], " blocks at the dims' maxima");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBlock(const flatbuffers::Vector<uint32_t>& block) {
  if (block.size() != 3) {
    return Senseless("block: ", block.size(), " axes; 3 are allowed");
  }
  int64_t threads = 1;
  for (uint32_t i = 0; i < 3; ++i) {
    if (block.Get(i) < 1 || block.Get(i) > kMostThreads[i]) {
      return Senseless("block[", i, "]: ", block.Get(i), " threads; 1 to ",
                       kMostThreads[i], " are allowed");
    }
    threads *= block.Get(i);
  }
  if (threads <= kMostThreadsInAll) return absl::OkStatus();
  return Senseless("block: ", threads, " threads; up to ", kMostThreadsInAll,
                   " are allowed");
}

// Rows of two matrices, one of which may be of fixed height.
bool HoldsRowsOf(const ProgramView& view, const fb::Buffer& holder,
                 const fb::Buffer& b) {
  const fb::Extent &rows = *holder.extents()->Get(0),
                   &wanted = *b.extents()->Get(0);
  if (rows.dim() >= 0) return rows.dim() == wanted.dim();
  return rows.size() >=
         (wanted.dim() < 0 ? wanted.size()
                           : view.program.dims()->Get(wanted.dim())->maximum());
}

// A float type that a matrix product takes.
bool IsActivationType(uint8_t dtype) {
  return dtype == static_cast<uint8_t>(DType::kF32) ||
         dtype == static_cast<uint8_t>(DType::kF16) ||
         dtype == static_cast<uint8_t>(DType::kBF16);
}

absl::Status CheckBucket(const fb::Program& p) {
  if (p.bucket() < 0 || p.tile_tokens() < 0) {
    return Senseless("bucket ", p.bucket(), ", tile_tokens ", p.tile_tokens(),
                     ": one is negative");
  }
  for (const char* name : {"T", "R", "S", "B"}) {
    const fb::NamedDim* d = FindDim(p, name);
    if (d == nullptr) return Senseless("dims: ", name, " is missing");
    const bool counts_tokens = *name == 'T' || *name == 'R';
    if (p.bucket() > 0 && counts_tokens && d->maximum() != p.bucket()) {
      return Senseless("dims: ", name, ": maximum ", d->maximum(),
                       " in a program of bucket ", p.bucket());
    }
  }
  if ((p.tile_tokens() > 0) != (FindInput(p, "tiles") >= 0) ||
      (p.tile_tokens() > 0 && p.bucket() > 0)) {
    return Senseless("tile_tokens ", p.tile_tokens(), ", bucket ", p.bucket(),
                     ": input tiles and tile_tokens come together, and without "
                     "a bucket");
  }
  return absl::OkStatus();
}

absl::Status CheckGpuEncoder(const ProgramView& view) {
  const fb::Program& p = view.program;
  DS_RETURN_IF_ERROR(CheckBucket(p));
  if (p.bucket() != 0)
    return Senseless("bucket ", p.bucket(), " of an encoder");
  for (const int32_t b : *p.outputs()) {
    const fb::Buffer& buffer = *p.buffers()->Get(b);
    const std::string text = BufferText(view, b);
    const bool is_known =
        IsActivationType(buffer.dtype()) && buffer.extents()->size() == 2 &&
        buffer.extents()->Get(1)->dim() < 0 && buffer.slot() >= 0 &&
        (absl::StrContains(text, "[T, ") || absl::StrContains(text, "[R, ") ||
         absl::StrContains(text, "[I, "));
    if (is_known) continue;
    return Senseless("outputs: ", Quoted(buffer.name()), ": ", text,
                     "; wanted f32, f16 or bf16 [T, n], [R, n] or [I, n]");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckKernels(const fb::Target& target) {
  const int64_t kernels =
      target.kernels() == nullptr ? 0 : target.kernels()->size();
  for (int64_t i = 0; i < kernels; ++i) {
    const fb::Kernel* k = target.kernels()->Get(i);
    uint64_t end;
    if (!CheckedAdd(k->offset(), k->bytes(), &end) || k->bytes() == 0 ||
        k->entry()->size() == 0) {
      return Senseless("kernels[", i, "] (", Quoted(k->entry()), "): offset ",
                       k->offset(), " and ", k->bytes(), " bytes more");
    }
  }
  if (target.sync_words() < 0 || target.sync_words() > limits::kPlanSyncWords) {
    return Senseless("sync_words: ", target.sync_words(), "; 0 to ",
                     limits::kPlanSyncWords, " are allowed");
  }
  if (target.service() == nullptr) return absl::OkStatus();
  for (const int32_t k : *target.service()) {
    if (k >= 0 && k < kernels && target.kernels()->Get(k)->label() != nullptr) {
      continue;
    }
    return Senseless("service: kernel ", k, " of ", kernels,
                     ", or one without a label");
  }
  return absl::OkStatus();
}

absl::Status CheckGpuPrograms(const fb::Target& target) {
  std::set<int32_t> buckets;
  bool encodes = false;
  for (const fb::Program* p : *target.programs()) {
    encodes |= p->kind() == fb::ProgramKind::Encode;
    if (p->kind() != fb::ProgramKind::Step) continue;
    if (!buckets.insert(p->bucket()).second) {
      return Senseless("programs: two of bucket ", p->bucket());
    }
  }
  if (buckets.count(0) == 0 && !(buckets.empty() && encodes)) {
    return Senseless("programs: there is no step program without a bucket");
  }
  return absl::OkStatus();
}

absl::Status CheckGpuProgram(const ProgramView& view) {
  const fb::Program& p = view.program;
  if (p.kind() == fb::ProgramKind::Encode) return CheckGpuEncoder(view);
  if (p.kind() != fb::ProgramKind::Step) return absl::OkStatus();
  DS_RETURN_IF_ERROR(CheckBucket(p));
  const std::string found = BufferText(view, p.outputs()->Get(0));
  const std::string wanted =
      absl::StrCat("f32[R, ", view.plan.vocab_size(), "]");
  if (p.outputs()->size() == 1 && found == wanted) return absl::OkStatus();
  return Senseless("outputs: ", p.outputs()->size(), " of them, the first ",
                   found, "; wanted ", wanted, " alone");
}

absl::Status CheckLaunch(const ProgramView& view, const fb::LaunchStep& s) {
  const int64_t kernels =
      view.target.kernels() == nullptr ? 0 : view.target.kernels()->size();
  if (s.kernel() < 0 || s.kernel() >= kernels) {
    return Senseless("launch: kernel ", s.kernel(), " of ", kernels);
  }
  if (s.operands()->size() + s.outputs()->size() > kMostParameters) {
    return Senseless("launch: ", s.operands()->size(), " operands and ",
                     s.outputs()->size(), " outputs; up to ", kMostParameters,
                     " are allowed");
  }
  for (uint32_t i = 0; i < s.operands()->size(); ++i) {
    const fb::OperandRef& o = *s.operands()->Get(i);
    if (o.kind() != fb::OperandKind::Scales) continue;
    const uint8_t encoding = view.plan.weights()->Get(o.index())->encoding();
    if (IsQuantized(static_cast<Encoding>(encoding))) continue;
    return Senseless("launch: operands[", i, "]: weight ", o.index(),
                     " has no scales");
  }
  DS_RETURN_IF_ERROR(Annotate(CheckGrid(view, *s.grid()), "launch"));
  DS_RETURN_IF_ERROR(Annotate(CheckBlock(*s.block()), "launch"));
  if (s.shared_bytes() > kMostSharedBytes) {
    return Senseless("launch: shared_bytes ", s.shared_bytes(), "; up to ",
                     kMostSharedBytes, " are allowed");
  }
  return absl::OkStatus();
}

absl::Status CheckGemm(const ProgramView& view, const fb::GemmStep& s) {
  const auto& buffers = *view.program.buffers();
  const fb::Weight& w = *view.plan.weights()->Get(s.weight());
  const std::string shapes = absl::StrCat("gemm: ", BufferText(view, s.a()),
                                          " to ", BufferText(view, s.output()));
  if (w.shape()->size() != 2 || w.shape()->Get(0) < 1 ||
      w.shape()->Get(1) < 1 ||
      IsQuantized(static_cast<Encoding>(w.encoding()))) {
    return Senseless(shapes, ": weight ", s.weight(),
                     ": not two dims of f32, f16 or bf16");
  }
  for (const int32_t b : {s.a(), s.output(), s.residual()}) {
    if (b == -1) continue;
    const fb::Buffer& buffer = *buffers.Get(b);
    if (buffer.extents()->size() != 2 || buffer.extents()->Get(1)->dim() >= 0 ||
        !IsActivationType(buffer.dtype())) {
      return Senseless(shapes,
                       ": wanted f32, f16 or bf16 with two dims, the "
                       "second fixed");
    }
  }
  const fb::Buffer &a = *buffers.Get(s.a()), &out = *buffers.Get(s.output());
  const int64_t n = w.shape()->Get(0), k = w.shape()->Get(1);
  // The tags of the encodings that are no quantised ones are those of dtypes.
  if (a.dtype() != w.encoding() || a.extents()->Get(1)->size() < k ||
      out.extents()->Get(1)->size() < n || !HoldsRowsOf(view, out, a) ||
      (out.dtype() != a.dtype() &&
       out.dtype() != static_cast<uint8_t>(DType::kF32))) {
    return Senseless(shapes, ": weight ", s.weight(), " is ",
                     EncodingName(static_cast<Encoding>(w.encoding())), "[", n,
                     ", ", k, "]");
  }
  if (s.residual() == -1) return absl::OkStatus();
  const fb::Buffer& r = *buffers.Get(s.residual());
  if (r.dtype() == out.dtype() && r.extents()->Get(1)->size() >= n &&
      HoldsRowsOf(view, r, a)) {
    return absl::OkStatus();
  }
  return Senseless(shapes, ": residual ", BufferText(view, s.residual()));
}

}  // namespace deepslice
