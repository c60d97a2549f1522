#include "compiler/checkpoint/pickle_names.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_split.h"

namespace deepslice::pickle {
namespace {

// Refused as any part of a dotted name: protocol 4 looks attributes up.
constexpr absl::string_view kAnywhere[] = {"os",
                                           "posix",
                                           "nt",
                                           "subprocess",
                                           "sys",
                                           "importlib",
                                           "runpy",
                                           "builtins",
                                           "__builtin__",
                                           "__builtins__",
                                           "_posixsubprocess",
                                           "__import__",
                                           "__globals__",
                                           "__subclasses__"};

// Refused as a module; parts of other modules have such names too.
constexpr absl::string_view kModules[] = {
    "_pickle", "_thread", "bdb",    "codeop", "commands",  "ctypes",  "dill",
    "imp",     "marshal", "pdb",    "pickle", "pip",       "pkgutil", "popen2",
    "pty",     "shutil",  "socket", "timeit", "webbrowser"};

// Types of builtins that hold data.
constexpr absl::string_view kDataTypes[] = {
    "bool",      "bytearray", "bytes", "complex", "dict",   "float",
    "frozenset", "int",       "list",  "long",    "object", "range",
    "set",       "slice",     "str",   "tuple",   "unicode"};

// Functions of other modules that give code a way in.
struct Function {
  absl::string_view module, name;
};
constexpr Function kFunctions[] = {
    {"code", "InteractiveInterpreter"},
    {"code", "interact"},
    {"operator", "attrgetter"},
    {"operator", "methodcaller"},
    {"types", "CodeType"},
    {"types", "FunctionType"},
    {"torch", "load"},
    {"torch.serialization", "load"},
    {"torch.storage", "_load_from_bytes"},
    {"torch.hub", "load"},
    {"numpy", "load"},
    {"pydoc", "locate"},
    {"numpy.testing._private.utils", "runstring"}};

template <typename Table>
bool Has(const Table& table, absl::string_view name) {
  return std::find(std::begin(table), std::end(table), name) != std::end(table);
}

}  // namespace

bool IsHostileName(absl::string_view module, absl::string_view name) {
  if (module == "builtins" || module == "__builtin__") {
    return !Has(kDataTypes, name);
  }
  for (const absl::string_view dotted : {module, name}) {
    for (const absl::string_view part : absl::StrSplit(dotted, '.')) {
      if (Has(kAnywhere, part)) return true;
    }
  }
  if (Has(kModules, module.substr(0, module.find('.')))) return true;
  return std::any_of(
      std::begin(kFunctions), std::end(kFunctions),
      [&](const Function& f) { return f.module == module && f.name == name; });
}

}  // namespace deepslice::pickle
