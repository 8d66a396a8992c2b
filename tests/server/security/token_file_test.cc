#include "server/security/token_file.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/security/tenant_name.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr TenantQuota kDefaults = {.max_requests = 9,
                                   .max_inflight_bytes = 900};

TEST(TokenFile, NamesTenantsTheirTokensAndQuotas) {
  const auto set = ParseTokenFile(
      "# who may come in\n"
      "\n"
      "alice s3cret max-requests=4 max-inflight-bytes=1000  # the team\n"
      "\tbob\thunter2\n"
      "carol c4rol max-requests=0\n",
      kDefaults);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->tenants(), 3U);
  const Tenant alice = {"alice",
                        {.max_requests = 4, .max_inflight_bytes = 1000}};
  EXPECT_EQ(*set->FindByToken("s3cret"), alice);
  EXPECT_EQ(*set->FindByToken("hunter2"), (Tenant{"bob", kDefaults}));
  EXPECT_EQ(set->FindByToken("c4rol")->quota.max_requests, 0);
  EXPECT_EQ(set->FindByToken("c4rol")->quota.max_inflight_bytes, 900);
  EXPECT_EQ(set->FindByToken("#"), nullptr);
}

TEST(TokenFile, LinesMayEndAsOnWindowsAndTheLastMayNotEnd) {
  const auto set =
      ParseTokenFile("a one\r\nb two max-requests=1\r\nc three", {});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->FindByToken("one")->name, "a");
  EXPECT_EQ(set->FindByToken("two")->quota.max_requests, 1);
  EXPECT_EQ(set->FindByToken("three")->name, "c");
}

TEST(TokenFile, ATenantMayHaveAnOldAndANewToken) {
  const auto set = ParseTokenFile("a old max-requests=3\na new\n", kDefaults);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->tenants(), 1U);
  EXPECT_EQ(*set->FindByToken("old"), *set->FindByToken("new"));
  EXPECT_EQ(set->FindByToken("new")->quota.max_requests, 3);
  // The quota may stand on the second line too.
  const auto later = ParseTokenFile("a old\na new max-requests=3\n", kDefaults);
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(later->FindByToken("old")->quota.max_requests, 3);
}

TEST(TokenFile, ADashIsATenantKnownByItsCertificate) {
  const auto set = ParseTokenFile("spiffe://a/b - max-requests=2\n", {});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->tokens(), 0U);
  EXPECT_EQ(set->FindByCertificate("spiffe://a/b")->quota.max_requests, 2);
  EXPECT_EQ(set->FindByToken("-"), nullptr);
}

struct Hostile {
  std::string text;
  std::string line;
};

std::vector<Hostile> HostileFiles() {
  using namespace std::string_literals;  // NOLINT(build/namespaces)
  std::string too_many;
  for (size_t i = 0; i <= kMaxTokens; ++i) {
    too_many += absl::StrCat("t secret", i) + "\n";
  }
  return {{"secret", "line 1"},  // a tenant alone
          {"ok secret0\nbad secret max-requests=-1", "line 2"},
          {"bad secret max-requests=", "line 1"},
          {"bad secret max-requests=1e3", "line 1"},
          {"bad secret max-requests=99999999999999999999", "line 1"},
          {"bad secret max-requests=1 max-requests=1", "line 1"},
          {"bad secret max-kv-bytes=5", "line 1"},
          {"bad my secret", "line 1"},  // a token with a space in it
          {"\n\nb\xc3\xa4"
           "d secret",
           "line 3"},
          {"\xef\xbb\xbf"
           "bad secret",
           "line 1"},  // a byte order mark
          {"bad s\xc3\xa9"
           "cret-secret",
           "line 1"},
          {"bad secret\0more"s, "line 1"},
          {"\0bad secret"s, "line 1"},
          {"bad secret\x1b[2J", "line 1"},
          {"bad secret\x7f", "line 1"},
          {std::string(kMaxTenantNameSize + 1, 'a') + " secret", "line 1"},
          {"bad " + std::string(kMaxTokenSize + 1, 's') + "secret", "line 1"},
          {std::string(1 << 20, 's') + "secret", "line 1"},
          {"a secret\nb secret", "line 2: the token of line 1"},
          {"a secret max-requests=1\na secret2 max-requests=2",
           "line 2: the quota of this tenant stands on line 1"},
          {too_many, "more than 10000 tokens"}};
}

TEST(TokenFile, WhatCannotBeMeantIsRefusedByItsLineWithoutASecret) {
  for (const Hostile& hostile : HostileFiles()) {
    const auto set = ParseTokenFile(hostile.text, {});
    const std::string head = hostile.text.substr(0, 40);
    EXPECT_EQ(set.status().code(), absl::StatusCode::kInvalidArgument) << head;
    const std::string message(set.status().message());
    EXPECT_THAT(message, HasSubstr(hostile.line)) << head;
    EXPECT_THAT(message, Not(HasSubstr("secret"))) << head;
    EXPECT_EQ(message.find('\n'), std::string::npos) << head;
  }
}

TEST(TokenFile, AFileWithoutATenantIsRefused) {
  for (const char* empty : {"", "\n\n", "# nobody\n", "   \r\n\t"}) {
    EXPECT_THAT(std::string(ParseTokenFile(empty, {}).status().message()),
                HasSubstr("no tenant"));
  }
}

// Whatever comes: a set or a refusal, and a set only of proper names.
TEST(TokenFile, RandomBytesAreReadOrRefused) {
  std::minstd_rand random(7);
  const std::string letters = "ab=-# \t\r\nmax-requests=1";
  int read = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    const size_t size = random() % 60;
    for (size_t i = 0; i < size; ++i) {
      text += random() % 8 == 0 ? static_cast<char>(random() % 256)
                                : letters[random() % letters.size()];
    }
    const auto set = ParseTokenFile(text, {});
    if (set.ok()) {
      ++read;
      EXPECT_FALSE(set->empty());
    }
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace attn
