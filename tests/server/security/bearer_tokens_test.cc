#include "server/security/bearer_tokens.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/security/token_digest.h"

namespace attn {
namespace {

TEST(TokenDigest, IsSha256) {
  // FIPS 180-4, the example "abc".
  const TokenDigest digest = DigestOf("abc");
  EXPECT_EQ(digest[0], 0xba);
  EXPECT_EQ(digest[1], 0x78);
  EXPECT_EQ(digest[31], 0xad);
}

TEST(TokenDigest, IsTheSameOnlyIfEveryByteIs) {
  const TokenDigest digest = DigestOf("abc");
  EXPECT_TRUE(SameDigest(digest, DigestOf("abc")));
  for (size_t i = 0; i < digest.size(); ++i) {
    TokenDigest other = digest;
    other[i] ^= 1;
    EXPECT_FALSE(SameDigest(digest, other)) << i;
  }
}

TEST(TokenDigest, WipingLeavesNothing) {
  std::string secret = "a token that is longer than a short string";
  const char* where = secret.data();
  const size_t size = secret.size();
  Wipe(secret);
  EXPECT_TRUE(secret.empty());
  EXPECT_EQ(std::string(where, size), std::string(size, '\0'));
}

TEST(BearerTokens, EveryTokenFindsItsTenantAndNothingElseDoes) {
  BearerTokens set;
  constexpr int kTokens = 300;
  for (int i = 0; i < kTokens; ++i) {
    set.AddToken(DigestOf(absl::StrCat("token", i)),
                 absl::StrCat("tenant", i % 7));
  }
  EXPECT_EQ(set.tenants(), 7U);
  EXPECT_EQ(set.tokens(), static_cast<size_t>(kTokens));
  for (int i = 0; i < kTokens; ++i) {
    const Tenant* found = set.FindByToken(absl::StrCat("token", i));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->name, absl::StrCat("tenant", i % 7));
  }
  for (const char* wrong : {"", "token", "token300", "token1 ", "Token1"}) {
    EXPECT_EQ(set.FindByToken(wrong), nullptr) << wrong;
  }
}

TEST(BearerTokens, ACertificateCountsOnlyWhereItIsListed) {
  BearerTokens set;
  set.AddToken(DigestOf("t"), "by-token");
  set.AddCertificate("by-certificate");
  EXPECT_EQ(set.FindByCertificate("by-token"), nullptr);
  ASSERT_NE(set.FindByCertificate("by-certificate"), nullptr);
  EXPECT_EQ(set.FindByCertificate("by-certificate")->name, "by-certificate");
}

}  // namespace
}  // namespace attn
