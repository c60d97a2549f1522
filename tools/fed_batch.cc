#include "tools/fed_batch.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

template <typename... Text>
absl::Status Bad(const FileTensor& t, const Text&... text) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor \"", t.name, "\" ", text...));
}

// An integer tensor of the shape of `ids`.
absl::StatusOr<std::vector<int32_t>> ReadAlike(const FileTensor& t,
                                               const FileTensor& ids) {
  if (t.shape != ids.shape) {
    return Bad(t, "has another shape than \"", ids.name, "\"");
  }
  return ReadIntegers(t);
}

}  // namespace

absl::Status CheckFedNames(const TensorFile& file,
                           absl::Span<const absl::string_view> inputs) {
  for (const FileTensor& t : file.tensors()) {
    if (absl::c_linear_search(inputs, t.name)) continue;
    const size_t last = inputs.size() - 1;
    return Bad(t, "is no input of the plan's program; its inputs are ",
               absl::StrJoin(inputs.first(last), ", "), last > 0 ? " and " : "",
               inputs[last]);
  }
  return absl::OkStatus();
}

absl::StatusOr<FedBatch> ReadFedBatch(const TensorFile& file,
                                      absl::string_view ids_name,
                                      absl::string_view mask_name,
                                      absl::string_view types_name) {
  const FileTensor* ids = file.Find(ids_name);
  if (ids == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no tensor \"", ids_name, "\""));
  }
  const std::vector<int64_t>& shape = ids->shape;
  if (shape.empty() || shape.size() > 2) {
    return Bad(*ids, "has ", shape.size(),
               " dims; [batch, seq] or [seq] is needed");
  }
  FedBatch out;
  out.batch = shape.size() == 2 ? shape[0] : 1;
  out.seq = shape.back();
  if (out.batch == 0 || out.seq == 0) {
    return Bad(*ids, "is ", out.batch, " x ", out.seq, ": it has no tokens");
  }
  DS_ASSIGN_OR_RETURN(const std::vector<int32_t> values, ReadIntegers(*ids));
  out.masked.assign(values.size(), false);
  if (const FileTensor* mask = file.Find(mask_name)) {
    DS_ASSIGN_OR_RETURN(const std::vector<int32_t> bits,
                        ReadAlike(*mask, *ids));
    for (size_t i = 0; i < bits.size(); ++i) {
      if (bits[i] != 0 && bits[i] != 1) {
        return Bad(*mask, "holds ", bits[i], " at [", i / out.seq, ", ",
                   i % out.seq, "]; 0 and 1 are allowed");
      }
      out.masked[i] = bits[i] == 0;
    }
  }
  std::vector<int32_t> types(values.size(), 0);
  if (const FileTensor* t =
          types_name.empty() ? nullptr : file.Find(types_name)) {
    DS_ASSIGN_OR_RETURN(types, ReadAlike(*t, *ids));
  }
  out.rows.resize(out.batch);
  out.types.resize(out.batch);
  for (size_t i = 0; i < values.size(); ++i) {
    if (out.masked[i]) continue;
    out.rows[i / out.seq].push_back(values[i]);
    out.types[i / out.seq].push_back(types[i]);
  }
  return out;
}

}  // namespace deepslice
