// Collects a vocabulary and checks that it is one.
#include "runtime/text/tokenizer_builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/text/byte_level.h"
#include "runtime/text/utf8.h"
#include "schema/base/limits.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

// A token as an error shows it.
std::string Quote(absl::string_view text) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text.substr(0, 80)), "\"");
}

}  // namespace

absl::Status TokenizerBuilder::Place(absl::string_view text, int64_t id,
                                     uint8_t bits) {
  if (id < 0 || id >= limits::kVocab) {
    return absl::InvalidArgumentError(
        absl::StrCat("token ", Quote(text), " has id ", id, "; ids are 0 to ",
                     limits::kVocab - 1));
  }
  if (id >= expected_ + limits::kTokenizerHoles) {
    return absl::InvalidArgumentError(
        absl::StrCat("token ", Quote(text), " has id ", id, "; the file lists ",
                     expected_, " tokens, and at most ",
                     limits::kTokenizerHoles, " ids may have none"));
  }
  if (text.size() > static_cast<size_t>(limits::kTokenBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("token ", id, " (", Quote(text), ") has ", text.size(),
                     " bytes; at most ", limits::kTokenBytes, " are allowed"));
  }
  if (!IsValidUtf8(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat("token ", id, " (", Quote(text), ") is not UTF-8"));
  }
  const auto index = static_cast<size_t>(id);
  if (index >= texts_.size()) {
    texts_.resize(index + 1);
    bits_.resize(index + 1);
    taken_.resize(index + 1);
  }
  if (taken_[index]) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens ", Quote(texts_[index]), " and ", Quote(text),
                     " have the same id ", id, "; give one of them another"));
  }
  const auto [it, inserted] =
      ids_.emplace(std::string(text), static_cast<int32_t>(id));
  if (!inserted) {
    return absl::InvalidArgumentError(
        absl::StrCat("token ", Quote(text), " has two ids, ", it->second,
                     " and ", id, "; a token has one"));
  }
  texts_[index] = std::string(text);
  bits_[index] = bits;
  taken_[index] = true;
  return absl::OkStatus();
}

absl::Status TokenizerBuilder::AddModelToken(absl::string_view text, int64_t id,
                                             uint8_t bits) {
  return Place(text, id, kTokenInModel | bits);
}

absl::Status TokenizerBuilder::AddNamedToken(absl::string_view text, int64_t id,
                                             uint8_t bits) {
  return Place(text, id, kTokenNamed | bits);
}

absl::Status TokenizerBuilder::AddUnusedToken(absl::string_view text,
                                              int64_t id) {
  return Place(text, id, 0);
}

absl::Status TokenizerBuilder::AddAddedToken(absl::string_view text, int64_t id,
                                             AddedToken token) {
  if (text.empty() || text.size() > limits::kAddedTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("added token ", id, " has ", text.size(), " bytes; 1 to ",
                     limits::kAddedTokenBytes, " are allowed"));
  }
  if (static_cast<int64_t>(added_.size()) >= limits::kAddedTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "more than ", limits::kAddedTokens, " added tokens are not allowed"));
  }
  if (Find(text) != id) DS_RETURN_IF_ERROR(Place(text, id, 0));
  if (bits_[id] & kTokenAdded) {
    return absl::InvalidArgumentError(
        absl::StrCat("added token ", Quote(text), " is listed twice"));
  }
  bits_[id] |= kTokenAdded | (token.special ? kTokenSpecial : 0);
  token.id = static_cast<int32_t>(id);
  added_.push_back(token);
  return absl::OkStatus();
}

absl::Status TokenizerBuilder::AddMerge(absl::string_view left,
                                        absl::string_view right,
                                        size_t right_prefix) {
  const size_t index = merges_.size();
  if (static_cast<int64_t>(index) >= limits::kTokenizerMerges) {
    return absl::InvalidArgumentError(absl::StrCat(
        "more than ", limits::kTokenizerMerges, " merges are not allowed"));
  }
  const std::string whole =
      absl::StrCat(left, right.substr(std::min(right_prefix, right.size())));
  for (absl::string_view part : {left, right, absl::string_view(whole)}) {
    const int32_t id = Find(part);
    if (id < 0 || !(bits_[id] & kTokenInModel)) {
      return absl::InvalidArgumentError(
          absl::StrCat("merge ", index, " (", Quote(left), ", ", Quote(right),
                       "): ", Quote(part), " is no token of the vocabulary"));
    }
  }
  merges_.push_back({Find(left), Find(right), Find(whole)});
  return absl::OkStatus();
}

int32_t TokenizerBuilder::Find(absl::string_view text) const {
  const auto it = ids_.find(text);
  return it == ids_.end() ? -1 : it->second;
}

int32_t TokenizerBuilder::CountHoles() const {
  int32_t n = 0;
  for (bool taken : taken_) n += !taken;
  return n;
}

int32_t TokenizerBuilder::CountMissingBytes() const {
  int32_t n = 0;
  for (int b = 0; b < 256; ++b) {
    std::string text;
    AppendUtf8(ByteLevelCharacter(static_cast<uint8_t>(b)), &text);
    const int32_t id = Find(text);
    n += id < 0 || !(bits_[id] & kTokenInModel);
  }
  return n;
}

int32_t TokenizerBuilder::CountMissingByteTokens() const {
  int32_t n = 0;
  for (int b = 0; b < 256; ++b) n += Find(absl::StrFormat("<0x%02X>", b)) < 0;
  return n;
}

void TokenizerBuilder::Finish(TokenizerSpec* spec) {
  for (size_t i = 0; i < texts_.size(); ++i)
    spec->AddToken(texts_[i], bits_[i]);
  // Added tokens have no score of their own.
  if (!spec->scores.empty()) spec->scores.resize(texts_.size());
  spec->merges = std::move(merges_);
  spec->added = std::move(added_);
}

}  // namespace deepslice
