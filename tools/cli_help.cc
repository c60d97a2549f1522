#include "tools/cli_help.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tools/flag_aliases.h"

namespace deepslice {
namespace {

// Where the second column begins, and the least that it gets.
constexpr int kColumn = 28;
constexpr int kLeastWidth = 30;

bool IsFlagOption(const CLI::Option& o) { return o.nonpositional(); }

bool IsShown(const CLI::Option& o) { return !o.get_group().empty(); }

// "N" for a whole number, "X" for another, what the option calls it else; ""
// of a switch.
std::string ValueName(const CLI::Option& o) {
  if (o.get_items_expected_max() == 0) return "";
  std::string type = o.get_type_name();
  type = type.substr(0, type.find(':'));  // a check's description
  if (type == "INT" || type == "UINT") return "N";
  if (type == "FLOAT") return "X";
  return type;
}

// Of an argument that is a flag, too.
std::string FlagHelp(const CLI::Option& option) {
  return option.get_positional()
             ? absl::StrCat("The same as ", option.get_name(true))
             : OptionHelp(option);
}

std::string JoinNames(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* o : options) {
    names.push_back(IsFlagOption(*o) ? "--" + LongName(*o) : o->get_name());
  }
  std::sort(names.begin(), names.end());
  return absl::StrJoin(names, ", ");
}

// Words of `text` in lines that begin at `column`; the first line is begun.
std::string Wrap(const std::string& text, int column, int width) {
  std::string out;
  int at = column;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!out.empty()) {
      absl::StrAppend(&out, "\n", std::string(column, ' '));
      at = column;
    }
    bool first = true;
    for (absl::string_view word : absl::StrSplit(line, ' ')) {
      const int length = static_cast<int>(word.size());
      if (!first && at + 1 + length > width) {
        absl::StrAppend(&out, "\n", std::string(column, ' '));
        at = column;
        first = true;
      }
      absl::StrAppend(&out, first ? "" : " ", word);
      at += length + (first ? 0 : 1);
      first = false;
    }
  }
  return out;
}

// A line of two columns, the second wrapped; below each other when the first is
// long.
std::string Row(const std::string& left, const std::string& right, int width) {
  std::string out = absl::StrCat("  ", left);
  if (right.empty()) return out + "\n";
  const int used = static_cast<int>(out.size());
  if (used + 2 > kColumn) {
    absl::StrAppend(&out, "\n", std::string(kColumn, ' '));
  } else {
    out.resize(kColumn, ' ');
  }
  return absl::StrCat(
      out, Wrap(right, kColumn, std::max(width, kColumn + kLeastWidth)), "\n");
}

std::string Usage(const CLI::App& app) {
  std::string usage =
      app.get_parent() == nullptr
          ? app.get_name()
          : absl::StrCat(app.get_parent()->get_name(), " ", app.get_name());
  absl::StrAppend(&usage, " [flags]");
  if (!app.get_subcommands({}).empty()) absl::StrAppend(&usage, " VERB");
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_positional()) {
      absl::StrAppend(&usage, " ",
                      o->get_required()
                          ? o->get_name(/*positional=*/true)
                          : absl::StrCat("[", o->get_name(true), "]"));
    }
  }
  return usage;
}

// Groups in order of their first flag, "flags" for CLI11's own name.
std::vector<std::pair<std::string, std::vector<const CLI::Option*>>> Groups(
    const CLI::App& app) {
  std::vector<std::pair<std::string, std::vector<const CLI::Option*>>> groups;
  for (const CLI::Option* o : app.get_options()) {
    if (!IsFlagOption(*o) || !IsShown(*o)) continue;
    const std::string name =
        o->get_group() == "Options" ? "Flags" : o->get_group();
    const auto found =
        absl::c_find_if(groups, [&](const auto& g) { return g.first == name; });
    if (found == groups.end()) {
      groups.push_back({name, {o}});
    } else {
      found->second.push_back(o);
    }
  }
  return groups;
}

std::string Command(const CLI::App& app) {
  return app.get_parent() == nullptr
             ? app.get_name()
             : absl::StrCat(app.get_parent()->get_name(), " ", app.get_name());
}

}  // namespace

std::string LongName(const CLI::Option& option) {
  return option.get_lnames().empty() ? "" : option.get_lnames()[0];
}

std::vector<std::string> Spellings(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& n : option.get_snames()) names.push_back("-" + n);
  for (const std::string& n : option.get_lnames()) names.push_back("--" + n);
  for (const FlagAlias& a : FlagAliases()) {
    if (absl::c_linear_search(option.get_lnames(), a.flag) &&
        !absl::c_linear_search(names, a.alias)) {
      names.emplace_back(a.alias);
    }
  }
  return names;
}

std::string OptionHelp(const CLI::Option& option) {
  std::string help = option.get_description();
  const std::string initial = option.get_default_str();
  if (!initial.empty() && !absl::StrContains(help, "default")) {
    absl::StrAppend(
        &help, help.empty() ? "" : "; ", "default ",
        absl::StrReplaceAll(initial, {{"[", ""}, {"]", ""}, {"\"", ""}}));
  }
  if (!option.get_needs().empty()) {
    absl::StrAppend(&help, "; needs ", JoinNames(option.get_needs()));
  }
  if (!option.get_excludes().empty()) {
    absl::StrAppend(&help, "; not with ", JoinNames(option.get_excludes()));
  }
  return help;
}

std::string HelpText(const CLI::App& app, int width) {
  std::string out =
      absl::StrCat(app.get_description(), "\n\nusage: ", Usage(app), "\n\n");
  for (const CLI::Option* o : app.get_options()) {
    if (!o->get_positional()) continue;
    absl::StrAppend(&out, Row(o->get_name(true), OptionHelp(*o), width));
  }
  const auto verbs = app.get_subcommands({});
  if (!verbs.empty()) absl::StrAppend(&out, "Verbs\n");
  for (const CLI::App* verb : verbs) {
    if (verb->get_group().empty()) continue;
    absl::StrAppend(&out,
                    Row(verb->get_name(), verb->get_description(), width));
  }
  for (const auto& [name, options] : Groups(app)) {
    absl::StrAppend(&out, "\n", name, "\n");
    for (const CLI::Option* o : options) {
      const std::vector<std::string> names = Spellings(*o);
      const size_t own =
          o->get_snames().size() + std::min<size_t>(1, o->get_lnames().size());
      std::string left = absl::StrJoin(
          names.begin(), names.begin() + std::min(own, names.size()), ", ");
      const std::string value = ValueName(*o);
      if (!value.empty()) absl::StrAppend(&left, " ", value);
      std::string help = FlagHelp(*o);
      if (names.size() > own) {
        absl::StrAppend(&help, " (also ",
                        absl::StrJoin(names.begin() + own, names.end(), ", "),
                        ")");
      }
      absl::StrAppend(&out, Row(left, help, width));
    }
  }
  if (!app.get_footer().empty()) {
    absl::StrAppend(&out, "\n", app.get_footer(), "\n");
  }
  return out;
}

json::Value HelpJson(const CLI::App& app) {
  json::Value v = json::Value::Object();
  v.Set("command", Command(app));
  v.Set("description", app.get_description());
  v.Set("usage", Usage(app));
  json::Value arguments = json::Value::Array();
  for (const CLI::Option* o : app.get_options()) {
    if (!o->get_positional()) continue;
    json::Value row = json::Value::Object();
    row.Set("name", o->get_name(true));
    row.Set("help", OptionHelp(*o));
    arguments.Add(std::move(row));
  }
  v.Set("arguments", std::move(arguments));
  json::Value groups = json::Value::Array();
  for (const auto& [name, options] : Groups(app)) {
    json::Value flags = json::Value::Array();
    for (const CLI::Option* o : options) {
      json::Value names = json::Value::Array();
      for (const std::string& n : Spellings(*o)) names.Add(n);
      json::Value row = json::Value::Object();
      row.Set("names", std::move(names));
      row.Set("value", ValueName(*o));
      row.Set("help", FlagHelp(*o));
      flags.Add(std::move(row));
    }
    json::Value group = json::Value::Object();
    group.Set("name", name);
    group.Set("flags", std::move(flags));
    groups.Add(std::move(group));
  }
  v.Set("groups", std::move(groups));
  json::Value verbs = json::Value::Array();
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_group().empty()) continue;
    json::Value row = json::Value::Object();
    row.Set("name", verb->get_name());
    row.Set("help", verb->get_description());
    verbs.Add(std::move(row));
  }
  v.Set("verbs", std::move(verbs));
  v.Set("footer", app.get_footer());
  return v;
}

std::string VariableOf(const CLI::App& app, const std::string& long_name) {
  const CLI::App* root = &app;
  while (root->get_parent() != nullptr) root = root->get_parent();
  const std::string program =
      root->get_name().substr(0, root->get_name().find(' '));
  return absl::AsciiStrToUpper(
      absl::StrReplaceAll(absl::StrCat(program, "_", long_name), {{"-", "_"}}));
}

}  // namespace deepslice
