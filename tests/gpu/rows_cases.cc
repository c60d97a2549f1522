// Embedding, norms, elementwise steps, rotation and joined columns.
#include "kernels/cuda/rows.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/ref_util.h"
#include "tests/gpu/gpu_case.h"
#include "tests/gpu/row_case.h"

namespace deepslice {
namespace {

GpuCase MakeEmbed(const KernelSpec& spec, const EmbedShape& s) {
  Random random(s.cols + s.begin);
  const int64_t rows = RowsOf(s.count, s.max_rows);
  const HostTensor table = random.Tensor(s.table, s.rows * s.cols, 1);
  std::vector<int32_t> ids(s.max_rows, -12345678), sampled(s.max_rows + 2);
  for (int32_t& id : sampled) {
    id = static_cast<int32_t>(s.begin + random.Below(s.rows + 4)) - 2;
  }
  sampled[0] = kNoSampledId;
  GpuCase c;
  GpuCheck check = OutputCheck(0, s.y, s.max_rows, s.cols);
  for (int64_t r = 0; r < rows; ++r) {
    int32_t id = static_cast<int32_t>(s.begin + random.Below(s.rows + 4)) - 2;
    if (id < 0) id = 0;
    ids[r] = id;
    if (s.has_sampled && r % 3 != 1) {
      const int64_t from = random.Below(s.max_rows + 2);
      ids[r] = ~static_cast<int32_t>(from);
      id = sampled[from];
    }
    const int64_t row = id - s.begin;
    const bool here = id >= 0 && row >= 0 && row < s.rows;
    for (int64_t k = 0; k < s.cols; ++k) {
      const double want = here ? table.values[row * s.cols + k] : 0;
      check.want[r * s.cols + k] = want;
      check.allowed[r * s.cols + k] =
          s.table == s.y || s.y == DType::kF32 ? 0 : Allowed(s.y, want, 0);
    }
  }
  c.AddOutput(s.y, s.max_rows * s.cols);
  c.AddStep(spec, InfoOf(s.count, rows),
            {GpuParam::At(c.AddInts(ids)), GpuParam::At(c.Add(table)),
             s.has_sampled ? GpuParam::At(c.AddInts(sampled))
                           : GpuParam::Null()},
            {GpuParam::At(0)});
  c.checks.push_back(check);
  return c;
}

GpuCase MakeNorm(const KernelSpec& spec, const NormShape& s) {
  Random random(s.cols);
  const int64_t rows = RowsOf(s.count, s.max_rows);
  const int64_t x_rows = s.max_rows + (s.gather ? 3 : 0);
  // A mean far from 0: one pass over the squares would lose it.
  const HostTensor x = random.Tensor(s.x, x_rows * s.x_stride, 1.5, 6);
  const HostTensor scale = random.Tensor(DType::kF32, s.cols, 0.3, 1);
  const HostTensor bias = random.Tensor(DType::kF32, s.cols, 0.5);
  std::vector<int32_t> from = random.Permutation(x_rows);
  GpuCase c;
  GpuCheck check = OutputCheck(0, s.y, s.max_rows, s.y_stride);
  for (int64_t r = 0; r < rows; ++r) {
    const double* in = x.values.data() + (s.gather ? from[r] : r) * s.x_stride;
    double mean = 0, squares = 0;
    for (int64_t k = 0; k < s.cols; ++k) mean += in[k];
    mean = s.layer_norm ? mean / s.cols : 0;
    for (int64_t k = 0; k < s.cols; ++k) {
      squares += (in[k] - mean) * (in[k] - mean);
    }
    const double inverse = 1 / std::sqrt(squares / s.cols + s.eps);
    for (int64_t k = 0; k < s.cols; ++k) {
      double y = (in[k] - mean) * inverse * scale.values[k];
      const double magnitude = 8 * (std::fabs(y) + std::fabs(mean * inverse));
      if (s.bias) y += bias.values[k];
      check.want[r * s.y_stride + k] = y;
      check.allowed[r * s.y_stride + k] = Allowed(s.y, y, magnitude);
    }
  }
  c.AddOutput(s.y, s.max_rows * s.y_stride);
  c.AddStep(spec, InfoOf(s.count, rows),
            {GpuParam::At(c.Add(x)), GpuParam::At(c.Add(scale)),
             s.bias ? GpuParam::At(c.Add(bias)) : GpuParam::Null(),
             s.gather ? GpuParam::At(c.AddInts(from)) : GpuParam::Null()},
            {GpuParam::At(0)});
  c.checks.push_back(check);
  return c;
}

// `in_place`: 1: y is x; 2: y is second.
GpuCase MakeElementwise(const KernelSpec& spec, const ElementwiseShape& s,
                        int in_place) {
  using Second = ElementwiseShape::Second;
  Random random(s.cols + in_place);
  const int64_t rows = RowsOf(s.count, s.max_rows);
  const int64_t x_rows = s.max_rows + (s.gather ? 3 : 0);
  const int64_t out_cols = s.gated ? s.cols / 2 : s.cols;
  const HostTensor x = random.Tensor(s.x, x_rows * s.x_stride, 2);
  const HostTensor second =
      random.Tensor(s.y, s.max_rows * s.second_stride, 1);
  const HostTensor bias = random.Tensor(DType::kF32, s.cols, 1);
  std::vector<int32_t> from = random.Permutation(x_rows);
  GpuCase c;
  GpuCheck check = OutputCheck(0, s.y, s.max_rows, s.y_stride);
  if (in_place == 1) check.want = x.values;
  if (in_place == 2) check.want = second.values;
  for (int64_t r = 0; r < rows; ++r) {
    const double* in = x.values.data() + (s.gather ? from[r] : r) * s.x_stride;
    const auto biased = [&](int64_t k) {
      return in[k] + (s.bias ? bias.values[k] : 0);
    };
    const auto act = [&](double v) { return s.act ? RefAct(*s.act, v) : v; };
    for (int64_t k = 0; k < out_cols; ++k) {
      double y = s.gated ? act(biased(2 * k)) * biased(2 * k + 1)
                         : act(biased(k));
      double magnitude = s.gated ? 8 * (1 + std::fabs(biased(2 * k + 1))) *
                                       (1 + std::fabs(biased(2 * k)))
                                 : 8 * (1 + std::fabs(biased(k)));
      const double z =
          s.second_stride > 0 ? second.values[r * s.second_stride + k] : 0;
      if (s.second == Second::kAdd) y += z;
      if (s.second == Second::kMul) {
        y *= z;
        magnitude *= std::fabs(z);
      }
      const bool copies = !s.act && !s.bias && s.second == Second::kNone &&
                          (s.x == s.y || s.y == DType::kF32);
      check.want[r * s.y_stride + k] = y;
      check.allowed[r * s.y_stride + k] =
          copies ? 0 : Allowed(s.y, y, magnitude);
    }
  }
  if (in_place == 0) c.AddOutput(s.y, s.max_rows * s.y_stride);
  if (in_place == 2) c.Add(second);
  const int x_at = c.Add(x);
  const bool has_second = s.second != Second::kNone;
  c.AddStep(spec, InfoOf(s.count, rows),
            {GpuParam::At(x_at),
             !has_second     ? GpuParam::Null()
             : in_place == 2 ? GpuParam::At(0)
                             : GpuParam::At(c.Add(second)),
             s.bias ? GpuParam::At(c.Add(bias)) : GpuParam::Null(),
             s.gather ? GpuParam::At(c.AddInts(from)) : GpuParam::Null()},
            {GpuParam::At(0)});
  c.checks.push_back(check);
  return c;
}

GpuCase MakeRope(const KernelSpec& spec, const RopeShape& s) {
  Random random(s.heads * s.head_dim);
  const int64_t rows = RowsOf(CountDim::kTokens, s.max_rows);
  const HostTensor x = random.Tensor(s.x, s.max_rows * s.x_stride, 1);
  std::vector<double> frequencies;
  for (int64_t i = 0; i < s.rotary_dim / 2; ++i) {
    frequencies.push_back(std::pow(10000.0, -2.0 * i / s.rotary_dim));
  }
  const HostTensor freqs = Encode(DType::kF32, frequencies);
  std::vector<int32_t> positions(s.max_rows);
  for (int32_t& p : positions) p = static_cast<int32_t>(random.Below(131072));
  positions[0] = 0;
  GpuCase c;
  GpuCheck check = OutputCheck(0, s.y, s.max_rows, s.y_stride);
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<double> row(x.values.begin() + r * s.x_stride,
                            x.values.begin() + r * s.x_stride +
                                s.heads * s.head_dim);
    for (int64_t h = 0; h < s.heads; ++h) {
      RefRotateHead(positions[r], freqs.values.data(), s.rotary_dim, s.style,
                    s.scale, row.data() + h * s.head_dim);
    }
    for (size_t k = 0; k < row.size(); ++k) {
      check.want[r * s.y_stride + k] = row[k];
      check.allowed[r * s.y_stride + k] = Allowed(s.y, row[k], 4);
    }
  }
  c.AddOutput(s.y, s.max_rows * s.y_stride);
  c.AddStep(spec, InfoOf(CountDim::kTokens, rows),
            {GpuParam::At(c.Add(x)), GpuParam::At(c.AddInts(positions)),
             GpuParam::At(c.Add(freqs))},
            {GpuParam::At(0)});
  c.checks.push_back(check);
  return c;
}

GpuCase MakeUngather(const KernelSpec& spec, const UngatherShape& s) {
  Random random(s.total);
  const int64_t rows = RowsOf(s.count, s.max_rows);
  const HostTensor x =
      random.Tensor(s.type, s.world * s.max_rows * s.part, 1);
  GpuCase c;
  GpuCheck check = OutputCheck(0, s.type, s.max_rows, s.total);
  for (int64_t rank = 0; rank < s.world; ++rank) {
    const int64_t begin = rank * s.total / s.world;
    const int64_t end = (rank + 1) * s.total / s.world;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = begin; k < end; ++k) {
        check.want[r * s.total + k] =
            x.values[(rank * s.max_rows + r) * s.part + (k - begin)];
      }
    }
  }
  c.AddOutput(s.type, s.max_rows * s.total);
  c.AddStep(spec, InfoOf(s.count, rows), {GpuParam::At(c.Add(x))},
            {GpuParam::At(0)});
  c.checks.push_back(check);
  return c;
}

void AddElementwise(const GpuTarget& target,
                    std::vector<GpuCaseEntry>* entries) {
  using Second = ElementwiseShape::Second;
  int n = 0;
  for (DType t : kRowTypes) {
    for (const int64_t cols : {6, 48, 1022, 3072, 28672}) {
      for (const Second second : {Second::kNone, Second::kAdd, Second::kMul}) {
        for (const bool gated : {false, true}) {
          ElementwiseShape s;
          s.x = n % 4 == 3 ? DType::kF32 : t;
          s.y = t;
          s.cols = cols;
          const int64_t out = gated ? cols / 2 : cols;
          s.x_stride = cols + (n % 3 == 1 ? 7 : 0);
          s.y_stride = out + (n % 5 == 1 ? 4 : 0);
          s.second_stride = second == Second::kNone ? 0 : s.y_stride;
          if (gated || n % 2 == 0) s.act = static_cast<Act>(n % 5);
          s.gated = gated;
          s.bias = n % 3 != 0;
          s.gather = n % 7 == 2;
          s.second = second;
          s.count = s.gather ? CountDim::kRows
                             : n % 6 == 5 ? CountDim::kNone : CountDim::kTokens;
          s.max_rows = n % 3 == 0 ? 1 : n % 3 == 1 ? 5 : cols > 9999 ? 70 : 130;
          const KernelSpec spec = SpecializeElementwise(s, target);
          int in_place = 0;
          if (second != Second::kNone && n % 2 == 1) in_place = 2;
          if (in_place == 0 && !gated && !s.gather && s.x == s.y &&
              s.x_stride == s.y_stride) {
            in_place = 1;
          }
          ++n;
          entries->push_back(
              {absl::StrCat(spec.label, " ", DTypeName(s.x), "-",
                            DTypeName(t), " in place ", in_place, " ",
                            spec.entry),
               {spec},
               [=] { return MakeElementwise(spec, s, in_place); }});
        }
      }
    }
  }
}

}  // namespace

void AddRowsCases(const GpuTarget& target, std::vector<GpuCaseEntry>* entries) {
  int n = 0;
  for (DType t : kRowTypes) {
    for (const int64_t cols : {7, 10, 48, 576, 4096}) {
      EmbedShape s = {t, n % 4 == 1 ? DType::kF32 : t, 131, cols};
      s.begin = n % 3 == 1 ? 66 : 0;
      s.has_sampled = n % 2 == 0;
      s.count = n % 5 == 4 ? CountDim::kRows : CountDim::kTokens;
      s.max_rows = n % 3 == 2 ? 1 : 40;
      ++n;
      const KernelSpec spec = SpecializeEmbed(s, target);
      entries->push_back({absl::StrCat("embed ", spec.entry),
                          {spec},
                          [=] { return MakeEmbed(spec, s); }});
    }
    for (const int64_t cols : {6, 48, 131, 576, 1000, 4096, 8192, 40001}) {
      for (const bool layer : {false, true}) {
        NormShape s = {t, n % 4 == 1 ? DType::kF32 : t, cols};
        s.x_stride = cols + (n % 3 == 1 ? 5 : 0);
        s.y_stride = cols + (n % 5 == 2 ? 8 : 0);
        s.layer_norm = layer;
        s.bias = layer && n % 3 != 0;
        s.gather = n % 3 == 2;
        s.count = s.gather ? CountDim::kRows : CountDim::kTokens;
        s.eps = n % 2 == 0 ? 1e-5 : 1e-6;
        s.max_rows = cols > 9999 ? 5 : n % 4 == 0 ? 1 : n % 4 == 1 ? 9 : 300;
        ++n;
        const KernelSpec spec = SpecializeNorm(s, target);
        entries->push_back({absl::StrCat("norm ", spec.entry),
                            {spec},
                            [=] { return MakeNorm(spec, s); }});
      }
    }
    for (const int64_t dim : {10, 64, 96}) {
      RopeShape s = {t, n % 4 == 1 ? DType::kF32 : t, 6, dim};
      s.rotary_dim = dim == 64 ? 64 : dim - 4;
      s.x_stride = 6 * dim + (n % 2) * 5;
      s.y_stride = 6 * dim;
      s.style = n % 2 == 0 ? RopeStyle::kHalf : RopeStyle::kInterleaved;
      s.scale = dim == 96 ? 1.19 : 1;
      s.max_rows = 21;
      ++n;
      const KernelSpec spec = SpecializeRope(s, target);
      entries->push_back({absl::StrCat("rope ", spec.entry),
                          {spec},
                          [=] { return MakeRope(spec, s); }});
    }
    for (const int world : {1, 2, 3, 8}) {
      for (const int64_t total : {131, 1056}) {
        UngatherShape s = {t, world, (total + world - 1) / world, total};
        s.part += n % 3;
        s.count = n % 2 == 0 ? CountDim::kRows : CountDim::kTokens;
        s.max_rows = 6;
        ++n;
        const KernelSpec spec = SpecializeUngather(s, target);
        entries->push_back({absl::StrCat("ungather ", spec.entry),
                            {spec},
                            [=] { return MakeUngather(spec, s); }});
      }
    }
  }
  AddElementwise(target, entries);
}

}  // namespace deepslice
