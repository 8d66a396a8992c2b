// Metrics that go nowhere.
#pragma once

#include "server/metrics/metrics.h"

namespace attn {

class NullMetrics : public Metrics {
 public:
  void RequestStarted() override {}
  void RequestEnded(std::string_view, std::string_view, int, double) override {}
  void PhaseEnded(Phase, double) override {}
  void RequestRejected(RejectReason) override {}
  void BatchFormed(int64_t, int64_t, int64_t) override {}
  void BytesReceived(int64_t) override {}
  void BytesSent(int64_t) override {}
  void PayloadCopies(int64_t) override {}
  void ComputeDone(double) override {}
  void RowsObserved(std::string_view, std::span<const ObservedRow>) override {}
  void HeadsObserved(std::string_view, std::span<const ObservedHead>) override {
  }
  void DeadHeads(DeadReason, int64_t) override {}
  void FullyMaskedRows(int64_t) override {}
  void NonfiniteInputs(InputTensor, int64_t) override {}
  void NonfiniteOutputs(int64_t) override {}
};

}  // namespace attn
