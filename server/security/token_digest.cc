#include "server/security/token_digest.h"

#include "openssl/crypto.h"
#include "openssl/sha.h"

namespace attn {

static_assert(sizeof(TokenDigest) == SHA256_DIGEST_LENGTH);

TokenDigest DigestOf(absl::string_view token) {
  TokenDigest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         digest.data());
  return digest;
}

bool SameDigest(const TokenDigest& a, const TokenDigest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void Wipe(std::string& secret) {
  OPENSSL_cleanse(secret.data(), secret.size());
  secret.clear();
}

}  // namespace attn
