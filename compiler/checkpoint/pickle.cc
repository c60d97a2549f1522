#include "compiler/checkpoint/pickle.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/checkpoint/pickle_calls.h"
#include "compiler/checkpoint/pickle_names.h"
#include "compiler/checkpoint/pickle_opcodes.h"
#include "compiler/checkpoint/pickle_operands.h"
#include "compiler/checkpoint/pickle_scalars.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/status_macros.h"

namespace deepslice::pickle {
namespace {

// Python numbers the memo from 0 or 1 on; optimisers leave holes.
constexpr int64_t kMostMemoHole = 65'536;
constexpr int kMostBlobDepth = 4;
constexpr uint8_t kNewestProtocol = 5;

absl::Status Wrong(absl::string_view what, const Value* found) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ", found ", found->Describe()));
}

class Machine {
 public:
  Machine(absl::string_view bytes, size_t begin, Heap& heap, Budget& budget)
      : cursor_(bytes, begin), heap_(heap), budget_(budget) {}

  absl::StatusOr<Pickle> Run() {
    for (;;) {
      const size_t at = cursor_.at();
      const absl::StatusOr<uint8_t> code = cursor_.Number<uint8_t>();
      if (!code.ok()) {
        return absl::DataLossError(
            absl::StrCat("byte ", at,
                         ": no STOP ends the pickle; the file is cut, copy it "
                         "again"));
      }
      const absl::string_view name = OpName(*code);
      if (name.empty()) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "byte %d: 0x%02x is no opcode of a pickle", at, *code));
      }
      if (--budget_.ops < 0) {
        return absl::ResourceExhaustedError(
            absl::StrCat("byte ", at, ": more than ", limits::kPickleOps,
                         " opcodes; so many are read"));
      }
      if (static_cast<Op>(*code) == Op::kSTOP) {
        const absl::StatusOr<Value*> root = Pop();
        if (!root.ok()) return Annotate(root.status(), "byte ", at, ": STOP");
        result_.root = *root;
        result_.end = cursor_.at();
        return std::move(result_);
      }
      if (absl::Status s = Step(static_cast<Op>(*code)); !s.ok()) {
        return Annotate(s, "byte ", at, ": ", name);
      }
    }
  }

 private:
  using Items = absl::Span<const Value* const>;

  absl::Status Step(Op op) {
    switch (op) {
      case Op::kMARK:
        marks_.push_back(stack_.size());
        return absl::OkStatus();
      case Op::kPOP:
        // Python lets it take a mark, too.
        if (!marks_.empty() && marks_.back() == stack_.size()) {
          marks_.pop_back();
          return absl::OkStatus();
        }
        return Pop().status();
      case Op::kPOP_MARK: {
        DS_ASSIGN_OR_RETURN(const size_t count, CountToMark());
        marks_.pop_back();
        stack_.resize(stack_.size() - count);
        return absl::OkStatus();
      }
      case Op::kDUP: {
        DS_ASSIGN_OR_RETURN(Value * top, Top());
        return Push(top);
      }
      case Op::kPROTO: {
        DS_ASSIGN_OR_RETURN(const uint8_t version, cursor_.Number<uint8_t>());
        if (version <= kNewestProtocol) return absl::OkStatus();
        return absl::UnimplementedError(
            absl::StrCat("protocol ", version, "; 0 to ", kNewestProtocol,
                         " are read: save it with an older one"));
      }
      case Op::kFRAME: {
        DS_ASSIGN_OR_RETURN(const uint64_t size, cursor_.Number<uint64_t>());
        if (size <= cursor_.left()) return absl::OkStatus();
        return absl::DataLossError(
            absl::StrCat("has ", size, " bytes, ", cursor_.left(),
                         " follow; the file is cut, copy it again"));
      }
      case Op::kPUT:
      case Op::kBINPUT:
      case Op::kLONG_BINPUT:
      case Op::kMEMOIZE:
      case Op::kGET:
      case Op::kBINGET:
      case Op::kLONG_BINGET:
        return StepMemo(op);
      case Op::kEMPTY_TUPLE:
      case Op::kEMPTY_LIST:
      case Op::kEMPTY_DICT:
      case Op::kEMPTY_SET:
      case Op::kTUPLE:
      case Op::kTUPLE1:
      case Op::kTUPLE2:
      case Op::kTUPLE3:
      case Op::kLIST:
      case Op::kDICT:
      case Op::kFROZENSET:
        return StepContainer(op);
      case Op::kAPPEND:
      case Op::kSETITEM:
        return AddItems(op, op == Op::kAPPEND ? 1 : 2);
      case Op::kAPPENDS:
      case Op::kSETITEMS:
      case Op::kADDITEMS: {
        DS_ASSIGN_OR_RETURN(const size_t count, CountToMark());
        marks_.pop_back();
        return AddItems(op, count);
      }
      case Op::kGLOBAL:
      case Op::kSTACK_GLOBAL:
      case Op::kREDUCE:
      case Op::kNEWOBJ:
      case Op::kNEWOBJ_EX:
      case Op::kBUILD:
      case Op::kBINPERSID:
        return StepObject(op);
      case Op::kINST:
      case Op::kOBJ:
      case Op::kEXT1:
      case Op::kEXT2:
      case Op::kEXT4:
        return Hostile("makes an object in a way that torch.save never does");
      case Op::kPERSID:
      case Op::kNEXT_BUFFER:
      case Op::kREADONLY_BUFFER:
        return absl::InvalidArgumentError(
            "refers to what is not in the file, as torch.save never does");
      default: {
        DS_ASSIGN_OR_RETURN(Value * v, ReadScalar(op, cursor_, heap_));
        if (MayHoldPickles(op)) result_.blobs.push_back(v->bytes());
        return Push(v);
      }
    }
  }

  absl::Status StepMemo(Op op) {
    int64_t index = static_cast<int64_t>(memo_.size());
    if (op == Op::kPUT || op == Op::kGET) {
      DS_ASSIGN_OR_RETURN(const auto line, cursor_.Line());
      if (!absl::SimpleAtoi(line, &index) || index < 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "found ", Quoted(line), "; must be a number of the memo"));
      }
    } else if (op == Op::kBINPUT || op == Op::kBINGET) {
      DS_ASSIGN_OR_RETURN(index, cursor_.Number<uint8_t>());
    } else if (op != Op::kMEMOIZE) {
      DS_ASSIGN_OR_RETURN(index, cursor_.Number<uint32_t>());
    }
    if (op == Op::kGET || op == Op::kBINGET || op == Op::kLONG_BINGET) {
      if (index >= static_cast<int64_t>(memo_.size()) ||
          memo_[index] == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("nothing was put in place ", index, " of the memo"));
      }
      return Push(memo_[index]);
    }
    DS_ASSIGN_OR_RETURN(Value * top, Top());
    if (index >= static_cast<int64_t>(memo_.size())) {
      const int64_t more = index + 1 - static_cast<int64_t>(memo_.size());
      if (more > budget_.memo) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "more than ", limits::kPickleMemo, " places of the memo"));
      }
      if (more > kMostMemoHole) {
        return absl::InvalidArgumentError(
            absl::StrCat("puts in place ", index, " of the memo, and only ",
                         memo_.size(), " are in use"));
      }
      budget_.memo -= more;
      memo_.resize(index + 1, nullptr);
    }
    memo_[index] = top;
    return absl::OkStatus();
  }

  absl::Status StepContainer(Op op) {
    switch (op) {
      case Op::kEMPTY_TUPLE:
        return Push(heap_.Items(Kind::kTuple, {}));
      case Op::kEMPTY_LIST:
        return Push(heap_.Items(Kind::kList, {}));
      case Op::kEMPTY_DICT:
        return Push(heap_.Items(Kind::kDict, {}));
      case Op::kEMPTY_SET:
        return Push(heap_.Items(Kind::kSet, {}));
      case Op::kTUPLE1:
        return PushTopItems(Kind::kTuple, 1);
      case Op::kTUPLE2:
        return PushTopItems(Kind::kTuple, 2);
      case Op::kTUPLE3:
        return PushTopItems(Kind::kTuple, 3);
      default:
        break;
    }
    DS_ASSIGN_OR_RETURN(const size_t count, CountToMark());
    if (op == Op::kDICT && count % 2 != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("found ", count, " items; must be pairs"));
    }
    marks_.pop_back();
    return PushTopItems(op == Op::kTUPLE  ? Kind::kTuple
                        : op == Op::kLIST ? Kind::kList
                        : op == Op::kDICT ? Kind::kDict
                                          : Kind::kSet,
                        count);
  }

  // Takes `count` values from the stack as items of a new container.
  absl::Status PushTopItems(Kind kind, size_t count) {
    DS_RETURN_IF_ERROR(Need(count));
    Value* v = heap_.Items(kind, Tail(count));
    stack_.resize(stack_.size() - count);
    return Push(v);
  }

  // Adds the `count` topmost values to the container below them.
  absl::Status AddItems(Op op, size_t count) {
    DS_RETURN_IF_ERROR(Need(count + 1));
    const bool pairs = op == Op::kSETITEM || op == Op::kSETITEMS;
    if (pairs && count % 2 != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("found ", count, " items; must be pairs"));
    }
    Value* to = stack_[stack_.size() - count - 1];
    const Kind wanted = pairs                 ? Kind::kDict
                        : op == Op::kADDITEMS ? Kind::kSet
                                              : Kind::kList;
    if (to->kind() == Kind::kObject && wanted != Kind::kSet) {
      // Of a class that a dict or a list is the base of.
      const int part = pairs ? kDictPart : kListPart;
      if (to->items()[part]->is_none()) {
        heap_.SetPart(to, part, heap_.Items(wanted, {}));
      }
      Value* items = const_cast<Value*>(to->items()[part]);
      for (const Value* item : Tail(count)) heap_.Append(items, item);
      heap_.SetPart(to, part, items);
    } else if (to->kind() == wanted) {
      for (const Value* item : Tail(count)) heap_.Append(to, item);
    } else {
      return Wrong(absl::StrCat("adds to ", KindName(wanted)), to);
    }
    stack_.resize(stack_.size() - count);
    return CheckDepth(to);
  }

  absl::Status StepObject(Op op) {
    switch (op) {
      case Op::kGLOBAL: {
        DS_ASSIGN_OR_RETURN(const auto module, cursor_.Line());
        DS_ASSIGN_OR_RETURN(const auto name, cursor_.Line());
        DS_ASSIGN_OR_RETURN(const Value* m, TextOfBytes(heap_, module));
        DS_ASSIGN_OR_RETURN(const Value* n, TextOfBytes(heap_, name));
        return PushGlobal(m, n);
      }
      case Op::kSTACK_GLOBAL: {
        DS_ASSIGN_OR_RETURN(const Value* name, Pop());
        DS_ASSIGN_OR_RETURN(const Value* module, Pop());
        for (const Value* v : {module, name}) {
          if (!v->is_text()) return Wrong("must have two texts", v);
        }
        return PushGlobal(module, name);
      }
      case Op::kREDUCE: {
        DS_ASSIGN_OR_RETURN(const Value* args, Pop());
        DS_ASSIGN_OR_RETURN(const Value* callee, Pop());
        return PushCall(callee, args, /*only_class=*/false);
      }
      case Op::kNEWOBJ: {
        DS_ASSIGN_OR_RETURN(const Value* args, Pop());
        DS_ASSIGN_OR_RETURN(const Value* cls, Pop());
        return PushCall(cls, args, /*only_class=*/true);
      }
      case Op::kNEWOBJ_EX: {
        DS_ASSIGN_OR_RETURN(const Value* named, Pop());
        DS_ASSIGN_OR_RETURN(const Value* args, Pop());
        DS_ASSIGN_OR_RETURN(const Value* cls, Pop());
        if (!named->is_dict()) return Wrong("named arguments: a dict", named);
        if (named->items().empty()) {
          return PushCall(cls, args, /*only_class=*/true);
        }
        if (args->kind() != Kind::kTuple) {
          return Wrong("arguments: a tuple", args);
        }
        if (cls->kind() != Kind::kGlobal) return Wrong("a class", cls);
        const Value* both = heap_.Items(Kind::kTuple, {args, named});
        return Push(NewObject(heap_, cls, both));
      }
      case Op::kBINPERSID: {
        DS_ASSIGN_OR_RETURN(const Value* id, Pop());
        DS_ASSIGN_OR_RETURN(Value * v, Persistent(heap_, id));
        if (v->kind() == Kind::kStorage) result_.storages.push_back(v);
        return Push(v);
      }
      default: {  // BUILD
        DS_ASSIGN_OR_RETURN(const Value* state, Pop());
        DS_ASSIGN_OR_RETURN(Value * object, Top());
        return Build(object, state);
      }
    }
  }

  absl::Status PushGlobal(const Value* module, const Value* name) {
    Value* global = heap_.Items(Kind::kGlobal, {module, name});
    if (IsHostileName(module->bytes(), name->bytes())) {
      return Hostile(absl::StrCat("names ", Quoted(global->Name())));
    }
    return Push(global);
  }

  absl::Status PushCall(const Value* callee, const Value* args,
                        bool only_class) {
    if (callee->kind() != Kind::kGlobal &&
        (only_class || callee->kind() != Kind::kObject)) {
      return Wrong(only_class ? "takes a class" : "takes a class or function",
                   callee);
    }
    if (args->kind() != Kind::kTuple) {
      return Wrong("arguments: must be a tuple", args);
    }
    DS_ASSIGN_OR_RETURN(Value * v, Call(heap_, callee, args));
    if (v->kind() == Kind::kBytes) result_.blobs.push_back(v->bytes());
    return Push(v);
  }

  absl::Status Build(Value* object, const Value* state) {
    for (const absl::string_view method :
         {"__setstate__", "__reduce__", "__reduce_ex__", "__class__"}) {
      if (state->Find(method) != nullptr) {
        return Hostile(absl::StrCat("replaces the method ", Quoted(method)));
      }
    }
    if (object->is_dict()) {
      // Attributes of an OrderedDict, as state dicts have (_metadata).
      if (state->is_dict() || state->is_none() ||
          state->kind() == Kind::kTuple) {
        return absl::OkStatus();
      }
      return Wrong("attributes of a dict: must be a dict", state);
    }
    if (object->kind() != Kind::kObject) {
      return Wrong("sets the state of an object", object);
    }
    if (!object->items()[kState]->is_none()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sets the state of ", object->Describe(), " a second time"));
    }
    heap_.SetPart(object, kState, state);
    return CheckDepth(object);
  }

  absl::Status Hostile(absl::string_view what) {
    budget_.hostile = true;
    return absl::InvalidArgumentError(absl::StrCat(
        what,
        "; a checkpoint that runs code is refused: do not load it with "
        "torch either"));
  }

  absl::Status CheckDepth(const Value* v) const {
    if (Heap::depth(v) <= limits::kPickleDepth) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("values stand in each other more than ",
                     limits::kPickleDepth, " deep; so deep is read"));
  }

  absl::Status Push(Value* v) {
    stack_.push_back(v);
    return CheckDepth(v);
  }

  // Values above the last mark; those below it are out of reach.
  size_t Reach() const {
    return stack_.size() - (marks_.empty() ? 0 : marks_.back());
  }
  absl::Status Need(size_t count) const {
    if (Reach() >= count) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("takes ", count, " values, ", Reach(),
                     marks_.empty() ? " are on the stack"
                                    : " are on the stack above the mark"));
  }
  absl::StatusOr<Value*> Top() const {
    DS_RETURN_IF_ERROR(Need(1));
    return stack_.back();
  }
  absl::StatusOr<Value*> Pop() {
    DS_RETURN_IF_ERROR(Need(1));
    Value* v = stack_.back();
    stack_.pop_back();
    return v;
  }
  absl::StatusOr<size_t> CountToMark() const {
    if (marks_.empty()) {
      return absl::InvalidArgumentError("no mark is on the stack");
    }
    return Reach();
  }
  Items Tail(size_t count) const {
    return Items(stack_.data() + stack_.size() - count, count);
  }

  Cursor cursor_;
  Heap& heap_;
  Budget& budget_;
  std::vector<Value*> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  std::vector<Value*> memo_;   // nullptr: nothing was put there
  Pickle result_;
};

}  // namespace

absl::StatusOr<Pickle> ReadPickle(absl::string_view bytes, size_t begin,
                                  Heap& heap, Budget& budget) {
  return Machine(bytes, begin, heap, budget).Run();
}

absl::Status CheckBlobs(const std::vector<absl::string_view>& blobs, Heap& heap,
                        Budget& budget) {
  std::vector<absl::string_view> level = blobs;
  for (int depth = 0; depth < kMostBlobDepth && !level.empty(); ++depth) {
    std::vector<absl::string_view> next;
    for (const absl::string_view blob : level) {
      // Pickles may follow each other.
      for (size_t at = 0; at < blob.size();) {
        absl::StatusOr<Pickle> inner = ReadPickle(blob, at, heap, budget);
        if (budget.hostile) {
          return Annotate(inner.status(), "a pickle inside a string of bytes");
        }
        if (!inner.ok()) break;
        next.insert(next.end(), inner->blobs.begin(), inner->blobs.end());
        at = inner->end;
      }
    }
    level = std::move(next);
  }
  return absl::OkStatus();
}

}  // namespace deepslice::pickle
