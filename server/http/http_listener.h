// Listens for HTTP/1.1 and hands each request to a handler.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/http/http_exchange.h"
#include "server/security/certificates.h"

namespace attn {

struct HttpListenerOptions {
  // Numeric; port 0: any free one.
  struct Endpoint {
    std::string host;
    int port = 0;
  };
  std::vector<Endpoint> endpoints{};
  // Null: no TLS. With a client CA a certificate is asked for, and verified if
  // it is shown. Must outlive the listener.
  const CertificateStore* certificates = nullptr;
  // Of one request, and of all that are being read or computed.
  int64_t max_body_bytes = int64_t{16} << 20;
  int64_t max_bodies_bytes = int64_t{64} << 20;
  // Of all answers that clients have not taken yet; one more is 429. What is at
  // most 64 KiB is always sent.
  int64_t max_answers_bytes = int64_t{64} << 20;
  // One more is told 503 and closed.
  int max_connections = 512;
  // How long a client may take to send the next request, its header, or each
  // MiB of what it sends and takes, and one more.
  absl::Duration patience = absl::Seconds(30);
};

// A server of HTTP on two threads of its own. Thread-safe.
class HttpListener {
 public:
  virtual ~HttpListener() = default;

  // Listens when it returns. FAILED_PRECONDITION if an endpoint cannot be
  // bound. The handler must work until the listener is gone.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(
      const HttpListenerOptions& options, HttpHandler handler);

  // The ports that were really bound, in the order of the endpoints.
  virtual const std::vector<int>& ports() const = 0;
  // Takes no more connections, waits at most `patience` for the answers that
  // are owed, tells clients that left and closes what is open. Once; the
  // destructor does it without waiting.
  virtual void Stop(absl::Duration patience) = 0;
};

}  // namespace attn
