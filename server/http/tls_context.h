// The TLS side of a listening socket, with certificates that change while it
// runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "boost/asio/ssl/context.hpp"
#include "server/security/certificates.h"

namespace attn {

// Not thread-safe: for the thread that accepts.
class TlsContexts {
 public:
  // `store` must outlive this.
  explicit TlsContexts(const CertificateStore& store) : store_(store) {}

  // Of the certificates that the store holds now.
  std::shared_ptr<boost::asio::ssl::context> Current();

 private:
  const CertificateStore& store_;
  // Of the store when `context_` was made; 0: never.
  uint64_t version_ = 0;
  std::shared_ptr<boost::asio::ssl::context> context_;
};

// Of the certificate that the peer showed and that was verified: its first URI,
// else its first DNS name, else its common name; "" if it has none of them.
std::string VerifiedPeerName(SSL* connection);
// Whether the peer showed a certificate that was verified.
bool IsVerifiedPeer(SSL* connection);

}  // namespace attn
