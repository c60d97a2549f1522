// Rotary frequencies and ALiBi slopes, in float32 steps as they are published.
#include "passes/formula.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "schema/base/limits.h"
#include "schema/base/nearest.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

constexpr double kPi = 3.14159265358979323846;
// ln 2 in two parts: kLn2High has 33 bits, so k * kLn2High is exact for every
// exponent k of a double.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// e^x for |x| < 700: x = k ln 2 + r, then the Taylor series of e^r.
double PlainExp(double x) {
  const double k = std::floor(x / (kLn2High + kLn2Low) + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 1;
  // |r| <= 0.35: the 18th term is below 1e-24.
  for (int n = 18; n >= 1; --n) sum = 1 + sum * r / n;
  return std::ldexp(sum, static_cast<int>(k));
}

// ---- arguments -------------------------------------------------------------

constexpr absl::string_view kDefaultArguments[] = {"base", "rotary_dim"};
constexpr absl::string_view kLinearArguments[] = {"base", "rotary_dim",
                                                  "factor"};
constexpr absl::string_view kLlama3Arguments[] = {"base",
                                                  "rotary_dim",
                                                  "factor",
                                                  "low_freq_factor",
                                                  "high_freq_factor",
                                                  "original_positions"};
constexpr absl::string_view kAlibiArguments[] = {"heads", "scale", "begin",
                                                 "end"};
constexpr absl::string_view kPartArguments[] = {"begin", "end"};
constexpr absl::string_view kYarnArguments[] = {
    "base",      "rotary_dim",         "factor",  "beta_fast",
    "beta_slow", "original_positions", "truncate"};

class Arguments {
 public:
  // `names`, and factor_0, factor_1, ... for each pair when `factors`.
  Arguments(const WeightSource& source,
            absl::Span<const absl::string_view> names, bool factors)
      : source_(source), names_(names.begin(), names.end()) {
    const double* dim = Find("rotary_dim");
    if (!factors || dim == nullptr || !(*dim <= limits::kHiddenSize)) return;
    for (int64_t i = 0; i < static_cast<int64_t>(*dim) / 2; ++i) {
      names_.push_back(absl::StrCat("factor_", i));
      // Enough to see that arguments are missing.
      if (names_.size() > source.arguments.size()) break;
    }
  }

  // Each of the names once and no other, every one finite, base and rotary_dim
  // in range, the rest positive (truncate: 0 or 1).
  absl::Status Check() const {
    for (size_t i = 0; i < source_.arguments.size(); ++i) {
      const std::string& name = source_.arguments[i].first;
      if (std::find(names_.begin(), names_.end(), name) == names_.end()) {
        return Bad(name, "unknown argument");
      }
      for (size_t j = 0; j < i; ++j) {
        if (source_.arguments[j].first == name) {
          return Bad(name, "given twice");
        }
      }
    }
    for (const std::string& name : names_) {
      const double* value = Find(name);
      if (value == nullptr) return Bad(name, "missing");
      const bool zero_allowed =
          name == "truncate" || name == "begin" || name == "end";
      if (!std::isfinite(static_cast<float>(*value)) || *value < 0 ||
          (*value == 0 && !zero_allowed)) {
        return Bad(name, absl::StrCat("found ", *value, "; allowed: a number ",
                                      "above 0 that float32 holds"));
      }
    }
    if (Find("rotary_dim") == nullptr) return CheckPart();
    const double dim = Get("rotary_dim");
    if (dim > limits::kHiddenSize || dim != std::floor(dim) ||
        static_cast<int64_t>(dim) % 2 != 0) {
      return Bad("rotary_dim",
                 absl::StrCat("found ", dim, "; allowed: an even number up to ",
                              limits::kHiddenSize));
    }
    return absl::OkStatus();
  }

  // After Check only.
  double Get(absl::string_view name) const { return *Find(name); }
  float F32(absl::string_view name) const {
    return static_cast<float>(Get(name));
  }
  int64_t rotary_dim() const { return static_cast<int64_t>(Get("rotary_dim")); }
  absl::Status Bad(absl::string_view name, absl::string_view what) const {
    constexpr size_t kShown = 8;
    const size_t shown = std::min(names_.size(), kShown);
    return absl::InvalidArgumentError(absl::StrCat(
        source_.formula, ": ", name, ": ", what, "; the arguments are ",
        absl::StrJoin(names_.begin(), names_.begin() + shown, ", "),
        shown < names_.size() ? ", ..." : ""));
  }

 private:
  // begin <= end, as whole numbers.
  absl::Status CheckPart() const {
    for (absl::string_view name : {"begin", "end"}) {
      const double n = Get(name);
      if (n != std::floor(n) || n > limits::kTensorBytes) {
        return Bad(name, absl::StrCat("found ", n, "; allowed: whole numbers"));
      }
    }
    if (Get("begin") <= Get("end")) return absl::OkStatus();
    return Bad("end",
               absl::StrCat("found ", Get("end"), "; allowed: from begin ", "(",
                            Get("begin"), ") on"));
  }
  const double* Find(absl::string_view name) const {
    for (const auto& [key, value] : source_.arguments) {
      if (key == name) return &value;
    }
    return nullptr;
  }

  const WeightSource& source_;
  std::vector<std::string> names_;
};

// ---- formulas --------------------------------------------------------------

// base^(2i / dim), rounded to float32 at each step.
std::vector<float> Powers(const Arguments& a) {
  const double log_base = PlainLog(a.F32("base"));
  const float dim = a.F32("rotary_dim");
  std::vector<float> powers(a.rotary_dim() / 2);
  for (size_t i = 0; i < powers.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / dim;
    powers[i] = static_cast<float>(PlainExp(exponent * log_base));
  }
  return powers;
}

absl::StatusOr<std::vector<float>> Default(const Arguments& a) {
  std::vector<float> freqs = Powers(a);
  for (float& f : freqs) f = 1.0f / f;
  return freqs;
}

absl::StatusOr<std::vector<float>> Linear(const Arguments& a) {
  std::vector<float> freqs = Powers(a);
  for (float& f : freqs) f = (1.0f / f) / a.F32("factor");
  return freqs;
}

absl::StatusOr<std::vector<float>> Factors(const Arguments& a) {
  std::vector<float> freqs = Powers(a);
  for (size_t i = 0; i < freqs.size(); ++i) {
    freqs[i] = (1.0f / freqs[i]) / a.F32(absl::StrCat("factor_", i));
  }
  return freqs;
}

absl::StatusOr<std::vector<float>> Llama3(const Arguments& a) {
  const double low = a.Get("low_freq_factor");
  const double high = a.Get("high_freq_factor");
  const double context = a.Get("original_positions");
  if (high <= low) {
    return a.Bad("high_freq_factor", absl::StrCat("found ", high,
                                                  "; allowed: above "
                                                  "low_freq_factor, ",
                                                  low));
  }
  const float factor = a.F32("factor");
  const float longest = static_cast<float>(context / low);
  const float shortest = static_cast<float>(context / high);
  std::vector<float> freqs = Powers(a);
  for (float& f : freqs) {
    f = 1.0f / f;
    const float wavelength = (1.0f / f) * static_cast<float>(2 * kPi);
    if (wavelength > longest) {
      f = f / factor;
    } else if (!(wavelength < shortest)) {
      const float turns = (1.0f / wavelength) * static_cast<float>(context);
      const float smooth =
          (turns - static_cast<float>(low)) / static_cast<float>(high - low);
      f = (1.0f - smooth) * f / factor + smooth * f;
    }
  }
  return freqs;
}

absl::StatusOr<std::vector<float>> Yarn(const Arguments& a) {
  const double dim = a.Get("rotary_dim");
  const double log_base = PlainLog(a.Get("base"));
  if (log_base == 0) {
    return a.Bad("base", "found 1; allowed: any other number above 0");
  }
  // The index whose frequency turns `rotations` times over the context.
  const auto index_of = [&](double rotations) {
    return dim * PlainLog(a.Get("original_positions") / (rotations * 2 * kPi)) /
           (2 * log_base);
  };
  double low = index_of(a.Get("beta_fast"));
  double high = index_of(a.Get("beta_slow"));
  if (a.Get("truncate") != 0) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;  // as published: no division by zero

  const float factor = a.F32("factor");
  std::vector<float> freqs = Powers(a);
  for (size_t i = 0; i < freqs.size(); ++i) {
    const float ramp = std::min(
        1.0f, std::max(0.0f, (static_cast<float>(i) - static_cast<float>(low)) /
                                 static_cast<float>(high - low)));
    const float keep = 1.0f - ramp;
    const float kept = 1.0f / freqs[i];
    const float divided = 1.0f / (factor * freqs[i]);
    freqs[i] = divided * (1.0f - keep) + kept * keep;
  }
  return freqs;
}

// 2^(-8 i / n), i = 1 .. n, of the largest power of two n in `heads`; the other
// heads take the odd steps of 2 n.
absl::StatusOr<std::vector<float>> AlibiSlopes(const Arguments& a) {
  const auto heads = static_cast<int64_t>(a.Get("heads"));
  if (a.Get("heads") != static_cast<double>(heads) || heads > limits::kHeads ||
      a.Get("end") > a.Get("heads")) {
    return a.Bad("heads", absl::StrCat("found ", a.Get("heads"),
                                       "; allowed: a whole number up to ",
                                       limits::kHeads, " and from end on"));
  }
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const auto base = [](int64_t n) {
    return static_cast<float>(
        PlainExp(-8.0 / static_cast<double>(n) * (kLn2High + kLn2Low)));
  };
  std::vector<float> slopes;
  for (auto h = static_cast<int64_t>(a.Get("begin"));
       h < static_cast<int64_t>(a.Get("end")); ++h) {
    const bool first = h < power;
    const double steps =
        static_cast<double>(first ? h + 1 : 2 * (h - power) + 1);
    const float slope = static_cast<float>(
        PlainExp(steps * PlainLog(base(first ? power : 2 * power))));
    slopes.push_back(slope * a.F32("scale"));
  }
  return slopes;
}

absl::StatusOr<std::vector<float>> Ones(const Arguments& a) {
  const double count = a.Get("end") - a.Get("begin");
  if (count > limits::kTensorBytes / 4) {
    return a.Bad("end", absl::StrCat("found ", count, " values; allowed: ",
                                     limits::kTensorBytes / 4));
  }
  return std::vector<float>(static_cast<size_t>(count), 1.0f);
}

struct Formula {
  absl::string_view name;
  absl::Span<const absl::string_view> arguments;
  absl::StatusOr<std::vector<float>> (*evaluate)(const Arguments&);
  bool factors = false;
};
constexpr Formula kFormulas[] = {
    {"rope_freqs", kDefaultArguments, Default},
    {"rope_freqs_factors", kDefaultArguments, Factors, /*factors=*/true},
    {"rope_freqs_linear", kLinearArguments, Linear},
    {"rope_freqs_llama3", kLlama3Arguments, Llama3},
    {"rope_freqs_yarn", kYarnArguments, Yarn},
    {"alibi_slopes", kAlibiArguments, AlibiSlopes},
    {"ones", kPartArguments, Ones},
};

}  // namespace

double PlainLog(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // [0.5, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  // ln m = 2 atanh(s), |s| < 0.172: the term of s^31 is below 1e-24.
  const double s = (m - 1) / (m + 1), s2 = s * s;
  double sum = 0;
  for (int n = 31; n >= 3; n -= 2) sum = (sum + 1.0 / n) * s2;
  return exponent * kLn2High + (exponent * kLn2Low + 2 * (s + s * sum));
}

absl::StatusOr<std::vector<float>> EvaluateFormula(const WeightSource& source) {
  std::vector<absl::string_view> names;
  for (const Formula& formula : kFormulas) {
    names.push_back(formula.name);
    if (formula.name != source.formula) continue;
    const Arguments arguments(source, formula.arguments, formula.factors);
    DS_RETURN_IF_ERROR(arguments.Check());
    return formula.evaluate(arguments);
  }
  const std::string nearest = NearestName(source.formula, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "found formula \"", source.formula,
      "\"; allowed: ", absl::StrJoin(names, ", "),
      nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

}  // namespace deepslice
