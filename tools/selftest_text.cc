#include "tools/selftest_text.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/text/chat_encode.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_vectors.h"
#include "schema/base/json.h"
#include "schema/base/status_macros.h"
#include "schema/plan_format.h"

namespace deepslice {

namespace {

// How many conversations were rendered, and encoded, as the plan says.
absl::StatusOr<int> TestTemplate(const fb::Plan& plan,
                                 absl::string_view tokenizer) {
  DS_ASSIGN_OR_RETURN(const auto chat, ChatTemplate::Parse(absl::string_view(
                                           plan.chat_template()->data(),
                                           plan.chat_template()->size())));
  std::unique_ptr<Tokenizer> encoder;
  if (!tokenizer.empty()) {
    DS_ASSIGN_OR_RETURN(encoder, Tokenizer::Load(tokenizer));
  }
  RenderOptions options;
  options.now = absl::FromUnixSeconds(kRenderTestTime);
  if (plan.template_tokens() != nullptr) {
    for (const fb::NamedText* t : *plan.template_tokens()) {
      options.tokens.emplace_back(t->name()->str(), t->text()->str());
    }
  }
  int count = 0;
  for (const fb::RenderTest* test : *plan.render_tests()) {
    const std::string where = absl::StrCat("conversation ", count++);
    DS_ASSIGN_OR_RETURN(const json::Value messages,
                        json::Parse(test->messages()->str()));
    const auto pieces = chat->RenderJson(messages, options);
    DS_RETURN_IF_ERROR(Annotate(pieces.status(), where));
    std::string text;
    for (const RenderedPiece& p : *pieces) text += p.text;
    if (text != test->text()->str()) {
      return absl::InternalError(absl::StrCat(
          where, " is rendered as \"", absl::CHexEscape(text.substr(0, 200)),
          "\", the plan says \"",
          absl::CHexEscape(test->text()->str().substr(0, 200)), "\""));
    }
    if (test->ids() == nullptr || encoder == nullptr) continue;
    const auto ids = EncodeChat(*encoder, *pieces);
    DS_RETURN_IF_ERROR(Annotate(ids.status(), where));
    if (!std::equal(ids->begin(), ids->end(), test->ids()->begin(),
                    test->ids()->end())) {
      return absl::InternalError(
          absl::StrCat(where, " is encoded as other ids than the plan's"));
    }
  }
  return count;
}

void TestChat(const fb::Plan& plan, absl::string_view tokenizer,
              SelftestReport* report) {
  if (plan.chat_template() == nullptr || plan.chat_template()->size() == 0) {
    report->Skip("chat template", "the plan has none");
  } else if (plan.render_tests() == nullptr ||
             plan.render_tests()->size() == 0) {
    report->Skip("chat template", "the plan has no rendered conversations");
  } else {
    const absl::StatusOr<int> count = TestTemplate(plan, tokenizer);
    report->Add("chat template",
                absl::StrCat(count.value_or(0),
                             " conversations give the plan's text and ids"),
                count.status());
  }
}

}  // namespace

void TestText(const fb::Plan& plan, SelftestReport* report) {
  const auto* bytes = plan.tokenizer();
  if (bytes == nullptr || bytes->size() == 0) {
    report->Skip("tokenizer", "the plan has none");
    return TestChat(plan, "", report);
  }
  const absl::string_view tables(reinterpret_cast<const char*>(bytes->data()),
                                 bytes->size());
  int checked = 0;
  const absl::Status status = CheckTokenizerVectors(tables, &checked);
  if (status.ok() && checked == 0) {
    report->Skip("tokenizer", "the plan has no texts to encode");
  } else {
    report->Add("tokenizer",
                absl::StrCat(checked, " texts give the plan's ids"), status);
  }
  TestChat(plan, tables, report);
}

}  // namespace deepslice
