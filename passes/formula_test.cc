#include "passes/formula.h"

#include <cmath>
#include <cstring>

#include "gtest/gtest.h"
#include "schema/base/status_matchers.h"

namespace deepslice {
namespace {

using Arguments = std::vector<std::pair<std::string, double>>;

WeightSource Source(const std::string& formula, Arguments arguments) {
  WeightSource source;
  source.formula = formula;
  source.arguments = std::move(arguments);
  return source;
}

// Floats between a and b, both positive.
int64_t UlpsApart(float a, float b) {
  int32_t x, y;
  std::memcpy(&x, &a, 4);
  std::memcpy(&y, &b, 4);
  return std::abs(static_cast<int64_t>(x) - y);
}

struct Published {
  const char* what;
  const char* formula;
  Arguments arguments;
  std::vector<float> values;
};

// inv_freq of LlamaRotaryEmbedding, transformers 5.24 on torch, CPU.
const Published kPublished[] = {
    {"default, 5 pairs",
     "rope_freqs",
     {{"base", 10000}, {"rotary_dim", 10}},
     {1.0f, 0.158489317f, 0.0251188632f, 0.00398107059f, 0.000630957307f}},
    {"default, base a million",
     "rope_freqs",
     {{"base", 1000000}, {"rotary_dim", 24}},
     {1.0f, 0.316227764f, 0.099999994f, 0.0316227786f, 0.00999999885f,
      0.0031622781f, 0.00100000005f, 0.000316227844f, 9.99999684e-05f,
      3.16227743e-05f, 1.00000034e-05f, 3.16227693e-06f}},
    {"linear",
     "rope_freqs_linear",
     {{"base", 10000}, {"rotary_dim", 10}, {"factor", 2.5}},
     {0.400000006f, 0.0633957237f, 0.0100475457f, 0.00159242819f,
      0.000252382917f}},
    {"llama3, short context",
     "rope_freqs_llama3",
     {{"base", 500000},
      {"rotary_dim", 24},
      {"factor", 8},
      {"low_freq_factor", 1},
      {"high_freq_factor", 4},
      {"original_positions", 32}},
     {1.0f, 0.110897072f, 0.0140307741f, 0.00470075384f, 0.00157490105f,
      0.000527641852f, 0.000176776681f, 5.92258002e-05f, 1.98425078e-05f,
      6.64786967e-06f, 2.22724748e-06f, 7.46197941e-07f}},
    {"llama3, as Llama 3.2 1B has it",
     "rope_freqs_llama3",
     {{"base", 500000},
      {"rotary_dim", 64},
      {"factor", 32},
      {"low_freq_factor", 1},
      {"high_freq_factor", 4},
      {"original_positions", 8192}},
     {1.0f,
      0.663601279f,
      0.440366626f,
      0.292227834f,
      0.193922758f,
      0.128687382f,
      0.0853971019f,
      0.0566696189f,
      0.0376060307f,
      0.0249554086f,
      0.0165604409f,
      0.0109895291f,
      0.00729266508f,
      0.00483942125f,
      0.00321144611f,
      0.00129054801f,
      0.000429556705f,
      9.70828623e-05f,
      1.94616387e-05f,
      1.29147675e-05f,
      8.57025589e-06f,
      5.68723226e-06f,
      3.77405445e-06f,
      2.50446715e-06f,
      1.66196742e-06f,
      1.10288363e-06f,
      7.31874934e-07f,
      4.85673127e-07f,
      3.22293289e-07f,
      2.1387423e-07f,
      1.41927202e-07f,
      9.41830649e-08f}},
    {"yarn",
     "rope_freqs_yarn",
     {{"base", 10000},
      {"rotary_dim", 16},
      {"factor", 4},
      {"beta_fast", 32},
      {"beta_slow", 1},
      {"original_positions", 32},
      {"truncate", 1}},
     {1.0f, 0.197642356f, 0.0250000004f, 0.00790569466f, 0.00249999994f,
      0.000790569466f, 0.000250000012f, 7.90569466e-05f}},
    {"yarn, own betas, range not truncated",
     "rope_freqs_yarn",
     {{"base", 10000},
      {"rotary_dim", 26},
      {"factor", 40},
      {"beta_fast", 16},
      {"beta_slow", 2},
      {"original_positions", 4096},
      {"truncate", 0}},
     {1.0f, 0.492388248f, 0.242446184f, 0.119377658f, 0.0587801561f,
      0.0289426595f, 0.0106185358f, 0.00289743277f, 0.000278900348f,
      4.25313483e-05f, 2.09419395e-05f, 1.03115653e-05f, 5.07729374e-06f}},
    {"yarn, own betas, range truncated",
     "rope_freqs_yarn",
     {{"base", 10000},
      {"rotary_dim", 26},
      {"factor", 40},
      {"beta_fast", 16},
      {"beta_slow", 2},
      {"original_positions", 4096},
      {"truncate", 1}},
     {1.0f, 0.492388248f, 0.242446184f, 0.119377658f, 0.0587801561f,
      0.0289426595f, 0.0107773384f, 0.00359623134f, 0.000928559923f,
      4.25313483e-05f, 2.09419395e-05f, 1.03115653e-05f, 5.07729374e-06f}},
};

TEST(EvaluateFormula, AgreesWithThePublishedImplementation) {
  for (const Published& p : kPublished) {
    SCOPED_TRACE(p.what);
    DS_ASSERT_OK_AND_ASSIGN(const std::vector<float> got,
                            EvaluateFormula(Source(p.formula, p.arguments)));
    ASSERT_EQ(got.size(), p.values.size());
    const bool blended = got.size() > 5 && p.arguments.size() > 2;
    for (size_t i = 0; i < got.size(); ++i) {
      // A power is within one unit; a blend of two such within two.
      EXPECT_LE(UlpsApart(got[i], p.values[i]), blended ? 2 : 1)
          << "index " << i << ": " << got[i] << " against " << p.values[i];
      EXPECT_NEAR(got[i] / p.values[i], 1, 1.2e-7) << "index " << i;
    }
  }
}

TEST(EvaluateFormula, DividesEachPairByItsFactor) {
  DS_ASSERT_OK_AND_ASSIGN(
      const std::vector<float> got,
      EvaluateFormula(Source("rope_freqs_factors", {{"base", 10000},
                                                    {"rotary_dim", 6},
                                                    {"factor_0", 1},
                                                    {"factor_1", 2},
                                                    {"factor_2", 8}})));
  DS_ASSERT_OK_AND_ASSIGN(
      const std::vector<float> plain,
      EvaluateFormula(
          Source("rope_freqs", {{"base", 10000}, {"rotary_dim", 6}})));
  EXPECT_EQ(got, (std::vector<float>{plain[0], plain[1] / 2, plain[2] / 8}));
  DS_EXPECT_ERROR(
      EvaluateFormula(Source("rope_freqs_factors", {{"base", 10000},
                                                    {"rotary_dim", 6},
                                                    {"factor_0", 1},
                                                    {"factor_2", 8}})),
      kInvalidArgument, "factor_1: missing");
}

TEST(EvaluateFormula, NamesTheNearestFormula) {
  DS_EXPECT_ERROR(
      EvaluateFormula(Source("rope_freq", {})), kInvalidArgument,
      "found formula \"rope_freq\"; allowed: rope_freqs, rope_freqs_factors, ");
  DS_EXPECT_ERROR(EvaluateFormula(Source("rope_freqs_yam", {})),
                  kInvalidArgument, "did you mean rope_freqs_yarn?");
}

TEST(EvaluateFormula, RefusesArgumentsThatDoNotFit) {
  const auto expect = [](Arguments arguments, const char* part) {
    DS_EXPECT_ERROR(EvaluateFormula(Source("rope_freqs", arguments)),
                    kInvalidArgument, part);
  };
  expect({{"base", 10000}}, "rotary_dim: missing");
  expect({{"base", 10000}, {"rotary_dim", 10}, {"factor", 2}},
         "factor: unknown argument");
  expect({{"base", 10000}, {"rotary_dim", 10}, {"base", 2}},
         "base: given twice");
  expect({{"base", 10000}, {"rotary_dim", 9}}, "an even number");
  expect({{"base", 10000}, {"rotary_dim", 2.5}}, "an even number");
  expect({{"base", 10000}, {"rotary_dim", 1e9}}, "an even number");
  expect({{"base", 0}, {"rotary_dim", 10}}, "base: found 0");
  expect({{"base", NAN}, {"rotary_dim", 10}}, "base: found nan");
  expect({{"base", 1e300}, {"rotary_dim", 10}}, "that float32 holds");
  DS_EXPECT_ERROR(EvaluateFormula(Source("rope_freqs_llama3",
                                         {{"base", 10000},
                                          {"rotary_dim", 10},
                                          {"factor", 8},
                                          {"low_freq_factor", 4},
                                          {"high_freq_factor", 4},
                                          {"original_positions", 32}})),
                  kInvalidArgument,
                  "high_freq_factor: found 4; allowed: above");
}

TEST(PlainLog, IsWithinFourUnitsOfTheLibrary) {
  for (double x : {1e-300, 0.1, 0.5, 0.7, 0.71, 1.0, 1.5, 2.0, 10000.0, 5e5,
                   1.9e7, 1e300}) {
    const double want = std::log(x);
    EXPECT_NEAR(PlainLog(x), want, 4 * 2.3e-16 * std::fabs(want)) << x;
  }
}

}  // namespace
}  // namespace deepslice
