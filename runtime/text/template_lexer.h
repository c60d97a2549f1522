// Cuts a template into text and the tokens of its tags.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_LEXER_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_LEXER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace deepslice {

struct TemplateToken {
  enum class Kind {
    kText,  // outside of tags, white space already trimmed
    kOutputBegin,
    kOutputEnd,  // {{ }}
    kBlockBegin,
    kBlockEnd,  // {% %}
    kName,
    kString,
    kInt,
    kFloat,
    kOperator,  // text is the operator
    kEnd,
  };
  Kind kind;
  std::string text;  // of strings: with escapes resolved
  int line;
  int64_t int_value = 0;
  double float_value = 0;
};

// With trim_blocks and lstrip_blocks on, as chat templates expect. The last
// token is kEnd. InvalidArgument with "line L: ..." for damage.
absl::StatusOr<std::vector<TemplateToken>> LexTemplate(absl::string_view text);

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_LEXER_H_
