// Enum and lookup made from roles.def.
#ifndef DEEPSLICE_SCHEMA_ROLES_H_
#define DEEPSLICE_SCHEMA_ROLES_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace deepslice {

enum class Role : uint8_t {
#define ROLE(Name, spelling, cut, quantised) k##Name,
#include "schema/roles.def"
};

enum class Cut : uint8_t {
  kWhole,
  kQHeads,
  kKvHeads,
  kQHeadRows,
  kQkvHeads,
  kOutHeads,
  kMlpRows,
  kMlpPairs,
  kMlpCols,
  kVocabRows,
};

struct RoleDef {
  Role role;
  absl::string_view spelling;
  Cut cut;
  bool quantised;
};

inline constexpr RoleDef kRoles[] = {
#define ROLE(Name, spelling, cut, quantised) \
  {Role::k##Name, spelling, Cut::k##cut, quantised},
#include "schema/roles.def"
};

inline const RoleDef& GetRole(Role role) {
  return kRoles[static_cast<int>(role)];
}

inline std::optional<Role> ParseRole(absl::string_view spelling) {
  for (const RoleDef& r : kRoles) {
    if (r.spelling == spelling) return r.role;
  }
  return std::nullopt;
}

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_ROLES_H_
