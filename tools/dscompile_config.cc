#include "tools/dscompile_config.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "compiler/dtype_option.h"
#include "compiler/injection.h"
#include "schema/base/exit_code.h"
#include "schema/base/file.h"
#include "tools/cli_parse.h"
#include "tools/command_line.h"

namespace deepslice {
namespace {

bool Exists(const std::string& path) {
  return FileExists(path) || DirectoryExists(path);
}

// Where a path of the configuration leads.
std::string Resolved(const DeepSpeedConfig& config,
                     const DeepSpeedSetting& setting) {
  const std::string& path = setting.value;
  if (setting.flag == "output" || absl::StartsWith(path, "/") || Exists(path) ||
      (config.holds_checkpoint && path == config.path)) {
    return path;
  }
  const std::string beside = JoinPath(Dirname(config.path), path);
  return Exists(beside) ? beside : path;
}

std::string Canonical(const std::string& path) {
  std::error_code error;
  std::filesystem::path out = std::filesystem::weakly_canonical(path, error);
  if (error) return path;
  if (!out.has_filename()) out = out.parent_path();  // "plan/"
  return out.string();
}

std::string TypeName(const std::string& dtype) {
  if (absl::EqualsIgnoreCase(dtype, "auto")) return "auto";
  const auto choice = ChooseStorage(dtype, DType::kBF16);
  return choice.ok() ? std::string(StorageName(*choice)) : dtype;
}

std::vector<std::string> SortedNames(const std::string& injection) {
  const auto parsed = ParseInjection(injection);
  if (!parsed.ok()) return {injection};
  std::vector<std::string> names = parsed->suffixes;
  std::sort(names.begin(), names.end());
  return names;
}

bool Same(const DeepSpeedConfig& config, const DeepSpeedSetting& setting,
          const std::string& typed) {
  switch (setting.kind) {
    case KeyValue::kCount: {
      int64_t a, b;
      return absl::SimpleAtoi(typed, &a) &&
             absl::SimpleAtoi(setting.value, &b) && a == b;
    }
    case KeyValue::kDtype:
      return TypeName(typed) == TypeName(setting.value);
    case KeyValue::kInjection:
      return SortedNames(typed) == SortedNames(setting.value);
    default:
      return Canonical(typed) == Canonical(Resolved(config, setting));
  }
}

std::string FlagName(const DeepSpeedSetting& setting) {
  return setting.flag == "model" ? "SRC" : "--" + setting.flag;
}

}  // namespace

std::string TypedValue(const CLI::App& app, const std::string& flag) {
  const CLI::Option* option = app.get_option_no_throw("--" + flag);
  return option == nullptr || option->count() == 0 ? ""
                                                   : option->results().back();
}

absl::Status CheckConflicts(const DeepSpeedConfig& config,
                            const CLI::App& app) {
  for (const DeepSpeedSetting& s : config.settings) {
    if (s.use != KeyUse::kFlag) continue;
    const std::string typed = TypedValue(app, s.flag);
    if (typed.empty() || Same(config, s, typed)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "conflicting argument: ", FlagName(s), " is ", typed, ", and ", s.key,
        " in ", config.path, " is ",
        s.flag == "model" && config.holds_checkpoint ? "a list of files"
                                                     : s.value,
        "; give one of them, or both the same"));
  }
  return absl::OkStatus();
}

absl::Status ApplyConfig(const DeepSpeedConfig& config, CLI::App& app) {
  for (const DeepSpeedSetting& s : config.settings) {
    if (s.use != KeyUse::kFlag || !TypedValue(app, s.flag).empty()) continue;
    CLI::Option* option = app.get_option("--" + s.flag);
    const bool path =
        s.kind == KeyValue::kPath || s.kind == KeyValue::kCheckpoint;
    try {
      option->add_result(path ? Resolved(config, s) : s.value);
      option->run_callback();
    } catch (const CLI::Error& e) {
      const std::string what = e.what();
      return absl::InvalidArgumentError(
          absl::StrCat(config.path, ": ", s.key, ": ",
                       absl::StripPrefix(what, FlagName(s) + ": ")));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> ConfigNotes(const DeepSpeedConfig& config,
                                     const CLI::App& app) {
  std::vector<std::string> notes = config.notes;
  if (TypedValue(app, "dtype").empty() && config.Find("dtype") == nullptr) {
    notes.push_back(
        absl::StrCat(config.path,
                     ": has no dtype: weights keep the checkpoint's type; "
                     "DeepSpeed's default is fp16, here --dtype fp16"));
  }
  for (const DeepSpeedSetting& s : config.settings) {
    if (s.use != KeyUse::kRunFlag || s.value == "1") continue;
    notes.push_back(absl::StrCat(config.path, ": ", s.key,
                                 ": is of the run: dsrun --", s.flag, " ",
                                 s.value));
  }
  return notes;
}

int RunDeepSpeedKeys(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Prints the keys of DeepSpeed's inference configuration that --config "
      "reads, and what becomes of each",
      "dscompile deepspeed-keys");
  bool as_json = false, as_markdown = false;
  auto* json = app.add_flag("--json", as_json, "for programs");
  app.add_flag("--markdown", as_markdown, "as compiler/DEEPSPEED.md has them")
      ->excludes(json);
  if (const int code = ParseCommandLine(app, arguments); code >= 0) {
    return code;
  }
  if (const absl::Status printed = Print(as_json       ? DeepSpeedKeysJson()
                                         : as_markdown ? DeepSpeedKeysMarkdown()
                                                       : DeepSpeedKeysText());
      !printed.ok()) {
    PrintError("dscompile", printed);
    return ExitCodeOf(printed);
  }
  return kExitDone;
}

}  // namespace deepslice
