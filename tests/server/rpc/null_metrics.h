// Metrics that go nowhere.
#pragma once

#include <string>

#include "server/metrics/metrics.h"

namespace attn {

class NullMetrics : public Metrics {
 public:
  void RequestStarted() override {}
  void RequestEnded(const std::string&, const std::string&, const std::string&,
                    double) override {}
  void PhaseEnded(Phase, double) override {}
  void RequestRejected(RejectReason) override {}
  void BatchFormed(int64_t, int64_t) override {}
  void BytesReceived(int64_t) override {}
  void BytesSent(int64_t) override {}
  void PayloadCopies(int64_t) override {}
  void ComputeDone(double) override {}
  void RowObserved(const std::string&, double, double) override {}
  void FullyMaskedRows(int64_t) override {}
  void NonfiniteInputs(const std::string&, int64_t) override {}
  void NonfiniteOutputs(int64_t) override {}
};

}  // namespace attn
