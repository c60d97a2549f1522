#include "compiler/checkpoint/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/checkpoint/checkpoint_json.h"
#include "compiler/checkpoint/deepspeed.h"
#include "compiler/checkpoint/deepspeed_files.h"
#include "compiler/checkpoint/dequantize.h"
#include "compiler/checkpoint/gguf_checkpoint.h"
#include "compiler/checkpoint/hf_folder.h"
#include "compiler/checkpoint/megatron.h"
#include "compiler/checkpoint/meta_llama.h"
#include "compiler/checkpoint/presharded.h"
#include "compiler/checkpoint/rank_copies.h"
#include "compiler/checkpoint/shard_index.h"
#include "compiler/checkpoint/strided_rows.h"
#include "compiler/checkpoint/torch_container.h"
#include "compiler/checkpoint/universal.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/check.h"
#include "schema/base/file.h"
#include "schema/base/status_macros.h"
#include "schema/synthetic.h"

namespace deepslice {
namespace {

// The stored row that holds row `row` of the published tensor: within a head,
// published row i of the first half is stored at 2i, of the second at 2i + 1.
int64_t StoredRow(const TensorInfo& t, int64_t row) {
  const int64_t head_rows = t.rows() / t.rotary_heads;
  const int64_t half = head_rows / 2;
  const int64_t r = row % head_rows;
  return row - r + (r < half ? 2 * r : 2 * (r - half) + 1);
}

// Whether all are finite; without a branch in the loop, so that it vectorises.
bool AllFinite(const float* v, int64_t count) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t other = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, v + i, 4);
    other |= static_cast<uint32_t>((bits & kExponent) == kExponent);
  }
  return other == 0;
}

// False when blocks hold NaN or infinity.
bool ReadElements(const TensorInfo& t, const uint8_t* data, int64_t first,
                  int64_t count, float* out) {
  if (t.storage == Storage::kPlain) {
    WidenToFloat(t.dtype, data + first * DTypeSize(t.dtype), count, out);
    return true;
  }
  DequantizeBlocks(t.storage, data, first, count, out);
  return AllFinite(out, count);
}

// Names the first row of `values`, which begin at row `begin`, with NaN or
// infinity.
absl::Status NotFinite(const std::string& path, const TensorInfo& t,
                       int64_t begin, absl::Span<const float> values) {
  int64_t at = 0;
  while (std::isfinite(values[at])) ++at;
  return absl::DataLossError(
      absl::StrCat(path, ": tensor ", Quoted(t.stored_name), ": row ",
                   begin + at / t.row_elements(), " holds ",
                   std::isnan(values[at]) ? "NaN" : "infinity",
                   " by a scale of its ", StorageName(t.storage),
                   " blocks; the file is damaged, download it again"));
}

void MakeElements(const TensorInfo& t, int64_t begin, int64_t end, float* out) {
  const SyntheticTensor& made = *t.synthetic;
  const int64_t width = t.row_elements();
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t col = 0; col < width; ++col) {
      *out++ =
          made.mean + made.scale * (made.transposed
                                        ? SyntheticUnit(made.key, col, row)
                                        : SyntheticUnit(made.key, row, col));
    }
  }
}

// Rows [begin, end) of a tensor that is put together.
void ReadParts(const Checkpoint& checkpoint, const TensorInfo& t, int64_t begin,
               int64_t end, float* out) {
  const int64_t width = t.row_elements();
  const int64_t size = DTypeSize(t.dtype);
  for (const TensorPart& part : t.parts) {
    const int64_t first = std::max(begin, part.row);
    const int64_t last = std::min(end, part.row + part.rows);
    if (first >= last || part.columns == 0) continue;
    const absl::string_view bytes = checkpoint.file_bytes(part.file);
    const int64_t reach = (last - 1 - part.row) * part.row_stride +
                          (part.columns - 1) * part.column_stride + 1;
    DS_CHECK(part.offset <= bytes.size() &&
             static_cast<uint64_t>(reach * size) <= bytes.size() - part.offset);
    const uint8_t* data =
        reinterpret_cast<const uint8_t*>(bytes.data()) + part.offset;
    for (int64_t row = first; row < last; ++row) {
      const uint8_t* from = data + (row - part.row) * part.row_stride * size;
      float* to = out + (row - begin) * width + part.column;
      if (part.column_stride == 1) {
        WidenToFloat(t.dtype, from, part.columns, to);
        continue;
      }
      for (int64_t c = 0; c < part.columns; ++c) {
        WidenToFloat(t.dtype, from + c * part.column_stride * size, 1, to + c);
      }
    }
  }
}

// Whatever `path` is.
// The file that names a folder's last step, which stands for the folder.
bool IsStepPointer(const std::string& path) {
  return FileExists(path) &&
         (Basename(path) == "latest" || Basename(path) == kMegatronTracker);
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenAnyKind(
    const std::string& path, const OpenOptions& options) {
  const bool is_folder = DirectoryExists(path);
  if (!is_folder && IsStepPointer(path)) {
    return OpenAnyKind(Dirname(path), options);
  }
  if (!options.base_dir.empty() &&
      (is_folder || !LooksLikeCheckpointJson(path))) {
    return absl::InvalidArgumentError(
        absl::StrCat("--base-dir: ", path,
                     " is no checkpoint.json, whose files it would find; "
                     "leave it out"));
  }
  if (is_folder) {
    DS_ASSIGN_OR_RETURN(const std::string step, FindUniversal(path));
    if (!step.empty()) {
      return OpenUniversal(step, {path, step, Dirname(step)}, options, {});
    }
  }
  if (is_folder && LooksLikeDeepSpeed(path)) {
    return OpenDeepSpeedFolder(path, options);
  }
  if (!is_folder && FileExists(path) &&
      ParseDeepSpeedName(Basename(path)).has_value()) {
    return OpenDeepSpeedFile(path, options);
  }
  const std::string rank = is_folder ? MegatronRankFileIn(path) : path;
  if (!rank.empty() && FileExists(rank) && IsMegatronRankFile(rank)) {
    return OpenMegatronFile(rank, options);
  }
  if (is_folder ? LooksLikeMegatron(path) : LooksLikeCheckpointJson(path)) {
    return is_folder ? OpenMegatronFolder(path, options)
                     : OpenCheckpointJson(path, options);
  }
  DS_RETURN_IF_ERROR(RefuseMegatronOptions(path, options));
  if (is_folder && LooksLikePresharded(path)) {
    return OpenCheckpointJson(JoinPath(path, kPreshardedList), options);
  }
  if (is_folder) {
    if (LooksLikeMetaLlama(path)) return OpenMetaLlama(path);
    DS_RETURN_IF_ERROR(RefuseMetaWithoutParams(path));
    return OpenHfFolder(path, options);
  }
  if (LooksLikeMetaLlamaFile(path)) return OpenMetaLlamaFile(path);
  if (!FileExists(path)) {
    return absl::NotFoundError(
        absl::StrCat(path,
                     ": no such file or folder; give a Hugging Face folder, a "
                     ".safetensors, .bin, .pt or .pth file, a .gguf file, a "
                     "Megatron or DeepSpeed folder or a checkpoint.json, of "
                     "this machine: nothing is downloaded by name"));
  }
  if (IsWeightFile(path, WeightFiles::kSafetensors) ||
      IsWeightFile(path, WeightFiles::kTorch)) {
    return OpenWeightFile(path);
  }
  if (absl::EndsWith(path, ".json")) {
    DS_RETURN_IF_ERROR(RefuseInferenceConfig(path));
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": a config without weights; give the folder or file of the weights, "
        "or make weights up with --random-weights SEED"));
  }
  DS_ASSIGN_OR_RETURN(SourceBytes source, MapSource(path));
  if (absl::EndsWith(path, ".gguf") ||
      absl::StartsWith(source.bytes, kGgufMagic)) {
    return OpenGguf(std::move(source));
  }
  if (LooksLikeTorchFile(source.bytes)) return OpenWeightFile(path);
  return absl::UnimplementedError(absl::StrCat(
      path,
      ": a kind of file that is not read; give a Hugging Face folder, a "
      ".safetensors, .bin, .pt or .pth file, a .gguf file, a Megatron or "
      "DeepSpeed folder or a checkpoint.json"));
}

}  // namespace

bool TensorInfo::has_raw_rows() const {
  return storage == Storage::kPlain && rotary_heads == 0 && strides.empty() &&
         parts.empty() && unreadable.empty() && !synthetic.has_value();
}

int64_t TensorInfo::num_elements() const {
  int64_t n = 1;
  for (int64_t dim : shape) n *= dim;
  return n;
}

int64_t TensorInfo::row_elements() const {
  int64_t n = 1;
  for (size_t i = 1; i < shape.size(); ++i) n *= shape[i];
  return n;
}

absl::Status Checkpoint::ReadRows(const TensorInfo& t, int64_t begin,
                                  int64_t end, absl::Span<float> out) const {
  if (!t.unreadable.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        files()[t.file].path, ": tensor ", Quoted(t.name), ": ", t.unreadable));
  }
  if (!IsFloat(t.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        files()[t.file].path, ": tensor ", Quoted(t.name), ": has type ",
        DTypeName(t.dtype), "; a weight must have a floating type"));
  }
  const int64_t width = t.row_elements();
  if (begin < 0 || end < begin || end > t.rows() ||
      static_cast<int64_t>(out.size()) != (end - begin) * width) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(t.name), ": rows ", begin, " to ", end,
                     " of ", t.rows(), " into ", out.size(), " floats"));
  }
  if (t.synthetic.has_value()) {
    MakeElements(t, begin, end, out.data());
    return absl::OkStatus();
  }
  if (!t.parts.empty()) {
    ReadParts(*this, t, begin, end, out.data());
    return absl::OkStatus();
  }
  const absl::string_view bytes = file_bytes(t.file);
  DS_CHECK(t.offset <= bytes.size() && t.bytes <= bytes.size() - t.offset);
  const uint8_t* data =
      reinterpret_cast<const uint8_t*>(bytes.data()) + t.offset;
  bool finite = true;
  if (!t.strides.empty()) {
    float* to = out.data();
    ForEachLine(t, data, begin, end, [&](const uint8_t* line, int64_t count) {
      WidenToFloat(t.dtype, line, count, to);
      to += count;
    });
  } else if (t.rotary_heads == 0) {
    finite =
        ReadElements(t, data, begin * width, (end - begin) * width, out.data());
  } else {
    for (int64_t row = begin; row < end; ++row) {
      finite &= ReadElements(t, data, StoredRow(t, row) * width, width,
                             out.data() + (row - begin) * width);
    }
  }
  if (finite) return absl::OkStatus();
  return NotFinite(files()[t.file].path, t, begin, out);
}

absl::string_view Checkpoint::RawRows(const TensorInfo& t, int64_t begin,
                                      int64_t end) const {
  if (!t.has_raw_rows() || begin < 0 || end < begin || end > t.rows()) {
    return {};
  }
  const int64_t row_bytes = t.row_elements() * DTypeSize(t.dtype);
  return file_bytes(t.file).substr(t.offset + begin * row_bytes,
                                   (end - begin) * row_bytes);
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenCheckpoint(
    const std::string& path, const OpenOptions& options) {
  DS_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                      OpenAnyKind(path, options));
  DS_RETURN_IF_ERROR(CheckNoCopiedRank(*checkpoint));
  return checkpoint;
}

}  // namespace deepslice
