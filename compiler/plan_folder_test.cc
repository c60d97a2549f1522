#include "compiler/plan_folder.h"

#include <sys/stat.h>

#include "compiler/weights_file.h"
#include "schema/base/digest.h"
#include "schema/base/file.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

class PlanFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = JoinPath(testing::TempDir(), "plan_folder_test.XXXXXX");
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
  }
  void TearDown() override {
    const std::string command = "rm -rf '" + root_ + "'";
    ASSERT_EQ(system(command.c_str()), 0);
  }
  std::vector<std::string> Left() { return *ListDirectory(root_); }
  std::string root_;
};

absl::Status WriteOne(PlanFolder& folder, const std::string& name,
                      absl::string_view bytes) {
  DS_ASSIGN_OR_RETURN(FolderFile * f, folder.Add(name, bytes.size()));
  return f->WriteAt(0, bytes.data(), bytes.size());
}

TEST_F(PlanFolderTest, AppearsOnCommitAlone) {
  const std::string path = JoinPath(root_, "plan");
  {
    DS_ASSERT_OK_AND_ASSIGN(const auto folder, PlanFolder::Create(path, false));
    DS_ASSERT_OK(WriteOne(*folder, "manifest.json", "{}"));
    EXPECT_TRUE(Left().empty());
  }
  EXPECT_TRUE(Left().empty());
  DS_ASSERT_OK_AND_ASSIGN(const auto folder, PlanFolder::Create(path, false));
  DS_ASSERT_OK(WriteOne(*folder, "manifest.json", "{}"));
  DS_ASSERT_OK(folder->Commit());
  EXPECT_EQ(*ReadFile(JoinPath(path, "manifest.json"), 10), "{}");
  EXPECT_EQ(Left(), std::vector<std::string>{"plan"});
}

TEST_F(PlanFolderTest, ReplacesOnlyOnRequestAndOnlyPlans) {
  const std::string path = JoinPath(root_, "plan");
  ASSERT_EQ(mkdir(path.c_str(), 0777), 0);
  DS_ASSERT_OK(WriteFile(JoinPath(path, "notes.txt"), "mine"));
  DS_EXPECT_ERROR(PlanFolder::Create(path, false), kFailedPrecondition,
                  "--force");
  DS_EXPECT_ERROR(PlanFolder::Create(path, true), kFailedPrecondition,
                  "no manifest.json");
  DS_ASSERT_OK(WriteFile(JoinPath(path, "manifest.json"), "old"));
  DS_ASSERT_OK_AND_ASSIGN(const auto folder, PlanFolder::Create(path, true));
  DS_ASSERT_OK(WriteOne(*folder, "manifest.json", "new"));
  EXPECT_EQ(*ReadFile(JoinPath(path, "manifest.json"), 10), "old");
  DS_ASSERT_OK(folder->Commit());
  EXPECT_EQ(*ReadFile(JoinPath(path, "manifest.json"), 10), "new");
  EXPECT_FALSE(FileExists(JoinPath(path, "notes.txt")));
  EXPECT_EQ(Left(), std::vector<std::string>{"plan"});
}

TEST_F(PlanFolderTest, NamesWhatIsWrongWithThePath) {
  DS_EXPECT_ERROR(PlanFolder::Create(JoinPath(root_, "a/b"), false), kNotFound,
                  "does not exist");
  DS_EXPECT_ERROR(PlanFolder::Create("..", false), kInvalidArgument,
                  "name a folder");
}

TEST_F(PlanFolderTest, WeightsFileHashesEveryMebibyte) {
  DS_ASSERT_OK_AND_ASSIGN(const auto folder,
                          PlanFolder::Create(JoinPath(root_, "p"), false));
  DS_ASSERT_OK_AND_ASSIGN(FolderFile * f, folder->Add("w", 0));
  std::string bytes(2 * kHashBlock + 777, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = i * 2654435761u >> 13;
  WeightsFile w(f);
  // Uneven parts, one of them larger than a block.
  for (size_t at = 0, n = 5; at < bytes.size(); n = n * 7 + 1) {
    const size_t take = std::min(n, bytes.size() - at);
    DS_ASSERT_OK(w.Append(bytes.data() + at, take));
    at += take;
  }
  DS_ASSERT_OK(w.Pad(256));
  DS_ASSERT_OK(w.Finish());
  bytes.resize((bytes.size() + 255) / 256 * 256);
  ASSERT_EQ(w.size(), bytes.size());
  EXPECT_EQ(w.sha256(), Sha256Hex(bytes));
  ASSERT_EQ(w.block_hashes().size(), 3u);
  for (size_t b = 0; b < 3; ++b) {
    EXPECT_EQ(w.block_hashes()[b], Xxh3(absl::string_view(bytes).substr(
                                       b * kHashBlock, kHashBlock)));
  }
  DS_ASSERT_OK(folder->Commit());
  EXPECT_EQ(*ReadFile(JoinPath(root_, "p/w"), 1 << 24), bytes);
}

}  // namespace
}  // namespace deepslice
