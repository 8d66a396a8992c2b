#include "server/security/certificates.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/scratch_folder.h"
#include "tests/server/security/test_certificates.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CertificatesTest : public ::testing::Test {
 protected:
  CertificatesTest() : authority_("test CA") {
    const TestIdentity identity = authority_.IssueServer("attn");
    key_ = identity.key;
    paths_ = {.certificate = folder_.Write("cert.pem", identity.chain),
              .key = folder_.Write("key.pem", key_),
              .client_ca = folder_.Write("ca.pem", authority_.pem())};
  }

  std::string WhyNot() const {
    return std::string(LoadCertificates(paths_).status().message());
  }

  const ScratchFolder folder_;
  const TestAuthority authority_;
  std::string key_;
  CertificatePaths paths_;
};

TEST_F(CertificatesTest, AreReadIfTheyFit) {
  const auto loaded = LoadCertificates(paths_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->key, key_);
  EXPECT_EQ(loaded->client_ca, authority_.pem());
  paths_.client_ca = "";
  EXPECT_EQ(LoadCertificates(paths_)->client_ca, "");
}

TEST_F(CertificatesTest, AreToldByWhomTheyAreForAndUntilWhen) {
  EXPECT_THAT(DescribeCertificate(LoadCertificates(paths_)->chain),
              AllOf(HasSubstr("CN = attn"), HasSubstr("until 20")));
  const TestIdentity old = authority_.Issue({.common_name = "old", .days = -1});
  EXPECT_THAT(DescribeCertificate(old.chain), HasSubstr("EXPIRED since 20"));
}

TEST_F(CertificatesTest, WhatCannotBeReadIsNamedByItsFlag) {
  const CertificatePaths good = paths_;
  for (const auto& [flag, path] :
       {std::pair("--tls-cert=", &CertificatePaths::certificate),
        std::pair("--tls-key=", &CertificatePaths::key),
        std::pair("--tls-client-ca=", &CertificatePaths::client_ca)}) {
    paths_ = good;
    paths_.*path = folder_.File("none");
    EXPECT_THAT(WhyNot(),
                AllOf(StartsWith(flag + paths_.*path), HasSubstr("No such")));
    paths_.*path = folder_.Write("garbage", "not PEM at all\n");
    EXPECT_THAT(WhyNot(),
                AllOf(StartsWith(flag + paths_.*path), HasSubstr("no PEM")));
  }
}

TEST_F(CertificatesTest, AKeyOfAnotherCertificateIsRefused) {
  paths_.key = folder_.Write("other.pem", authority_.IssueServer("other").key);
  EXPECT_THAT(WhyNot(), AllOf(StartsWith("--tls-key="),
                              HasSubstr("is not the key of --tls-cert=" +
                                        paths_.certificate)));
}

TEST_F(CertificatesTest, AHalfWrittenFileIsRefused) {
  const std::string chain = LoadCertificates(paths_)->chain;
  for (const size_t size : {chain.size() / 2, chain.size() + 40}) {
    paths_.certificate =
        folder_.Write("half.pem", (chain + authority_.pem()).substr(0, size));
    EXPECT_THAT(WhyNot(), StartsWith("--tls-cert=")) << size;
  }
  paths_.certificate = folder_.Write("cert.pem", chain);
  paths_.key = folder_.Write("half.pem", key_.substr(0, key_.size() / 2));
  EXPECT_THAT(WhyNot(), StartsWith("--tls-key="));
}

TEST_F(CertificatesTest, ErrorsHoldNothingOfTheKey) {
  paths_.certificate = folder_.Write("cert.pem", key_);
  const std::string secret = key_.substr(key_.find('\n') + 1, 16);
  const std::string message = WhyNot();
  EXPECT_THAT(message, StartsWith("--tls-cert="));
  EXPECT_EQ(message.find(secret), std::string::npos);
}

}  // namespace
}  // namespace attn
