#include "tests/fuzz/plan_seeds.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tests/support/gpu_plan_builder.h"

namespace deepslice {
namespace {

// All that `dsrun selftest` compares.
TestPlan WithSelfTests() {
  TestPlan out = TinyLlama().Build();
  out.plan.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}";
  auto golden = std::make_unique<fb::SelfTestT>();
  golden->prompt = {1, 2};
  golden->continuation = {3};
  out.plan.self_tests.push_back(std::move(golden));
  auto rendered = std::make_unique<fb::RenderTestT>();
  rendered->messages = "[{\"role\": \"user\", \"content\": \"a\"}]";
  rendered->text = "a";
  out.plan.render_tests.push_back(std::move(rendered));
  out.plan.reference = std::make_unique<fb::ProgramT>(out.program());
  return out;
}

std::vector<std::pair<std::string, TestPlan>> Plans() {
  std::vector<std::pair<std::string, TestPlan>> out;
  out.emplace_back("f32", TinyLlama().Build());
  out.emplace_back("i8_bf16", TinyLlama{.matrices = Encoding::kI8Row,
                                        .cache = Encoding::kBF16}
                                  .Build());
  out.emplace_back(
      "bf16_f16",
      TinyLlama{.matrices = Encoding::kBF16, .cache = Encoding::kF16}.Build());
  out.emplace_back("rank_of_two", TinyLlama{.rank = 1, .world = 2}.Build());
  out.emplace_back("gpu", TinyGpuPlan().Build());
  out.emplace_back("self_tests", WithSelfTests());
  out.emplace_back("text_encoder", TinyTextEncoder());
  out.emplace_back("image_encoder", TinyImageEncoder());
  out.emplace_back("encoder_decoder", TinyEncoderDecoder());
  return out;
}

}  // namespace

std::vector<PlanSeed> PlanSeeds() {
  std::vector<PlanSeed> out;
  for (auto& [name, plan] : Plans()) {
    plan.plan.weights_bytes = SeedWeights().size();
    plan.plan.weights_xxh3.assign((SeedWeights().size() >> 20) + 1, 0);
    out.push_back({name, plan.Bytes()});
  }
  return out;
}

const std::string& SeedWeights() {
  static const std::string* const weights = [] {
    auto* longest = new std::string;
    for (auto& [name, plan] : Plans()) {
      if (plan.weights.size() > longest->size()) *longest = plan.weights;
    }
    return longest;
  }();
  return *weights;
}

}  // namespace deepslice
