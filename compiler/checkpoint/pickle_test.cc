#include "compiler/checkpoint/pickle.h"

#include <memory>

#include "absl/strings/match.h"
#include "compiler/checkpoint/pickle_names.h"
#include "compiler/checkpoint/pickle_opcodes.h"
#include "compiler/checkpoint/torch_test_files.h"
#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice::pickle {
namespace {

// A pickle and the heap of its values.
struct Read {
  explicit Read(const std::string& opcodes) : bytes(opcodes) {
    auto read = ReadPickle(bytes, 0, heap, budget);
    status = read.status();
    if (read.ok()) pickle = *std::move(read);
  }
  const Value& root() const { return *pickle.root; }

  std::string bytes;
  Heap heap;
  Budget budget;
  absl::Status status;
  Pickle pickle;
};

absl::Status Status(const std::string& opcodes) { return Read(opcodes).status; }

template <size_t N>
std::string S(const char (&text)[N]) {
  return std::string(text, N - 1);
}

TEST(Pickle, ReadsScalarsOfEveryProtocol) {
  const auto kind = [](const std::string& opcodes) {
    const Read r(opcodes + ".");
    EXPECT_TRUE(r.status.ok()) << r.status;
    return r.status.ok() ? r.root().kind() : Kind::kSet;
  };
  const auto number = [](const std::string& opcodes) {
    const Read r(opcodes + ".");
    EXPECT_TRUE(r.status.ok()) << r.status;
    return r.status.ok() && r.root().is_int() ? r.root().as_int() : INT64_MIN;
  };
  EXPECT_EQ(kind("N"), Kind::kNone);
  EXPECT_EQ(kind("\x88"), Kind::kBool);
  EXPECT_EQ(kind("I01\n"), Kind::kBool);
  EXPECT_EQ(number("I-17\n"), -17);
  EXPECT_EQ(number("L123456789012L\n"), 123456789012);
  EXPECT_EQ(number(S("J\xfe\xff\xff\xff")), -2);
  EXPECT_EQ(number("K\xff"), 255);
  EXPECT_EQ(number(S("M\x01\x02")), 513);
  EXPECT_EQ(number(S("\x8a\x00")), 0);
  EXPECT_EQ(number(S("\x8a\x01\xff")), -1);
  EXPECT_EQ(number(S("\x8a\x02\xff\x00")), 255);
  EXPECT_EQ(number(S("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80")), INT64_MIN);
  EXPECT_EQ(kind(S("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00")),
            Kind::kBigInt);
  EXPECT_EQ(Read(S("G\x3f\xf8\x00\x00\x00\x00\x00\x00.")).root().as_float(),
            1.5);
  EXPECT_EQ(Read("F-2.5\n.").root().as_float(), -2.5);
  EXPECT_EQ(Read("S'a\\x41\\n'\n.").root().bytes(), "aA\n");
  EXPECT_EQ(Read("V\\u00e9\xe9\n.").root().bytes(), "\xc3\xa9\xc3\xa9");
  EXPECT_EQ(Read(S("X\x02\x00\x00\x00\xc3\xa9.")).root().bytes(), "\xc3\xa9");
  EXPECT_EQ(kind(S("\x8c\x01"
                   "a")),
            Kind::kText);
  EXPECT_EQ(kind(S("U\x01\xff")), Kind::kBytes);
  EXPECT_EQ(kind(S("U\x01"
                   "a")),
            Kind::kText);
  EXPECT_EQ(kind(S("C\x01\xff")), Kind::kBytes);
  DS_EXPECT_ERROR(Status(S("X\x01\x00\x00\x00\xff.")), kInvalidArgument,
                  "byte 0: BINUNICODE: found \"\\377\"; text must be UTF-8");
}

TEST(Pickle, ReadsContainersAndKeepsTheLastOfEqualKeys) {
  const Read r("}(" + PickleText("a") + "K\x01" + PickleText("b") +
               "(NK\x02lK\x03"
               "K\x04u" +
               PickleText("a") + "K\x05s.");
  DS_ASSERT_OK(r.status);
  ASSERT_TRUE(r.root().is_dict());
  EXPECT_EQ(r.root().items().size(), 8u);
  EXPECT_EQ(r.root().Find("a")->as_int(), 5);
  const Value* list = r.root().Find("b");
  ASSERT_EQ(list->kind(), Kind::kList);
  EXPECT_TRUE(list->items()[0]->is_none());
  EXPECT_EQ(r.root().Find("c"), nullptr);
  EXPECT_EQ(Read("(K\x01K\x02t.").root().Describe(), "a tuple of 2");
  EXPECT_EQ(Read("(K\x01K\x02"
                 "d.")
                .root()
                .Describe(),
            "a dict of 1");
  EXPECT_EQ(Read("\x8f(K\x01\x90.").root().Describe(), "a set of 1");
  std::string many = "](";
  for (int i = 0; i < 1000; ++i) many += "K\x07";
  EXPECT_EQ(Read(many + "e.").root().Describe(), "a list of 1000");
}

TEST(Pickle, ObjectsOfUnknownClassesKeepTheirState) {
  const Read r(PickleGlobal("argparse", "Namespace") + ")\x81}(" +
               PickleText("num_layers") + "K\x04" + PickleText("dtype") +
               PickleGlobal("torch", "bfloat16") + "ub.");
  DS_ASSERT_OK(r.status);
  EXPECT_EQ(r.root().kind(), Kind::kObject);
  EXPECT_EQ(r.root().Name(), "argparse.Namespace");
  EXPECT_EQ(r.root().Attribute("num_layers")->as_int(), 4);
  EXPECT_EQ(r.root().Attribute("dtype")->Name(), "torch.bfloat16");
  EXPECT_EQ(r.root().Attribute("no"), nullptr);
  // A subclass of dict.
  const Read d(PickleGlobal("easydict", "EasyDict") + ")\x81" +
               PickleText("a") + "K\x01s.");
  DS_ASSERT_OK(d.status);
  EXPECT_EQ(d.root().Find("a")->as_int(), 1);
}

TEST(Pickle, KnowsTheMakersOfDataInStateDicts) {
  const auto made = [](absl::string_view module, absl::string_view name,
                       const std::string& args) {
    const Read r(PickleGlobal(module, name) + args + "R.");
    return r.status.ok() ? r.root().Describe() : r.status.ToString();
  };
  EXPECT_EQ(made("collections", "OrderedDict", ")"), "a dict of 0");
  EXPECT_EQ(made("collections", "OrderedDict",
                 "]]K\x01"
                 "aK\x02"
                 "aa\x85"),
            "a dict of 1");
  EXPECT_EQ(made("collections", "defaultdict",
                 PickleGlobal("builtins", "list") + "\x85"),
            "a dict of 0");
  EXPECT_EQ(made("__builtin__", "set",
                 "]K\x01"
                 "a\x85"),
            "a set of 1");
  EXPECT_EQ(made("torch", "Size", PickleInts({2, 3}) + "\x85"), "a tuple of 2");
  const Read bytes(PickleGlobal("_codecs", "encode") + PickleText("\xc3\xbf") +
                   PickleText("latin1") + "\x86R.");
  DS_ASSERT_OK(bytes.status);
  EXPECT_EQ(bytes.root().kind(), Kind::kBytes);
  EXPECT_EQ(bytes.root().bytes(), "\xff");
  // Attributes of an OrderedDict, as those of state dicts.
  DS_ASSERT_OK(Status(PickleGlobal("collections", "OrderedDict") + ")R}" +
                      PickleText("_metadata") + "}sb."));
}

TEST(Pickle, RefusesEveryWayToRunCode) {
  const std::string call = PickleText("id") + "\x85R.";
  for (const auto& [module, name] :
       {std::pair<const char*, const char*>{"os", "system"},
        {"posix", "system"},
        {"nt", "system"},
        {"subprocess", "Popen"},
        {"sys", "exit"},
        {"importlib", "import_module"},
        {"importlib.util", "find_spec"},
        {"runpy", "run_path"},
        {"builtins", "eval"},
        {"__builtin__", "exec"},
        {"builtins", "getattr"},
        {"torch.serialization", "os.system"},
        {"torch.storage", "_load_from_bytes"},
        {"pty", "spawn"}}) {
    const std::string names = absl::StrCat("names \"", module, ".", name);
    // Called, only named, in a dict that is dropped, by way of the memo.
    for (const std::string& opcodes :
         {PickleGlobal(module, name) + call, PickleGlobal(module, name) + "0N.",
          "}" + PickleText("x") + PickleGlobal(module, name) + "s.",
          PickleText(module) + "q\x01" + PickleText(name) + "q\x02" + "00" +
              "h\x01h\x02\x93" + call,
          PickleGlobal(module, name) + ")\x81."}) {
      Read r(opcodes);
      DS_EXPECT_ERROR(r.status, kInvalidArgument, names);
      EXPECT_TRUE(r.budget.hostile);
    }
    // In a string of bytes of another pickle, or of one in that.
    const std::string inner = PickleGlobal(module, name) + call;
    std::string outer =
        absl::StrCat("B", Bytes<uint32_t>(inner.size()), inner, ".");
    for (int depth = 0; depth < 3; ++depth) {
      Read r(outer);
      DS_ASSERT_OK(r.status);
      DS_EXPECT_ERROR(CheckBlobs(r.pickle.blobs, r.heap, r.budget),
                      kInvalidArgument, "a pickle inside a string of bytes");
      outer = absl::StrCat("B", Bytes<uint32_t>(outer.size()), outer, ".");
    }
  }
  for (const std::string& opcodes :
       {std::string("(ia\nb\n."), PickleGlobal("a", "b").insert(0, "(") + "o.",
        S("\x82\x01."), S("\x83\x01\x00."), S("\x84\x01\x00\x00\x00.")}) {
    Read r(opcodes);
    DS_EXPECT_ERROR(r.status, kInvalidArgument, "torch.save never does");
    EXPECT_TRUE(r.budget.hostile);
  }
  DS_EXPECT_ERROR(Status(PickleGlobal("a", "B") + ")\x81}" +
                         PickleText("__setstate__") + "Nsb."),
                  kInvalidArgument, "replaces the method \"__setstate__\"");
  DS_EXPECT_ERROR(Status("Pos\n."), kInvalidArgument, "PERSID");
}

TEST(Pickle, NamesThatMayStay) {
  EXPECT_FALSE(IsHostileName("builtins", "set"));
  EXPECT_FALSE(IsHostileName("__builtin__", "slice"));
  EXPECT_FALSE(IsHostileName("megatron.arguments", "parse"));
  EXPECT_FALSE(IsHostileName("mycode.models", "Net"));
  EXPECT_FALSE(IsHostileName("torch", "float32"));
  EXPECT_TRUE(IsHostileName("os.path", "join"));
  EXPECT_TRUE(IsHostileName("ctypes", "CDLL"));
}

TEST(Pickle, EveryOpcodeChecksWhatItTakes) {
  // Alone on an empty stack.
  for (int code = 0; code < 256; ++code) {
    const absl::string_view name = OpName(static_cast<uint8_t>(code));
    const std::string one(1, static_cast<char>(code));
    const absl::Status s = Status(one);
    EXPECT_FALSE(s.ok()) << code;
    EXPECT_TRUE(absl::StrContains(s.message(), name.empty()
                                                   ? "is no opcode of a pickle"
                                                   : absl::string_view("byte")))
        << s;
    // Behind a mark, with operands of zeros: what is below is out of reach.
    EXPECT_FALSE(Status("N(" + one + std::string(8, '\0') + "\n\n").ok());
  }
  for (const std::string opcodes :
       {"]K\x01K\x02s.",
        "}K\x01"
        "a.",
        "(K\x01K\x02u.", "}(K\x01u.", "NN\x93.", "NNR.",
        "(K\x01"
        "d.",
        "NNb.", "N)\x81.", "NNs.", "NQ.", "K\x01)R.", "]]b.", "h\x05.", "t.",
        "e.", "1."}) {
    DS_EXPECT_ERROR(Status(opcodes), kInvalidArgument, "byte");
  }
  DS_EXPECT_ERROR(Status("]K\x01K\x02s."), kInvalidArgument,
                  "SETITEM: adds to a dict, found a list of 0");
  DS_EXPECT_ERROR(Status("}K\x01"
                         "a."),
                  kInvalidArgument,
                  "APPEND: adds to a list, found a dict of 0");
  DS_EXPECT_ERROR(Status("N"), kDataLoss, "no STOP ends the pickle");
  DS_EXPECT_ERROR(Status(S("\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.")),
                  kDataLoss, "FRAME");
  DS_EXPECT_ERROR(Status(S("\x8d\x00\x00\x00\x00\x00\x00\x00\x80.")),
                  kResourceExhausted, "at most 1073741824");
  DS_EXPECT_ERROR(Status("\x80\x06N."), kUnimplemented, "protocol 6");
}

TEST(Pickle, MakersCheckTheirArguments) {
  const std::string v2 = PickleGlobal("torch._utils", "_rebuild_tensor_v2");
  DS_EXPECT_ERROR(Status(v2 + ")R."), kInvalidArgument,
                  "has 0 arguments; must have 4 to 7");
  DS_EXPECT_ERROR(Status(v2 + "(NNNNNNtR."), kInvalidArgument,
                  "torch._utils._rebuild_tensor_v2: storage: must be a "
                  "storage, found None");
  DS_EXPECT_ERROR(Status(PickleTensor("0", 4, -1, {2}, {1}) + "."),
                  kInvalidArgument, "storage offset: must be a whole number");
  DS_EXPECT_ERROR(Status(PickleTensor("0", 4, 0, {2}, {-1}) + "."),
                  kInvalidArgument, "strides: must be whole numbers");
  DS_EXPECT_ERROR(Status(PickleTensor("0", 4, 0, {2, 2}, {1}) + "."),
                  kInvalidArgument, "shape has 2 dims, strides 1");
  DS_EXPECT_ERROR(Status(PickleTensor("0", -4, 0, {2}, {1}) + "."),
                  kInvalidArgument, "count of a storage");
  DS_EXPECT_ERROR(
      Status(PickleGlobal("collections", "OrderedDict") + "K\x01\x85R."),
      kInvalidArgument, "items: must be a list of pairs, found 1");
  // A name that is only like one of them is an object like any other.
  const Read r(PickleGlobal("torch._utils", "_rebuild_tensor_v2 ") + ")R.");
  DS_ASSERT_OK(r.status);
  EXPECT_EQ(r.root().kind(), Kind::kObject);
}

TEST(Pickle, CirclesAndDeepValuesNeitherLeakNorRunAway) {
  const Read self(
      "]q\x01h\x01"
      "a.");
  DS_ASSERT_OK(self.status);
  EXPECT_EQ(self.root().items()[0], &self.root());
  DS_EXPECT_ERROR(Status("N" + std::string(1000, '\x85') + "."),
                  kResourceExhausted, "more than 64 deep");
}

TEST(Pickle, SurvivesEveryByteInEveryPlaceAndEveryTruncation) {
  const std::string file = PickleDict(
      {{"a", PickleTensor("0", 6, 0, {2, 3}, {3, 1})},
       {"n", PickleGlobal("argparse", "Namespace") + ")\x81}q\x01(" +
                 PickleText("x") + "K\x04" + PickleText("y") + "h\x01ub"}});
  for (size_t n = 0; n < file.size(); ++n) {
    EXPECT_FALSE(Status(file.substr(0, n)).ok());
    std::string bad = file;
    for (int b = 0; b < 256; ++b) {
      bad[n] = static_cast<char>(b);
      EXPECT_EQ(Status(bad).message().find('\n'), absl::string_view::npos);
    }
  }
}

}  // namespace
}  // namespace deepslice::pickle
