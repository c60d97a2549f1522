// Filters of the template language that give their items one by one, as they
// are asked for: Python's generators, which are always true, have no length and
// come to an end once.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "runtime/text/template_filter_call.h"
#include "runtime/text/template_text.h"

namespace deepslice {
namespace {

using Value = TemplateValue;
using ValueOr = absl::StatusOr<TemplateValue>;
using Item = std::optional<TemplateValue>;
using ItemOr = absl::StatusOr<Item>;
using Call = TemplateFilterCall;

// An iterator over the subject. `next` is given a cursor over it.
template <typename Next>
ValueOr Lazy(const Call& c, Next next) {
  auto cursor = std::make_shared<TemplateCursor>(c.subject);
  // What the arguments hold is held as well.
  Value::List held = c.args.positional;
  held.push_back(c.subject);
  for (const auto& entry : c.args.named) held.push_back(entry.second);
  DS_ASSIGN_OR_RETURN(const Value over, c.meter.List(std::move(held)));
  return c.meter.Checked(Value::Iterator(
      [cursor, next](TemplateMeter& meter) mutable {
        return next(*cursor, meter);
      },
      over));
}

ValueOr Nothing(const Call& c) {
  return Lazy(c, [](TemplateCursor&, TemplateMeter&) -> ItemOr {
    return std::nullopt;
  });
}

ValueOr Items(const Call& c) {
  if (c.subject.is_undefined()) return Nothing(c);
  if (!c.subject.is_map()) {
    const std::string what(c.subject.KindName());
    return Lazy(c, [what](TemplateCursor&, TemplateMeter&) -> ItemOr {
      return absl::InvalidArgumentError(
          absl::StrCat("filter \"items\": needs a mapping, got ", what));
    });
  }
  const Value map = c.subject;
  return Lazy(c,
              [map, at = size_t{0}](TemplateCursor&,
                                    TemplateMeter& meter) mutable -> ItemOr {
                DS_RETURN_IF_ERROR(meter.Charge(1));
                if (at >= map.as_map().size()) return std::nullopt;
                const auto& [key, value] = map.as_map()[at++];
                return Value::MakeList({Value::String(key), value},
                                       Value::Shape::kTuple);
              });
}

// By attribute= (and default=), else by the name of a filter and its arguments.
ValueOr Map(const Call& c) {
  if (!c.subject.Truthy()) return Nothing(c);
  const Value* attribute = nullptr;
  std::optional<Value> fallback;
  std::string unknown;
  for (const auto& [key, value] : c.args.named) {
    if (key == "attribute") {
      attribute = &value;
    } else if (key == "default") {
      if (!value.is_none()) fallback = value;
    } else {
      unknown = key;
    }
  }
  if (c.args.positional.empty() && attribute) {
    return Lazy(c,
                [path = *attribute, fallback, unknown](
                    TemplateCursor& cursor, TemplateMeter& meter) -> ItemOr {
                  if (!unknown.empty()) {
                    return absl::InvalidArgumentError(absl::StrCat(
                        "filter \"map\" takes no argument \"", unknown, "\""));
                  }
                  DS_ASSIGN_OR_RETURN(const Item item, cursor.Next(meter));
                  if (!item) return std::nullopt;
                  DS_ASSIGN_OR_RETURN(
                      Value v,
                      TemplatePath(*item, path, fallback ? &*fallback : nullptr,
                                   meter));
                  return v;
                });
  }
  return Lazy(
      c,
      [args = c.args](TemplateCursor& cursor, TemplateMeter& meter) -> ItemOr {
        if (args.positional.empty() || !args.positional[0].is_string()) {
          return absl::InvalidArgumentError(
              "filter \"map\" needs attribute= or the name of a filter");
        }
        DS_ASSIGN_OR_RETURN(const Item item, cursor.Next(meter));
        if (!item) return std::nullopt;
        TemplateArgs rest;
        rest.positional.assign(args.positional.begin() + 1,
                               args.positional.end());
        rest.named = args.named;
        DS_ASSIGN_OR_RETURN(
            Value v, ApplyTemplateFilter(args.positional[0].as_string().text,
                                         *item, rest, meter));
        return v;
      });
}

// select, reject, selectattr and rejectattr: items that pass a test.
ValueOr Select(const Call& c) {
  if (!c.subject.Truthy()) return Nothing(c);
  const bool by_attribute = absl::StrContains(c.name, "attr");
  const bool wanted = c.name[0] == 's';
  return Lazy(
      c,
      [args = c.args, by_attribute, wanted](TemplateCursor& cursor,
                                            TemplateMeter& meter) -> ItemOr {
        const size_t offset = by_attribute ? 1 : 0;
        if (args.positional.size() < offset) {
          return absl::InvalidArgumentError(
              "a filter needs an attribute's name");
        }
        while (true) {
          DS_ASSIGN_OR_RETURN(const Item item, cursor.Next(meter));
          if (!item) return std::nullopt;
          Value v = *item;
          if (by_attribute) {
            DS_ASSIGN_OR_RETURN(
                v, TemplatePath(*item, args.positional[0], nullptr, meter));
          }
          bool passes = v.Truthy();
          if (args.positional.size() > offset) {
            if (!args.positional[offset].is_string()) {
              return absl::InvalidArgumentError("a filter needs a test's name");
            }
            TemplateArgs rest;
            rest.positional.assign(args.positional.begin() + offset + 1,
                                   args.positional.end());
            rest.named = args.named;
            DS_ASSIGN_OR_RETURN(
                passes,
                ApplyTemplateTest(args.positional[offset].as_string().text, v,
                                  rest, meter));
          }
          if (passes == wanted) return item;
        }
      });
}

ValueOr Unique(const Call& c) {
  const bool case_sensitive = c.Flag(0, "case_sensitive", false);
  std::optional<Value> path;
  if (const Value* v = c.Given(1, "attribute")) path = *v;
  auto seen = std::make_shared<Value::List>();
  return Lazy(
      c,
      [seen, case_sensitive, path](TemplateCursor& cursor,
                                   TemplateMeter& meter) -> ItemOr {
        while (true) {
          DS_ASSIGN_OR_RETURN(const Item item, cursor.Next(meter));
          if (!item) return std::nullopt;
          Value key = *item;
          if (path) {
            DS_ASSIGN_OR_RETURN(key, TemplatePath(key, *path, nullptr, meter));
          }
          key = TemplateFolded(key, case_sensitive);
          if (!IsTemplateKey(key)) {
            return absl::InvalidArgumentError(absl::StrCat(
                "filter \"unique\": ", key.KindName(), " can't be a key"));
          }
          DS_RETURN_IF_ERROR(meter.Charge(seen->size()));
          bool known = false;
          for (const Value& v : *seen) {
            DS_RETURN_IF_ERROR(
                meter.Charge(std::min(v.weight(), key.weight()) / 16));
            known = v == key;
            if (known) break;
          }
          if (known) continue;
          seen->push_back(std::move(key));
          return item;
        }
      });
}

// Lists of `linecount` items, the last one filled up.
ValueOr Batch(const Call& c) {
  const Value& size = *c.Arg(0, "linecount");
  if (!size.is_integral()) return c.Bad("linecount must be an integer");
  std::optional<Value> fill;
  if (const Value* v = c.Given(1, "fill_with")) fill = *v;
  auto pending = std::make_shared<Item>();
  return Lazy(c,
              [n = size.as_int(), fill, pending](
                  TemplateCursor& cursor, TemplateMeter& meter) -> ItemOr {
                Value::List batch;
                if (*pending) {
                  batch.push_back(**pending);
                  pending->reset();
                }
                while (true) {
                  DS_ASSIGN_OR_RETURN(Item item, cursor.Next(meter));
                  if (!item) break;
                  if (static_cast<int64_t>(batch.size()) == n) {
                    *pending = std::move(item);
                    DS_ASSIGN_OR_RETURN(Value v, meter.List(std::move(batch)));
                    return v;
                  }
                  batch.push_back(*std::move(item));
                }
                if (batch.empty()) return std::nullopt;
                while (fill && static_cast<int64_t>(batch.size()) < n) {
                  DS_RETURN_IF_ERROR(meter.Charge(1));
                  batch.push_back(*fill);
                }
                DS_ASSIGN_OR_RETURN(Value v, meter.List(std::move(batch)));
                return v;
              });
}

// `slices` lists of like size, the shorter ones filled up.
ValueOr Slice(const Call& c) {
  const Value& count = *c.Arg(0, "slices");
  if (!count.is_integral()) return c.Bad("slices must be an integer");
  std::optional<Value> fill;
  if (const Value* v = c.Given(1, "fill_with")) fill = *v;
  const Value subject = c.subject;
  auto items = std::make_shared<std::optional<Value::List>>();
  return Lazy(c,
              [slices = count.as_int(), fill, subject, items,
               number = int64_t{0}, start = int64_t{0}](
                  TemplateCursor&, TemplateMeter& meter) mutable -> ItemOr {
                if (!*items) {
                  DS_ASSIGN_OR_RETURN(*items, TemplateItems(subject, meter));
                }
                if (slices == 0)
                  return absl::InvalidArgumentError("division by zero");
                if (number >= slices) return std::nullopt;
                const auto size = static_cast<int64_t>((*items)->size());
                const bool extra = number < size % slices;
                const int64_t end = start + size / slices + extra;
                Value::List part((*items)->begin() + start,
                                 (*items)->begin() + end);
                if (fill && !extra) part.push_back(*fill);
                start = end;
                ++number;
                DS_ASSIGN_OR_RETURN(Value v, meter.List(std::move(part)));
                return v;
              });
}

constexpr TemplateFilter kFilters[] = {
    {"batch", Batch, "linecount!,fill_with"},
    {"items", Items, ""},
    {"map", Map, "..."},
    {"reject", Select, "..."},
    {"rejectattr", Select, "..."},
    {"select", Select, "..."},
    {"selectattr", Select, "..."},
    {"slice", Slice, "slices!,fill_with"},
    {"unique", Unique, "case_sensitive,attribute"},
};

}  // namespace

absl::Span<const TemplateFilter> TemplateLazyFilters() { return kFilters; }

}  // namespace deepslice
