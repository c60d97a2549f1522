// Kernels from text to images, and the cache on disk: found, damaged, raced,
// and not writable.
#include "compiler/jit/jit.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/jit/kernel_text.h"
#include "compiler/jit/needs_nvrtc.h"
#include "compiler/jit/nvrtc.h"
#include "gtest/gtest.h"
#include "kernels/cuda/service.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

class Jit : public NeedsNvrtc {};
class KernelCache : public NeedsNvrtc {};
class NvrtcLibrary : public NeedsNvrtc {};

GpuTarget Hopper() { return {.name = "sm_90a", .major = 9}; }

KernelSpec FillRandom(const std::string& type = "bf16") {
  KernelSpec spec;
  spec.source = "fill_random.cuh";
  spec.entry = "FillRandom<" + type + ">";
  spec.label = "fill_random " + type;
  return spec;
}

std::unique_ptr<KernelCompiler> Open(const JitOptions& options = {}) {
  auto compiler = KernelCompiler::Open(options);
  EXPECT_TRUE(compiler.ok()) << compiler.status();
  return compiler.ok() ? *std::move(compiler) : nullptr;
}

// A folder that is gone with the object, whatever lies in it.
class Folder {
 public:
  Folder() : path_(JoinPath(testing::TempDir(), "jit_XXXXXX")) {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  // Files of that name below, at any depth.
  std::vector<std::string> Find(const std::string& name) const {
    std::vector<std::string> out;
    for (const auto& e : std::filesystem::recursive_directory_iterator(path_)) {
      if (e.path().filename() == name) out.push_back(e.path());
    }
    return out;
  }

 private:
  std::string path_;
};

TEST_F(Jit, CompilesEachSpecOnceAndInOrder) {
  const auto compiler = Open({.threads = 2});
  ASSERT_NE(compiler, nullptr);
  DS_ASSERT_OK_AND_ASSIGN(
      const std::vector<CompiledKernel> made,
      compiler->CompileAll(
          {FillRandom("bf16"), FillRandom("float"), FillRandom("bf16")},
          Hopper()));
  ASSERT_EQ(made.size(), 3u);
  EXPECT_EQ(compiler->compiled(), 2);
  EXPECT_EQ(made[0].image, made[2].image);
  EXPECT_NE(made[0].image, made[1].image);
  EXPECT_TRUE(absl::StartsWith(made[1].image,
                               "\x7f"
                               "ELF"));
  EXPECT_TRUE(absl::StrContains(made[1].entry, "FillRandomIf"))
      << made[1].entry;
  EXPECT_TRUE(made[0].log.empty());
}

TEST_F(Jit, GivesTheSameBytesWhateverTheThreads) {
  const std::vector<KernelSpec> specs = ServiceKernels(Hopper());
  const auto one = Open({.threads = 1}), three = Open({.threads = 3});
  ASSERT_TRUE(one != nullptr && three != nullptr);
  DS_ASSERT_OK_AND_ASSIGN(const auto a, one->CompileAll(specs, Hopper()));
  DS_ASSERT_OK_AND_ASSIGN(const auto b, three->CompileAll(specs, Hopper()));
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(a[i].image, b[i].image) << specs[i].label;
    EXPECT_EQ(a[i].entry, b[i].entry);
  }
}

TEST_F(Jit, MakesPtx) {
  const auto compiler = Open();
  ASSERT_NE(compiler, nullptr);
  DS_ASSERT_OK_AND_ASSIGN(
      const auto made,
      compiler->CompileAll({FillRandom()},
                           {.name = "compute_80", .major = 8, .ptx = true}));
  EXPECT_TRUE(absl::StrContains(made[0].image, ".target sm_80"));
  EXPECT_TRUE(absl::StrContains(made[0].image, made[0].entry));
  EXPECT_EQ(made[0].image.back(), '\0');
}

TEST_F(Jit, CountsRegistersWhenVerbose) {
  const auto compiler = Open({.verbose = true});
  ASSERT_NE(compiler, nullptr);
  DS_ASSERT_OK_AND_ASSIGN(const auto made,
                          compiler->CompileAll({FillRandom()}, Hopper()));
  EXPECT_TRUE(absl::StrContains(made[0].log, "registers")) << made[0].log;
}

TEST_F(Jit, SaysInOneLineWhatDoesNotCompile) {
  const auto compiler = Open();
  ASSERT_NE(compiler, nullptr);
  const auto made = compiler->CompileAll({FillRandom("bf17")}, Hopper());
  DS_EXPECT_ERROR(made, kInternal,
                  "kernel fill_random bf17 (FillRandom<bf17> of "
                  "fill_random.cuh) for sm_90a: NVRTC ");
  DS_EXPECT_ERROR(made, kInternal, "identifier \"bf17\" is undefined");
  EXPECT_FALSE(absl::StrContains(made.status().message(), "\n"));
  KernelSpec absent = FillRandom();
  absent.source = "absent.cuh";
  DS_EXPECT_ERROR(compiler->CompileAll({absent}, Hopper()), kInternal,
                  "kernels/cuda/absent.cuh: not embedded");
}

TEST_F(Jit, RefusesTargetsThatNvrtcLacks) {
  const auto compiler = Open();
  ASSERT_NE(compiler, nullptr);
  DS_EXPECT_ERROR(
      compiler->CompileAll({FillRandom()},
                           {.name = "sm_99", .major = 9, .minor = 9}),
      kFailedPrecondition, "--target sm_99: NVRTC ");
}

TEST_F(Jit, StopsWhenAsked) {
  const auto compiler = Open({.stopped = [] { return true; }});
  ASSERT_NE(compiler, nullptr);
  DS_EXPECT_ERROR(compiler->CompileAll({FillRandom()}, Hopper()), kCancelled,
                  "interrupted");
  EXPECT_EQ(compiler->compiled(), 0);
}

TEST_F(KernelCache, IsFoundAgainAndHasTextToRead) {
  Folder folder;
  const std::string cache = JoinPath(folder.path(), "not/yet");
  const auto first = Open({.cache_dir = cache});
  ASSERT_NE(first, nullptr);
  DS_ASSERT_OK_AND_ASSIGN(const auto made,
                          first->CompileAll({FillRandom()}, Hopper()));
  const auto second = Open({.cache_dir = cache});
  DS_ASSERT_OK_AND_ASSIGN(const auto found,
                          second->CompileAll({FillRandom()}, Hopper()));
  EXPECT_EQ(second->cached(), 1);
  EXPECT_EQ(second->compiled(), 0);
  EXPECT_EQ(found[0].image, made[0].image);
  EXPECT_EQ(found[0].entry, made[0].entry);
  const auto texts = folder.Find("kernel.cu");
  ASSERT_EQ(texts.size(), 1u);
  DS_ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(texts[0], 1 << 20));
  EXPECT_TRUE(absl::StartsWith(text, "// FillRandom<bf16> of fill_random.cuh"));
  EXPECT_TRUE(absl::StrContains(text, "// ==== base.cuh"));

  // Another entry, another target: other keys.
  DS_ASSERT_OK(second->CompileAll({FillRandom("float")}, Hopper()));
  DS_ASSERT_OK(
      second->CompileAll({FillRandom()}, {.name = "sm_80", .major = 8}));
  EXPECT_EQ(second->compiled(), 2);
}

TEST_F(KernelCache, RecompilesWhatIsDamaged) {
  Folder folder;
  const auto compiler = Open({.cache_dir = folder.path()});
  ASSERT_NE(compiler, nullptr);
  DS_ASSERT_OK_AND_ASSIGN(const auto made,
                          compiler->CompileAll({FillRandom()}, Hopper()));
  const std::string image = folder.Find("kernel.cubin")[0];
  const std::string summary = folder.Find("kernel.txt")[0];
  std::string flipped = made[0].image;
  flipped[flipped.size() / 2] ^= 1;
  int compiled = compiler->compiled();
  for (const auto& [path, bytes] :
       std::vector<std::pair<std::string, std::string>>{
           {image, flipped},
           {image, made[0].image.substr(0, 100)},
           {image, ""},
           {summary, "entry _Z5other\nsha256 0\n"},
           {summary, ""}}) {
    DS_ASSERT_OK(WriteFile(path, bytes));
    DS_ASSERT_OK_AND_ASSIGN(const auto again,
                            compiler->CompileAll({FillRandom()}, Hopper()));
    EXPECT_EQ(again[0].image, made[0].image);
    EXPECT_EQ(again[0].entry, made[0].entry);
    EXPECT_EQ(compiler->compiled(), ++compiled) << path;
    // And it is whole again.
    DS_ASSERT_OK(compiler->CompileAll({FillRandom()}, Hopper()));
    EXPECT_EQ(compiler->compiled(), compiled);
  }
  // Nothing is left aside.
  for (const auto& e : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_FALSE(absl::StartsWith(e.path().filename().string(), "."));
  }
}

TEST_F(KernelCache, MayBeRaced) {
  Folder folder;
  std::vector<std::thread> threads;
  std::vector<std::string> images(4);
  for (std::string& image : images) {
    threads.emplace_back([&] {
      const auto compiler = Open({.cache_dir = folder.path()});
      const auto made = compiler->CompileAll({FillRandom()}, Hopper());
      ASSERT_TRUE(made.ok()) << made.status();
      image = (*made)[0].image;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(std::set<std::string>(images.begin(), images.end()).size(), 1u);
  EXPECT_EQ(folder.Find("kernel.cubin").size(), 1u);
}

TEST_F(KernelCache, OnlyCostsTimeWhereItCannotBeWritten) {
  Folder folder;
  DS_ASSERT_OK(WriteFile(JoinPath(folder.path(), "file"), "x"));
  for (const std::string& place :
       {JoinPath(folder.path(), "file"), JoinPath(folder.path(), "file/below"),
        std::string("/proc/none")}) {
    const auto compiler = Open({.cache_dir = place});
    ASSERT_NE(compiler, nullptr);
    DS_ASSERT_OK(compiler->CompileAll({FillRandom()}, Hopper()));
    EXPECT_EQ(compiler->compiled(), 1);
  }
}

TEST(KernelText, HoldsIncludesBeforeTheirUsersOnce) {
  DS_ASSERT_OK_AND_ASSIGN(const auto files, KernelFilesOf("norm.cuh"));
  ASSERT_GE(files.size(), 2u);
  EXPECT_STREQ(files.back()->name, "norm.cuh");
  std::set<std::string> names;
  for (const EmbeddedKernelFile* f : files) names.insert(f->name);
  EXPECT_EQ(names.size(), files.size());
  EXPECT_STREQ(files.front()->name, "base.cuh");
}

// DEEPSLICE_NVRTC for the length of a block.
class NvrtcVariable {
 public:
  explicit NvrtcVariable(const std::string& value) {
    const char* old = getenv("DEEPSLICE_NVRTC");
    if (old != nullptr) old_ = old;
    setenv("DEEPSLICE_NVRTC", value.c_str(), 1);
  }
  ~NvrtcVariable() {
    if (old_.has_value()) {
      setenv("DEEPSLICE_NVRTC", old_->c_str(), 1);
    } else {
      unsetenv("DEEPSLICE_NVRTC");
    }
  }

 private:
  std::optional<std::string> old_;
};

TEST(OpenNvrtc, SaysWhatIsMissing) {
  Folder folder;
  const NvrtcVariable variable(folder.path());
  DS_EXPECT_ERROR(OpenNvrtc(), kFailedPrecondition,
                  "no libnvrtc.so, .so.12 or .so.13 there; name the library");
  // There, and no library.
  DS_ASSERT_OK(WriteFile(JoinPath(folder.path(), "libnvrtc.so"), "x"));
  DS_EXPECT_ERROR(OpenNvrtc(), kFailedPrecondition, "libnvrtc: ");
}

// As a wheel has them: in a folder where the loader does not look.
TEST_F(NvrtcLibrary, OpensItsSecondLibraryFromBesideItself) {
  DS_ASSERT_OK_AND_ASSIGN(const Nvrtc found, OpenNvrtc());
  const std::string name =
      absl::StrCat("libnvrtc-builtins.so.", found.major, ".", found.minor);
  Folder folder;
  const std::string beside = JoinPath(folder.path(), name);
  std::filesystem::create_symlink(
      std::filesystem::canonical(found.path),
      JoinPath(folder.path(), absl::StrCat("libnvrtc.so.", found.major)));
  const NvrtcVariable variable(folder.path());
  DS_ASSERT_OK(WriteFile(beside, "x"));
  DS_EXPECT_ERROR(OpenNvrtc(), kFailedPrecondition,
                  absl::StrCat("can't open ", beside, ", which it needs: "));
  std::filesystem::remove(beside);
  std::filesystem::create_symlink(
      std::filesystem::canonical(found.path).parent_path() / name, beside);
  DS_ASSERT_OK(OpenNvrtc());
}

}  // namespace
}  // namespace deepslice
