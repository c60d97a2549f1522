// Filters of the template language that take a list or a mapping as a whole.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "runtime/text/template_filter_call.h"
#include "runtime/text/template_text.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;
using Shape = TemplateValue::Shape;
using ValueOr = absl::StatusOr<TemplateValue>;
using Call = TemplateFilterCall;

ValueOr Join(const Call& c) {
  MarkedText separator;
  if (const Value* v = c.Arg(0, "d")) {
    DS_ASSIGN_OR_RETURN(separator, c.meter.Print(*v));
  }
  const Value* attribute = c.Given(1, "attribute");
  MarkedText out;
  TemplateCursor cursor(c.subject);
  for (bool first = true;; first = false) {
    DS_ASSIGN_OR_RETURN(auto item, cursor.Next(c.meter));
    if (!item) break;
    if (attribute) {
      DS_ASSIGN_OR_RETURN(*item,
                          TemplatePath(*item, *attribute, nullptr, c.meter));
    }
    DS_ASSIGN_OR_RETURN(const MarkedText text, c.meter.Print(*item));
    if (!first) out.Append(separator);
    out.Append(text);
    DS_RETURN_IF_ERROR(c.meter.ChargeText(out.size()));
  }
  return Value::String(std::move(out));
}

ValueOr First(const Call& c) {
  TemplateCursor cursor(c.subject);
  DS_ASSIGN_OR_RETURN(auto item, cursor.Next(c.meter));
  return item ? *std::move(item) : Value::Undefined("the first of nothing");
}

ValueOr Last(const Call& c) {
  if (c.subject.kind() == Kind::kIterator) {
    return c.Bad("an iterator has no last item; use |list|last");
  }
  if (c.subject.is_list() && !c.subject.as_list().empty()) {
    return c.subject.as_list().back();
  }
  DS_ASSIGN_OR_RETURN(const Value::List items, c.Items());
  return items.empty() ? Value::Undefined("the last of nothing") : items.back();
}

ValueOr ToList(const Call& c) {
  DS_ASSIGN_OR_RETURN(Value::List items, c.Items());
  return c.meter.List(std::move(items));
}

struct Keyed {
  Value key;
  Value item;
};

// Sorts by keys; an error when two of them have no order.
absl::Status SortByKeys(std::vector<Keyed>* items, bool reverse,
                        TemplateMeter& meter) {
  absl::Status status;
  const auto less = [&](const Keyed& a, const Keyed& b) {
    if (status.ok()) status = meter.Charge(1);
    if (!status.ok()) return false;
    const auto r = TemplateCompare("<", a.key, b.key, meter);
    if (!r.ok()) status = r.status();
    return r.ok() && *r;
  };
  std::stable_sort(items->begin(), items->end(),
                   [&](const Keyed& a, const Keyed& b) {
                     return reverse ? less(b, a) : less(a, b);
                   });
  return status;
}

ValueOr Sorted(const Call& c, std::vector<Keyed> items, const Value* reverse) {
  if (reverse && !reverse->is_integral()) {
    return c.Bad("reverse must be true or false");
  }
  DS_RETURN_IF_ERROR(SortByKeys(&items, reverse && reverse->Truthy(), c.meter));
  Value::List out;
  for (Keyed& entry : items) out.push_back(std::move(entry.item));
  return c.meter.List(std::move(out));
}

ValueOr Sort(const Call& c) {
  DS_ASSIGN_OR_RETURN(const Value::List items, c.Items());
  const bool case_sensitive = c.Flag(1, "case_sensitive", false);
  std::vector<std::optional<Value>> paths;
  const Value* attribute = c.Given(2, "attribute");
  if (attribute && attribute->is_string()) {
    for (absl::string_view part :
         absl::StrSplit(attribute->as_string().text, ',')) {
      paths.push_back(Value::String(part));
    }
  } else if (attribute) {
    paths.push_back(*attribute);
  } else {
    paths.push_back(std::nullopt);
  }
  std::vector<Keyed> keyed;
  for (const Value& item : items) {
    // A list, of one key as well: what is equal in it needs no order.
    Value::List keys;
    for (const auto& path : paths) {
      Value key = item;
      if (path) {
        DS_ASSIGN_OR_RETURN(key, TemplatePath(item, *path, nullptr, c.meter));
      }
      keys.push_back(TemplateFolded(key, case_sensitive));
    }
    DS_ASSIGN_OR_RETURN(Value key, c.meter.List(std::move(keys)));
    keyed.push_back({std::move(key), item});
  }
  return Sorted(c, std::move(keyed), c.Arg(0, "reverse"));
}

ValueOr DictSort(const Call& c) {
  if (!c.subject.is_map()) {
    return c.Bad(absl::StrCat("needs a mapping, got ", c.subject.KindName()));
  }
  const bool case_sensitive = c.Flag(0, "case_sensitive", false);
  const Value* by = c.Arg(1, "by");
  const bool by_value = by && *by == Value::String("value");
  if (by && !by_value && !(*by == Value::String("key"))) {
    return c.Bad("by must be \"key\" or \"value\"");
  }
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : c.subject.as_map()) {
    const Value name = Value::String(key);
    keyed.push_back({TemplateFolded(by_value ? value : name, case_sensitive),
                     Value::MakeList({name, value}, Shape::kTuple)});
  }
  return Sorted(c, std::move(keyed), c.Arg(2, "reverse"));
}

ValueOr GroupBy(const Call& c) {
  DS_ASSIGN_OR_RETURN(const Value::List items, c.Items());
  const Value& attribute = *c.Arg(0, "attribute");
  const Value* fallback = c.Given(1, "default");
  const bool case_sensitive = c.Flag(2, "case_sensitive", false);
  std::vector<Keyed> keyed;
  for (const Value& item : items) {
    DS_ASSIGN_OR_RETURN(const Value key,
                        TemplatePath(item, attribute, fallback, c.meter));
    keyed.push_back({TemplateFolded(key, case_sensitive),
                     Value::MakeList({key, item}, Shape::kTuple)});
  }
  DS_RETURN_IF_ERROR(SortByKeys(&keyed, false, c.meter));
  Value::List out;
  for (size_t begin = 0; begin < keyed.size();) {
    Value::List group;
    size_t end = begin;
    while (end < keyed.size() && keyed[end].key == keyed[begin].key) {
      group.push_back(keyed[end++].item.as_list()[1]);
    }
    DS_ASSIGN_OR_RETURN(Value list, c.meter.List(std::move(group)));
    out.push_back(Value::MakeList(
        {keyed[begin].item.as_list()[0], std::move(list)}, Shape::kGroup));
    begin = end;
  }
  return c.meter.List(std::move(out));
}

ValueOr Reverse(const Call& c) {
  if (c.subject.is_string()) {
    return TemplateSlice(c.subject, Value::None(), Value::None(),
                         Value::Int(-1), c.meter);
  }
  DS_ASSIGN_OR_RETURN(Value::List items, c.Items());
  std::reverse(items.begin(), items.end());
  DS_ASSIGN_OR_RETURN(Value list, c.meter.List(std::move(items)));
  // What has no end is turned into a list, all else is walked backwards.
  if (c.subject.kind() == Kind::kIterator) return list;
  auto cursor = std::make_shared<TemplateCursor>(list);
  return c.meter.Checked(Value::Iterator(
      [cursor](TemplateMeter& meter) { return cursor->Next(meter); }, list));
}

ValueOr MinMax(const Call& c) {
  DS_ASSIGN_OR_RETURN(const Value::List items, c.Items());
  if (items.empty()) return Value::Undefined("the least of nothing");
  const bool case_sensitive = c.Flag(0, "case_sensitive", false);
  const Value* attribute = c.Given(1, "attribute");
  const absl::string_view op = c.name == "min" ? "<" : ">";
  Value best, best_key;
  for (size_t i = 0; i < items.size(); ++i) {
    Value key = items[i];
    if (attribute) {
      DS_ASSIGN_OR_RETURN(key, TemplatePath(key, *attribute, nullptr, c.meter));
    }
    key = TemplateFolded(key, case_sensitive);
    bool better = i == 0;
    if (i > 0) {
      DS_ASSIGN_OR_RETURN(better, TemplateCompare(op, key, best_key, c.meter));
    }
    if (!better) continue;
    best = items[i];
    best_key = std::move(key);
  }
  return best;
}

ValueOr Sum(const Call& c) {
  DS_ASSIGN_OR_RETURN(const Value::List items, c.Items());
  const Value* attribute = c.Given(0, "attribute");
  const Value* start = c.Arg(1, "start");
  Value total = start ? *start : Value::Int(0);
  if (total.is_string()) return c.Bad("strings can't be summed; use join");
  for (const Value& item : items) {
    Value v = item;
    if (attribute) {
      DS_ASSIGN_OR_RETURN(v, TemplatePath(v, *attribute, nullptr, c.meter));
    }
    DS_ASSIGN_OR_RETURN(total, TemplateBinary("+", total, v, c.meter));
  }
  return total;
}

constexpr TemplateFilter kFilters[] = {
    {"dictsort", DictSort, "case_sensitive,by,reverse"},
    {"first", First, ""},
    {"groupby", GroupBy, "attribute!,default,case_sensitive"},
    {"join", Join, "d,attribute"},
    {"last", Last, ""},
    {"list", ToList, ""},
    {"max", MinMax, "case_sensitive,attribute"},
    {"min", MinMax, "case_sensitive,attribute"},
    {"reverse", Reverse, ""},
    {"sort", Sort, "reverse,case_sensitive,attribute"},
    {"sum", Sum, "attribute,start"},
};

}  // namespace

absl::Span<const TemplateFilter> TemplateListFilters() { return kFilters; }

absl::StatusOr<TemplateValue> TemplatePath(const TemplateValue& item,
                                           const TemplateValue& path,
                                           const TemplateValue* fallback,
                                           TemplateMeter& meter) {
  Value::List parts;
  if (path.is_string()) {
    for (absl::string_view part : absl::StrSplit(path.as_string().text, '.')) {
      int64_t index;
      const bool digits =
          !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
            return absl::ascii_isdigit(c);
          });
      parts.push_back(digits && absl::SimpleAtoi(part, &index)
                          ? Value::Int(index)
                          : Value::String(part));
    }
  } else if (!path.is_none()) {
    parts.push_back(path);
  }
  Value v = item;
  for (const Value& part : parts) {
    DS_ASSIGN_OR_RETURN(v, TemplateIndex(v, part, meter));
    if (fallback && v.is_undefined()) v = *fallback;
  }
  return v;
}

TemplateValue TemplateFolded(const TemplateValue& v, bool case_sensitive) {
  if (!v.is_string() || case_sensitive) return v;
  return Value::String(ChangeCase(v.as_string(), TextCase::kLower));
}

}  // namespace deepslice
