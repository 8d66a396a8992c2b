#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "server/http/http_connection.h"

namespace attn {

ConnectionHub::Place ConnectionHub::Enter(
    const std::weak_ptr<OpenConnection>& connection) {
  const MutexLock lock(mutex_);
  return open_.insert(open_.end(), connection);
}

void ConnectionHub::Leave(Place place) {
  const MutexLock lock(mutex_);
  open_.erase(place);
}

int ConnectionHub::connections() const {
  const MutexLock lock(mutex_);
  return static_cast<int>(open_.size());
}

void ConnectionHub::RequestEnded() {
  if (--owed_ > 0) return;
  const MutexLock lock(mutex_);
  all_ended_.NotifyAll();
}

std::list<std::weak_ptr<OpenConnection>> ConnectionHub::Open() const {
  const MutexLock lock(mutex_);
  return open_;
}

void ConnectionHub::Stop(absl::Duration patience) {
  stopping_ = true;
  for (const auto& place : Open()) {
    if (const auto connection = place.lock()) connection->CloseWhenIdle();
  }
  const absl::Time end = absl::Now() + patience;
  {
    MutexLock lock(mutex_);
    while (owed_ > 0) {
      const absl::Duration left = end - absl::Now();
      if (left <= absl::ZeroDuration()) break;
      all_ended_.WaitFor(mutex_, absl::ToChronoNanoseconds(left));
    }
  }
  for (const auto& place : Open()) {
    if (const auto connection = place.lock()) connection->Abort();
  }
}

}  // namespace attn
