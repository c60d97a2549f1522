#include "compiler/jit/kernel_cache.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "schema/base/digest.h"
#include "schema/base/file.h"

namespace deepslice {
namespace {

// Far above any kernel; a file that is larger is none of ours.
constexpr int64_t kLargestFile = 64 << 20;
constexpr char kText[] = "kernel.cu";
constexpr char kSummary[] = "kernel.txt";

const char* ImageName(bool ptx) { return ptx ? "kernel.ptx" : "kernel.cubin"; }

std::string SummaryOf(const CompiledKernel& kernel) {
  return absl::StrCat("entry ", kernel.entry, "\nsha256 ",
                      Sha256Hex(absl::StrCat(kernel.entry, "\n", kernel.image)),
                      "\n");
}

// With all folders above it.
bool MakeFolder(const std::string& path) {
  if (DirectoryExists(path)) return true;
  const std::string parent = Dirname(path);
  if (parent != path && !MakeFolder(parent)) return false;
  return mkdir(path.c_str(), 0777) == 0 || errno == EEXIST;
}

void RemoveEntry(const std::string& path) {
  for (const char* name :
       {kText, kSummary, ImageName(true), ImageName(false)}) {
    unlink(JoinPath(path, name).c_str());
  }
  rmdir(path.c_str());
}

}  // namespace

std::optional<CompiledKernel> KernelCache::Find(const std::string& key,
                                                bool ptx) const {
  if (folder_.empty()) return std::nullopt;
  const std::string path = JoinPath(folder_, key);
  const auto summary = ReadFile(JoinPath(path, kSummary), kLargestFile);
  if (!summary.ok()) return std::nullopt;
  auto image = ReadFile(JoinPath(path, ImageName(ptx)), kLargestFile);
  if (!image.ok()) return std::nullopt;
  absl::string_view entry = *summary;
  if (!absl::ConsumePrefix(&entry, "entry ")) return std::nullopt;
  CompiledKernel kernel;
  kernel.entry = std::string(entry.substr(0, entry.find('\n')));
  kernel.image = *std::move(image);
  if (SummaryOf(kernel) != *summary) return std::nullopt;
  return kernel;
}

void KernelCache::Keep(const std::string& key, bool ptx,
                       const CompiledKernel& kernel,
                       absl::string_view text) const {
  if (folder_.empty() || !MakeFolder(folder_)) return;
  std::string aside = JoinPath(folder_, ".new_XXXXXX");
  if (mkdtemp(aside.data()) == nullptr) return;
  // mkdtemp's 0700 would hide the entries of a folder that several people use.
  chmod(aside.c_str(), 0755);
  const bool written =
      WriteFile(JoinPath(aside, kText), text).ok() &&
      WriteFile(JoinPath(aside, ImageName(ptx)), kernel.image).ok() &&
      WriteFile(JoinPath(aside, kSummary), SummaryOf(kernel)).ok();
  const std::string path = JoinPath(folder_, key);
  if (written && rename(aside.c_str(), path.c_str()) == 0) return;
  // A whole entry that another process has put there is as good; a damaged one
  // makes room.
  if (written && !Find(key, ptx).has_value()) {
    std::string old = JoinPath(folder_, ".old_XXXXXX");
    if (mkdtemp(old.data()) != nullptr) {
      // Onto the empty folder that mkdtemp made.
      if (rename(path.c_str(), old.c_str()) == 0 &&
          rename(aside.c_str(), path.c_str()) == 0) {
        aside.clear();
      }
      RemoveEntry(old);
    }
  }
  if (!aside.empty()) RemoveEntry(aside);
}

}  // namespace deepslice
