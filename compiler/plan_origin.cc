#include "compiler/plan_origin.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "compiler/checkpoint/safetensors_writer.h"
#include "compiler/convert_elements.h"
#include "ir/printer.h"
#include "schema/base/checked_math.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

using Json = json::Value;

// 1 had no tensors and no passes.
constexpr int64_t kFormat = 2;
// Rows of a tensor that no weight holds are written up to so many elements.
constexpr int64_t kRestElements = 1 << 16;

Json Strings(const std::vector<std::string>& list) {
  Json v = Json::Array();
  for (const std::string& s : list) v.Add(s);
  return v;
}

absl::Status ReadValues(const Checkpoint& checkpoint, const TensorInfo& t,
                        Range rows, Json* out) {
  std::vector<float> values(rows.size() * t.row_elements());
  DS_RETURN_IF_ERROR(
      checkpoint.ReadRows(t, rows.begin, rows.end, absl::MakeSpan(values)));
  Json& list = out->Set("values", Json::Array());
  for (const float v : values) {
    // JSON has no NaN and no infinity; their bits do.
    if (std::isfinite(v)) {
      list.Add(static_cast<double>(v));
    } else {
      list.Add(absl::StrFormat("0x%08x", std::bit_cast<uint32_t>(v)));
    }
  }
  return absl::OkStatus();
}

// Rows that no piece takes, of a tensor that pieces take by whole rows.
std::vector<Range> RowsLeft(const TensorInfo& t,
                            const std::vector<const SourcePiece*>& pieces) {
  std::vector<Range> taken;
  for (const SourcePiece* p : pieces) {
    if (p->transposed || p->block > 0 || p->cols.begin != 0 ||
        p->cols.end != t.row_elements()) {
      return {};
    }
    taken.push_back(p->rows);
  }
  std::sort(taken.begin(), taken.end(),
            [](Range a, Range b) { return a.begin < b.begin; });
  std::vector<Range> left;
  int64_t at = 0;
  for (const Range& r : taken) {
    if (r.begin > at) left.push_back({at, r.begin});
    at = std::max(at, r.end);
  }
  if (at < t.rows()) left.push_back({at, t.rows()});
  return left;
}

// `pieces` are those that weights take of it.
absl::StatusOr<Json> TensorValue(
    const Checkpoint& checkpoint, const TensorInfo& t,
    const std::vector<const SourcePiece*>& pieces) {
  Json row = Json::Object();
  row.Set("name", t.name);
  row.Set("dtype", DTypeName(t.dtype));
  std::vector<int64_t> shape = t.shape;
  const bool turned = t.transposed_from_published && shape.size() == 2;
  if (turned) std::swap(shape[0], shape[1]);
  Json& dims = row.Set("shape", Json::Array());
  for (const int64_t d : shape) dims.Add(d);
  if (turned) row.Set("turned", true);
  if (pieces.empty()) return row;
  const std::vector<Range> left = RowsLeft(t, pieces);
  int64_t elements = 0;
  for (const Range& r : left) elements += r.size() * t.row_elements();
  if (left.empty() || elements > kRestElements) return row;
  Json& rest = row.Set("rest", Json::Array());
  for (const Range& r : left) {
    Json& rows = rest.Add(Json::Object());
    rows.Set("begin", r.begin);
    rows.Set("end", r.end);
    DS_RETURN_IF_ERROR(ReadValues(checkpoint, t, r, &rows));
  }
  return row;
}

using PiecesOf =
    std::map<std::string, std::vector<const SourcePiece*>, std::less<>>;

absl::StatusOr<Json> TensorsOf(const OriginFacts& facts,
                               const PiecesOf& pieces) {
  Json out = Json::Array();
  for (const TensorUse& use : facts.model->coverage.tensors) {
    const auto held = pieces.find(use.tensor);
    if (held == pieces.end() && use.kind != TensorUse::Kind::kUsed) continue;
    const TensorInfo* t = facts.checkpoint->Find(use.tensor);
    if (t == nullptr) continue;
    DS_ASSIGN_OR_RETURN(
        Json row,
        TensorValue(*facts.checkpoint, *t,
                    held == pieces.end() ? std::vector<const SourcePiece*>()
                                         : held->second));
    out.Add(std::move(row));
  }
  return out;
}

// Whether the sum that a plan stores gives each number back.
bool Recovers(const std::vector<float>& values, float plus) {
  return std::all_of(values.begin(), values.end(), [&](float v) {
    const float sum = v + plus;
    return sum - plus == v && std::signbit(sum - plus) == std::signbit(v);
  });
}

// The tensors of kExactTensorsFile, in the order of their names.
absl::StatusOr<std::string> ExactTensors(const OriginFacts& facts,
                                         const PiecesOf& pieces) {
  std::map<std::string, float, std::less<>> offsets;
  for (const auto& w : facts.graphs->unsliced.weights()) {
    if (w->source.plus == 0) continue;
    for (const SourcePiece& p : w->source.pieces) {
      offsets[p.tensor] = static_cast<float>(w->source.plus);
    }
  }
  std::vector<WrittenTensor> tensors;
  std::string data;
  for (const TensorUse& use : facts.model->coverage.tensors) {
    const auto offset = offsets.find(use.tensor);
    const bool factor =
        use.kind == TensorUse::Kind::kUsed && !pieces.contains(use.tensor);
    const TensorInfo* t = facts.checkpoint->Find(use.tensor);
    if (t == nullptr || (!factor && offset == offsets.end())) continue;
    // Made-up numbers are made up again.
    if (t->synthetic.has_value() && !factor) continue;
    std::vector<float> values(t->num_elements());
    DS_RETURN_IF_ERROR(
        facts.checkpoint->ReadRows(*t, 0, t->rows(), absl::MakeSpan(values)));
    if (!factor && Recovers(values, offset->second)) continue;
    WrittenTensor out;
    out.name = t->name;
    out.dtype = DTypeSize(t->dtype) == 2 ? t->dtype : DType::kF32;
    out.shape = t->shape;
    const size_t begin = data.size();
    data.resize(begin + out.bytes());
    ConvertElements(DType::kF32,
                    reinterpret_cast<const uint8_t*>(values.data()),
                    static_cast<int64_t>(values.size()), out.dtype,
                    reinterpret_cast<uint8_t*>(&data[begin]));
    tensors.push_back(std::move(out));
  }
  return tensors.empty() ? std::string() : SafetensorsHead(tensors) + data;
}

absl::Status Wrong(absl::string_view member, absl::string_view wanted) {
  return absl::DataLossError(
      absl::StrCat("source: ", member, ": is not ", wanted,
                   "; copy the plan again or compile it anew"));
}

// The member of that kind.
absl::StatusOr<const Json*> Member(const Json& v, absl::string_view name,
                                   json::Kind kind) {
  const Json* m = v.Find(name);
  if (m == nullptr || m->kind() != kind) {
    return Wrong(name, json::KindName(kind));
  }
  return m;
}

absl::Status ReadSize(const Json& v, absl::string_view name, bool required,
                      int64_t* out) {
  const Json* m = v.Find(name);
  if (m == nullptr && !required) return absl::OkStatus();
  if (m == nullptr || !m->is_int() || m->as_int() < 0 ||
      m->as_int() > (int64_t{1} << 50)) {
    return Wrong(name, "a size");
  }
  *out = m->as_int();
  return absl::OkStatus();
}

// The numbers in "values", `count` of them.
absl::Status ReadNumbers(const Json& row, int64_t count,
                         std::vector<float>* out) {
  const Json* values = row.Find("values");
  if (values == nullptr ||
      static_cast<int64_t>(values->items().size()) != count) {
    return Wrong("tensors: values", "a number for each element");
  }
  for (const Json& v : values->items()) {
    uint32_t bits = 0;
    if (v.is_number() && std::abs(v.as_double()) <=
                             std::numeric_limits<float>::max()) {
      out->push_back(static_cast<float>(v.as_double()));
    } else if (v.is_string() && v.as_string().size() == 10 &&
               absl::SimpleHexAtoi(v.as_string(), &bits) &&
               !std::isfinite(std::bit_cast<float>(bits))) {
      out->push_back(std::bit_cast<float>(bits));
    } else {
      return Wrong("tensors: values",
                   "numbers of 32 bits, those that are none as texts of "
                   "their bits");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<OriginTensor> ReadTensor(const Json& row) {
  OriginTensor t;
  DS_ASSIGN_OR_RETURN(const Json* name,
                      Member(row, "name", json::Kind::kString));
  t.name = name->as_string();
  DS_ASSIGN_OR_RETURN(const Json* dtype,
                      Member(row, "dtype", json::Kind::kString));
  const auto parsed = ParseDType(dtype->as_string());
  if (!parsed.has_value() || !IsFloat(*parsed)) {
    return Wrong("tensors: dtype", "f64, f32, f16 or bf16");
  }
  t.dtype = *parsed;
  DS_ASSIGN_OR_RETURN(const Json* shape,
                      Member(row, "shape", json::Kind::kArray));
  int64_t count = 1;
  for (const Json& d : shape->items()) {
    if (!d.is_int() || d.as_int() < 0 ||
        (d.as_int() > 0 && count > (int64_t{1} << 50) / d.as_int())) {
      return Wrong("tensors: shape", "a list of sizes");
    }
    count *= d.as_int();
    t.shape.push_back(d.as_int());
  }
  if (t.shape.size() > 8) return Wrong("tensors: shape", "of at most 8 dims");
  if (const Json* turned = row.Find("turned")) {
    t.turned = turned->is_bool() && turned->as_bool();
    if (t.turned && t.shape.size() != 2) {
      return Wrong("tensors: turned", "of a matrix");
    }
  }
  if (const Json* rest = row.Find("rest")) {
    for (const Json& item : rest->items()) {
      OriginRows rows;
      DS_RETURN_IF_ERROR(ReadSize(item, "begin", true, &rows.rows.begin));
      DS_RETURN_IF_ERROR(ReadSize(item, "end", true, &rows.rows.end));
      if (rows.rows.size() <= 0 || rows.rows.end > t.rows()) {
        return Wrong("tensors: rest", "rows of the tensor");
      }
      DS_RETURN_IF_ERROR(ReadNumbers(
          item, rows.rows.size() * (count / t.rows()), &rows.values));
      t.rest.push_back(std::move(rows));
    }
  }
  return t;
}

absl::Status ReadOptions(const Json& options, PlanOrigin* out) {
  DS_ASSIGN_OR_RETURN(const Json* target,
                      Member(options, "target", json::Kind::kString));
  out->targets = absl::StrSplit(target->as_string(), ',');
  int64_t tp = 0;
  DS_RETURN_IF_ERROR(ReadSize(options, "tp", true, &tp));
  if (tp < 1 || tp > limits::kWorldSize)
    return Wrong("tp", "a number of ranks");
  out->tp = static_cast<int>(tp);
  StepCeilings& c = out->ceilings;
  for (const auto& [name, size] :
       {std::make_pair("max_seq_len", &c.max_seq_len),
        std::make_pair("max_batch", &c.max_batch),
        std::make_pair("max_step_tokens", &c.max_step_tokens),
        std::make_pair("kv_block", &c.kv_block)}) {
    DS_RETURN_IF_ERROR(ReadSize(options, name, true, size));
    if (*size < 1) return Wrong(name, "a size above 0");
  }
  return ReadSize(options, "device_memory", false, &out->device_memory);
}

}  // namespace

int64_t OriginTensor::num_elements() const {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

absl::StatusOr<WrittenOrigin> WriteOrigin(const OriginFacts& facts) {
  PiecesOf pieces;
  for (const auto& w : facts.graphs->unsliced.weights()) {
    for (const SourcePiece& p : w->source.pieces) {
      pieces[p.tensor].push_back(&p);
    }
  }
  Json v = Json::Object();
  v.Set("format", kFormat);
  v.Set("options", facts.options);
  if (!facts.policy.is_null()) v.Set("policy", facts.policy);
  if (!facts.decisions.empty()) v.Set("decisions", Strings(facts.decisions));
  const Checkpoint& c = *facts.checkpoint;
  v.Set("config", c.config());
  for (const auto& [name, value] :
       {std::make_pair("generation_config", &c.generation_config()),
        std::make_pair("tokenizer_config", &c.tokenizer_config()),
        std::make_pair("special_tokens_map", &c.special_tokens_map())}) {
    if (!value->is_null()) v.Set(name, *value);
  }
  Json side_files = Json::Object();
  for (const absl::string_view name : kSideFileNames) {
    const Json& file = c.side_file(name);
    if (!file.is_null()) side_files.Set(name, file);
  }
  if (!side_files.members().empty()) v.Set("side_files", std::move(side_files));
  Json& sizes = v.Set("ceilings", Json::Object());
  sizes.Set("max_source_tokens", facts.ceilings.max_source_tokens);
  sizes.Set("max_images", facts.ceilings.max_images);
  sizes.Set("image_tokens", facts.ceilings.image_tokens);
  v.Set("passes", Strings(facts.graphs->shared_passes));
  if (facts.graphs->ranks_edited) v.Set("ranks_edited", true);
  if (facts.head_by_flag) v.Set("tied_head", facts.model->tied_head);
  DS_ASSIGN_OR_RETURN(Json tensors, TensorsOf(facts, pieces));
  v.Set("tensors", std::move(tensors));
  v.Set("ir", PrintGraph(facts.graphs->unsliced));
  WrittenOrigin out;
  out.source = json::Write(v);
  DS_ASSIGN_OR_RETURN(out.exact, ExactTensors(facts, pieces));
  return out;
}

absl::StatusOr<PlanOrigin> ReadOrigin(absl::string_view text) {
  PlanOrigin out;
  absl::StatusOr<Json> root =
      json::Parse(text, {.allow_nan_and_infinity = true});
  if (!root.ok()) {
    return absl::DataLossError(
        absl::StrCat("source: ", root.status().message(),
                     "; copy the plan again or compile it anew"));
  }
  out.root = *std::move(root);
  int64_t format = 0;
  DS_RETURN_IF_ERROR(ReadSize(out.root, "format", false, &format));
  if (format < kFormat) {
    return absl::FailedPreconditionError(
        "was made by a dscompile that did not yet write down what this takes; "
        "compile the source again");
  }
  if (format > kFormat) {
    return absl::FailedPreconditionError(
        absl::StrCat("source: was written in format ", format,
                     "; this build reads ", kFormat, "; update"));
  }
  DS_ASSIGN_OR_RETURN(const Json* ir,
                      Member(out.root, "ir", json::Kind::kString));
  out.ir = ir->as_string();
  DS_ASSIGN_OR_RETURN(const Json* options,
                      Member(out.root, "options", json::Kind::kObject));
  DS_RETURN_IF_ERROR(ReadOptions(*options, &out));
  DS_RETURN_IF_ERROR(Member(out.root, "config", json::Kind::kObject).status());
  DS_ASSIGN_OR_RETURN(const Json* sizes,
                      Member(out.root, "ceilings", json::Kind::kObject));
  StepCeilings& c = out.ceilings;
  DS_RETURN_IF_ERROR(
      ReadSize(*sizes, "max_source_tokens", true, &c.max_source_tokens));
  DS_RETURN_IF_ERROR(ReadSize(*sizes, "max_images", true, &c.max_images));
  DS_RETURN_IF_ERROR(ReadSize(*sizes, "image_tokens", true, &c.image_tokens));
  DS_ASSIGN_OR_RETURN(const Json* passes,
                      Member(out.root, "passes", json::Kind::kArray));
  for (const Json& name : passes->items()) {
    if (!name.is_string()) return Wrong("passes", "a list of names");
    out.passes.push_back(name.as_string());
  }
  const Json* edited = out.root.Find("ranks_edited");
  out.ranks_edited =
      edited != nullptr && edited->is_bool() && edited->as_bool();
  const Json* tied = out.root.Find("tied_head");
  if (tied != nullptr && tied->is_bool()) out.tied_head = tied->as_bool();
  DS_ASSIGN_OR_RETURN(const Json* tensors,
                      Member(out.root, "tensors", json::Kind::kArray));
  for (const Json& row : tensors->items()) {
    DS_ASSIGN_OR_RETURN(OriginTensor t, ReadTensor(row));
    out.tensors.push_back(std::move(t));
  }
  return out;
}

std::string OriginAtTp(const PlanOrigin& origin, int tp) {
  Json root = origin.root;
  root.Find("options")->Set("tp", tp);
  return json::Write(root);
}

}  // namespace deepslice
