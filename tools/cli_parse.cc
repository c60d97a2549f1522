#include "tools/cli_parse.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schema/base/exit_code.h"
#include "schema/base/file.h"
#include "schema/base/nearest.h"
#include "schema/base/status_macros.h"
#include "tools/cli_environment.h"
#include "tools/cli_help.h"
#include "tools/command_line.h"
#include "tools/flag_aliases.h"
#include "tools/foreign_words.h"

namespace deepslice {
namespace {

// Prints the help as data, for tools/commands_doc.py; in no help text.
constexpr absl::string_view kHelpJsonFlag = "--help-json";

bool IsFlag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && word != "--";
}

// Long flags of the app and of the verb that was given, with dashes, and what
// others call them.
void AddLongFlags(const CLI::App& app, std::vector<std::string>* names) {
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_group().empty()) continue;
    for (const std::string& n : Spellings(*o)) {
      if (absl::StartsWith(n, "--")) names->push_back(n);
    }
  }
  for (const CLI::App* verb : app.get_subcommands()) AddLongFlags(*verb, names);
}

// The app that a help flag among `arguments` asks about: the verb's that comes
// first, where there is one.
const CLI::App& AppOf(const CLI::App& app,
                      const std::vector<std::string>& arguments) {
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (!arguments.empty() && verb->get_name() == arguments[0]) return *verb;
  }
  return app;
}

bool HasFlag(const CLI::App& app, const std::string& name) {
  return absl::c_any_of(app.get_options(), [&](const CLI::Option* o) {
    return absl::c_linear_search(o->get_lnames(), name);
  });
}

std::string UnknownVerb(const std::string& word, const std::string& nearest) {
  return absl::StrCat(
      "unknown verb \"", word, "\"",
      nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"));
}

// A flag of another program among `arguments`, and how it is done here; "" when
// there is none. One dash and letters, "-ngl", would read as flags of a letter.
std::string ForeignFlag(const CLI::App& app,
                        const std::vector<std::string>& arguments) {
  for (const std::string& word : arguments) {
    if (word == "--") break;
    const absl::string_view answer = AnswerToFlag(word);
    if (answer.empty()) continue;
    const std::string name = word.substr(0, word.find('='));
    if (HasFlag(app, name.substr(name.find_first_not_of('-')))) continue;
    return absl::StrCat("unknown flag ", name, "; ", answer);
  }
  return "";
}

bool Exists(const std::string& path) {
  return FileExists(path) || DirectoryExists(path);
}

// Why a command without verbs of its own (they are `verbs`) can't take a second
// argument: the first was meant as a verb, or the second was.
std::string TooMany(const std::string& first, const std::string& second,
                    const std::vector<std::string>& verbs) {
  const std::string unexpected =
      absl::StrCat("unexpected argument \"", second, "\"");
  if (verbs.empty() || IsFlag(first)) return unexpected;
  const absl::string_view answer = AnswerToVerb(first);
  if (!answer.empty()) {
    return absl::StrCat(UnknownVerb(first, ""), "; ", answer);
  }
  const std::string nearest = NearestName(first, verbs);
  if (!nearest.empty()) return UnknownVerb(first, nearest);
  if (absl::c_linear_search(verbs, second)) {
    return absl::StrCat(unexpected, "; a verb comes first");
  }
  const absl::string_view of_second = AnswerToVerb(second);
  if (!of_second.empty()) return absl::StrCat(unexpected, "; ", of_second);
  if (!Exists(first) && Exists(second)) {
    return absl::StrCat(UnknownVerb(first, ""), "; allowed are ",
                        absl::StrJoin(verbs, ", "));
  }
  return unexpected;
}

// CLI11's words, but for an argument that is also a flag: it would be called by
// the flag's name.
std::string Missing(const CLI::App& app, const CLI::ParseError& e) {
  if (dynamic_cast<const CLI::RequiredError*>(&e) == nullptr) return e.what();
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_required() && o->get_positional() && o->count() == 0) {
      return absl::StrCat(o->get_name(/*positional=*/true), " is required");
    }
  }
  return e.what();
}

// What is wrong, without the pointer to --help.
std::string Explain(const CLI::App& app, const std::string& first,
                    const CommandLineHints& hints, const CLI::ParseError& e) {
  // A misspelt word before the missing thing explains it better.
  std::vector<std::string> extras = app.remaining(/*recurse=*/true);
  extras.erase(std::remove(extras.begin(), extras.end(), "--"), extras.end());
  for (const std::string& extra : extras) {
    if (!IsFlag(extra)) continue;
    std::vector<std::string> known = hints.flags;
    AddLongFlags(app, &known);
    // Behind `--` a flag is an argument like any other.
    if (absl::c_linear_search(known, extra)) break;
    return UnknownFlag(extra, known);
  }
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) {
    verbs.push_back(verb->get_name());
  }
  if (!verbs.empty() && app.get_subcommands().empty()) {
    return extras.empty()
               ? absl::StrCat("a verb is missing: ", absl::StrJoin(verbs, ", "))
               : UnknownVerb(extras[0], NearestName(extras[0], verbs));
  }
  if (extras.empty()) return Missing(app, e);
  return TooMany(first, extras[0], hints.verbs);
}

}  // namespace

absl::StatusOr<bool> ReadCommandLine(CLI::App& app,
                                     std::vector<std::string> arguments,
                                     const CommandLineHints& hints) {
  const std::string first = arguments.empty() ? "" : arguments[0];
  const CLI::App& named = AppOf(app, arguments);
  const std::vector<std::string> typed = arguments;
  if (absl::c_linear_search(arguments, kHelpJsonFlag)) {
    DS_RETURN_IF_ERROR(Print(json::Write(HelpJson(named), 1) + "\n"));
    return false;
  }
  ReplaceAliases([&](const std::string& name) { return HasFlag(named, name); },
                 &arguments);
  DS_ASSIGN_OR_RETURN(const std::vector<std::string> variables,
                      AddFromEnvironment(named, std::getenv, &arguments));
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    app.parse(arguments);
    return true;
  } catch (const CLI::CallForHelp&) {
    DS_RETURN_IF_ERROR(Print(HelpText(named)));
    return false;
  } catch (const CLI::Success& e) {  // --version
    std::ostringstream text;
    app.exit(e, text, text);
    DS_RETURN_IF_ERROR(Print(text.str()));
    return false;
  } catch (const CLI::ParseError& e) {
    std::string what = ForeignFlag(named, typed);
    if (what.empty()) what = Explain(app, first, hints, e);
    for (const std::string& variable : variables) {
      absl::StrAppend(&what, &variable == &variables[0] ? " (with " : ", ",
                      variable);
    }
    if (!variables.empty()) absl::StrAppend(&what, " from the environment)");
    if (absl::EndsWith(what, "?")) return absl::InvalidArgumentError(what);
    return absl::InvalidArgumentError(
        absl::StrCat(what, "; see ", app.get_name(), " --help"));
  }
}

int ParseCommandLine(CLI::App& app, std::vector<std::string> arguments) {
  const auto go_on = ReadCommandLine(app, std::move(arguments));
  if (go_on.ok()) return *go_on ? -1 : kExitDone;
  PrintError(app.get_name(), go_on.status());
  return UsageExitCode(go_on.status());
}

int UsageExitCode(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? kExitUsage : ExitCodeOf(status);
}

void AddVerbosityFlags(CLI::App& app, Verbosity* verbosity) {
  auto* quiet = app.add_flag("-q,--quiet", verbosity->quiet,
                             "Errors alone on stderr: no notes, no progress");
  app.add_flag("-v,--verbose", verbosity->verbose, "Say more on stderr")
      ->excludes(quiet);
  app.add_flag_callback(
      "--no-progress", [verbosity] { verbosity->progress = false; },
      "No line of bytes, rate and time left (else one on a terminal, and one "
      "every 10 s elsewhere)");
}

CLI::Validator WholeNumber(uint64_t low, uint64_t high) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        uint64_t value;
        if (absl::SimpleAtoi(text, &value) && value >= low && value <= high) {
          text = absl::StrCat(value);
          return "";
        }
        return absl::StrCat("found \"", text,
                            "\"; allowed are whole numbers from ", low, " to ",
                            high);
      },
      "");
}

CLI::Validator RealNumber(double low, double high) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        double value;
        if (absl::SimpleAtod(text, &value) && std::isfinite(value) &&
            value >= low && value <= high) {
          text = absl::StrFormat("%.17g", value);
          return "";
        }
        return absl::StrCat("found \"", text, "\"; allowed are numbers from ",
                            low, " to ", high);
      },
      "");
}

}  // namespace deepslice
