#include "server/http/connection_exchange.h"

#include "absl/status/status.h"
#include "server/http/http_error.h"

namespace attn {

ConnectionExchange::~ConnectionExchange() {
  {
    const MutexLock lock(mutex_);
    if (connection_ == nullptr) return;
  }
  Respond(ErrorResponse(absl::InternalError("the request was dropped")));
}

void ConnectionExchange::Respond(HttpResponse response) {
  std::shared_ptr<Answerable> connection;
  std::function<void()> on_gone;
  {
    const MutexLock lock(mutex_);
    connection = std::exchange(connection_, nullptr);
    // It may hold the exchange: it goes once the lock is free.
    on_gone = std::exchange(on_gone_, nullptr);
  }
  if (connection != nullptr) connection->Answer(std::move(response));
}

void ConnectionExchange::OnGone(std::function<void()> gone) {
  {
    const MutexLock lock(mutex_);
    if (!gone_) {
      if (connection_ != nullptr) on_gone_ = std::move(gone);
      return;
    }
  }
  gone();
}

void ConnectionExchange::Leave() {
  std::function<void()> gone;
  {
    const MutexLock lock(mutex_);
    gone_ = true;
    gone = std::exchange(on_gone_, nullptr);
  }
  if (gone) gone();
}

}  // namespace attn
