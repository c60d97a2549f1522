#include "tools/cli_parse.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/match.h"
#include "schema/base/exit_code.h"
#include "tools/command_line.h"

namespace deepslice {
namespace {

// Long flags of the app and of its subcommands, with dashes.
void AddLongFlags(const CLI::App& app, std::vector<std::string>* names) {
  for (const CLI::Option* o : app.get_options()) {
    for (const std::string& n : o->get_lnames()) names->push_back("--" + n);
  }
  for (const CLI::App* sub : app.get_subcommands({})) {
    AddLongFlags(*sub, names);
  }
}

}  // namespace

int ParseCommandLine(CLI::App& app, const std::vector<std::string>& arguments) {
  try {
    // CLI11 takes them last first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return -1;
  } catch (const CLI::Success& e) {  // --help, --version
    app.exit(e);
    return kExitDone;
  } catch (const CLI::ParseError& e) {
    std::string text = e.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    if (e.get_name() == "ExtrasError") {
      std::vector<std::string> known;
      AddLongFlags(app, &known);
      for (const std::string& a : arguments) {
        const std::string name = a.substr(0, a.find('='));
        if (absl::StartsWith(a, "--") &&
            std::find(known.begin(), known.end(), name) == known.end()) {
          text = UnknownFlag(name, known);
          break;
        }
      }
    }
    std::cerr << app.get_name() << ": " << text << " (see " << app.get_name()
              << " --help)\n";
    return kExitUsage;
  }
}

}  // namespace deepslice
