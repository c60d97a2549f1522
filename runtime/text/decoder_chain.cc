// The decoder steps. Each holds back what a later token may still change, so
// that a growing text never takes anything back.
#include "runtime/text/decoder_chain.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "runtime/text/byte_level.h"
#include "runtime/text/decoder_bytes.h"
#include "runtime/text/regex_matches.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {
namespace {

class Append final : public DecoderStage {
 public:
  explicit Append(std::string* out) : out_(out) {}
  absl::Status Push(std::string piece, const DecodedToken*) override {
    *out_ += piece;
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  std::string* out_;
};

// No decoder at all: a space between tokens.
class Join final : public DecoderStage {
 public:
  explicit Join(std::unique_ptr<DecoderStage> next) : next_(std::move(next)) {}
  absl::Status Push(std::string piece, const DecodedToken* token) override {
    if (!first_) piece.insert(0, " ");
    first_ = false;
    return next_->Push(std::move(piece), token);
  }
  absl::Status Finish() override { return next_->Finish(); }

 private:
  std::unique_ptr<DecoderStage> next_;
  bool first_ = true;
};

// Bytes of the byte alphabet, all as one text: damage is replaced.
class ByteLevel final : public LinkedStage {
 public:
  using LinkedStage::LinkedStage;
  absl::Status Push(std::string piece, const DecodedToken*) override {
    std::string bytes, text;
    AppendFromByteLevel(piece, &bytes);
    utf8_.Add(bytes, &text);
    return text.empty() ? absl::OkStatus()
                        : next_->Push(std::move(text), nullptr);
  }
  absl::Status Finish() override {
    std::string text;
    utf8_.Finish(&text);
    if (!text.empty()) {
      DS_RETURN_IF_ERROR(next_->Push(std::move(text), nullptr));
    }
    return next_->Finish();
  }

 private:
  Utf8Stream utf8_;
};

// From here on there are no tokens. What follows a Fuse and does not look at
// the whole text gets it as it comes; see Create.
class Fuse final : public LinkedStage {
 public:
  Fuse(const DecoderStep& step, bool whole, std::unique_ptr<DecoderStage> next)
      : LinkedStage(step, std::move(next)), whole_(whole) {}
  absl::Status Push(std::string piece, const DecodedToken*) override {
    if (!whole_) return next_->Push(std::move(piece), nullptr);
    held_ += piece;
    return absl::OkStatus();
  }
  absl::Status Finish() override {
    if (whole_) DS_RETURN_IF_ERROR(next_->Push(std::move(held_), nullptr));
    return next_->Finish();
  }

 private:
  const bool whole_;
  std::string held_;
};

// The only step whose text may be longer than what it gets by more than a few
// bytes.
class Replace final : public LinkedStage {
 public:
  Replace(const DecoderStep& step, const Regex* regex, TextAllowance* allowance,
          std::unique_ptr<DecoderStage> next)
      : LinkedStage(step, std::move(next)),
        regex_(regex),
        allowance_(allowance) {}
  absl::Status Push(std::string piece, const DecodedToken* token) override {
    std::string out;
    size_t done = 0;
    const auto replace = [&](size_t begin, size_t end) {
      out.append(piece, done, begin - done);
      out += step_.content;
      done = end;
      return out.size() <= allowance_->bytes;
    };
    if (regex_ == nullptr) {
      const std::string& pattern = step_.pattern;
      for (size_t at; (at = piece.find(pattern, done)) != piece.npos;) {
        if (!replace(at, at + pattern.size())) break;
      }
    } else if (!piece.empty()) {
      Regex::Matcher matcher(*regex_, allowance_);
      DS_RETURN_IF_ERROR(ForEachMatch(matcher, piece, replace));
    }
    if (done == 0 && out.empty()) return next_->Push(std::move(piece), token);
    DS_RETURN_IF_ERROR(allowance_->Write(out.size()));
    out.append(piece, done, std::string::npos);
    return next_->Push(std::move(out), token);
  }

 private:
  const Regex* regex_;
  TextAllowance* allowance_;
};

// Of each piece; after a Fuse that does not wait for the whole text, of the
// start of the text.
class Strip final : public LinkedStage {
 public:
  Strip(const DecoderStep& step, bool of_text,
        std::unique_ptr<DecoderStage> next)
      : LinkedStage(step, std::move(next)),
        of_text_(of_text),
        left_(step.start) {}
  absl::Status Push(std::string piece, const DecodedToken* token) override {
    if (!of_text_) left_ = step_.start;
    const absl::string_view content = step_.pattern;
    size_t begin = 0;
    while (left_ > 0 && begin < piece.size()) {
      if (absl::string_view(piece).substr(begin, content.size()) != content) {
        left_ = 0;
        break;
      }
      begin += content.size();
      --left_;
    }
    size_t end = piece.size();
    for (uint32_t i = 0; i < step_.stop; ++i) {
      if (end < begin + content.size() ||
          absl::string_view(piece).substr(end - content.size(),
                                          content.size()) != content) {
        break;
      }
      end -= content.size();
    }
    return next_->Push(piece.substr(begin, end - begin), token);
  }

 private:
  const bool of_text_;
  uint32_t left_;
};

class Metaspace final : public LinkedStage {
 public:
  using LinkedStage::LinkedStage;
  absl::Status Push(std::string piece, const DecodedToken* token) override {
    // The first token loses its symbols where one was added in front.
    const bool drop = first_ && step_.start != 0;
    first_ = false;
    return next_->Push(
        absl::StrReplaceAll(piece, {{step_.pattern, drop ? "" : " "}}), token);
  }

 private:
  bool first_ = true;
};

std::string CleanUp(absl::string_view text) {
  std::string out(text);
  constexpr std::pair<absl::string_view, absl::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& rule : kRules) out = absl::StrReplaceAll(out, {rule});
  return out;
}

class WordPiece final : public LinkedStage {
 public:
  using LinkedStage::LinkedStage;
  absl::Status Push(std::string piece, const DecodedToken* token) override {
    if (first_) {
      first_ = false;
    } else if (absl::StartsWith(piece, step_.pattern)) {
      piece.erase(0, step_.pattern.size());
    } else {
      piece.insert(0, " ");
    }
    if (step_.Has(DecoderStep::kCleanup)) piece = CleanUp(piece);
    return next_->Push(std::move(piece), token);
  }

 private:
  bool first_ = true;
};

// The end of a word becomes a space, but at the end of the text.
class BpeSuffix final : public LinkedStage {
 public:
  using LinkedStage::LinkedStage;
  absl::Status Push(std::string piece, const DecodedToken*) override {
    DS_RETURN_IF_ERROR(Flush(" "));
    held_ = std::move(piece);
    any_ = true;
    return absl::OkStatus();
  }
  absl::Status Finish() override {
    DS_RETURN_IF_ERROR(Flush(""));
    return next_->Finish();
  }

 private:
  absl::Status Flush(absl::string_view end) {
    if (!any_) return absl::OkStatus();
    any_ = false;
    return next_->Push(absl::StrReplaceAll(held_, {{step_.pattern, end}}),
                       nullptr);
  }
  std::string held_;
  bool any_ = false;
};

// Repeated tokens are one, pads none.
class Ctc final : public LinkedStage {
 public:
  using LinkedStage::LinkedStage;
  absl::Status Push(std::string piece, const DecodedToken* token) override {
    if (any_ && piece == last_) return absl::OkStatus();
    any_ = true;
    last_ = piece;
    piece = absl::StrReplaceAll(piece, {{step_.pattern, ""}});
    if (step_.Has(DecoderStep::kCleanup)) {
      piece = absl::StrReplaceAll(CleanUp(piece), {{step_.content, " "}});
    }
    return piece.empty() ? absl::OkStatus()
                         : next_->Push(std::move(piece), token);
  }

 private:
  std::string last_;
  bool any_ = false;
};

bool LooksAtTheWhole(const DecoderStep& s) {
  // Strip at the front alone can be done as the text comes.
  return s.kind != DecoderKind::kFuse &&
         !(s.kind == DecoderKind::kStrip && s.stop == 0);
}

}  // namespace

absl::StatusOr<DecoderChain> DecoderChain::Create(
    const std::vector<DecoderStep>& steps) {
  DecoderChain chain;
  for (const DecoderStep& s : steps) {
    Step step{s, nullptr};
    const bool needs_pattern =
        s.kind == DecoderKind::kReplace || s.kind == DecoderKind::kStrip ||
        s.kind == DecoderKind::kMetaspace || s.kind == DecoderKind::kBpe ||
        s.kind == DecoderKind::kCtc;
    if ((needs_pattern && s.pattern.empty()) || !IsValidUtf8(s.pattern) ||
        !IsValidUtf8(s.content) ||
        (s.kind == DecoderKind::kCtc && s.content.empty())) {
      return absl::InvalidArgumentError(
          "a decoder has text that is empty or not UTF-8");
    }
    if (s.kind == DecoderKind::kReplace && s.Has(DecoderStep::kIsRegex)) {
      DS_ASSIGN_OR_RETURN(step.regex, Regex::Compile(s.pattern));
    }
    chain.steps_.push_back(std::move(step));
  }
  return chain;
}

std::unique_ptr<DecoderStage> DecoderChain::Start(TextAllowance* allowance,
                                                  std::string* out) const {
  std::unique_ptr<DecoderStage> next = std::make_unique<Append>(out);
  if (steps_.empty()) return std::make_unique<Join>(std::move(next));
  bool whole = false;  // some step after this one looks at the whole text
  for (size_t i = steps_.size(); i > 0; --i) {
    const DecoderStep& s = steps_[i - 1].spec;
    bool fused = false;
    for (size_t k = 0; k + 1 < i; ++k) {
      fused |= steps_[k].spec.kind == DecoderKind::kFuse ||
               steps_[k].spec.kind == DecoderKind::kByteLevel;
    }
    switch (s.kind) {
      case DecoderKind::kByteLevel:
        // It hands on one text, so that a Fuse must wait on its behalf.
        if (whole) next = std::make_unique<Fuse>(s, true, std::move(next));
        next = std::make_unique<ByteLevel>(s, std::move(next));
        whole = true;
        continue;
      case DecoderKind::kFuse:
        next = std::make_unique<Fuse>(s, whole, std::move(next));
        whole = false;
        continue;
      case DecoderKind::kByteFallback:
        next = MakeByteFallback(s, std::move(next));
        break;
      case DecoderKind::kReplace:
        next = std::make_unique<Replace>(s, steps_[i - 1].regex.get(),
                                         allowance, std::move(next));
        break;
      case DecoderKind::kStrip:
        next = std::make_unique<Strip>(s, fused && !LooksAtTheWhole(s),
                                       std::move(next));
        break;
      case DecoderKind::kMetaspace:
        next = std::make_unique<Metaspace>(s, std::move(next));
        break;
      case DecoderKind::kWordPiece:
        next = std::make_unique<WordPiece>(s, std::move(next));
        break;
      case DecoderKind::kBpe:
        next = std::make_unique<BpeSuffix>(s, std::move(next));
        break;
      case DecoderKind::kCtc:
        next = std::make_unique<Ctc>(s, std::move(next));
        break;
      case DecoderKind::kSentencePiece:
        next = MakeSentencePieceDecoder(s, std::move(next));
        break;
    }
    whole |= LooksAtTheWhole(s);
  }
  return next;
}

}  // namespace deepslice
