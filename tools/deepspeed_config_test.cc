#include "tools/deepspeed_config.h"

#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tools/deepspeed_keys.h"

namespace deepslice {
namespace {

// "tp=4 dtype=fp16", or the error's message.
std::string Read(absl::string_view text, absl::string_view dtype = "") {
  const auto config = ReadDeepSpeedConfig("ds.json", text, dtype);
  if (!config.ok()) return std::string(config.status().message());
  std::vector<std::string> out;
  for (const DeepSpeedSetting& s : config->settings) {
    out.push_back(absl::StrCat(s.flag, "=", s.value));
  }
  return absl::StrJoin(out, " ");
}

std::vector<std::string> Notes(absl::string_view text,
                               absl::string_view dtype = "") {
  const auto config = ReadDeepSpeedConfig("ds.json", text, dtype);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? config->notes : std::vector<std::string>();
}

TEST(DeepSpeedConfig, GivesFlagsUnderEveryName) {
  EXPECT_EQ(Read(R"({"dtype": "torch.half", "tensor_parallel": {"tp_size": 4},
                     "max_out_tokens": 2048, "base_dir": "/d",
                     "checkpoint": "list.json",
                     "save_mp_checkpoint_path": "plan"})"),
            "dtype=fp16 tp=4 model=list.json base-dir=/d output=plan "
            "max-seq-len=2048");
  EXPECT_EQ(Read(R"({"tp": {"tp_size": "4"}, "max_tokens": 64.0,
                     "min_tokens": 8})"),
            "tp=4 max-seq-len=64 min-out-tokens=8");
  EXPECT_EQ(Read(R"({"training_mp_size": 2})"), "training-mp-size=2");
  EXPECT_EQ(Read(R"({"training_mp_size": 1})"), "");
}

TEST(DeepSpeedConfig, TakesEveryNameOfAType) {
  for (const std::string prefix : {"", "torch."}) {
    for (const auto& [name, type] :
         std::vector<std::pair<std::string, std::string>>{{"fp16", "fp16"},
                                                          {"float16", "fp16"},
                                                          {"half", "fp16"},
                                                          {"fp32", "fp32"},
                                                          {"float32", "fp32"},
                                                          {"float", "fp32"},
                                                          {"bf16", "bf16"},
                                                          {"bfloat16", "bf16"},
                                                          {"bfloat", "bf16"},
                                                          {"int8", "int8"}}) {
      EXPECT_EQ(Read(absl::StrCat(R"({"dtype": ")", prefix, name, R"("})")),
                absl::StrCat("dtype=", type));
    }
  }
  EXPECT_EQ(Read(R"({"dtype": "int4"})"),
            "ds.json: dtype: holds \"int4\"; must be fp32 (float32, float), "
            "fp16 (float16, half), bf16 (bfloat16, bfloat) or int8, each also "
            "as torch.NAME");
}

TEST(DeepSpeedConfig, AutoIsNotGiven) {
  EXPECT_EQ(Read(R"({"dtype": "auto", "tp": {"tp_size": "auto"},
                     "replace_method": "auto"})"),
            "");
}

TEST(DeepSpeedConfig, AliasesMustAgree) {
  EXPECT_EQ(Read(R"({"max_out_tokens": 8, "max_tokens": 8})"), "max-seq-len=8");
  EXPECT_EQ(Read(R"({"max_out_tokens": 8, "max_tokens": 9})"),
            "ds.json: max_out_tokens and max_tokens: hold 8 and 9; they are "
            "one key, give it once");
  EXPECT_EQ(
      Read(R"({"tp": {"tp_size": 2}, "tensor_parallel": {"tp_size": 4}})"),
      "ds.json: tp and tensor_parallel: hold {\"tp_size\":2} and "
      "{\"tp_size\":4}; they are one key, give it once");
}

TEST(DeepSpeedConfig, RefusesAKeyThatStandsTwice) {
  EXPECT_EQ(Read(R"({"dtype": "fp16", "dtype": "fp32"})"),
            "ds.json: key \"dtype\" appears twice in one object");
}

TEST(DeepSpeedConfig, DeprecatedKeysCountInOneNote) {
  EXPECT_EQ(Read(R"({"mp_size": 4, "moe_type": "standard"})"), "tp=4");
  const auto notes = Notes(R"({"mp_size": 4, "moe_type": "standard"})");
  ASSERT_EQ(notes.size(), 1);
  EXPECT_EQ(notes[0],
            "ds.json: deprecated: mp_size, use tensor_parallel.tp_size; "
            "moe_type, use moe.type");
  EXPECT_EQ(Read(R"({"mp_size": 4, "tp": {"tp_size": 4}})"),
            "ds.json: mp_size and tp.tp_size: both are given; mp_size is "
            "deprecated, keep tensor_parallel.tp_size");
}

TEST(DeepSpeedConfig, UnknownKeysGetTheNearest) {
  EXPECT_EQ(Read(R"({"tensor_paralel": {}})"),
            "ds.json: key \"tensor_paralel\" is not one of DeepSpeed's "
            "inference configuration; did you mean tensor_parallel?");
  EXPECT_EQ(Read(R"({"tp": {"tpsize": 2}})"),
            "ds.json: key \"tp.tpsize\" is not one of DeepSpeed's inference "
            "configuration; did you mean tp_size?");
  EXPECT_EQ(Read(R"({"tp_size": 2})"),
            "ds.json: key \"tp_size\" is not one of DeepSpeed's inference "
            "configuration; did you mean tensor_parallel.tp_size?");
  EXPECT_EQ(Read(R"({"zzz": 1})"),
            "ds.json: key \"zzz\" is not one of DeepSpeed's inference "
            "configuration; leave it out (dscompile deepspeed-keys prints "
            "all)");
}

TEST(DeepSpeedConfig, HistoricKeysNameTheNewOnes) {
  EXPECT_TRUE(absl::StrContains(Read(R"({"quantization_setting": [true, 8]})"),
                                "use dtype int8"));
  EXPECT_TRUE(absl::StrContains(Read(R"({"bit_precision": 8})"), "use dtype"));
  EXPECT_TRUE(
      absl::StrContains(Read(R"({"train_batch_size": 8})"), "training"));
}

TEST(DeepSpeedConfig, EveryKeyOfTheTableIsRead) {
  std::set<std::string> paths;
  for (const DeepSpeedKey& key : DeepSpeedKeys()) {
    EXPECT_TRUE(paths.insert(std::string(key.path)).second) << key.path;
    if (key.use == KeyUse::kRefused) continue;
    // Its default, in its groups, is sound under both names.
    for (const absl::string_view last : {key.path, key.alias}) {
      if (last.empty()) continue;
      std::vector<std::string> parts = absl::StrSplit(key.path, '.');
      if (last == key.alias) parts.back() = std::string(key.alias);
      std::string text(key.initial);
      for (size_t i = parts.size(); i-- > 0;) {
        text = absl::StrCat("{\"", parts[i], "\": ", text, "}");
      }
      const auto config = ReadDeepSpeedConfig("ds.json", text, "");
      EXPECT_TRUE(config.ok()) << text << config.status();
      if (config.ok() && key.use != KeyUse::kMoved &&
          !absl::StartsWith(key.path, "quant")) {
        EXPECT_TRUE(config->notes.empty()) << text << config->notes[0];
      }
    }
    if (key.use != KeyUse::kMoved) continue;
    EXPECT_TRUE(absl::c_any_of(DeepSpeedKeys(), [&](const DeepSpeedKey& k) {
      return k.path == key.to && k.use != KeyUse::kMoved;
    })) << key.to;
  }
}

TEST(DeepSpeedConfig, WrongKindsSayWhatMustBe) {
  EXPECT_EQ(Read("[]"),
            "ds.json: holds []; must be an object with the keys of DeepSpeed's "
            "inference configuration");
  EXPECT_EQ(Read(R"({"tensor_parallel": 4})"),
            "ds.json: tensor_parallel: holds 4; must be an object of enabled, "
            "tp_size, tp_grain_size, mpu, tp_group");
  EXPECT_EQ(Read(R"({"mp_size": 0})"),
            "ds.json: mp_size: holds 0; must be a whole number from 1 to "
            "2147483648");
  EXPECT_EQ(Read(R"({"kernel_inject": "perhaps"})"),
            "ds.json: kernel_inject: holds \"perhaps\"; must be true or false");
  EXPECT_EQ(Read(R"({"checkpoint": {"type": "Megatron"}})"),
            "ds.json: checkpoint: holds {\"type\":\"Megatron\"}; must be a "
            "path, or a list of files with type, version and checkpoints");
  EXPECT_EQ(Read(R"({"mpu": "megatron.mpu"})"),
            "ds.json: mpu: holds \"megatron.mpu\"; an object of Python's, "
            "which no file holds; leave it out");
}

TEST(DeepSpeedConfig, WhatDoesNothingIsSaid) {
  EXPECT_TRUE(Notes(R"({"kernel_inject": true, "return_tuple": false,
                        "enable_cuda_graph": true, "zero": {},
                        "triangular_masking": true})")
                  .empty());
  const auto notes = Notes(R"({"tm": false, "zero": {"stage": 3},
                              "replace_method": "manual"})");
  ASSERT_EQ(notes.size(), 3);
  EXPECT_TRUE(absl::StrContains(notes[0], "zero: ignored"));
  EXPECT_TRUE(absl::StrContains(notes[1], "tm: ignored"));
  EXPECT_TRUE(absl::StrContains(notes[2], "replace_method: ignored"));
}

TEST(DeepSpeedConfig, ExpertsAreNotSpread) {
  EXPECT_EQ(Read(R"({"moe": true, "ep_size": 1})"), "");
  const auto config = ReadDeepSpeedConfig("ds.json", R"({"ep_size": 4})", "");
  EXPECT_TRUE(absl::IsUnimplemented(config.status()));
  EXPECT_EQ(config.status().message(),
            "ds.json: ep_size: holds 4; experts are not spread over ranks; "
            "use 1");
}

TEST(DeepSpeedConfig, QuantCountsWithInt8) {
  EXPECT_EQ(Read(R"({"dtype": "int8", "quant": {"weight": {"num_bits": 8,
                     "q_type": "symmetric"}}})"),
            "dtype=int8");
  EXPECT_TRUE(absl::StrContains(
      Read(R"({"quant": {"weight": {"num_bits": 4}}})", "int8"),
      "quant.weight.num_bits: holds 4; dtype int8 is 8 bits"));
  EXPECT_TRUE(absl::StrContains(
      Read(R"({"dtype": "int8", "quant": {"enabled": false}})"),
      "quant.enabled: is false, and the dtype is int8"));
  const auto notes = Notes(R"({"quant": {"weight": {"num_bits": 8}}})");
  ASSERT_EQ(notes.size(), 1);
  EXPECT_TRUE(absl::StrContains(notes[0], "dtype int8 quantises them"));
  EXPECT_TRUE(Notes(R"({"quant": {"enabled": false}})").empty());
}

TEST(DeepSpeedConfig, InjectionPolicyBecomesText) {
  EXPECT_EQ(Read(R"({"injection_dict": {"T5Block": ["SelfAttention.o",
                     "DenseReluDense.wo"]}})"),
            "injection=T5Block=SelfAttention.o,DenseReluDense.wo");
  EXPECT_EQ(Read(R"({"injection_policy": {"BartEncoderLayer": ["out_proj",
                     "fc2"], "BartDecoderLayer": ["out_proj", "fc2", "x.o"],
                     "A": "fc2"}})"),
            "injection=BartEncoderLayer,BartDecoderLayer,A=out_proj,fc2,x.o");
  EXPECT_EQ(Read(R"({"injection_policy": "B=o"})"), "injection=B=o");
  EXPECT_TRUE(absl::StrContains(Read(R"({"injection_policy": {"B": []}})"),
                                "must be {\"CLASS\""));
  EXPECT_EQ(Read(R"({"injection_policy": "B=o", "kernel_inject": true})"),
            "ds.json: injection_policy and kernel_inject: exclude each other, "
            "as in DeepSpeed; keep one");
}

TEST(DeepSpeedConfig, ContradictionsAreRefused) {
  EXPECT_EQ(Read(R"({"tp": {"enabled": false, "tp_size": 2}})"),
            "ds.json: tp.enabled: is false, and tp_size is 2; leave one of "
            "them out");
  EXPECT_EQ(Read(R"({"max_tokens": 8, "min_tokens": 9})"),
            "ds.json: min_tokens: holds 9, more than the 8 of max_tokens; must "
            "be at most that");
}

TEST(DeepSpeedConfig, ChecksWhatAnotherFileIs) {
  EXPECT_TRUE(absl::StrContains(
      Read(R"({"type": "ds_model", "checkpoints": {"tp": [], "non_tp": []},
               "parallelization": "tp", "tp_size": 2})"),
      "is the list of the files of a presharded checkpoint"));
  EXPECT_TRUE(absl::StrContains(
      Read(R"({"type": "Megatron", "checkpoints": []})"), "dscompile ds.json"));
}

TEST(DeepSpeedConfig, IsNoModelsConfig) {
  EXPECT_TRUE(absl::StrContains(
      Read(R"({"architectures": ["OPTForCausalLM"], "dtype": "fp16"})"),
      "is the configuration of a model, not of init_inference"));
}

TEST(DeepSpeedConfig, HoldsAList) {
  const auto config = ReadDeepSpeedConfig(
      "ds.json", R"({"checkpoint": {"type": "Megatron", "checkpoints": ["a"],
                     "version": 0,},})",
      "");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->holds_checkpoint);
  EXPECT_EQ(config->Find("model")->value, "ds.json");
  ASSERT_EQ(config->notes.size(), 1);
  EXPECT_TRUE(absl::StrContains(config->notes[0], "trailing commas"));
}

}  // namespace
}  // namespace deepslice
