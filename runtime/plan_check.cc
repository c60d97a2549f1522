// The plan's own tables: mesh, groups, weights, states, targets.
#include "runtime/plan_check.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "runtime/plan.h"
#include "schema/base/checked_math.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"
#include "schema/ops.h"
#include "schema/roles.h"

namespace deepslice {
namespace {

constexpr uint64_t kWeightAlignment = 256;

absl::Status CheckMesh(const fb::Plan& plan) {
  if (plan.world_size() < 1 || plan.world_size() > limits::kWorldSize) {
    return Senseless("world_size: ", plan.world_size(), "; 1 to ",
                     limits::kWorldSize, " are allowed");
  }
  if (plan.rank() >= plan.world_size()) {
    return Senseless("rank: ", plan.rank(), " of ", plan.world_size());
  }
  const size_t id = plan.plan_set_id()->size();
  if (id < 1 || id > 128) {
    return Senseless("plan_set_id: ", id, " bytes; 1 to 128 are allowed");
  }
  for (const fb::Axis* a : *plan.mesh()) {
    if (a->size() < 1 || a->size() > limits::kWorldSize ||
        a->coordinate() >= a->size()) {
      return Senseless("mesh: axis ", Quoted(a->name()), ": coordinate ",
                       a->coordinate(), " of ", a->size());
    }
  }
  for (uint32_t i = 0; i < plan.groups()->size(); ++i) {
    const fb::RankGroup* g = plan.groups()->Get(i);
    if (g->kind() >= EnumValues("Group").size()) {
      return Senseless("groups[", i, "]: kind ", int{g->kind()});
    }
    bool has_own = false;
    for (uint32_t k = 0; k < g->ranks()->size(); ++k) {
      const uint32_t r = g->ranks()->Get(k);
      has_own |= r == plan.rank();
      if (r >= plan.world_size() || (k > 0 && r <= g->ranks()->Get(k - 1))) {
        return Senseless("groups[", i, "]: ranks[", k, "]: ", r,
                         "; ascending ranks below ", plan.world_size(),
                         " are allowed");
      }
    }
    if (!has_own) {
      return Senseless("groups[", i, "]: rank ", plan.rank(), " is not in it");
    }
  }
  return absl::OkStatus();
}

struct Blob {
  uint64_t begin, end;
  uint32_t weight;
  const char* field;
};

// Adds [offset, offset + bytes) to `blobs` when it is not empty.
absl::Status CheckBlob(uint32_t weight, const char* field, uint64_t offset,
                       uint64_t bytes, uint64_t file_bytes,
                       std::vector<Blob>* blobs) {
  uint64_t end;
  if (!CheckedAdd(offset, bytes, &end) || end > file_bytes) {
    return Senseless(field, ": bytes ", offset, " and ", bytes,
                     " more; the weights file has ", file_bytes);
  }
  if (offset % kWeightAlignment != 0) {
    return Senseless(field, ": offset ", offset, "; multiples of ",
                     kWeightAlignment, " are allowed");
  }
  if (bytes > 0) blobs->push_back({offset, end, weight, field});
  return absl::OkStatus();
}

// The pieces of a made-up weight: all rows, each in range.
absl::Status CheckSynthetic(const fb::Weight& w) {
  const Encoding encoding = static_cast<Encoding>(w.encoding());
  if (IsQuantized(encoding)) {
    return Senseless("origin: made up, of encoding ", EncodingName(encoding),
                     "; f32, f16 and bf16 are allowed");
  }
  if (!std::isfinite(w.synthetic_mean()) ||
      !std::isfinite(w.synthetic_scale())) {
    return Senseless("synthetic_mean ", w.synthetic_mean(),
                     ", synthetic_scale ", w.synthetic_scale());
  }
  if (w.pieces() == nullptr || !IsAligned(w.pieces())) {
    return Senseless("pieces: absent or unaligned");
  }
  const int64_t rows = w.shape()->Get(0);
  int64_t covered = 0;
  for (uint32_t i = 0; i < w.pieces()->size(); ++i) {
    const fb::SyntheticPiece& p = *w.pieces()->Get(i);
    const auto in = [](int64_t x, int64_t low, int64_t high) {
      return x >= low && x <= high;
    };
    // Each factor is at most 2^26.
    if (!in(p.rows(), 1, rows) || !in(p.first_row(), 0, rows - 1) ||
        !in(p.row_step(), 1, rows) ||
        p.first_row() + (p.rows() - 1) * p.row_step() >= rows ||
        !in(p.rows_begin(), 0, kMaxExtent) ||
        !in(p.cols_begin(), 0, kMaxExtent)) {
      return Senseless("pieces[", i, "]: ", p.rows(), " rows from ",
                       p.first_row(), " by ", p.row_step(),
                       ", of the source's ", p.rows_begin(), " and ",
                       p.cols_begin(), " on: one is out of range");
    }
    covered += p.rows();
    if (covered > rows) break;
  }
  if (covered != rows) {
    return Senseless("pieces: ", covered, " rows or more; the weight has ",
                     rows);
  }
  return absl::OkStatus();
}

absl::Status CheckWeight(const fb::Weight& w, uint32_t index,
                         uint64_t file_bytes, std::vector<Blob>* blobs) {
  if (w.encoding() >= kNumEncodings) {
    return Senseless("encoding ", int{w.encoding()});
  }
  const Encoding encoding = static_cast<Encoding>(w.encoding());
  if (w.layout() > fb::WeightLayout::MAX ||
      w.residency() > fb::Residency::MAX ||
      w.origin() > fb::WeightOrigin::MAX) {
    return Senseless("layout ", static_cast<int>(w.layout()), ", residency ",
                     static_cast<int>(w.residency()), ", origin ",
                     static_cast<int>(w.origin()), ": one is unknown");
  }
  if (w.role() >= std::size(kRoles)) return Senseless("role ", int{w.role()});
  const uint32_t rank = w.shape()->size();
  if (rank < 1 || rank > 2 || !IsAligned(w.shape())) {
    return Senseless("shape: ", rank,
                     " dims, or unaligned; 1 or 2 dims are "
                     "allowed");
  }
  int64_t elements = 1;
  for (const int64_t d : *w.shape()) {
    if (d < 0 || d > kMaxExtent) {
      return Senseless("shape: dim ", d, "; 0 to ", kMaxExtent, " are allowed");
    }
    elements *= d;  // two factors of at most 2^26
  }
  const uint64_t bytes = CeilDiv(elements * EncodingBits(encoding), 8);
  if (w.bytes() != bytes) {
    return Senseless("bytes: ", w.bytes(), "; ", elements, " elements of ",
                     EncodingName(encoding), " take ", bytes);
  }
  if (w.origin() == fb::WeightOrigin::Synthetic) {
    DS_RETURN_IF_ERROR(CheckSynthetic(w));
    if (w.offset() < file_bytes) {
      return Senseless("offset: ", w.offset(),
                       "; what is made up comes after "
                       "the file's ",
                       file_bytes, " bytes");
    }
    return CheckBlob(index, "offset", w.offset(), w.bytes(),
                     limits::kPlanWeightBytes, blobs);
  }
  const int64_t rows = rank == 2 ? w.shape()->Get(0) : 1;
  if (encoding == Encoding::kI8Row &&
      w.scales_bytes() != static_cast<uint64_t>(rows) * sizeof(float)) {
    return Senseless("scales_bytes: ", w.scales_bytes(), "; ", rows,
                     " rows take ", rows * sizeof(float));
  }
  DS_RETURN_IF_ERROR(
      CheckBlob(index, "offset", w.offset(), w.bytes(), file_bytes, blobs));
  if (!IsQuantized(encoding)) return absl::OkStatus();
  DS_RETURN_IF_ERROR(CheckBlob(index, "scales_offset", w.scales_offset(),
                               w.scales_bytes(), file_bytes, blobs));
  return CheckBlob(index, "zeros_offset", w.zeros_offset(), w.zeros_bytes(),
                   file_bytes, blobs);
}

absl::Status CheckWeights(const fb::Plan& plan, uint64_t file_bytes) {
  const uint64_t blocks =
      file_bytes / kHashBlock + (file_bytes % kHashBlock != 0 ? 1 : 0);
  if (plan.weights_bytes() != file_bytes) {
    return Senseless("weights_bytes: ", plan.weights_bytes(),
                     "; the weights file has ", file_bytes);
  }
  if (!IsAligned(plan.weights_xxh3())) {
    return Senseless("weights_xxh3: unaligned");
  }
  if (plan.weights_xxh3()->size() != blocks) {
    return Senseless("weights_xxh3: ", plan.weights_xxh3()->size(),
                     " entries; ", file_bytes, " bytes have ", blocks,
                     " blocks of 1 MiB");
  }
  const auto name_of = [&](uint32_t i) {
    return absl::StrCat("weights[", i, "] (@",
                        Quoted(plan.weights()->Get(i)->name()), ")");
  };
  std::vector<Blob> blobs;
  for (uint32_t i = 0; i < plan.weights()->size(); ++i) {
    DS_RETURN_IF_ERROR(
        Annotate(CheckWeight(*plan.weights()->Get(i), i, file_bytes, &blobs),
                 name_of(i)));
  }
  std::sort(blobs.begin(), blobs.end(), [](const Blob& a, const Blob& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  for (size_t i = 1; i < blobs.size(); ++i) {
    const Blob &a = blobs[i - 1], &b = blobs[i];
    if (b.begin >= a.end) continue;
    // Tied weights are the same bytes.
    if (b.begin == a.begin && b.end == a.end && a.field == b.field &&
        plan.weights()->Get(a.weight)->encoding() ==
            plan.weights()->Get(b.weight)->encoding()) {
      continue;
    }
    return Senseless(name_of(b.weight), ": ", b.field, ": ", b.begin,
                     " lies inside ", name_of(a.weight), ", bytes ", a.begin,
                     " to ", a.end - 1);
  }
  return absl::OkStatus();
}

absl::Status CheckState(const fb::State& s) {
  if (s.kind() > fb::StateKind::MAX) {
    return Senseless("kind ", static_cast<int>(s.kind()));
  }
  if (s.encoding() > static_cast<int>(Encoding::kBF16)) {
    return Senseless("encoding ", int{s.encoding()},
                     "; f32, f16 and bf16 are allowed");
  }
  if (s.kv_heads() < 0 || s.kv_heads() > kMaxHeads || s.head_dim() < 1 ||
      s.head_dim() > kMaxHeadDim || s.block_tokens() < 1 ||
      s.block_tokens() > (1 << 20)) {
    return Senseless("kv_heads ", s.kv_heads(), ", head_dim ", s.head_dim(),
                     ", block_tokens ", s.block_tokens(),
                     ": one is out of range");
  }
  // At most 2^(1 + 16 + 20 + 16 + 2).
  const int64_t rows = s.kind() == fb::StateKind::Latent ? 1 : 2;
  const int64_t bytes = rows * s.kv_heads() * s.block_tokens() * s.head_dim() *
                        EncodingBits(static_cast<Encoding>(s.encoding())) / 8;
  if (s.bytes_per_block() != bytes) {
    return Senseless("bytes_per_block: ", s.bytes_per_block(),
                     "; keys and values of a block take ", bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckGeneration(const fb::Plan& plan,
                             const fb::GenerationDefaults& g) {
  const auto is_share = [](float p) { return p > 0 && p <= 1; };
  if (!std::isfinite(g.temperature()) || g.temperature() < 0 || g.top_k() < 0 ||
      !is_share(g.top_p())) {
    return Senseless("generation: temperature ", g.temperature(), ", top_k ",
                     g.top_k(), ", top_p ", g.top_p(), ": one is out of range");
  }
  if (!(g.min_p() >= 0 && g.min_p() <= 1) || !is_share(g.typical_p()) ||
      !(g.repetition_penalty() > 0) || !std::isfinite(g.repetition_penalty())) {
    return Senseless("generation: min_p ", g.min_p(), ", typical_p ",
                     g.typical_p(), ", repetition_penalty ",
                     g.repetition_penalty(), ": one is out of range");
  }
  if (g.max_new_tokens() < 0 || g.min_new_tokens() < 0 || g.num_beams() < 1 ||
      !std::isfinite(g.length_penalty()) || g.early_stopping() > 2 ||
      g.num_return_sequences() < 1) {
    return Senseless("generation: max_new_tokens ", g.max_new_tokens(),
                     ", min_new_tokens ", g.min_new_tokens(), ", num_beams ",
                     g.num_beams(), ", length_penalty ", g.length_penalty(),
                     ", early_stopping ", int{g.early_stopping()},
                     ", num_return_sequences ", g.num_return_sequences(),
                     ": one is out of range");
  }
  if (g.suppress_tokens() == nullptr) return absl::OkStatus();
  for (const int32_t id : *g.suppress_tokens()) {
    if (id >= 0 && id < plan.vocab_size()) continue;
    return Senseless("generation: suppress_tokens: id ", id, "; 0 to ",
                     plan.vocab_size() - 1, " are allowed");
  }
  return absl::OkStatus();
}

absl::Status CheckImage(const fb::ImageInput& image) {
  constexpr int32_t kMost = 1 << 14;
  const auto is_size = [](int32_t n, int32_t least) {
    return n >= least && n <= kMost;
  };
  if (!is_size(image.size(), 1) || !is_size(image.patch(), 1) ||
      image.size() % image.patch() != 0 || !is_size(image.crop_width(), 0) ||
      !is_size(image.crop_height(), 0) || !is_size(image.resize_width(), 0) ||
      !is_size(image.resize_height(), 0) ||
      !is_size(image.resize_shortest(), 0) ||
      image.resample() > fb::Resample::MAX || !std::isfinite(image.scale())) {
    return Senseless("encoder: image: a size, patch or scale is out of range");
  }
  constexpr uint32_t kChannels = 3;
  for (const auto* values : {image.mean(), image.deviation()}) {
    if (values == nullptr || values->size() != kChannels) {
      return Senseless("encoder: image: wanted 3 means and 3 deviations");
    }
    for (const float x : *values) {
      if (!std::isfinite(x) || (values == image.deviation() && x == 0)) {
        return Senseless("encoder: image: mean or deviation ", x);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckEncoder(const fb::Plan& plan,
                          const fb::EncoderSettings& e) {
  if (e.row_rule() > fb::RowRule::MAX || e.scores() > fb::Scores::MAX ||
      e.pooling() > fb::Pooling::MAX) {
    return Senseless("encoder: row_rule ", static_cast<int>(e.row_rule()),
                     ", scores ", static_cast<int>(e.scores()), ", pooling ",
                     static_cast<int>(e.pooling()), ": one is unknown");
  }
  if (e.types() < 0 || e.types() > limits::kPositions || e.max_tokens() < 0 ||
      e.start_id() < -1 || e.start_id() >= plan.vocab_size() ||
      !std::isfinite(e.logit_scale())) {
    return Senseless("encoder: types ", e.types(), ", max_tokens ",
                     e.max_tokens(), ", start_id ", e.start_id(),
                     ": one is out of range");
  }
  return e.image() == nullptr ? absl::OkStatus() : CheckImage(*e.image());
}

// What `dsrun selftest` compares.
absl::Status CheckSelfTests(const fb::Plan& plan) {
  const uint64_t most = limits::kPlanSelfTests;
  const uint64_t rendered =
      plan.render_tests() == nullptr ? 0 : plan.render_tests()->size();
  const uint64_t golden =
      plan.self_tests() == nullptr ? 0 : plan.self_tests()->size();
  if (rendered > most || golden > most) {
    return Senseless("self_tests: ", golden, ", render_tests: ", rendered,
                     "; ", most, " of each are allowed");
  }
  for (uint32_t i = 0; i < golden; ++i) {
    const fb::SelfTest* test = plan.self_tests()->Get(i);
    for (const auto* ids : {test->prompt(), test->continuation()}) {
      if (ids == nullptr) continue;
      for (const int32_t id : *ids) {
        if (id >= 0 && id < plan.vocab_size()) continue;
        return Senseless("self_tests[", i, "]: id ", id, "; 0 to ",
                         plan.vocab_size() - 1, " are allowed");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckText(const fb::Plan& plan) {
  if (plan.vocab_size() < 0 || plan.vocab_size() > limits::kVocab ||
      plan.max_positions() < 0 || plan.max_positions() > limits::kPositions) {
    return Senseless("vocab_size ", plan.vocab_size(), ", max_positions ",
                     plan.max_positions(), ": one is out of range");
  }
  if (plan.generation() != nullptr) {
    DS_RETURN_IF_ERROR(CheckGeneration(plan, *plan.generation()));
  }
  if (plan.encoder() != nullptr) {
    DS_RETURN_IF_ERROR(CheckEncoder(plan, *plan.encoder()));
  }
  return CheckSelfTests(plan);
}

absl::Status CheckTarget(const fb::Plan& plan, const fb::Target& target) {
  const bool cpu = Text(target.name()) == "cpu";
  DS_RETURN_IF_ERROR(CheckKernels(target));
  if (!cpu) DS_RETURN_IF_ERROR(CheckGpuPrograms(target));
  std::set<std::pair<fb::ProgramKind, absl::string_view>> seen;
  for (uint32_t i = 0; i < target.programs()->size(); ++i) {
    const fb::Program& p = *target.programs()->Get(i);
    const std::string where =
        absl::StrCat("programs[", i, "] (", Quoted(p.name()), ")");
    if (p.kind() > fb::ProgramKind::MAX) {
      return Senseless(where, ": kind ", static_cast<int>(p.kind()));
    }
    if (!seen.insert({p.kind(), Text(p.name())}).second) {
      return Senseless(where, ": there twice");
    }
    const ProgramView view{plan, target, p, cpu};
    DS_RETURN_IF_ERROR(Annotate(CheckProgramTables(view), where));
    if (!cpu) DS_RETURN_IF_ERROR(Annotate(CheckGpuProgram(view), where));
    DS_RETURN_IF_ERROR(Annotate(CheckSteps(view), where));
  }
  return absl::OkStatus();
}

absl::Status CheckTables(const fb::Plan& plan, uint64_t weights_bytes) {
  DS_RETURN_IF_ERROR(CheckMesh(plan));
  DS_RETURN_IF_ERROR(CheckWeights(plan, weights_bytes));
  for (uint32_t i = 0; i < plan.states()->size(); ++i) {
    const fb::State& s = *plan.states()->Get(i);
    DS_RETURN_IF_ERROR(
        Annotate(CheckState(s), "states[", i, "] (", Quoted(s.name()), ")"));
  }
  DS_RETURN_IF_ERROR(CheckText(plan));
  if (plan.targets()->size() == 0) return Senseless("targets: there is none");
  std::set<absl::string_view> names;
  for (uint32_t i = 0; i < plan.targets()->size(); ++i) {
    const fb::Target& t = *plan.targets()->Get(i);
    const std::string where =
        absl::StrCat("targets[", i, "] (", Quoted(t.name()), ")");
    if (!names.insert(Text(t.name())).second) {
      return Senseless(where, ": there twice");
    }
    DS_RETURN_IF_ERROR(Annotate(CheckTarget(plan, t), where));
  }
  if (plan.reference() == nullptr) return absl::OkStatus();
  // Like a step program of the CPU's; the target is nowhere asked about it.
  if (plan.reference()->kind() != fb::ProgramKind::Step &&
      plan.reference()->kind() != fb::ProgramKind::Encode) {
    return Senseless("reference: kind ",
                     static_cast<int>(plan.reference()->kind()),
                     "; a step program or an encoder's is allowed");
  }
  const ProgramView view{plan, *plan.targets()->Get(0), *plan.reference(),
                         /*cpu=*/true};
  DS_RETURN_IF_ERROR(Annotate(CheckProgramTables(view), "reference"));
  return Annotate(CheckSteps(view), "reference");
}

}  // namespace

absl::Status CheckPlan(const fb::Plan& plan, uint64_t weights_bytes,
                       absl::string_view label) {
  const absl::Status status = CheckTables(plan, weights_bytes);
  if (!absl::IsDataLoss(status)) return Annotate(status, label);
  return absl::DataLossError(absl::StrCat(label, ": ", status.message(),
                                          "; copy the plan again or rebuild "
                                          "it"));
}

}  // namespace deepslice
