// Certificates made on the spot.
#pragma once

#include <string>

// OpenSSL's.
struct x509_st;
struct evp_pkey_st;

namespace attn {

struct TestSubject {
  std::string common_name{};
  // As OpenSSL writes them: "IP:127.0.0.1,DNS:localhost,URI:spiffe://a/b".
  std::string alternative_names{};
  // From now; negative: it has expired.
  int days = 1;
};

// PEM texts.
struct TestIdentity {
  std::string chain;
  std::string key;
};

// Who signs them. Thread-compatible.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name);
  ~TestAuthority();
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;

  // Its own certificate.
  const std::string& pem() const { return pem_; }
  TestIdentity Issue(const TestSubject& subject) const;
  // A server on this machine.
  TestIdentity IssueServer(const std::string& common_name) const {
    return Issue({.common_name = common_name,
                  .alternative_names = "IP:127.0.0.1,DNS:localhost"});
  }

 private:
  evp_pkey_st* key_;
  x509_st* certificate_;
  std::string pem_;
};

}  // namespace attn
