// Added tokens: a sorted list, narrowed byte by byte.
#include "runtime/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "runtime/text/unicode_class.h"
#include "runtime/text/utf8.h"

namespace deepslice {
namespace {

bool EndsInWord(absl::string_view s) {
  return !s.empty() &&
         IsWordCharacter(DecodeUtf8(s, PreviousUtf8(s, s.size())).value);
}

bool StartsWithWord(absl::string_view s) {
  return !s.empty() && IsWordCharacter(DecodeUtf8(s, 0).value);
}

// Where the white space that ends at `end` begins, not before `least`.
size_t WhiteSpaceBefore(absl::string_view s, size_t end, size_t least) {
  while (end > least) {
    const size_t begin = PreviousUtf8(s, end);
    if (begin < least || !IsWhiteSpace(DecodeUtf8(s, begin).value)) break;
    end = begin;
  }
  return end;
}

size_t WhiteSpaceAfter(absl::string_view s, size_t pos) {
  while (pos < s.size()) {
    const CodePoint c = DecodeUtf8(s, pos);
    if (!IsWhiteSpace(c.value)) break;
    pos += c.size;
  }
  return pos;
}

}  // namespace

void AddedTokenMatcher::Add(const AddedToken& token, std::string text) {
  if (!text.empty()) entries_.push_back({std::move(text), token});
}

void AddedTokenMatcher::Build() {
  std::stable_sort(
      entries_.begin(), entries_.end(),
      [](const Entry& a, const Entry& b) { return a.text < b.text; });
  size_t i = 0;
  for (uint32_t b = 0; b < 256; ++b) {
    first_[b] = static_cast<uint32_t>(i);
    while (i < entries_.size() &&
           static_cast<uint8_t>(entries_[i].text[0]) == b) {
      ++i;
    }
  }
  first_[256] = static_cast<uint32_t>(i);
}

const AddedTokenMatcher::Entry* AddedTokenMatcher::Longest(
    absl::string_view text, size_t pos) const {
  const uint8_t lead = text[pos];
  size_t low = first_[lead], high = first_[lead + 1];
  const Entry* best = nullptr;
  for (size_t depth = 1; low < high; ++depth) {
    // Entries in [low, high) share `depth` bytes with the text.
    if (entries_[low].text.size() == depth) {
      best = &entries_[low];
      while (low < high && entries_[low].text.size() == depth) ++low;
    }
    if (pos + depth >= text.size()) break;
    const char next = text[pos + depth];
    const auto less = [depth](const Entry& e, char c) {
      return static_cast<uint8_t>(e.text[depth]) < static_cast<uint8_t>(c);
    };
    const auto greater = [depth](char c, const Entry& e) {
      return static_cast<uint8_t>(c) < static_cast<uint8_t>(e.text[depth]);
    };
    const auto begin = entries_.begin();
    low = std::lower_bound(begin + low, begin + high, next, less) - begin;
    high = std::upper_bound(begin + low, begin + high, next, greater) - begin;
  }
  return best;
}

void AddedTokenMatcher::Split(
    absl::string_view text,
    absl::FunctionRef<bool(const AddedToken&, size_t, size_t)> accept,
    std::vector<AddedSegment>* out) const {
  size_t done = 0;  // end of the last segment
  // Where the white space after a token ends that took it; tokens of white
  // space inside it end there too.
  size_t space_end = 0;
  if (!entries_.empty()) {
    for (size_t pos = 0; pos < text.size();) {
      const uint8_t lead = text[pos];
      const Entry* e =
          first_[lead] == first_[lead + 1] ? nullptr : Longest(text, pos);
      if (!e) {
        ++pos;
        continue;
      }
      size_t begin = pos, end = pos + e->text.size();
      pos = end;
      if (!accept(e->token, begin, end)) continue;
      if (e->token.single_word && (EndsInWord(text.substr(0, begin)) ||
                                   StartsWithWord(text.substr(end)))) {
        continue;
      }
      if (e->token.rstrip) {
        if (end > space_end) space_end = WhiteSpaceAfter(text, end);
        end = space_end;
      }
      if (e->token.lstrip) {
        begin = std::max(WhiteSpaceBefore(text, begin, done), done);
        if (begin >= end) continue;  // the last one took all of it
      }
      if (begin > done) out->push_back({-1, done, begin});
      out->push_back({e->token.id, begin, end});
      // A token that starts inside white space that the last one took is still
      // a token.
      done = std::max(done, end);
    }
  }
  if (done < text.size()) out->push_back({-1, done, text.size()});
}

}  // namespace deepslice
