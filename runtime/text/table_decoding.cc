// From ids to text.
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/table_tokenizer.h"
#include "runtime/text/utf8.h"
#include "schema/base/status_macros.h"

namespace deepslice {

// The decoder steps at work.
class TableDecoding final : public Tokenizer::Decoding {
 public:
  TableDecoding(const TableTokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {
    Restart();
  }

  absl::Status Add(int32_t id, std::string* out) override {
    const TokenizerSpec& spec = tokenizer_.spec_;
    if (!tokenizer_.InVocabulary(id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("token id ", id, " is outside the vocabulary of ",
                       spec.vocab_size(), " tokens"));
    }
    const uint8_t bits = spec.token_bits[id];
    DecodedToken token{spec.token(id), bits, id == spec.unk_id};
    bool special = (bits & kTokenSpecial) != 0;
    const auto renamed = tokenizer_.renamed_.find(id);
    if (renamed != tokenizer_.renamed_.end()) {
      token.text = renamed->second.text;
      special = renamed->second.special;
    }
    if (bits == 0 || (skip_special_ && special)) return absl::OkStatus();
    allowance_.Add(token.text.size());
    DS_RETURN_IF_ERROR(chain_->Push(std::string(token.text), &token));
    Write(out);
    return absl::OkStatus();
  }

  absl::Status Finish(std::string* out) override {
    DS_RETURN_IF_ERROR(chain_->Finish());
    Write(out);
    utf8_.Finish(out);
    Restart();
    return absl::OkStatus();
  }

 private:
  void Restart() {
    written_.clear();
    allowance_ = TextAllowance();
    chain_ = tokenizer_.decoders_.Start(&allowance_, &written_);
  }
  // Steps keep text valid; a vocabulary from a damaged plan need not be.
  void Write(std::string* out) {
    utf8_.Add(written_, out);
    written_.clear();
  }

  const TableTokenizer& tokenizer_;
  const bool skip_special_;
  std::string written_;
  Utf8Stream utf8_;
  TextAllowance allowance_;
  std::unique_ptr<DecoderStage> chain_;
};

std::unique_ptr<Tokenizer::Decoding> TableTokenizer::StartDecoding(
    bool skip_special) const {
  return std::make_unique<TableDecoding>(*this, skip_special);
}

absl::StatusOr<std::string> TableTokenizer::Decode(
    const std::vector<int32_t>& ids, bool skip_special) const {
  TableDecoding decoding(*this, skip_special);
  std::string out;
  for (int32_t id : ids) DS_RETURN_IF_ERROR(decoding.Add(id, &out));
  DS_RETURN_IF_ERROR(decoding.Finish(&out));
  return out;
}

}  // namespace deepslice
