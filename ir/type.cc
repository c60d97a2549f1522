// Types as text.
#include "ir/type.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace deepslice {

std::string TypeText(const TensorType& type) {
  return absl::StrCat(DTypeName(type.dtype), "[",
                      absl::StrJoin(type.dims, ", ",
                                    [](std::string* out, const Dim& d) {
                                      if (d.is_symbol()) {
                                        absl::StrAppend(out, d.symbol);
                                      } else {
                                        absl::StrAppend(out, d.size);
                                      }
                                    }),
                      "]");
}

}  // namespace deepslice
