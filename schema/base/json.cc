#include "schema/base/json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_format.h"
#include "schema/base/float_text.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice::json {
namespace {

// "line L, column C" of a byte offset, both from 1.
std::string Place(absl::string_view text, size_t offset) {
  int64_t line = 1, column = 1;
  for (size_t i = 0; i < offset && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++line;
      column = 1;
    } else {
      ++column;
    }
  }
  return absl::StrCat("line ", line, ", column ", column);
}

// Of what a text holds an error quotes at most so many bytes.
constexpr size_t kQuotedBytes = 200;
std::string Shortened(std::string text) {
  if (text.size() <= kQuotedBytes) return text;
  size_t end = kQuotedBytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text + "...";
}

// Numbers that stand for those that JSON lacks while a relaxed text is parsed:
// as long as their names, and with the E that Relax leaves nowhere else.
constexpr char kNanMark[] = "0E0";
constexpr char kInfinityMark[] = "0E000000";
constexpr char kMinusInfinityMark[] = "-0E000000";

// Builds a Value from nlohmann's events; it reports no positions of its own
// for semantic errors, so those name the key instead.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(absl::string_view text, bool relaxed)
      : text_(text), relaxed_(relaxed) {}

  bool null() override { return Put(Value()); }
  bool boolean(bool b) override { return Put(Value(b)); }
  bool number_integer(number_integer_t i) override {
    return Put(Value(static_cast<int64_t>(i)));
  }
  bool number_unsigned(number_unsigned_t u) override {
    if (u > static_cast<uint64_t>(INT64_MAX)) {
      return Put(Value(static_cast<double>(u)));
    }
    return Put(Value(static_cast<int64_t>(u)));
  }
  bool number_float(number_float_t f, const string_t& text) override {
    if (relaxed_ && text.find('E') != std::string::npos) {
      if (text == kNanMark) return Put(Value(std::nan("")));
      if (text == kInfinityMark) return Put(Value(HUGE_VAL));
      if (text == kMinusInfinityMark) return Put(Value(-HUGE_VAL));
      error = "NaN or Infinity inside another number";
      return false;
    }
    return Put(Value(static_cast<double>(f)));
  }
  bool string(string_t& s) override { return Put(Value(std::move(s))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(Value::Object()); }
  bool key(string_t& k) override {
    if (!keys_.back().insert(k).second) {
      error = absl::StrFormat("key \"%s\" appears twice in one object",
                              Shortened(std::move(k)));
      return false;
    }
    pending_key_.back() = std::move(k);
    return true;
  }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(Value::Array()); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    std::string what = e.what();
    // "[json.exception...] parse error at line 1, column 2: syntax error
    // while parsing value - invalid literal; last read: 'x'": keep the end.
    const size_t cut = what.find(": ", what.find("parse error"));
    if (cut != std::string::npos) what = what.substr(cut + 2);
    if (what.find("number overflow") != std::string::npos) {
      what = "number out of range";
    }
    for (char& c : what) {
      if (c == '\n' || c == '\r') c = ' ';
    }
    error = absl::StrCat(Place(text_, position == 0 ? 0 : position - 1), ": ",
                         Shortened(std::move(what)));
    return false;
  }

  std::string error;
  Value root;

 private:
  bool Put(Value v) {
    if (stack_.empty()) {
      root = std::move(v);
    } else if (stack_.back().is_array()) {
      stack_.back().items().push_back(std::move(v));
    } else {
      stack_.back().members().emplace_back(std::move(pending_key_.back()),
                                           std::move(v));
    }
    return true;
  }
  bool Open(Value v) {
    if (static_cast<int>(stack_.size()) >= limits::kJsonDepth) {
      error = absl::StrFormat("nested deeper than %d", limits::kJsonDepth);
      return false;
    }
    stack_.push_back(std::move(v));
    keys_.emplace_back();
    pending_key_.emplace_back();
    return true;
  }
  bool Close() {
    Value v = std::move(stack_.back());
    stack_.pop_back();
    keys_.pop_back();
    pending_key_.pop_back();
    return Put(std::move(v));
  }

  absl::string_view text_;
  const bool relaxed_;  // numbers with an E are marks
  std::vector<Value> stack_;
  std::vector<std::set<std::string>> keys_;
  std::vector<std::string> pending_key_;
};

// Rewrites the allowed deviations to strict JSON of the same length, so that
// positions stay: outside strings trailing commas become spaces, NaN and
// infinities the marks that Builder knows.
std::string Relax(absl::string_view text, const ParseOptions& options) {
  std::string out(text);
  bool in_string = false;
  for (size_t i = 0; i < out.size(); ++i) {
    const char c = out[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    if (c == '"') {
      in_string = true;
    } else if (c == ',' && options.allow_trailing_commas) {
      size_t j = i + 1;
      while (j < out.size() && (out[j] == ' ' || out[j] == '\t' ||
                                out[j] == '\n' || out[j] == '\r')) {
        ++j;
      }
      if (j < out.size() && (out[j] == ']' || out[j] == '}')) out[i] = ' ';
    } else if (options.allow_nan_and_infinity) {
      // No number of the text is left with an E, so a mark is none of them.
      if (c == 'E') {
        out[i] = 'e';
      } else if (out.compare(i, 3, "NaN") == 0) {
        out.replace(i, 3, kNanMark);
        i += 2;
      } else if (out.compare(i, 8, "Infinity") == 0) {
        out.replace(i, 8, kInfinityMark);
        i += 7;
      }
    }
  }
  return out;
}

void AppendString(absl::string_view s, std::string* out) {
  out->push_back('"');
  for (size_t i = 0; i < s.size();) {
    const unsigned char c = s[i];
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
      ++i;
    } else if (c == '\n') {
      out->append("\\n");
      ++i;
    } else if (c == '\t') {
      out->append("\\t");
      ++i;
    } else if (c == '\r') {
      out->append("\\r");
      ++i;
    } else if (c < 0x20) {
      absl::StrAppendFormat(out, "\\u%04x", c);
      ++i;
    } else if (c < 0x80) {
      out->push_back(c);
      ++i;
    } else {
      // One well-formed UTF-8 sequence, or a replacement for one byte.
      int n = c >= 0xc2 && c < 0xe0   ? 2
              : (c & 0xf0) == 0xe0    ? 3
              : c >= 0xf0 && c < 0xf5 ? 4
                                      : 0;
      bool good = n != 0 && i + n <= s.size();
      uint32_t code = n == 2 ? c & 0x1f : n == 3 ? c & 0x0f : c & 0x07;
      for (int k = 1; good && k < n; ++k) {
        const unsigned char d = s[i + k];
        good = (d & 0xc0) == 0x80;
        code = code << 6 | (d & 0x3f);
      }
      if (good && n == 3) {
        good = code >= 0x800 && (code < 0xd800 || code > 0xdfff);
      }
      if (good && n == 4) good = code >= 0x10000 && code <= 0x10ffff;
      if (good) {
        out->append(s.data() + i, n);
        i += n;
      } else {
        out->append("\xef\xbf\xbd");
        ++i;
      }
    }
  }
  out->push_back('"');
}

void Append(const Value& v, int indent, int depth, std::string* out) {
  const auto newline = [&](int d) {
    if (indent < 0) return;
    out->push_back('\n');
    out->append(static_cast<size_t>(indent) * d, ' ');
  };
  switch (v.kind()) {
    case Kind::kNull:
      out->append("null");
      return;
    case Kind::kBool:
      out->append(v.as_bool() ? "true" : "false");
      return;
    case Kind::kInt:
      absl::StrAppend(out, v.as_int());
      return;
    case Kind::kFloat: {
      if (!std::isfinite(v.as_double())) {  // JSON has no such number
        out->append("null");
        return;
      }
      out->append(FloatText(v.as_double()));
      return;
    }
    case Kind::kString:
      AppendString(v.as_string(), out);
      return;
    case Kind::kArray: {
      // Arrays of scalars stay on one line: they are shapes and counts.
      bool flat = true;
      for (const Value& item : v.items()) {
        flat = flat && !item.is_array() && !item.is_object();
      }
      out->push_back('[');
      bool first = true;
      for (const Value& item : v.items()) {
        if (!first) out->append(indent < 0 || !flat ? "," : ", ");
        first = false;
        if (!flat) newline(depth + 1);
        Append(item, indent, depth + 1, out);
      }
      if (!flat) newline(depth);
      out->push_back(']');
      return;
    }
    case Kind::kObject: {
      out->push_back('{');
      bool first = true;
      for (const Value::Member& m : v.members()) {
        if (!first) out->push_back(',');
        first = false;
        newline(depth + 1);
        AppendString(m.first, out);
        out->append(indent < 0 ? ":" : ": ");
        Append(m.second, indent, depth + 1, out);
      }
      if (!first) newline(depth);
      out->push_back('}');
      return;
    }
  }
}

}  // namespace

absl::string_view KindName(Kind k) {
  switch (k) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return "a boolean";
    case Kind::kInt:
      return "an integer";
    case Kind::kFloat:
      return "a number";
    case Kind::kString:
      return "a string";
    case Kind::kArray:
      return "an array";
    case Kind::kObject:
      return "an object";
  }
  return "?";
}

const Value* Value::Find(absl::string_view key) const {
  for (const Member& m : members_) {
    if (m.first == key) return &m.second;
  }
  return nullptr;
}

Value* Value::Find(absl::string_view key) {
  return const_cast<Value*>(std::as_const(*this).Find(key));
}

Value& Value::Set(absl::string_view key, Value v) {
  if (Value* found = Find(key)) return *found = std::move(v);
  members_.emplace_back(std::string(key), std::move(v));
  return members_.back().second;
}

absl::StatusOr<Value> Parse(absl::string_view text, ParseOptions options) {
  if (text.substr(0, 3) == "\xef\xbb\xbf") {
    return absl::InvalidArgumentError(
        "line 1, column 1: starts with a UTF-8 byte-order mark; save the file "
        "without it");
  }
  // nlohmann takes NUL padding after the value for the end of the text.
  if (const size_t nul = text.find('\0'); nul != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(Place(text, nul), ": a NUL byte"));
  }
  std::string relaxed;
  if (options.allow_trailing_commas || options.allow_nan_and_infinity) {
    relaxed = Relax(text, options);
    text = relaxed;
  }
  Builder builder(text, options.allow_nan_and_infinity);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    return absl::InvalidArgumentError(builder.error.empty() ? "not JSON"
                                                            : builder.error);
  }
  return std::move(builder.root);
}

std::string Write(const Value& v, int indent) {
  std::string out;
  Append(v, indent, 0, &out);
  return out;
}

}  // namespace deepslice::json
