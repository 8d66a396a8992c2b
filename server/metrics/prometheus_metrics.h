// What is counted, behind the verbs.
#pragma once

#include <memory>

#include "server/metrics/metrics.h"
#include "server/metrics/metrics_server.h"
#include "server/metrics/text_page.h"

namespace attn {

// Thread-safe. Write() makes nobody wait.
class WrittenMetrics : public Metrics {
 public:
  // Every family that is counted by the verbs.
  virtual void Write(TextPage& page) const = 0;
};

std::unique_ptr<WrittenMetrics> MakePrometheusMetrics(const MetricsInfo& info);

}  // namespace attn
