#include "server/security/authenticator.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/security/token_file.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr TenantQuota kQuota = {.max_requests = 5, .max_inflight_bytes = 0};

std::unique_ptr<TokenStore> Tokens() {
  return *TokenStore::Open([] {
    return ParseTokenFile("alice wonderland\nspiffe://a/bob -\n", kQuota);
  });
}

class AuthenticatorTest : public ::testing::Test {
 protected:
  const std::unique_ptr<TokenStore> tokens_ = Tokens();
  const Authenticator by_token_{{.tokens = tokens_.get()}};
  const Authenticator by_both_{{.tokens = tokens_.get(), .certificates = true}};
  const Authenticator by_certificate_{
      {.certificates = true, .default_quota = kQuota}};
};

TEST_F(AuthenticatorTest, ATokenIsItsTenant) {
  for (const char* shown :
       {"Bearer wonderland", "bearer wonderland", "BEARER  wonderland "}) {
    const auto tenant = by_token_.Identify({.authorization = shown});
    ASSERT_TRUE(tenant.ok()) << shown;
    EXPECT_EQ(*tenant, (Tenant{"alice", kQuota}));
  }
}

TEST_F(AuthenticatorTest, WhatIsNoKnownTokenIsRefusedAndNotRepeated) {
  for (const char* shown :
       {"", "Bearer", "Bearer ", "Bearer wonderlan", "Bearer wonderland2",
        "Bearer Wonderland", "Bearer -", "Basic wonderland", "wonderland",
        "Bearerwonderland", "Bearer wonder land"}) {
    const absl::Status status =
        by_token_.Identify({.authorization = shown}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << shown;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("onder")));
  }
}

TEST_F(AuthenticatorTest, ACertificateIsItsTenantWithTheDefaultQuota) {
  EXPECT_EQ(*by_certificate_.Identify({.certificate_name = "a b"}),
            (Tenant{"a%20b", kQuota}));
  EXPECT_EQ(*by_certificate_.Identify({}), (Tenant{"", kQuota}));
  EXPECT_EQ(
      by_certificate_.Identify({.certificate_name = std::string(129, 'a')})
          .status()
          .code(),
      absl::StatusCode::kUnauthenticated);
}

TEST_F(AuthenticatorTest,
       WithATokenFileOnlyListedCertificatesComeInWithoutAToken) {
  EXPECT_EQ(by_both_.Identify({.certificate_name = "spiffe://a/bob"})->name,
            "spiffe://a/bob");
  for (const char* unlisted : {"alice", "spiffe://a/eve", ""}) {
    EXPECT_FALSE(by_both_.Identify({.certificate_name = unlisted}).ok());
  }
}

TEST_F(AuthenticatorTest, ATokenGoesBeforeACertificate) {
  EXPECT_EQ(by_both_
                .Identify({.authorization = "Bearer wonderland",
                           .certificate_name = "spiffe://a/bob"})
                ->name,
            "alice");
  EXPECT_FALSE(by_both_
                   .Identify({.authorization = "Bearer wrong",
                              .certificate_name = "spiffe://a/bob"})
                   .ok());
}

}  // namespace
}  // namespace attn
