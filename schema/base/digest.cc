#include "schema/base/digest.h"

#include <openssl/evp.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/escaping.h"
#include "schema/base/check.h"

namespace deepslice {

struct Sha256::State {
  State() : ctx(EVP_MD_CTX_new()) {
    DS_CHECK(ctx != nullptr);
    DS_CHECK(EVP_DigestInit_ex(ctx, EVP_sha256(), nullptr) == 1);
  }
  ~State() { EVP_MD_CTX_free(ctx); }
  EVP_MD_CTX* ctx;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(const void* data, size_t size) {
  DS_CHECK(EVP_DigestUpdate(state_->ctx, data, size) == 1);
}

std::string Sha256::Finish() {
  unsigned char out[32];
  DS_CHECK(EVP_DigestFinal_ex(state_->ctx, out, nullptr) == 1);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(out), sizeof(out)));
}

std::string Sha256Hex(absl::string_view data) {
  Sha256 sha;
  sha.Update(data.data(), data.size());
  return sha.Finish();
}

uint64_t Xxh3(const void* data, size_t size) { return XXH3_64bits(data, size); }

}  // namespace deepslice
