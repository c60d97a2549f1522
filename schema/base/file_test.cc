#include "schema/base/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "schema/base/digest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

TEST(File, MapsWhatWasWritten) {
  const std::string path = JoinPath(testing::TempDir(), "file_test.bin");
  DS_ASSERT_OK(WriteFile(path, "hello"));
  DS_ASSERT_OK_AND_ASSIGN(const MappedFile f, MappedFile::Open(path));
  EXPECT_EQ(f.bytes(), "hello");
  DS_EXPECT_ERROR(ReadFile(path, 4), kResourceExhausted, "5 bytes; at most 4");
  unlink(path.c_str());
  DS_EXPECT_ERROR(MappedFile::Open(path), kNotFound, "file_test.bin");
}

TEST(File, RefusesFoldersAndPipesWithoutWaiting) {
  DS_EXPECT_ERROR(MappedFile::Open(testing::TempDir()), kInvalidArgument,
                  "not a regular file");
  const std::string fifo = JoinPath(testing::TempDir(), "file_test.fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  DS_EXPECT_ERROR(MappedFile::Open(fifo), kInvalidArgument,
                  "not a regular file");
  unlink(fifo.c_str());
}

TEST(File, SafeRelativePaths) {
  EXPECT_TRUE(IsSafeRelativePath("model-00001.safetensors"));
  EXPECT_TRUE(IsSafeRelativePath("a/b..c"));
  for (const char* bad : {"", "/etc/passwd", "../x", "a/../../b", "a//b"}) {
    EXPECT_FALSE(IsSafeRelativePath(bad)) << bad;
  }
}

TEST(File, PathParts) {
  EXPECT_EQ(Basename("a/b/"), "b");
  EXPECT_EQ(Dirname("a"), ".");
  EXPECT_EQ(Dirname("/a"), "/");
  EXPECT_EQ(Dirname("x/y"), "x");
}

TEST(Digest, KnownAnswers) {
  EXPECT_EQ(Sha256Hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Xxh3(""), 0x2d06800538d394c2u);
}

}  // namespace
}  // namespace deepslice
