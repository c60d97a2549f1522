#include "tools/encode_texts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "schema/base/status_macros.h"
#include "tools/command_line.h"
#include "tools/prompt_file.h"

namespace deepslice {
namespace {

constexpr int64_t kSchemaVersion = 1;

// Whether it begins as a JSON list of strings does; "[MASK] ..." doesn't.
bool IsList(absl::string_view text) {
  text = absl::StripLeadingAsciiWhitespace(text);
  if (!absl::ConsumePrefix(&text, "[")) return false;
  text = absl::StripLeadingAsciiWhitespace(text);
  return absl::StartsWith(text, "\"") || absl::StartsWith(text, "]");
}

// Texts of a file: a JSON list of strings, else lines.
absl::StatusOr<std::vector<std::string>> ReadTexts(const std::string& path) {
  DS_ASSIGN_OR_RETURN(const std::string all, ReadText(path));
  std::vector<std::string> texts;
  if (IsList(all)) {
    const auto list = json::Parse(all);
    if (!list.ok()) return Annotate(list.status(), path);
    for (const json::Value& item : list->items()) {
      if (!item.is_string()) {
        return absl::InvalidArgumentError(absl::StrCat(
            path, ": entry ", texts.size(), " is ", json::KindName(item.kind()),
            "; a list of texts is "
            "needed"));
      }
      texts.push_back(item.as_string());
    }
  } else {
    for (absl::string_view line : absl::StrSplit(all, '\n')) {
      line = absl::StripSuffix(line, "\r");
      if (!line.empty()) texts.emplace_back(line);
    }
  }
  if (texts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds no text; a line for each is needed"));
  }
  return texts;
}

}  // namespace

absl::StatusOr<RunLimits> EncodeWork::Limits(const Plan& plan) {
  if (EncodeProgram(plan) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(options_.plan,
                     ": generates text, it is no encoder; run it without a "
                     "verb, or compile a checkpoint such as BertModel"));
  }
  texts_ = options_.texts_given;
  if (options_.prompt_file.has_value()) {
    DS_ASSIGN_OR_RETURN(texts_, ReadTexts(*options_.prompt_file));
  } else if (texts_.empty() || texts_ == std::vector<std::string>{"-"}) {
    DS_ASSIGN_OR_RETURN(texts_, ReadTexts("-"));
  }
  return RunLimits{.max_batch = static_cast<int64_t>(texts_.size())};
}

absl::StatusOr<EncodeInput> EncodeWork::Encode(const std::string& text,
                                               size_t index, int64_t most,
                                               bool cut) const {
  EncodeInput out;
  DS_ASSIGN_OR_RETURN(out.ids, tokenizer_->Encode(text));
  const auto length = static_cast<int64_t>(out.ids.size());
  if (length <= most) return out;
  if (!cut) {
    return absl::InvalidArgumentError(
        absl::StrCat("text ", index, " has ", length, " tokens; at most ", most,
                     " are allowed; cut it, or give --truncate"));
  }
  // What stands around the text stays.
  DS_ASSIGN_OR_RETURN(
      const std::vector<int32_t> plain,
      tokenizer_->Encode(text, {.add_special = false, .parse_special = true}));
  const auto at =
      std::search(out.ids.begin(), out.ids.end(), plain.begin(), plain.end());
  const int64_t around = length - static_cast<int64_t>(plain.size());
  if (at == out.ids.end() || around >= most) {
    out.ids.resize(most);
  } else {
    const auto end = at + static_cast<int64_t>(plain.size());
    out.ids.erase(end - (length - most), end);
  }
  absl::FPrintF(stderr, "note: text %d has %d tokens; cut to %d\n", index,
                length, most);
  return out;
}

absl::Status EncodeWork::Run(Session& session) {
  std::vector<std::string> outputs;
  const fb::Program& program = *EncodeProgram(session.plan());
  for (const int32_t b : *program.outputs()) {
    outputs.push_back(program.buffers()->Get(b)->name()->str());
  }
  DS_RETURN_IF_ERROR(Annotate(Check(session, outputs), session.folder()));
  DS_ASSIGN_OR_RETURN(tokenizer_, session.tokenizer());
  const fb::EncoderSettings* settings = session.plan().fb().encoder();
  int64_t most = MostEncodeTokens(session.executor());
  // A model that was made for so many cuts its texts by itself.
  const bool cuts = settings != nullptr && settings->max_tokens() > 0 &&
                    settings->max_tokens() <= most;
  if (cuts) most = settings->max_tokens();
  std::vector<EncodeInput> inputs;
  for (const std::string& text : texts_) {
    DS_ASSIGN_OR_RETURN(EncodeInput input, Encode(text, inputs.size(), most,
                                                  cuts || options_.truncate));
    inputs.push_back(std::move(input));
  }
  json::Value document = EncodeDocument(session.plan());
  Head(&document);
  json::Value data = json::Value::Array();
  DS_RETURN_IF_ERROR(EncodeSequences(
      inputs, session.plan().fb(), session.executor(), &session.engine(),
      [&](int i, const std::vector<NamedOutput>& mine) {
        json::Value& entry = data.Add(json::Value::Object());
        entry.Set("index", int64_t{i});
        entry.Set("tokens", static_cast<int64_t>(inputs[i].ids.size()));
        return Add(inputs[i], mine, &entry);
      }));
  document.Set("data", std::move(data));
  return Print(absl::StrCat(json::Write(document, 1), "\n"));
}

json::Value EncodeDocument(const Plan& plan) {
  json::Value document = json::Value::Object();
  document.Set("schema_version", kSchemaVersion);
  document.Set("plan_set_id", plan.fb().plan_set_id()->str());
  const fb::EncoderSettings* settings = plan.fb().encoder();
  if (settings != nullptr && settings->architecture() != nullptr) {
    document.Set("model", settings->architecture()->str());
  }
  return document;
}

absl::Status AddEmbedding(std::vector<float> embedding, bool normalize,
                          json::Value* entry) {
  if (normalize) {
    double sum = 0;
    for (const float x : embedding) sum += static_cast<double>(x) * x;
    if (!(sum > 0) || !std::isfinite(sum)) {
      return absl::InternalError(
          "an embedding is zero, NaN or infinite; the model overflows in this "
          "dtype, try another");
    }
    const double length = std::sqrt(sum);
    for (float& x : embedding) x = static_cast<float>(x / length);
  }
  json::Value& list = entry->Set("embedding", json::Value::Array());
  for (const float x : embedding) list.Add(ShortNumber(x));
  return absl::OkStatus();
}

absl::Status CheckUnitRows(const DsrunOptions& options) {
  if (options.normalize) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--no-normalize: the plan's program makes projections of length 1; leave "
      "the flag out");
}

const NamedOutput* FindOutput(const std::vector<NamedOutput>& outputs,
                              absl::string_view name) {
  for (const NamedOutput& o : outputs) {
    if (o.name == name) return &o;
  }
  return nullptr;
}

json::Value ShortNumber(float x) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(x));
  return json::Value(std::strtod(text, nullptr));
}

void Softmax(std::vector<float>* scores) {
  const float most = *std::max_element(scores->begin(), scores->end());
  double sum = 0;
  for (const float s : *scores) sum += std::exp(static_cast<double>(s) - most);
  for (float& s : *scores) {
    s = static_cast<float>(std::exp(static_cast<double>(s) - most) / sum);
  }
}

void Sigmoid(std::vector<float>* scores) {
  for (float& s : *scores) {
    s = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(s))));
  }
}

std::vector<int64_t> Largest(const std::vector<float>& scores, int64_t count) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto kept = static_cast<size_t>(
      std::min<int64_t>(count, static_cast<int64_t>(order.size())));
  std::partial_sort(order.begin(), order.begin() + kept, order.end(),
                    [&](int64_t a, int64_t b) {
                      return scores[a] != scores[b] ? scores[a] > scores[b]
                                                    : a < b;
                    });
  order.resize(kept);
  return order;
}

}  // namespace deepslice
