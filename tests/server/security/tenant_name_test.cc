#include "server/security/tenant_name.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(TenantName, IsShortAndOfItsAlphabet) {
  EXPECT_TRUE(IsTenantName("team-a"));
  EXPECT_TRUE(IsTenantName("spiffe://cluster.local/ns/x/sa/y"));
  EXPECT_TRUE(IsTenantName(std::string(kMaxTenantNameSize, 'a')));
  EXPECT_FALSE(IsTenantName(std::string(kMaxTenantNameSize + 1, 'a')));
  EXPECT_FALSE(IsTenantName(""));
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const bool letter = byte < 128 && std::isalnum(byte) != 0;
    const bool mark =
        byte != 0 && std::string("._~:/@%+-").find(c) != std::string::npos;
    EXPECT_EQ(IsTenantName(std::string(1, c)), letter || mark) << byte;
  }
}

TEST(TenantName, ACertificatesNameIsKeptWhereItCanBe) {
  EXPECT_EQ(TenantOfCertificateName("spiffe://a/b"), "spiffe://a/b");
  EXPECT_EQ(TenantOfCertificateName("attn client"), "attn%20client");
  EXPECT_EQ(TenantOfCertificateName(""), "");
}

// "admin\0.evil" must not become "admin", nor "a%20b" the same as "a b".
TEST(TenantName, TwoNamesOfCertificatesAreNeverOneTenant) {
  std::set<std::string> tenants;
  int names = 0;
  for (int first = 0; first < 256; ++first) {
    for (const char* rest : {"", "%", "20", " ", "\n"}) {
      const std::string name = std::string(1, static_cast<char>(first)) + rest;
      const std::string tenant = TenantOfCertificateName(name);
      EXPECT_TRUE(IsTenantName(tenant)) << tenant;
      tenants.insert(tenant);
      ++names;
    }
  }
  EXPECT_EQ(tenants.size(), static_cast<size_t>(names));
}

TEST(TenantName, ACertificatesNameThatIsTooLongIsNobody) {
  EXPECT_EQ(TenantOfCertificateName(std::string(129, 'a')), "");
  EXPECT_EQ(TenantOfCertificateName(std::string(128, 'a')).size(), 128U);
  EXPECT_EQ(TenantOfCertificateName(std::string(43, ' ')), "");
}

}  // namespace
}  // namespace attn
