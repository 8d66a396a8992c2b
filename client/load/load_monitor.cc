#include "client/load/load_monitor.h"

#include <utility>

namespace attn {

std::optional<LoadProgress> LoadMonitor::Look() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!look_) return std::nullopt;
  return look_();
}

void LoadMonitor::Begin(std::function<LoadProgress()> look) {
  const std::lock_guard<std::mutex> lock(mutex_);
  look_ = std::move(look);
}

void LoadMonitor::End() {
  const std::lock_guard<std::mutex> lock(mutex_);
  look_ = nullptr;
}

}  // namespace attn
