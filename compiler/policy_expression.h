// The closed forms in which a policy file says where an attribute comes from.
#ifndef DEEPSLICE_COMPILER_POLICY_EXPRESSION_H_
#define DEEPSLICE_COMPILER_POLICY_EXPRESSION_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/config_value.h"
#include "schema/base/json.h"

namespace deepslice {

// An expression is one of
//
//   3, "half", true, null                      itself
//   {"key": "a.b"}                             the config's value, null if none
//   {"key": "a", "absent": 7}                  7 when the key is not there; a
//                                              null stays null
//   {"first_of": [E, ...]}                     the first that is not null
//   {"map": E, "values": {"x": 1, ...}}        the value beside E's string,
//                                              number or boolean ("x", "2",
//                                              "true"); an InvalidArgument when
//                                              there's none
//   {"when": {"key": K, "equals": L}, "then": E, "else": E}
//                                              an absent or null K differs from
//                                              every L; another kind is refused
//   {"equal": [E, E]}                          whether both are the same value
//   {"inverse": E}, {"inverse_sqrt": E}        1/x, 1/sqrt(x); null stays null
//   {"half": E}                                x/2 of an even integer
//   {"derive": NAME}                           a named derivation in C++:
//                                              hidden_size_over_heads,
//                                              four_hidden_sizes,
//                                              sqrt_hidden_size
//
// The place of the result is the key that gave it; when none did, those that
// were asked, joined by " or ".
//
// `attributes` (an object of expressions) is what derivations read.
absl::StatusOr<ConfigValue> EvaluateExpression(const json::Value& expression,
                                               const json::Value& attributes,
                                               const json::Value& config);

// Whether the text of a policy is one of the forms above.
absl::Status CheckExpression(const json::Value& expression);

}  // namespace deepslice

#endif  // DEEPSLICE_COMPILER_POLICY_EXPRESSION_H_
