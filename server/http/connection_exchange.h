// One request of a connection, until it is answered.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "engine/runtime/mutex.h"
#include "server/http/http_exchange.h"

namespace attn {

// What an exchange tells its connection. Thread-safe.
class Answerable {
 public:
  virtual ~Answerable() = default;
  virtual void Answer(HttpResponse response) = 0;
};

// Keeps the connection until it is answered. Thread-safe.
class ConnectionExchange final : public HttpExchange {
 public:
  ConnectionExchange(HttpRequest request,
                     std::shared_ptr<Answerable> connection)
      : request_(std::move(request)), connection_(std::move(connection)) {}
  // Answers 500 if nobody has answered.
  ~ConnectionExchange() override;
  ConnectionExchange(const ConnectionExchange&) = delete;
  ConnectionExchange& operator=(const ConnectionExchange&) = delete;

  HttpRequest& request() override { return request_; }
  void Respond(HttpResponse response) override;
  void OnGone(std::function<void()> gone) override;

  // The client has left.
  void Leave();

 private:
  HttpRequest request_;
  Mutex mutex_;
  std::shared_ptr<Answerable> connection_ ATTN_GUARDED_BY(mutex_);
  std::function<void()> on_gone_ ATTN_GUARDED_BY(mutex_);
  bool gone_ ATTN_GUARDED_BY(mutex_) = false;
};

}  // namespace attn
