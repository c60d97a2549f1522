// Where the components of tokenizer files know another Unicode than utf8proc.
#ifndef DEEPSLICE_RUNTIME_TEXT_UNICODE_TABLES_H_
#define DEEPSLICE_RUNTIME_TEXT_UNICODE_TABLES_H_

#include <cstddef>
#include <cstdint>

#include "runtime/text/unicode_class.h"

namespace deepslice::unicode_tables {

struct CategoryRange {
  uint32_t first;
  uint32_t last;
  Category category;
};
struct CodePointPair {
  uint32_t from;
  uint32_t to;
};
struct ScriptRange {
  uint32_t first;
  uint32_t last;
  uint8_t script;
};

// Each table is ascending; comments stand at the definitions.
extern const CategoryRange kNewCategories[];
extern const size_t kNewCategoriesCount;
extern const CodePointRange kNotPunctuation[];
extern const size_t kNotPunctuationCount;
extern const CodePointRange kOtherPunctuation[];
extern const size_t kOtherPunctuationCount;
extern const CodePointRange kOtherNumeric[];
extern const size_t kOtherNumericCount;
extern const CodePointRange kNotAccents[];
extern const size_t kNotAccentsCount;
extern const CodePointRange kOtherAccents[];
extern const size_t kOtherAccentsCount;
extern const CodePointRange kNotNonspacing[];
extern const size_t kNotNonspacingCount;
extern const CodePointRange kOtherNonspacing[];
extern const size_t kOtherNonspacingCount;
extern const CodePointRange kNotControl[];
extern const size_t kNotControlCount;
extern const CodePointRange kUndecomposed[];
extern const size_t kUndecomposedCount;
extern const CodePointRange kOtherWords[];
extern const size_t kOtherWordsCount;
extern const CodePointPair kNewLower[];
extern const size_t kNewLowerCount;
extern const ScriptRange kScripts[];
extern const size_t kScriptsCount;

}  // namespace deepslice::unicode_tables

#endif  // DEEPSLICE_RUNTIME_TEXT_UNICODE_TABLES_H_
