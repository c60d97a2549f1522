// Text to graph.
#ifndef DEEPSLICE_IR_PARSER_H_
#define DEEPSLICE_IR_PARSER_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ir/graph.h"

namespace deepslice {

// Parses one graph, the inverse of PrintGraph; free in white space, line breaks
// and comments (# to the end of the line). The type of a result may be left out
// and is inferred; a type that disagrees with the shape rule is an error.
// InvalidArgument "FILE:LINE:COLUMN: expected X, got Y" followed by the source
// line and a caret; `file` only labels errors. Any bytes give a Status.
absl::StatusOr<Graph> ParseGraph(absl::string_view text,
                                 absl::string_view file = "<text>");

}  // namespace deepslice

#endif  // DEEPSLICE_IR_PARSER_H_
