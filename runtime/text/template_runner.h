// The template interpreter: what runs a parsed template once.
#ifndef DEEPSLICE_RUNTIME_TEXT_TEMPLATE_RUNNER_H_
#define DEEPSLICE_RUNTIME_TEXT_TEMPLATE_RUNNER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/text/template_ast.h"
#include "runtime/text/template_functions.h"
#include "runtime/text/template_loop.h"
#include "runtime/text/template_value.h"
#include "schema/base/limits.h"

namespace deepslice {

// Statements are in template_statements.cc, expressions in
// template_expressions.cc, calls in template_calls.cc. All errors: with the
// line; see ChatTemplate::Render.
class TemplateRunner {
 public:
  TemplateRunner(const TemplateValue::Map& variables, absl::Time now);
  absl::StatusOr<MarkedText> Run(
      const std::vector<TemplateStatement>& statements);

 private:
  using Value = TemplateValue;
  using ValueOr = absl::StatusOr<TemplateValue>;
  using Expr = TemplateExpr;
  using Statement = TemplateStatement;
  // How a statement ended.
  enum class Flow { kNext, kBreak, kContinue };
  // The names of a part of a template; that of a macro has the one of its
  // definition as parent, so it sees what stands there when it is called.
  struct Scope {
    Scope* parent = nullptr;
    std::vector<std::pair<std::string, Value>> names;

    void Set(absl::string_view name, Value v) {
      for (auto& entry : names) {
        if (entry.first == name) {
          entry.second = std::move(v);
          return;
        }
      }
      names.emplace_back(std::string(name), std::move(v));
    }
  };
  // Counts how deep walks are nested.
  class Depth {
   public:
    explicit Depth(int* depth) : depth_(depth) { ++*depth_; }
    ~Depth() { --*depth_; }

   private:
    int* depth_;
  };
  // A recursive for that runs.
  struct ActiveLoop {
    const TemplateLoop* loop;
    const Statement* statement;
    Scope* scope;
  };

  // The error with its line, but for what raise_exception says.
  static absl::Status At(int line, const absl::Status& status);
  static absl::Status Error(int line, absl::string_view what);
  static ValueOr Located(int line, ValueOr v);
  // One step more; an error when there are too many, or too deep ones.
  absl::Status Enter(int line);
  absl::Status Write(int line, const MarkedText& text);
  // The value of a name, or undefined.
  ValueOr Lookup(const Scope& scope, absl::string_view name);
  absl::StatusOr<Flow> Body(const std::vector<Statement>& body, Scope& scope);
  absl::StatusOr<Flow> Step(const Statement& s, Scope& scope);
  // What `body` writes; *flow says how it ended.
  absl::StatusOr<MarkedText> Capture(const std::vector<Statement>& body,
                                     Scope& inner, Flow* flow);
  // A set block or a filter block.
  absl::StatusOr<Flow> Filtered(const Statement& s, Scope& scope);
  // The body of the block is a macro that the callee knows as "caller".
  absl::Status CallBlock(const Statement& s, Scope& scope);
  absl::StatusOr<Flow> With(const Statement& s, Scope& scope);
  // Macros can't be called after the scope of their definition is gone.
  void ForgetMacros(const Scope* scope);
  // Gives a target its value.
  absl::Status Bind(int line, const Statement::Target& target, Value v,
                    Scope& scope);
  absl::Status SetAttribute(int line, const Statement::Target& target, Value v,
                            Scope& scope);
  absl::StatusOr<Flow> For(const Statement& s, Scope& scope);
  // The passes of a for over these items, and its else.
  absl::StatusOr<Flow> Passes(const Statement& s, Scope& scope,
                              const Value& over, int64_t depth0);
  absl::StatusOr<Flow> Walk(const Statement& s, Scope& scope,
                            const std::shared_ptr<TemplateLoop>& loop);
  ValueOr Eval(const Expr& e, Scope& scope);
  absl::StatusOr<Value::List> EvalAll(const std::vector<TemplateExprPtr>& args,
                                      size_t first, Scope& scope);
  ValueOr MapLiteral(const Expr& e, Scope& scope);
  ValueOr Index(const Expr& e, Scope& scope);
  ValueOr Slice(const Expr& e, Scope& scope);
  ValueOr Compare(const Expr& e, Scope& scope);
  // args[1...] and named of a call, filter or test.
  absl::StatusOr<TemplateArgs> Arguments(const Expr& e, Scope& scope);
  // `caller`: the body of a call block, nullptr in an expression.
  ValueOr CallAny(const Expr& e, Scope& scope, const Value* caller);
  ValueOr CallMacro(int line, const Statement& macro, TemplateArgs args);
  // kwargs and varargs, or an error when there are arguments that no parameter
  // took.
  absl::Status ExtraArguments(int line, const Statement& macro,
                              const TemplateArgs& args,
                              const std::vector<absl::string_view>& taken,
                              Scope* scope);
  // loop(items) of a recursive for: what the for writes over these items.
  ValueOr Recurse(int line, const TemplateLoop& loop, const TemplateArgs& args);

  static constexpr size_t kOutputBytes =
      static_cast<size_t>(limits::kTemplateOutputBytes);

  const absl::Time now_;
  TemplateMeter meter_;
  Scope globals_;
  MarkedText out_;
  int depth_ = 0;
  std::vector<std::pair<const Statement*, Scope*>> macro_scopes_;
  std::vector<ActiveLoop> active_loops_;
};

}  // namespace deepslice

#endif  // DEEPSLICE_RUNTIME_TEXT_TEMPLATE_RUNNER_H_
