// The server's certificate, its key, and who signs those of clients.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/security/reloadable.h"

namespace attn {

// PEM files.
struct CertificatePaths {
  std::string certificate;  // the chain, the server's own first
  std::string key;
  std::string client_ca{};  // empty: clients show no certificate
};

// Their texts, which fit together.
struct Certificates {
  std::string chain;
  std::string key;
  std::string client_ca;
  // Everybody on the machine may read the key.
  bool key_open_to_all = false;

  bool operator==(const Certificates&) const = default;
};

using CertificateStore = Reloadable<Certificates>;

// Reads and checks them as a TLS library does. FAILED_PRECONDITION, one line,
// names the flag and the path of what cannot be read, is not what it should be,
// or does not fit the other.
absl::StatusOr<Certificates> LoadCertificates(const CertificatePaths& paths);

// Whom a chain is for and how long it is good:
// "CN = attn, until 2027-01-31 12:00:00Z".
// `chain` was loaded.
std::string DescribeCertificate(absl::string_view chain);

}  // namespace attn
