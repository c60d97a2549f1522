// Writes the serialised form of a tokenizer.
#include "runtime/text/tokenizer_spec.h"

#include <cstring>

#include "runtime/text/tokenizer_spec_format.h"

namespace deepslice {
namespace {

namespace format = tokenizer_format;

void PutU32(uint32_t v, std::string* out) {
  for (int i = 0; i < 4; ++i) out->push_back(static_cast<char>(v >> (8 * i)));
}

void PutU16(uint16_t v, std::string* out) {
  out->push_back(static_cast<char>(v));
  out->push_back(static_cast<char>(v >> 8));
}

void PutDouble(double v, std::string* out) {
  uint64_t bits;
  std::memcpy(&bits, &v, 8);
  PutU32(static_cast<uint32_t>(bits), out);
  PutU32(static_cast<uint32_t>(bits >> 32), out);
}

void PutString(absl::string_view s, std::string* out) {
  PutU32(static_cast<uint32_t>(s.size()), out);
  out->append(s.data(), s.size());
}

void PutIds(const std::vector<int32_t>& ids, std::string* out) {
  PutU32(static_cast<uint32_t>(ids.size()), out);
  for (int32_t id : ids) PutU32(static_cast<uint32_t>(id), out);
}

template <typename Enum>
void PutKind(Enum kind, std::string* out) {
  out->push_back(static_cast<char>(kind));
}

void PutModel(const TokenizerSpec& spec, std::string* out) {
  PutKind(spec.model, out);
  out->push_back((spec.ignore_merges ? format::kIgnoreMerges : 0) |
                 (spec.fuse_unk ? format::kFuseUnk : 0) |
                 (spec.byte_fallback ? format::kByteFallback : 0) |
                 (spec.sentencepiece ? format::kSentencePiece : 0));
  PutU32(static_cast<uint32_t>(spec.unk_id), out);
  PutString(spec.continuing_prefix, out);
  PutString(spec.end_of_word_suffix, out);
  PutU32(spec.max_word_chars, out);
  PutU32(static_cast<uint32_t>(spec.extra_symbols.size()), out);
  for (uint32_t cp : spec.extra_symbols) PutU32(cp, out);
  PutU32(static_cast<uint32_t>(spec.merges.size()), out);
  for (const BpeMerge& m : spec.merges) {
    PutU32(
        static_cast<uint32_t>(m.left) | (m.same_rank ? format::kSameRank : 0),
        out);
    PutU32(static_cast<uint32_t>(m.right), out);
    PutU32(static_cast<uint32_t>(m.merged), out);
  }
  PutU32(static_cast<uint32_t>(spec.scores.size()), out);
  for (double score : spec.scores) PutDouble(score, out);
}

void PutSteps(const TokenizerSpec& spec, std::string* out) {
  PutU32(static_cast<uint32_t>(spec.normalizers.size()), out);
  for (const NormalizerStep& s : spec.normalizers) {
    PutKind(s.kind, out);
    PutU16(s.flags, out);
    PutString(s.pattern, out);
    PutString(s.content, out);
  }
  PutU32(static_cast<uint32_t>(spec.pre_tokenizers.size()), out);
  for (const PreTokenizerStep& s : spec.pre_tokenizers) {
    PutKind(s.kind, out);
    PutKind(s.behavior, out);
    PutKind(s.prepend_scheme, out);
    out->push_back(
        (s.is_regex ? format::kRegex : 0) | (s.invert ? format::kInvert : 0) |
        (s.individual_digits ? format::kIndividual : 0) |
        (s.add_prefix_space ? format::kPrefixSpace : 0) |
        (s.use_regex ? format::kUseRegex : 0) | (s.split ? format::kSplit : 0));
    PutU32(s.length, out);
    PutString(s.pattern, out);
  }
  PutIds(spec.prefix_ids, out);
  PutIds(spec.suffix_ids, out);
  PutU32(static_cast<uint32_t>(spec.decoders.size()), out);
  for (const DecoderStep& s : spec.decoders) {
    PutKind(s.kind, out);
    out->push_back(static_cast<char>(s.flags));
    PutU32(s.start, out);
    PutU32(s.stop, out);
    PutString(s.pattern, out);
    PutString(s.content, out);
  }
}

}  // namespace

std::string SerializeTokenizer(const TokenizerSpec& spec) {
  std::string out(format::kMagic, format::kMagicSize);
  PutU32(static_cast<uint32_t>(spec.token_ends.size()), &out);
  for (uint32_t end : spec.token_ends) PutU32(end, &out);
  out += spec.token_text;
  out.append(spec.token_bits.begin(), spec.token_bits.end());
  PutModel(spec, &out);
  PutU32(static_cast<uint32_t>(spec.added.size()), &out);
  for (const AddedToken& t : spec.added) {
    PutU32(static_cast<uint32_t>(t.id), &out);
    out.push_back((t.single_word ? format::kSingleWord : 0) |
                  (t.lstrip ? format::kLstrip : 0) |
                  (t.rstrip ? format::kRstrip : 0) |
                  (t.normalized ? format::kNormalized : 0) |
                  (t.special ? format::kSpecial : 0));
  }
  PutSteps(spec, &out);
  PutU32(static_cast<uint32_t>(spec.bos_id), &out);
  PutU32(static_cast<uint32_t>(spec.eos_id), &out);
  PutU32(static_cast<uint32_t>(spec.vectors.size()), &out);
  for (const TokenizerVector& v : spec.vectors) {
    PutString(v.text, &out);
    PutIds(v.ids, &out);
  }
  return out;
}

}  // namespace deepslice
