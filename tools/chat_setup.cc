#include "tools/chat_setup.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/base/file.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

absl::StatusOr<ChatChoice> WithArguments(const DsrunOptions& options,
                                         ChatChoice choice) {
  if (!options.template_args.has_value()) return choice;
  auto parsed = json::Parse(*options.template_args);
  DS_RETURN_IF_ERROR(Annotate(parsed.status(), "--template-args"));
  choice.arguments = *std::move(parsed);
  choice.arguments_label = "--template-args";
  return choice;
}

absl::Status ReadTemplate(const std::string& path, ChatChoice* choice) {
  DS_ASSIGN_OR_RETURN(choice->text, ReadFile(path, limits::kTemplateBytes));
  choice->text_label = path;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ChatChoice> ChatChoiceOf(const Plan& plan,
                                        const DsrunOptions& options) {
  ChatChoice choice;
  if (const auto& wanted = options.chat_template; wanted.has_value()) {
    if (HasChatTemplate(plan, *wanted)) {
      choice.name = *wanted;
    } else if (FileExists(*wanted)) {
      DS_RETURN_IF_ERROR(ReadTemplate(*wanted, &choice));
    } else {
      return absl::NotFoundError(absl::StrCat(
          "--chat-template ", *wanted, ": is no file, and ", options.plan,
          " has no template of that name; it has ", ChatTemplateNames(plan)));
    }
  }
  return WithArguments(options, std::move(choice));
}

absl::StatusOr<ChatChoice> ChatChoiceOfFile(const DsrunOptions& options) {
  ChatChoice choice;
  DS_RETURN_IF_ERROR(ReadTemplate(options.plan, &choice));
  return WithArguments(options, std::move(choice));
}

}  // namespace deepslice
