// A parsed template. Built by the parser, then only read.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_AST_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_AST_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/text/template_value.h"

namespace deepslice {

struct TemplateExpr;
using TemplateExprPtr = std::unique_ptr<TemplateExpr>;

struct TemplateExpr {
  enum class Kind {
    kLiteral,      // literal
    kName,         // name
    kList,         // args
    kTuple,        // args
    kMap,          // args: key, value, key, value, ...
    kAttribute,    // args[0].name
    kIndex,        // args[0][args[1]]
    kSlice,        // args[0][args[1]:args[2]:args[3]], each may be null
    kCall,         // args[0](args[1...], named)
    kFilter,       // args[0] | name(args[1...], named)
    kTest,         // args[0] is name(args[1...])
                   // Of kCall, kFilter and kTest, an argument of kind kSpread
                   // or kNamedSpread stands for many.
    kSpread,       // *args[0]
    kNamedSpread,  // **args[0]
    kNot,          // args[0]
    kNegative,     // args[0]
    kPositive,     // args[0]
    kBinary,       // args[0] name args[1]: + - * / // % ** ~
    kCompare,      // args[0] ops[0] args[1] ops[1] ...: == != < <= > >= in
                   // "not in"
    kAnd,          // args[0], args[1]
    kOr,           // args[0], args[1]
    kConditional,  // args[1] ? args[0] : args[2], which may be null
  };
  Kind kind;
  int line;
  int depth = 1;  // of the tree below
  std::string name;
  TemplateValue literal;
  std::vector<TemplateExprPtr> args;
  std::vector<std::pair<std::string, TemplateExprPtr>> named;
  std::vector<std::string> ops;
};

// The name, impossible in a template, by which a set block's filters read the
// text of its body.
inline constexpr char kTemplateBodyName[] = "(body)";

struct TemplateStatement {
  enum class Kind {
    kText,      // text
    kOutput,    // expr
    kIf,        // branches; the last may have no condition
    kFor,       // target in expr if condition: branches[0].body, else
                // branches[1].body
    kSet,       // target = expr
    kSetBlock,  // target = what branches[0].body writes, through filters of
                // expr
    kFilter,    // what branches[0].body writes, through filters of expr
    kMacro,     // name(parameters): branches[0].body
    kCall,      // the call expr, with branches[0].body of these parameters as
                // its "caller"
    kWith,      // bindings, then branches[0].body
    kBreak,
    kContinue,
  };
  // What is assigned to: a name, name.attribute of a namespace, or targets that
  // take the parts of a value.
  struct Target {
    std::string name;
    std::string attribute;
    std::vector<Target> parts;
    bool unpack = false;
  };
  struct Branch {
    TemplateExprPtr condition;
    std::vector<TemplateStatement> body;
  };
  struct Parameter {
    std::string name;
    TemplateExprPtr fallback;  // null: undefined when not given
  };
  Kind kind;
  int line;
  std::string text;
  std::string name;
  Target target;
  bool recursive = false;     // of a for
  bool reads_loop = false;    // a for whose body names "loop"
  bool reads_caller = false;  // a macro whose body names "caller", ...
  bool reads_kwargs = false;
  bool reads_varargs = false;
  std::vector<std::pair<Target, TemplateExprPtr>> bindings;
  std::vector<Parameter> parameters;
  TemplateExprPtr expr;
  TemplateExprPtr condition;
  std::vector<Branch> branches;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_AST_H_
