// The HTTP port: which path is whose.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "server/http/http_exchange.h"
#include "server/http/http_listener.h"
#include "server/http/json_gateway.h"
#include "server/http/story_handler.h"

namespace attn {

struct HttpFrontOptions {
  HttpListenerOptions listener;
  // To the server itself.
  std::shared_ptr<grpc::Channel> channel;
  // What /readyz says.
  std::function<bool()> serving;
  // Whose pages may call: "https://a.example", or "*". Empty: no page but ours.
  std::vector<std::string> cors_origins;
  // Whether a certificate must be shown for all but the probes.
  bool certificates_needed = false;
  // Whether the port is for this machine alone: then a page whose own name was
  // made to stand for it (DNS rebinding) is known by the Host and refused.
  bool local_only = false;
};

// Serves /healthz, /readyz, the page and the JSON gateway. Thread-safe.
class HttpFront {
 public:
  // Serves when it returns; errors as of HttpListener::Start().
  static absl::StatusOr<std::unique_ptr<HttpFront>> Start(
      const HttpFrontOptions& options);
  // As Stop() without patience.
  ~HttpFront();
  HttpFront(const HttpFront&) = delete;
  HttpFront& operator=(const HttpFront&) = delete;

  const std::vector<int>& ports() const { return listener_->ports(); }
  // Waits at most `patience` for the answers that are owed; what has not ended
  // by then is cancelled. Once.
  void Stop(absl::Duration patience);

 private:
  explicit HttpFront(const HttpFrontOptions& options) : options_(options) {}

  void Handle(std::shared_ptr<HttpExchange> exchange);
  // Null: the request is of no page that may call.
  const std::string* AllowedOrigin(const HttpRequest& request) const;
  // Whether the Host may be that of a page which may call.
  bool IsOwnHost(const HttpRequest& request) const;
  HttpResponse Preflight(const HttpRequest& request) const;

  const HttpFrontOptions options_;
  std::unique_ptr<StoryHandler> story_;
  std::unique_ptr<JsonGateway> gateway_;
  // Last: it calls the others until it is gone.
  std::unique_ptr<HttpListener> listener_;
};

}  // namespace attn
