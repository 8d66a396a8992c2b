// One connection of a client that sends what it is told to, byte by byte.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "tests/server/http/http_reply.h"

namespace attn {

// Each wait ends after a minute, as if the server had closed the connection.
// Thread-compatible.
class HttpClient {
 public:
  // Connects to 127.0.0.1.
  explicit HttpClient(int port);
  ~HttpClient() { Close(); }
  HttpClient(HttpClient&& other) noexcept;
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // False: the connection is closed.
  bool Send(absl::string_view bytes);
  // The next answer; status 0 if none comes. `only_header`: it answers HEAD.
  HttpReply Read(bool only_header = false);
  HttpReply Call(const HttpCall& call);
  // Waits for the server to close the connection; false: it sends something, or
  // does not close it.
  bool IsClosed();
  void Close();

 private:
  // Reads until there are `size` bytes; false if they do not come.
  bool Fill(size_t size);

  int socket_ = -1;
  // Read, and not yet given to anybody.
  std::string buffer_;
};

}  // namespace attn
