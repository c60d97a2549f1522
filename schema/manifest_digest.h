// The digest of manifest.json that it holds itself: of its text with zeros in
// the digest's place, so that no bit of it can change unseen.
#ifndef DEEPSLICE_SCHEMA_MANIFEST_DIGEST_H_
#define DEEPSLICE_SCHEMA_MANIFEST_DIGEST_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "schema/base/digest.h"

namespace deepslice {

inline constexpr absl::string_view kManifestDigestKey = "manifest_sha256";
inline constexpr size_t kManifestDigestSize = 64;  // hex digits

// What stands in the text before the digest is known.
inline std::string ManifestDigestPlaceholder() {
  return std::string(kManifestDigestSize, '0');
}

// Where the digits begin, behind the key's last place in `text`; npos when they
// are not there.
inline size_t ManifestDigestPlace(absl::string_view text) {
  const std::string head = absl::StrCat("\"", kManifestDigestKey, "\": \"");
  const size_t key = text.rfind(head);
  if (key == absl::string_view::npos) return key;
  const size_t place = key + head.size();
  return place + kManifestDigestSize < text.size() ? place
                                                   : absl::string_view::npos;
}

// Puts the digest in the placeholder's stead; false when there is none.
inline bool SealManifest(std::string* text) {
  const size_t place = ManifestDigestPlace(*text);
  if (place == std::string::npos) return false;
  text->replace(place, kManifestDigestSize, ManifestDigestPlaceholder());
  text->replace(place, kManifestDigestSize, Sha256Hex(*text));
  return true;
}

// Whether the text is what SealManifest left.
inline bool HasManifestDigest(absl::string_view text) {
  std::string sealed(text);
  return SealManifest(&sealed) && sealed == text;
}

}  // namespace deepslice

#endif  // DEEPSLICE_SCHEMA_MANIFEST_DIGEST_H_
