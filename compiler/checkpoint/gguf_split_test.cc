#include "compiler/checkpoint/gguf_split.h"

#include <memory>

#include "absl/strings/str_format.h"
#include "compiler/checkpoint/test_files.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

constexpr uint32_t kU16 = 2;

std::string Name(int part, int parts) {
  return absl::StrFormat("m-%05d-of-%05d.gguf", part, parts);
}

// Part `part` of `parts`: the first has the metadata, each but that two rows.
GgufBuilder Part(int part, int parts) {
  GgufBuilder b;
  if (part == 1) {
    b.Text("general.architecture", "llama").U32("llama.block_count", 1);
    b.U32("llama.context_length", 64).U32("llama.embedding_length", 12);
    b.U32("llama.feed_forward_length", 20);
    b.U32("llama.attention.head_count", 6).U32("llama.vocab_size", 2);
    b.F32("llama.attention.layer_norm_rms_epsilon", 0.125);
  }
  b.Key("split.no", kU16, Bytes<uint16_t>(part - 1));
  b.Key("split.count", kU16, Bytes<uint16_t>(parts));
  b.Key("split.tensors.count", 5, Bytes<int32_t>(parts - 1));
  const float value = static_cast<float>(part);
  if (part == 2) {
    b.Tensor("token_embd.weight", {12, 2}, 0,
             FloatBytes(std::vector<float>(24, value)));
  } else if (part > 2) {
    b.Tensor(absl::StrCat("blk.", part, ".attn_norm.weight"), {12}, 0,
             FloatBytes(std::vector<float>(12, value)));
  }
  return b;
}

class Folder : public TempFolder {
 public:
  explicit Folder(int parts = 3) {
    for (int i = 1; i <= parts; ++i) Write(Name(i, parts), Part(i, parts));
  }
  std::string Write(absl::string_view name, const GgufBuilder& b) const {
    return TempFolder::Write(name, b.Build());
  }
  absl::Status Open(absl::string_view name) const {
    return OpenCheckpoint(Path(name)).status();
  }
};

TEST(GgufSplit, AnyPartOpensTheWhole) {
  const Folder folder;
  for (int given = 1; given <= 3; ++given) {
    DS_ASSERT_OK_AND_ASSIGN(const auto c,
                            OpenCheckpoint(folder.Path(Name(given, 3))));
    ASSERT_EQ(c->files().size(), 3u);
    for (int i = 1; i <= 3; ++i) {
      EXPECT_EQ(c->files()[i - 1].path, folder.Path(Name(i, 3)));
    }
    ASSERT_EQ(c->tensors().size(), 2u);
    EXPECT_EQ(c->config().Find("hidden_size")->as_int(), 12);
    const TensorInfo* embedding = c->Find("model.embed_tokens.weight");
    const TensorInfo* norm = c->Find("model.layers.3.input_layernorm.weight");
    ASSERT_TRUE(embedding != nullptr && norm != nullptr);
    EXPECT_EQ(norm->file, 2);
    std::vector<float> row(12), values(12);
    DS_ASSERT_OK(c->ReadRows(*embedding, 1, 2, absl::MakeSpan(row)));
    EXPECT_EQ(row, std::vector<float>(12, 2));
    DS_ASSERT_OK(c->ReadRows(*norm, 0, 12, absl::MakeSpan(values)));
    EXPECT_EQ(values, std::vector<float>(12, 3));
  }
}

TEST(GgufSplit, MissingPartsAreNamed) {
  const Folder folder;
  unlink(folder.Path(Name(2, 3)).c_str());
  DS_EXPECT_ERROR(folder.Open(Name(1, 3)), kNotFound,
                  "is one of 3 parts, 1 of them not in the folder "
                  "(\"m-00002-of-00003.gguf\"); download");
  unlink(folder.Path(Name(1, 3)).c_str());
  DS_EXPECT_ERROR(folder.Open(Name(3, 3)), kNotFound, "2 of them not");
}

TEST(GgufSplit, NamesAndMetadataMustAgree) {
  const Folder folder;
  // Two parts swapped.
  folder.Write(Name(2, 3), Part(3, 3));
  folder.Write(Name(3, 3), Part(2, 3));
  DS_EXPECT_ERROR(folder.Open(Name(1, 3)), kInvalidArgument,
                  "m-00002-of-00003.gguf: split.no: found 2; must be 1 in part "
                  "2");
  // A part of another count.
  folder.Write(Name(2, 3), Part(2, 4));
  DS_EXPECT_ERROR(folder.Open(Name(2, 3)), kInvalidArgument,
                  "split.count: found 4, but the name says 3 parts");
  // A part under a name of its own, and the name of a part on a whole model.
  folder.Write("model.gguf", Part(1, 3));
  DS_EXPECT_ERROR(folder.Open("model.gguf"), kInvalidArgument,
                  "the file is part 1 of 3, but its name does not end in "
                  "-00001-of-00003.gguf");
  folder.Write(Name(1, 2), Part(1, 1));
  folder.Write(Name(2, 2), Part(2, 1));
  DS_EXPECT_ERROR(folder.Open(Name(1, 2)), kInvalidArgument,
                  "found 1, but the name says 2 parts");
  folder.Write(Name(4, 3), Part(4, 3));
  DS_EXPECT_ERROR(folder.Open(Name(4, 3)), kInvalidArgument,
                  "the name says part 4 of 3");
}

TEST(GgufSplit, TensorsAreCountedAndStandOnce) {
  const Folder folder;
  GgufBuilder twice = Part(3, 3);
  twice.Tensor("token_embd.weight", {12, 2}, 0,
               FloatBytes(std::vector<float>(24, 1)));
  folder.Write(Name(3, 3), twice);
  DS_EXPECT_ERROR(folder.Open(Name(1, 3)), kInvalidArgument,
                  "tensor \"token_embd.weight\": an earlier part holds it");
  GgufBuilder more = Part(3, 3);
  more.Tensor("output_norm.weight", {12}, 0,
              FloatBytes(std::vector<float>(12, 1)));
  folder.Write(Name(3, 3), more);
  DS_EXPECT_ERROR(folder.Open(Name(1, 3)), kInvalidArgument,
                  "split.tensors.count: found 2, but the 3 parts hold 3");
  folder.Write(Name(3, 3), Part(3, 3).Text("general.architecture", "qwen2"));
  DS_EXPECT_ERROR(folder.Open(Name(1, 3)), kInvalidArgument,
                  "general.architecture: found \"qwen2\", in the first part "
                  "\"llama\"");
}

TEST(GgufSplit, AModelOfOnePartIsWhole) {
  const TempFolder folder;
  GgufBuilder b = Part(1, 1);
  b.Tensor("token_embd.weight", {12, 2}, 0,
           FloatBytes(std::vector<float>(24, 1)));
  for (const std::string& name : {Name(1, 1), std::string("m.gguf")}) {
    DS_ASSERT_OK(OpenCheckpoint(folder.Write(name, b.Build())).status());
  }
}

TEST(GgufSplit, ADamagedPartIsNamed) {
  const Folder folder;
  folder.TempFolder::Write(Name(3, 3), "GGUF");
  DS_EXPECT_ERROR(folder.Open(Name(1, 3)), kDataLoss,
                  "m-00003-of-00003.gguf: byte 4: the file ends inside");
}

}  // namespace
}  // namespace deepslice
