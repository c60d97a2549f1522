#include "compiler/checkpoint/zip_archive.h"

#include <memory>

#include "compiler/checkpoint/torch_test_files.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

absl::StatusOr<ZipArchive> Read(absl::string_view bytes) {
  return ReadZip(bytes, "m.pt");
}

ZipBuilder Two() {
  ZipBuilder zip;
  zip.Add("archive/data.pkl", "abc").Add("archive/data/0", "0123456789");
  return zip;
}

TEST(Zip, FindsEntriesByName) {
  const std::string file = Two().Build();
  DS_ASSERT_OK_AND_ASSIGN(const ZipArchive zip, Read(file));
  ASSERT_EQ(zip.entries.size(), 2u);
  const ZipEntry* e = zip.Find("archive/data/0");
  ASSERT_NE(e, nullptr);
  EXPECT_EQ(file.substr(e->offset, e->size), "0123456789");
  EXPECT_EQ(zip.Find("archive/data/1"), nullptr);
  DS_ASSERT_OK(CheckCrc(file, "m.pt", *e));
}

TEST(Zip, ReadsZip64RecordsFieldsCommentsAndFolders) {
  ZipBuilder zip = Two();
  zip.zip64 = true;
  DS_ASSERT_OK_AND_ASSIGN(const ZipArchive large, Read(zip.Build()));
  EXPECT_EQ(large.Find("archive/data/0")->size, 10u);
  zip.comment = "a comment";
  zip.Add("archive/code/", "");
  DS_ASSERT_OK_AND_ASSIGN(const ZipArchive more, Read(zip.Build()));
  EXPECT_EQ(more.entries.size(), 2u);
  DS_ASSERT_OK(Read(ZipBuilder().Build()));
}

TEST(Zip, NamesWhatItDoesNotRead) {
  const auto with = [](uint16_t flags, uint16_t method) {
    ZipBuilder zip;
    zip.flags = flags;
    zip.method = method;
    return Read(zip.Add("a/data.pkl", "abc").Build());
  };
  DS_ASSERT_OK(with(0x808, 0));
  DS_EXPECT_ERROR(with(0, 8), kUnimplemented, "by method 8 (deflate)");
  DS_EXPECT_ERROR(with(0, 93), kUnimplemented, "(zstd)");
  DS_EXPECT_ERROR(with(1, 0), kUnimplemented, "is encrypted");
}

TEST(Zip, RefusesNamesThatLeaveTheArchiveOrRepeat) {
  for (const std::string name :
       {"../x", "/x", "a/../x", "a//x", "a\\x", "", "a/\xff"}) {
    DS_EXPECT_ERROR(Read(ZipBuilder().Add(name, "").Build()), kInvalidArgument,
                    "entry");
  }
  DS_EXPECT_ERROR(Read(ZipBuilder().Add(std::string("a\0b", 3), "").Build()),
                  kInvalidArgument, "is no path inside the archive");
  DS_EXPECT_ERROR(Read(ZipBuilder().Add("a", "1").Add("a", "2").Build()),
                  kInvalidArgument, "is there twice");
}

TEST(Zip, ChecksumsTellDamage) {
  std::string file = Two().Build();
  file[file.find("0123")] = '9';
  DS_ASSERT_OK_AND_ASSIGN(const ZipArchive zip, Read(file));
  DS_EXPECT_ERROR(CheckCrc(file, "m.pt", *zip.Find("archive/data/0")),
                  kDataLoss, "its checksum is a684c7c6, its bytes have");
}

// Every mutation gives a status or entries inside the file.
void ExpectSound(const std::string& bytes) {
  const auto copy = std::make_unique<char[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  const auto zip = Read(absl::string_view(copy.get(), bytes.size()));
  if (!zip.ok()) {
    ASSERT_EQ(zip.status().message().find('\n'), std::string::npos);
    return;
  }
  for (const ZipEntry& e : zip->entries) {
    ASSERT_LE(e.offset, bytes.size());
    ASSERT_LE(e.size, bytes.size() - e.offset);
  }
}

TEST(Zip, SurvivesEveryByteInEveryPlaceAndEveryTruncation) {
  for (const bool zip64 : {false, true}) {
    ZipBuilder zip = Two();
    zip.zip64 = zip64;
    const std::string file = zip.Build();
    for (size_t n = 0; n < file.size(); ++n) {
      EXPECT_FALSE(Read(file.substr(0, n)).ok()) << n;
      std::string bad = file;
      for (int b = 0; b < 256; ++b) {
        bad[n] = static_cast<char>(b);
        ExpectSound(bad);
      }
    }
  }
}

}  // namespace
}  // namespace deepslice
