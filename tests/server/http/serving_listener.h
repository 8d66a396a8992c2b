// A listener on a free port, and a handler that answers as the path says:
//
//   /held      once the test says so
//   /dropped   never: the exchange is let go
//   /status/N  with that status and no body
//   all else   200 and Echo() of the request
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "engine/runtime/mutex.h"
#include "server/http/http_listener.h"

namespace attn {

// "POST /path?a=b x-twice: ... body".
std::string Echo(const HttpRequest& request);

// Thread-safe.
class ServingListener {
 public:
  explicit ServingListener(HttpListenerOptions options = {});
  ~ServingListener();
  ServingListener(const ServingListener&) = delete;
  ServingListener& operator=(const ServingListener&) = delete;

  int port() const { return listener_->ports().front(); }
  void Stop(absl::Duration patience) { listener_->Stop(patience); }
  // The next request to /held; null if none comes within a minute. It must be
  // gone before this is.
  std::shared_ptr<HttpExchange> Next();

 private:
  void Handle(std::shared_ptr<HttpExchange> exchange);

  Mutex mutex_;
  CondVar came_;
  std::deque<std::shared_ptr<HttpExchange>> held_ ATTN_GUARDED_BY(mutex_);
  std::unique_ptr<HttpListener> listener_;
};

// Asks every 2 ms, for a minute. False: it did not come true.
bool ComesTrue(const std::function<bool()>& is_so);

}  // namespace attn
