#include "compiler/checkpoint/pickle_value.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/checkpoint/untrusted_text.h"
#include "schema/base/check.h"

namespace deepslice::pickle {
namespace {

constexpr size_t kChunkBytes = 256 << 10;

// Of a dict's items, the value of the last key that is `key`.
const Value* FindIn(absl::Span<const Value* const> items,
                    absl::string_view key) {
  for (size_t i = items.size(); i >= 2; i -= 2) {
    if (items[i - 2]->is_text() && items[i - 2]->bytes() == key) {
      return items[i - 1];
    }
  }
  return nullptr;
}

// Room for items: the next power of two, which the size alone tells.
size_t RoomFor(size_t size) {
  size_t room = size == 0 ? 0 : 1;
  while (room < size) room *= 2;
  return room;
}

}  // namespace

absl::string_view KindName(Kind kind) {
  constexpr absl::string_view kNames[] = {
      "None",  "a bool", "an integer", "a long integer", "a float",
      "text",  "bytes",  "a list",     "a tuple",        "a dict",
      "a set", "a name", "an object",  "a storage",      "a tensor"};
  return kNames[static_cast<int>(kind)];
}

const Value* Value::AsDict() const {
  if (is_dict()) return this;
  if (kind_ != Kind::kObject || !items()[kDictPart]->is_dict()) return nullptr;
  return items()[kDictPart];
}

const Value* Value::Find(absl::string_view key) const {
  if (kind_ == Kind::kDict) return FindIn(items(), key);
  if (kind_ == Kind::kObject && items()[kDictPart]->is_dict()) {
    return FindIn(items()[kDictPart]->items(), key);
  }
  return nullptr;
}

const Value* Value::Attribute(absl::string_view name) const {
  if (kind_ != Kind::kObject) return nullptr;
  const Value* state = items()[kState];
  if (state->is_dict()) return state->Find(name);
  if (state->kind() != Kind::kTuple) return nullptr;
  // (attributes, slots): either may be None.
  for (const Value* part : state->items()) {
    const Value* found = part->is_dict() ? part->Find(name) : nullptr;
    if (found != nullptr) return found;
  }
  return nullptr;
}

std::string Value::Name() const {
  if (kind_ == Kind::kObject) return items()[kClass]->Name();
  if (kind_ != Kind::kGlobal) return "";
  return absl::StrCat(items()[0]->bytes(), ".", items()[1]->bytes());
}

bool Value::IsGlobal(absl::string_view module, absl::string_view name) const {
  return kind_ == Kind::kGlobal && items()[0]->bytes() == module &&
         items()[1]->bytes() == name;
}

std::string Value::Describe() const {
  switch (kind_) {
    case Kind::kBool:
      return as_bool() ? "True" : "False";
    case Kind::kInt:
      return absl::StrCat(as_int());
    case Kind::kFloat:
      return absl::StrFormat("%g", as_float());
    case Kind::kText:
      return Quoted(bytes());
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kSet:
      return absl::StrCat(KindName(kind_), " of ", size_);
    case Kind::kDict:
      return absl::StrCat(KindName(kind_), " of ", size_ / 2);
    case Kind::kGlobal:
      return absl::StrCat("the name ", Quoted(Name()));
    case Kind::kObject:
      return absl::StrCat("an object of ", Quoted(Name()));
    default:
      return std::string(KindName(kind_));
  }
}

void* Heap::Allocate(size_t bytes) {
  bytes = (bytes + 7) / 8 * 8;
  if (bytes > left_) {
    // Large pieces get a chunk of their own, and the last one stays in use.
    const bool own = bytes > kChunkBytes / 4;
    const size_t size = own ? bytes : kChunkBytes;
    chunks_.push_back(std::unique_ptr<char[]>(new char[size]));
    if (own) return chunks_.back().get();
    free_ = chunks_.back().get();
    left_ = size;
  }
  void* out = free_;
  free_ += bytes;
  left_ -= bytes;
  return out;
}

Value* Heap::New(Kind kind) {
  Value* v = new (Allocate(sizeof(Value))) Value();
  v->kind_ = kind;
  return v;
}

Value* Heap::Bool(bool b) {
  Value* v = New(Kind::kBool);
  v->int_ = b;
  return v;
}

Value* Heap::Int(int64_t n) {
  Value* v = New(Kind::kInt);
  v->int_ = n;
  return v;
}

Value* Heap::Float(double f) {
  Value* v = New(Kind::kFloat);
  v->float_ = f;
  return v;
}

Value* Heap::Text(Kind kind, absl::string_view bytes) {
  DS_CHECK(bytes.size() <= UINT32_MAX);
  Value* v = New(kind);
  v->text_ = bytes.data();
  v->size_ = static_cast<uint32_t>(bytes.size());
  return v;
}

absl::string_view Heap::Copy(absl::string_view bytes) {
  if (bytes.empty()) return {};
  char* to = static_cast<char*>(Allocate(bytes.size()));
  std::memcpy(to, bytes.data(), bytes.size());
  return {to, bytes.size()};
}

Value* Heap::Items(Kind kind, absl::Span<const Value* const> items) {
  Value* v = New(kind);
  // Only lists, dicts and sets grow.
  const bool grows =
      kind == Kind::kList || kind == Kind::kDict || kind == Kind::kSet;
  const size_t room = grows ? RoomFor(items.size()) : items.size();
  v->items_ =
      room == 0
          ? nullptr
          : static_cast<const Value**>(Allocate(room * sizeof(const Value*)));
  std::copy(items.begin(), items.end(), v->items_);
  v->size_ = static_cast<uint32_t>(items.size());
  int below = 0;
  for (const Value* item : items) below = std::max<int>(below, item->depth_);
  v->depth_ = static_cast<uint8_t>(std::min(below + 1, 255));
  return v;
}

Value* Heap::Tensor(TensorForm form, absl::Span<const Value* const> items) {
  Value* v = Items(Kind::kTensor, items);
  v->extra_ = static_cast<uint8_t>(form);
  return v;
}

void Heap::Append(Value* to, const Value* item) {
  if (to->size_ == RoomFor(to->size_)) {
    const size_t room = RoomFor(to->size_ + 1);
    auto** items =
        static_cast<const Value**>(Allocate(room * sizeof(const Value*)));
    std::copy(to->items_, to->items_ + to->size_, items);
    to->items_ = items;
  }
  to->items_[to->size_++] = item;
  to->depth_ = static_cast<uint8_t>(
      std::min(255, std::max<int>(to->depth_, item->depth_ + 1)));
}

void Heap::SetPart(Value* object, int i, const Value* part) {
  DS_CHECK(object->kind_ == Kind::kObject && i < kNumParts);
  object->items_[i] = part;
  object->depth_ = static_cast<uint8_t>(
      std::min(255, std::max<int>(object->depth_, part->depth_ + 1)));
}

}  // namespace deepslice::pickle
