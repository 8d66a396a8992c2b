// One connection of a client of HTTP over TLS.
#pragma once

#include <string>

#include "boost/asio/io_context.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/core/tcp_stream.hpp"
#include "boost/beast/ssl/ssl_stream.hpp"
#include "tests/integration/server/secure_server.h"
#include "tests/server/http/http_reply.h"

namespace attn {

// Each wait ends after a minute. Thread-compatible.
class HttpsClient {
 public:
  // Connects to 127.0.0.1 and shakes hands, showing the caller's certificate if
  // it has one.
  HttpsClient(int port, const TestCaller& caller);
  HttpsClient(const HttpsClient&) = delete;
  HttpsClient& operator=(const HttpsClient&) = delete;

  // With the caller's authorization; status 0 if no answer comes.
  HttpReply Call(const HttpCall& call);
  // The common name of the server's certificate.
  std::string peer();

 private:
  using Stream = boost::beast::ssl_stream<boost::beast::tcp_stream>;

  // Lets what was begun end; false if it fails.
  bool Run();

  const std::string authorization_;
  boost::asio::io_context io_;
  boost::asio::ssl::context context_{boost::asio::ssl::context::tls_client};
  Stream stream_;
  boost::beast::flat_buffer buffer_;
  boost::system::error_code error_;
  bool connected_ = false;
};

}  // namespace attn
