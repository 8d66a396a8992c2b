// A request of HTTP, its answer, and what is between the two.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace attn {

struct HttpRequest {
  std::string method{};
  // Decoded, without the query: "/v1/layers/a b".
  std::string path{};
  // Decoded; of a name that stands twice, the last.
  std::map<std::string, std::string> query{};
  // Names in lower case; the values of a name that stands twice with ", "
  // between them.
  std::map<std::string, std::string> headers{};
  std::string body{};
  // Whether the client showed a certificate that was verified, and for whom it
  // is (server/security/authenticator.h).
  bool certified = false;
  std::string certificate_name{};

  // Empty if there is none.
  absl::string_view Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? absl::string_view() : found->second;
  }
};

struct HttpResponse {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string body{};
};

// One request, until it is answered. Thread-safe.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // The body may be moved out, by the handler alone.
  virtual HttpRequest& request() = 0;
  // Exactly once, from any thread.
  virtual void Respond(HttpResponse response) = 0;
  // `gone` is called, once and on any thread, if the client leaves before the
  // answer: at once if it has left. A later one takes its place.
  virtual void OnGone(std::function<void()> gone) = 0;
};

// Called on a thread that serves other connections too: never blocks.
using HttpHandler = std::function<void(std::shared_ptr<HttpExchange>)>;

}  // namespace attn
