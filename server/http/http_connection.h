// One connection of a client: requests in, answers out, one after the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/context.hpp"
#include "engine/runtime/mutex.h"
#include "server/http/body_budget.h"
#include "server/http/http_exchange.h"

namespace attn {

// A connection that lives. Thread-safe.
class OpenConnection {
 public:
  virtual ~OpenConnection() = default;
  // Closes it once nothing is owed to the client.
  virtual void CloseWhenIdle() = 0;
  // Tells whoever computes that the client is gone, and closes it.
  virtual void Abort() = 0;
};

// What the connections of one listener share. Thread-safe.
class ConnectionHub {
 public:
  struct Options {
    HttpHandler handler;
    int64_t max_body_bytes = 0;
    int64_t max_bodies_bytes = 0;
    int64_t max_answers_bytes = 0;
    absl::Duration patience;
  };

  explicit ConnectionHub(Options options)
      : options_(std::move(options)),
        bodies_(options_.max_bodies_bytes),
        answers_(options_.max_answers_bytes) {}

  const Options& options() const { return options_; }
  BodyBudget& bodies() { return bodies_; }
  // What clients have not taken yet.
  BodyBudget& answers() { return answers_; }

  using Place = std::list<std::weak_ptr<OpenConnection>>::iterator;
  Place Enter(const std::weak_ptr<OpenConnection>& connection);
  void Leave(Place place);
  int connections() const;

  // Of requests that have been read and not been answered.
  void RequestBegun() { ++owed_; }
  void RequestEnded();
  bool stopping() const { return stopping_; }

  // Lets no connection begin another request, waits at most `patience` for what
  // is owed, then aborts what is left.
  void Stop(absl::Duration patience);

 private:
  std::list<std::weak_ptr<OpenConnection>> Open() const;

  const Options options_;
  BodyBudget bodies_;
  BodyBudget answers_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> owed_{0};
  mutable Mutex mutex_;
  CondVar all_ended_;
  std::list<std::weak_ptr<OpenConnection>> open_ ATTN_GUARDED_BY(mutex_);
};

// Serves the connection until its end; its executor is a strand. With a context
// it begins with a handshake. `hub` must outlive it.
void ServeConnection(boost::asio::ip::tcp::socket socket,
                     std::shared_ptr<boost::asio::ssl::context> context,
                     ConnectionHub& hub);

}  // namespace attn
