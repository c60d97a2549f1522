#include "tools/version.h"

#include "absl/strings/str_cat.h"
#include "tools/git_commit.h"

namespace deepslice {

std::string VersionText(absl::string_view program, absl::string_view more) {
  const absl::string_view commit = DEEPSLICE_GIT_COMMIT;
  return absl::StrCat(program, " ", DEEPSLICE_VERSION,
                      commit.empty() ? "" : absl::StrCat(" (git ", commit, ")"),
                      "\n", more);
}

}  // namespace deepslice
