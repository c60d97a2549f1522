#include "tools/export_tensor.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"
#include "compiler/convert_elements.h"
#include "schema/base/status_macros.h"
#include "schema/encoding.h"
#include "schema/synthetic.h"

namespace deepslice {
namespace {

constexpr int64_t kBytesAtOnce = 4 << 20;

// The type of an unquantised encoding.
DType TypeOf(Encoding e) {
  return e == Encoding::kF16    ? DType::kF16
         : e == Encoding::kBF16 ? DType::kBF16
                                : DType::kF32;
}

bool IsHalf(DType t) { return DTypeSize(t) == 2; }

}  // namespace

PartsOf PartsByTensor(const Graph& unsliced) {
  PartsOf out;
  for (const auto& w : unsliced.weights()) {
    for (const SourcePiece& p : w->source.pieces) {
      out[p.tensor].push_back({w.get(), &p, p, w->source.plus});
    }
  }
  return out;
}

absl::StatusOr<ExportTensor> ExportTensor::Create(const KnownPlan& known,
                                                  const OriginTensor& tensor,
                                                  const PartsOf& parts) {
  ExportTensor out;
  out.tensor_ = &tensor;
  out.rows_ = tensor.rows();
  out.cols_ = out.rows_ == 0 ? 0 : tensor.num_elements() / out.rows_;
  for (const TensorInfo& t : known.exact.tensors) {
    if (t.name != tensor.name || t.shape != tensor.shape || !IsFloat(t.dtype)) {
      continue;
    }
    out.dtype_ = t.dtype;
    out.exact_ = known.exact_file.bytes().substr(t.offset, t.bytes);
    return out;
  }
  const auto found = parts.find(tensor.name);
  std::vector<HeldPart> list;
  if (found != parts.end()) list = found->second;
  // Of two weights that hold the same, the one that is stored exactly counts.
  std::stable_sort(list.begin(), list.end(),
                   [](const HeldPart& a, const HeldPart& b) {
                     return IsQuantized(a.weight->encoding) <
                            IsQuantized(b.weight->encoding);
                   });
  for (size_t i = 0; i < list.size(); ++i) {
    const bool again = std::any_of(
        list.begin(), list.begin() + i,
        [&](const HeldPart& p) { return p.place == list[i].place; });
    if (again) continue;
    DS_RETURN_IF_ERROR(Annotate(out.Add(known, list[i]), known.folder,
                                ": tensor \"", tensor.name, "\""));
  }
  int64_t held = 0;
  for (const Place& p : out.places_) held += p.x.size() * p.y.size();
  for (const OriginRows& r : tensor.rest) held += r.rows.size() * out.cols_;
  out.missing_ = std::max<int64_t>(0, tensor.num_elements() - held);
  std::stable_sort(
      out.places_.begin(), out.places_.end(),
      [](const Place& a, const Place& b) { return a.x.begin < b.x.begin; });
  int64_t end = 0;
  for (const Place& p : out.places_) {
    end = std::max(end, p.x.end);
    out.ends_.push_back(end);
  }
  const json::Value* dtype = known.origin.root.Find("options")->Find("dtype");
  out.ChooseType(dtype != nullptr && dtype->is_string() ? dtype->as_string()
                                                        : "");
  return out;
}

void ExportTensor::ChooseType(const std::string& plan_dtype) {
  dtype_ = places_.empty() ? tensor_->dtype : TypeOf(places_[0].encoding);
  for (const Place& p : places_) {
    quantised_ = quantised_ || IsQuantized(p.encoding);
    if (TypeOf(p.encoding) != dtype_) dtype_ = DType::kF32;
  }
  // What a plan of fewer bits keeps in f32 (norms and biases) has no more than
  // the checkpoint's own type says.
  if (dtype_ == DType::kF32 && !quantised_ && !offset_ && plan_dtype != "fp32" &&
      IsHalf(tensor_->dtype)) {
    dtype_ = tensor_->dtype;
  }
  if (!IsHalf(dtype_)) dtype_ = DType::kF32;  // there is no f64 in a plan
}

uint64_t ExportTensor::bytes() const {
  return static_cast<uint64_t>(tensor_->num_elements()) * DTypeSize(dtype_);
}

absl::Status ExportTensor::Add(const KnownPlan& known, const HeldPart& part) {
  const Weight& w = *part.weight;
  const SourcePiece& piece = *part.piece;
  const SourcePiece& to = part.place;
  const bool flat = w.type.rank() == 1;
  const bool flipped = !flat && to.transposed != tensor_->turned;
  if (places_.empty()) {
    flat_ = flat;
    flipped_ = flipped;
    if (flat) {
      rows_ *= cols_;
      cols_ = 1;
    }
  }
  const int64_t last = to.rows.size() > 0 ? to.Row(to.rows.end - 1) + 1 : 0;
  const int64_t x_size = flipped ? cols_ : rows_;
  const int64_t y_size = flipped ? rows_ : cols_;
  if (flat != flat_ || flipped != flipped_ || to.rows.begin < 0 ||
      to.cols.begin < 0 || last > x_size || to.cols.end > y_size ||
      to.rows.size() != piece.rows.size() || !(to.cols == piece.cols)) {
    return absl::DataLossError(absl::StrFormat(
        "@%s takes rows up to %d and columns up to %d of it; it has %d and %d; "
        "copy the plan again or compile it anew",
        w.name, last, to.cols.end, x_size, y_size));
  }
  Place place;
  place.encoding = w.encoding;
  place.plus = static_cast<float>(part.plus);
  offset_ = offset_ || part.plus != w.source.plus;
  if (const auto recipe = known.supply->Synthetic(w)) {
    place.y = piece.cols;
    place.key = SyntheticTensorKey(recipe->seed, piece.tensor);
    place.mean = recipe->mean;
    place.scale = recipe->scale;
    AddPlace(part, piece.rows, place);
    return absl::OkStatus();
  }
  DS_ASSIGN_OR_RETURN(const std::vector<HeldRun> runs,
                      known.supply->Find(w.name, piece));
  for (const HeldRun& run : runs) {
    for (const HeldRows& held : run.parts) {
      place.y = held.cols;
      place.data = held.data;
      place.row_bytes = held.row_bytes;
      place.scales = held.scales;
      place.scale_step = held.scale_step;
      AddPlace(part, run.rows, place);
    }
  }
  return absl::OkStatus();
}

// Cuts rows of the piece where they don't follow each other in the tensor.
void ExportTensor::AddPlace(const HeldPart& part, Range rows,
                            const Place& place) {
  const SourcePiece& to = part.place;
  const int64_t shift = to.rows.begin - part.piece->rows.begin;
  for (int64_t r = rows.begin; r < rows.end;) {
    int64_t n = to.RunLength(r + shift, rows.end + shift);
    if (place.data == nullptr) {
      n = std::min(n, part.piece->RunLength(r, rows.end));
    }
    Place next = place;
    next.x = {to.Row(r + shift), to.Row(r + shift) + n};
    next.source_row = part.piece->Row(r);
    if (next.data != nullptr) next.data += (r - rows.begin) * place.row_bytes;
    if (next.scales != nullptr) {
      next.scales += (r - rows.begin) * place.scale_step;
    }
    places_.push_back(next);
    r += n;
  }
}

void ExportTensor::ReadFloats(const Place& place, int64_t x, Range y,
                              float* out) const {
  const int64_t n = y.size();
  if (place.data == nullptr) {
    const int64_t row = place.source_row + (x - place.x.begin);
    for (int64_t i = 0; i < n; ++i) {
      out[i] =
          place.mean + place.scale * SyntheticUnit(place.key, row, y.begin + i);
    }
    // As the plan's type rounds them.
    const DType type = TypeOf(place.encoding);
    if (type != DType::kF32) {
      std::vector<uint8_t> rounded(n * DTypeSize(type));
      ConvertElements(DType::kF32, reinterpret_cast<const uint8_t*>(out), n,
                      type, rounded.data());
      ConvertElements(type, rounded.data(), n, DType::kF32,
                      reinterpret_cast<uint8_t*>(out));
    }
  } else {
    const int64_t down = x - place.x.begin;
    const int64_t element = EncodingBits(place.encoding) / 8;
    const char* row = place.data + down * place.row_bytes +
                      (y.begin - place.y.begin) * element;
    if (IsQuantized(place.encoding)) {
      const float scale = place.scales[down * place.scale_step];
      const auto* q = reinterpret_cast<const int8_t*>(row);
      for (int64_t i = 0; i < n; ++i) out[i] = q[i] * scale;
    } else {
      ConvertElements(TypeOf(place.encoding),
                      reinterpret_cast<const uint8_t*>(row), n, DType::kF32,
                      reinterpret_cast<uint8_t*>(out));
    }
  }
  if (place.plus != 0) {
    for (int64_t i = 0; i < n; ++i) out[i] -= place.plus;
  }
}

// Elements `y` of row `x`, to every step-th element of `out`.
void ExportTensor::FillRow(const Place& place, int64_t x, Range y, uint8_t* out,
                           int64_t step, std::vector<float>* floats) const {
  const int64_t n = y.size();
  const int64_t size = DTypeSize(dtype_);
  const bool as_stored = place.data != nullptr && place.plus == 0 &&
                         !IsQuantized(place.encoding) &&
                         TypeOf(place.encoding) == dtype_;
  const uint8_t* from;
  std::vector<uint8_t> converted;
  if (as_stored) {
    from = reinterpret_cast<const uint8_t*>(place.data) +
           (x - place.x.begin) * place.row_bytes +
           (y.begin - place.y.begin) * size;
  } else {
    floats->resize(n);
    ReadFloats(place, x, y, floats->data());
    from = reinterpret_cast<const uint8_t*>(floats->data());
    if (dtype_ != DType::kF32) {
      converted.resize(n * size);
      ConvertElements(DType::kF32, from, n, dtype_, converted.data());
      from = converted.data();
    }
  }
  if (step == 1) {
    std::memcpy(out, from, n * size);
  } else if (size == 2) {
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(out + i * step * 2, from + i * 2, 2);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(out + i * step * 4, from + i * 4, 4);
    }
  }
}

void ExportTensor::Fill(int64_t begin, int64_t end, uint8_t* out) const {
  const int64_t size = DTypeSize(dtype_);
  std::memset(out, 0, (end - begin) * cols_ * size);
  std::vector<float> floats;
  for (const OriginRows& r : tensor_->rest) {
    const int64_t width = rows_ == 0 ? 0 : tensor_->num_elements() / rows_;
    for (int64_t row = std::max(begin, r.rows.begin);
         row < std::min(end, r.rows.end); ++row) {
      ConvertElements(DType::kF32,
                      reinterpret_cast<const uint8_t*>(
                          r.values.data() + (row - r.rows.begin) * width),
                      width, dtype_, out + (row - begin) * cols_ * size);
    }
  }
  if (flipped_) {
    for (const Place& p : places_) {
      const Range y = {std::max(begin, p.y.begin), std::min(end, p.y.end)};
      if (y.size() <= 0) continue;
      for (int64_t x = p.x.begin; x < p.x.end; ++x) {
        FillRow(p, x, y, out + ((y.begin - begin) * cols_ + x) * size, cols_,
                &floats);
      }
    }
    return;
  }
  const auto first = std::upper_bound(ends_.begin(), ends_.end(), begin);
  for (size_t i = first - ends_.begin();
       i < places_.size() && places_[i].x.begin < end; ++i) {
    const Place& p = places_[i];
    for (int64_t x = std::max(begin, p.x.begin); x < std::min(end, p.x.end);
         ++x) {
      FillRow(p, x, p.y, out + ((x - begin) * cols_ + p.y.begin) * size, 1,
              &floats);
    }
  }
}

absl::Status ExportTensor::Write(
    absl::FunctionRef<absl::Status(const void*, uint64_t)> sink) const {
  const int64_t size = DTypeSize(dtype_);
  if (!exact_.empty()) return sink(exact_.data(), exact_.size());
  const int64_t at_once =
      std::max<int64_t>(1, kBytesAtOnce / std::max<int64_t>(1, cols_ * size));
  std::vector<uint8_t> buffer(std::min(at_once, rows_) * cols_ * size);
  for (int64_t row = 0; row < rows_; row += at_once) {
    const int64_t n = std::min(at_once, rows_ - row);
    Fill(row, row + n, buffer.data());
    DS_RETURN_IF_ERROR(sink(buffer.data(), n * cols_ * size));
  }
  return absl::OkStatus();
}

}  // namespace deepslice
