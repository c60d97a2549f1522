// Which attention kernel serves a shape, and how it is launched.
#include "kernels/cuda/attention.h"

#include <algorithm>
#include <bit>
#include <numbers>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/attention_tuning.h"
#include "schema/base/check.h"

namespace deepslice {
namespace {

// Of attention_decode.cuh, attention_append.cuh, attention_tile.cuh and
// attention_simple.cuh.
constexpr int64_t kAppendThreads = 256;
constexpr int64_t kTileThreads = 128, kTileWarps = 4, kSimpleThreads = 256;
constexpr int64_t kAppendTokens = 64, kAppendHeads = 4;
// Most blocks of a wave of the tile kernel for one KV head.
constexpr int64_t kTileSlots = 256;
// Parts whose weights one block joins; also what its shared memory holds.
constexpr int64_t kMaxParts = 64;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::string FloatBits(double x) {
  return absl::StrCat(std::bit_cast<uint32_t>(static_cast<float>(x)), "u");
}

// The same attention with the fewest different instances.
AttentionShape Normalise(AttentionShape s) {
  DS_CHECK(s.head_dim > 0 && s.group > 0 && s.block_tokens > 0);
  if (s.kv_heads == 1) {  // all heads read it
    s.group = std::max<int64_t>(1, s.heads);
    s.head_offset = 0;
  }
  if (s.window >= s.max_context) s.window = 0;  // hides nothing
  return s;
}

// ---- template arguments, as in attention_common.cuh -------------------------

std::string HeadsArg(const AttentionShape& s) {
  return absl::StrCat("AttentionHeads<", s.heads, ", ", s.kv_heads, ", ",
                      s.group, ", ", s.head_offset, ", ", s.head_dim, ">");
}
// Weights are powers of 2. `precise`: for the kernels that sum in float.
std::string KeysArg(const AttentionShape& s, bool precise = false) {
  using std::numbers::log2e;
  const bool capped = s.softcap > 0;
  const std::string keys =
      absl::StrCat(s.block_tokens, ", ", s.window, ", ",
                   FloatBits(s.scale * (capped ? 1 / s.softcap : log2e)));
  if (s.relative.has_value()) {
    const auto biases = RelativeBiasArg(*s.relative, /*both_directions=*/false);
    DS_CHECK(biases.has_value() && !s.alibi.has_value());
    return absl::StrCat("AttentionRelativeKeys<", keys, ", ",
                        FloatBits(s.softcap * log2e), ", ", *biases, ">");
  }
  if (!capped && !s.alibi.has_value()) {
    return absl::StrCat("AttentionKeys<", keys, ">");
  }
  const double factor = s.alibi == Alibi::kScaledBf16 ? s.scale * log2e : log2e;
  return absl::StrCat("AttentionBentKeys<", keys, ", ",
                      FloatBits(s.softcap * log2e), ", ",
                      s.alibi.has_value() ? static_cast<int>(*s.alibi) : -1,
                      ", ", FloatBits(s.alibi.has_value() ? factor : 0), ", ",
                      precise ? "true" : "false", ">");
}
// What the entries that take slopes or biases are called besides.
absl::string_view SlopesSuffix(const AttentionShape& s) {
  return s.relative.has_value() ? "Relative<"
         : s.alibi.has_value()  ? "Slopes<"
                                : "<";
}
// And the biases' type, their last argument.
std::string BiasTypeArg(const AttentionShape& s) {
  if (!s.relative.has_value()) return ">";
  return absl::StrCat(", ", CudaTypeName(s.relative->type), ">");
}
std::string RotaryArg(const AttentionShape& s) {
  return absl::StrCat("AttentionRotary<", s.head_dim, ", ", s.rotary_dim, ", ",
                      static_cast<int>(s.style), ", ", FloatBits(s.rope_scale),
                      ">");
}
std::string RowsArg(const AttentionShape& s, int64_t out_stride) {
  return absl::StrCat("AttentionRows<", s.q_stride, ", ", s.q_offset, ", ",
                      s.k_stride, ", ", s.k_offset, ", ", s.v_stride, ", ",
                      s.v_offset, ", ", out_stride, ">");
}
// "32/8x128 bf16": query and KV heads, head size.
std::string ShapeLabel(const AttentionShape& s) {
  return absl::StrCat(s.heads, "/", s.kv_heads, "x", s.head_dim, " ",
                      DTypeName(s.cache), s.window > 0 ? " window" : "",
                      s.softcap > 0 ? " softcap" : "",
                      s.alibi.has_value() ? " alibi" : "",
                      s.relative.has_value() ? " relative" : "");
}

// Both operands of a tensor core come from the cache as they lie there. Biases
// by relative position are the simple kernel's.
bool TensorCore(const AttentionShape& s) {
  if (s.relative.has_value()) return false;
  return s.type == s.cache && (s.type == DType::kF16 || s.type == DType::kBF16);
}

// ---- decode -----------------------------------------------------------------

// Query heads of a block of the kernel on tensor cores; 0: the simple kernel.
int64_t DecodeRows(const AttentionShape& s) {
  if (!TensorCore(s) || s.head_dim % 32 != 0 || s.head_dim > 256 ||
      s.block_tokens % 32 != 0 || s.out_stride % 4 != 0) {
    return 0;
  }
  // The joined sums of more rows of a large head do not fit 48 KiB.
  const int64_t most_rows = s.head_dim > 128 ? 8 : 16;
  return CeilDiv(s.group, CeilDiv(s.group, most_rows));
}

// Blocks that share the query heads of a KV head.
int64_t DecodePasses(const AttentionShape& s) {
  return CeilDiv(s.group, DecodeRows(s));
}

// Of 32 keys or values a half.
int64_t DecodeRingBytes(const AttentionShape& s, const DecodeTuning& t) {
  return t.warps * t.ring * s.head_dim * 64;
}

KernelSpec SimpleDecode(const AttentionShape& s, const GpuTarget& target) {
  KernelSpec spec;
  spec.source = "attention_simple.cuh";
  spec.entry = absl::StrCat("AttentionSimpleDecode", SlopesSuffix(s),
                            CudaTypeName(s.type), ", ", CudaTypeName(s.cache),
                            ", ", HeadsArg(s), ", ",
                            KeysArg(s, /*precise=*/true), ", ", RotaryArg(s),
                            ", ", RowsArg(s, s.out_stride), BiasTypeArg(s));
  spec.label =
      absl::StrCat("attention_simple_decode ", ShapeLabel(s), " t", s.tokens);
  spec.grid = {GridExtent{.times = s.group}, GridExtent{.times = s.kv_heads},
               GridExtent{.dim = CountDim::kTokens}};
  spec.block = {kSimpleThreads, 1, 1};
  spec.programmatic = target.hopper();
  return spec;
}

// ---- tiles ------------------------------------------------------------------

struct TileChoice {
  bool simple = true;
  int64_t tokens = 1;     // of a tile
  int64_t pack = 1;       // query heads of a block
  int64_t passes = 1;     // blocks that share the query heads of a KV head
  int64_t row_tiles = 1;  // of 16 rows, for a warp
  int64_t keys = 0;       // at a time
  int64_t shared_bytes = 0;
  int64_t resident = 1;  // blocks that an SM holds
};

TileChoice ChooseTile(const AttentionShape& s, const GpuTarget& target) {
  TileChoice c;
  // As many rows as a thread has registers for.
  c.tokens = s.head_dim <= 128 ? 4 : s.head_dim <= 256 ? 2 : 1;
  if (!TensorCore(s) || s.head_dim % 16 != 0 || s.head_dim > 256 ||
      s.block_tokens % 8 != 0 || s.out_stride % 8 != 0 || s.scale <= 0) {
    return c;
  }
  // Sums of 32 rows of 128, or 16 of 256, are what 255 registers hold.
  const int64_t row_tiles = s.head_dim <= 128 ? 2 : 1;
  const int64_t keys = s.head_dim <= 128 ? 64 : 32;
  const int64_t rows = kTileWarps * 16 * row_tiles;
  // q and k with rows of head_dim + 8, v with rows of keys + 8 elements.
  const int64_t bytes =
      2 * ((rows + keys) * (s.head_dim + 8) + s.head_dim * (keys + 8));
  if (bytes > target.shared_bytes) return c;
  c.simple = false;
  c.passes = CeilDiv(s.group, 16);
  c.pack = CeilDiv(s.group, c.passes);
  c.tokens = rows / c.pack;
  c.row_tiles = row_tiles;
  c.keys = keys;
  c.shared_bytes = bytes;
  const bool bent = s.softcap > 0 || s.alibi.has_value();
  c.resident = s.head_dim <= 64 && !bent ? 3 : 2;  // as its launch bounds
  return c;
}

}  // namespace

DecodeTuning TuneDecode(const AttentionShape& shape, const GpuTarget& target) {
  const AttentionShape s = Normalise(shape);
  DecodeTuning c;
  if (DecodeRows(s) == 0) return c;
  // Measured on an H200. Warps that registers let an SM hold, and what they are
  // for: KV heads of all sequences.
  const int64_t warps = (s.head_dim > 64 ? 8 : 16) * target.num_sms;
  const int64_t alike = s.tokens * s.kv_heads * DecodePasses(s);
  c.even = warps / (4 * alike);
  if (target.hopper()) {
    // A cluster saves the way through memory, about 2 us, but its blocks need
    // places side by side: of large ones fewer fit.
    const int64_t large = warps / (8 * alike);  // blocks of 8 warps
    // Few keys for each of many blocks: nothing for a ring to win.
    const bool many_blocks = s.head_dim <= 64 && large >= 16;
    if (large >= 4) {
      c.warps = 8;
      c.cluster = many_blocks ? 8 : 2;
      c.even = many_blocks ? large * 3 / 4 : large;
    } else if (large >= 2) {
      c.cluster = 2;
    }
    const auto halve = [&c] {
      c.warps /= 2;
      c.even *= 2;
    };
    while (!DecodeFits(s, target, c)) {
      if (c.warps > 4) {
        halve();
      } else {
        c.cluster /= 2;
      }
    }
    if (!many_blocks) {
      // What two blocks of four warps, or one of eight, find room for.
      c.ring = c.warps > 4 && s.head_dim > 64 ? 2 : 3;
      if (!DecodeFits(s, target, c) && c.warps > 4) halve();
      if (!DecodeFits(s, target, c)) c.ring = 2;
      if (!DecodeFits(s, target, c)) c.ring = 0;
    }
    if (c.ring == 0) c.ahead = 2;
    c.min_part = 32 * c.warps;
  }
  const int64_t parts = CeilDiv(s.max_context, c.min_part);
  while (c.cluster > parts) c.cluster /= 2;
  const auto whole = [&](int64_t n) {
    return std::max<int64_t>(1, n / c.cluster) * c.cluster;
  };
  c.even = whole(std::min({c.even, kMaxParts, parts}));
  // Blocks without a part cost about a microsecond a wave: half a wave of them.
  c.most = std::max(c.even,
                    whole(std::min({int64_t{8}, s.max_context / 2048,
                                    CeilDiv(warps / c.warps * 3 / 2, alike)})));
  return c;
}

bool DecodeFits(const AttentionShape& shape, const GpuTarget& target,
                const DecodeTuning& t) {
  const AttentionShape s = Normalise(shape);
  const int64_t rows = DecodeRows(s);
  if (rows == 0) return false;
  // The arrays of DecodeBlock.
  const int64_t sums = 4 * t.warps * rows * (s.head_dim + 4 + 2);
  const int64_t rotated = 2 * (rows + 1) * (s.head_dim + 32);
  const int64_t inbox =
      t.cluster > 1 ? 4 * rows * s.head_dim + t.cluster * (16 + 8 * rows) : 0;
  const int64_t small = 2 * s.head_dim + 4 * s.rotary_dim + 4 * rows + 64;
  const int64_t fixed = sums + rotated + inbox + small;
  if (fixed > 48 << 10) return false;
  return t.ring == 0 || fixed + DecodeRingBytes(s, t) <= target.shared_bytes;
}

DecodeAttention SpecializeDecodeAttention(const AttentionShape& shape,
                                          const GpuTarget& target) {
  return SpecializeDecodeAttention(shape, target, TuneDecode(shape, target));
}

DecodeAttention SpecializeDecodeAttention(const AttentionShape& shape,
                                          const GpuTarget& target,
                                          const DecodeTuning& tuning) {
  const AttentionShape s = Normalise(shape);
  const int64_t rows = DecodeRows(s);
  DecodeAttention result;
  if (rows == 0) {
    result.kernel = SimpleDecode(s, target);
    return result;
  }
  const DecodeTuning& c = tuning;
  DS_CHECK(DecodeFits(s, target, c) && (c.cluster == 1 || target.hopper()));
  const int64_t passes = DecodePasses(s);
  KernelSpec& spec = result.kernel;
  spec.source = "attention_decode.cuh";
  spec.entry = absl::StrCat(
      c.cluster > 1 ? "AttentionDecodeCluster" : "AttentionDecode",
      SlopesSuffix(s), CudaTypeName(s.type), ", ", HeadsArg(s), ", ",
      KeysArg(s), ", ", RotaryArg(s), ", ", RowsArg(s, s.out_stride), ", ");
  absl::StrAppend(&spec.entry, "DecodePlan<", rows, ", ", c.warps, ", ",
                  c.cluster, ", ", c.even, ", ", c.most, ", ");
  absl::StrAppend(&spec.entry, c.min_part, ", ", c.own_part, ", ", c.ahead,
                  ", ", c.ring, ">>");
  spec.label = absl::StrCat("attention_decode ", ShapeLabel(s), " t", s.tokens,
                            " parts ", c.even, "..", c.most);
  spec.grid = {GridExtent{.times = s.kv_heads * passes},
               GridExtent{.dim = CountDim::kTokens},
               GridExtent{.times = c.most}};
  spec.block = {static_cast<uint32_t>(32 * c.warps), 1, 1};
  spec.shared_bytes = static_cast<uint32_t>(DecodeRingBytes(s, c));
  spec.programmatic = target.hopper();
  if (c.most > c.cluster) {
    // Of each slice that a block of a cluster joins.
    const int64_t slices = s.tokens * s.kv_heads * passes * c.cluster;
    const int64_t slice = CeilDiv(rows * s.head_dim / 4, c.cluster);
    result.scratch_bytes = slices * (c.most / c.cluster) * (slice + rows) * 16;
    result.sync_words = slices;
  }
  return result;
}

KernelSpec SpecializeAppend(const AttentionShape& shape,
                            const GpuTarget& target) {
  AttentionShape s = Normalise(shape);
  s.softcap = 0;  // of scores, which it doesn't make
  s.alibi.reset();
  s.relative.reset();
  KernelSpec spec;
  spec.source = "attention_append.cuh";
  spec.entry = absl::StrCat("AttentionAppend<", CudaTypeName(s.type), ", ",
                            CudaTypeName(s.cache), ", ", HeadsArg(s), ", ",
                            KeysArg(s), ", ", RotaryArg(s), ", ",
                            RowsArg(s, s.heads * s.head_dim), ">");
  spec.label = absl::StrCat("attention_append ", ShapeLabel(s));
  const int64_t turned = CeilDiv(s.heads + s.kv_heads, kAppendHeads);
  spec.grid = {GridExtent{.per_block = kAppendTokens, .dim = CountDim::kTokens},
               GridExtent{.times = turned + s.kv_heads}, GridExtent{}};
  spec.block = {kAppendThreads, 1, 1};
  spec.programmatic = target.hopper();
  return spec;
}

TileAttention SpecializeTileAttention(const AttentionShape& shape,
                                      const GpuTarget& target) {
  const AttentionShape s = Normalise(shape);
  const TileChoice c = ChooseTile(s, target);
  TileAttention result;
  KernelSpec& spec = result.kernel;
  spec.programmatic = target.hopper();
  if (c.simple) {
    spec.source = "attention_simple.cuh";
    spec.entry =
        absl::StrCat("AttentionSimpleTile", SlopesSuffix(s),
                     CudaTypeName(s.type), ", ", CudaTypeName(s.cache), ", ",
                     HeadsArg(s), ", ", KeysArg(s, /*precise=*/true), ", ",
                     RowsArg(s, s.out_stride), ", ", c.tokens, BiasTypeArg(s));
    spec.label = absl::StrCat("attention_simple_tile ", ShapeLabel(s));
    spec.grid = {GridExtent{.times = s.heads},
                 GridExtent{.dim = CountDim::kTiles}, GridExtent{}};
    spec.block = {kSimpleThreads, 1, 1};
    return result;
  }
  // Row tiles leave 16 bytes at a time, wherever a head begins.
  DS_CHECK(s.q_stride % 8 == 0 && s.q_offset % 8 == 0);
  // Blocks for a tile or a part: a multiple of what fills the GPU.
  const int64_t heads = s.kv_heads * c.passes;
  const int64_t slots =
      std::clamp<int64_t>(c.resident * target.num_sms / heads, 1, kTileSlots);
  spec.source = "attention_tile.cuh";
  spec.entry = absl::StrCat(
      "AttentionTile", SlopesSuffix(s), CudaTypeName(s.type), ", ", HeadsArg(s),
      ", ", KeysArg(s), ", ", RowsArg(s, s.out_stride), ", ", c.pack, ", ",
      c.row_tiles, ", ", c.keys, ", ", slots, ">");
  spec.label = absl::StrCat("attention_tile ", ShapeLabel(s));
  spec.grid = {
      GridExtent{.times = heads},
      GridExtent{.times = slots, .per_block = slots, .dim = CountDim::kTiles},
      GridExtent{}};
  spec.block = {kTileThreads, 1, 1};
  spec.shared_bytes = static_cast<uint32_t>(c.shared_bytes);
  if (slots > 1) {
    const int64_t rows = kTileWarps * 16 * c.row_tiles;
    result.scratch_bytes = heads * slots * rows * (s.head_dim + 4) * 4;
    result.sync_words = heads * slots;
  }
  return result;
}

int64_t AttentionTileTokens(const AttentionShape& shape,
                            const GpuTarget& target) {
  return ChooseTile(Normalise(shape), target).tokens;
}

}  // namespace deepslice
