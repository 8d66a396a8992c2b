// The only file that knows Prometheus: its registry has the families that are
// there from the start. What grows, and what is observed often, is beside it
// (variant_series.h, layer_series.h, histogram.h): there nobody waits while a
// scraper reads.
#include "server/metrics/prometheus_metrics.h"

#include <array>
#include <string>

#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/metric_family.h"
#include "prometheus/registry.h"
#include "server/metrics/histogram.h"
#include "server/metrics/layer_series.h"
#include "server/metrics/variant_series.h"

namespace attn {
namespace {

using CounterFamily = prometheus::Family<prometheus::Counter>;

template <size_t kCount>
using Names = std::array<const char*, kCount>;
template <size_t kCount>
using Counters = std::array<prometheus::Counter*, kCount>;

constexpr Names<kPhaseCount> kPhaseNames = {"recv_decode", "queue", "compute",
                                            "encode_send"};
constexpr Names<kRejectReasonCount> kReasonNames = {
    "queue_full",       "deadline_unmeetable",
    "deadline_expired", "cancelled",
    "too_large",        "memory",
    "draining",         "invalid",
    "tenant_quota",     "unauthenticated"};
constexpr Names<kInputTensorCount> kInputNames = {"q", "k", "v"};
constexpr Names<kDeadReasonCount> kDeadNames = {"collapsed", "uninformative",
                                                "constant_logits"};

void WriteFamily(const prometheus::MetricFamily& family, TextPage& page) {
  const bool counts = family.type == prometheus::MetricType::Counter;
  page.Family(family.name, family.help,
              counts ? MetricKind::kCounter : MetricKind::kGauge);
  for (const prometheus::ClientMetric& metric : family.metric) {
    std::string labels;
    for (const auto& label : metric.label) {
      if (!labels.empty()) labels += ',';
      labels += LabelText({{label.name, label.value}});
    }
    page.Line("", labels, counts ? metric.counter.value : metric.gauge.value);
  }
}

// Thread-safe.
class PrometheusMetrics : public WrittenMetrics {
 public:
  explicit PrometheusMetrics(const MetricsInfo& info) : variants_(info) {
    AddBuildInfo(info);
    inflight_ = &prometheus::BuildGauge()
                     .Name("attn_inflight_requests")
                     .Help("Requests that have not ended.")
                     .Register(registry_)
                     .Add({});
  }

  void RequestStarted() override { inflight_->Increment(); }
  void RequestEnded(std::string_view method, std::string_view variant, int code,
                    double seconds) override {
    inflight_->Decrement();
    variants_.RequestEnded(method, variant, code, seconds);
  }

  void PhaseEnded(Phase phase, double seconds) override {
    phases_[static_cast<size_t>(phase)].Observe(seconds);
  }
  void RequestRejected(RejectReason reason) override {
    rejected_[static_cast<size_t>(reason)]->Increment();
  }
  void BatchFormed(int64_t requests, int64_t tokens, int64_t ready) override {
    Add(batch_ready_, ready);
    batch_requests_.Observe(static_cast<double>(requests));
    batch_tokens_.Observe(static_cast<double>(tokens));
  }
  void BytesReceived(int64_t bytes) override { Add(received_bytes_, bytes); }
  void BytesSent(int64_t bytes) override { Add(sent_bytes_, bytes); }
  void PayloadCopies(int64_t copies) override { Add(copies_, copies); }
  void ComputeDone(double flops) override { flops_->Increment(flops); }

  void RowsObserved(std::string_view variant,
                    std::span<const ObservedRow> rows) override {
    variants_.RowsObserved(variant, rows);
  }
  void HeadsObserved(std::string_view layer,
                     std::span<const ObservedHead> heads) override {
    layers_.HeadsObserved(layer, heads);
  }
  void DeadHeads(DeadReason reason, int64_t heads) override {
    Add(dead_heads_[static_cast<size_t>(reason)], heads);
  }
  void FullyMaskedRows(int64_t rows) override { Add(masked_rows_, rows); }
  void NonfiniteInputs(InputTensor tensor, int64_t count) override {
    Add(nonfinite_inputs_[static_cast<size_t>(tensor)], count);
  }
  void NonfiniteOutputs(int64_t count) override {
    Add(nonfinite_outputs_, count);
  }

  void Write(TextPage& page) const override {
    for (const auto& family : registry_.Collect()) WriteFamily(family, page);
    page.Family("attn_phase_duration_seconds", "Phases of Attend calls.",
                MetricKind::kHistogram);
    for (size_t i = 0; i < phases_.size(); ++i) {
      page.Lines(LabelText({{"phase", kPhaseNames[i]}}), phases_[i]);
    }
    page.Family("attn_batch_requests", "Requests started together.",
                MetricKind::kHistogram);
    page.Lines("", batch_requests_);
    page.Family("attn_batch_tokens", "Tokens started together.",
                MetricKind::kHistogram);
    page.Lines("", batch_tokens_);
    variants_.Write(page);
    layers_.Write(page);
  }

 private:
  static void Add(prometheus::Counter* counter, int64_t count) {
    if (count > 0) counter->Increment(static_cast<double>(count));
  }

  CounterFamily& AddFamily(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
  }
  prometheus::Counter* AddCounter(const char* name, const char* help) {
    return &AddFamily(name, help).Add({});
  }
  // One for each value of a label.
  template <size_t kCount>
  Counters<kCount> AddCounters(const char* name, const char* help,
                               const char* label, const Names<kCount>& values) {
    CounterFamily& family = AddFamily(name, help);
    Counters<kCount> counters;
    for (size_t i = 0; i < kCount; ++i) {
      counters[i] = &family.Add({{label, values[i]}});
    }
    return counters;
  }

  void AddBuildInfo(const MetricsInfo& info) {
    prometheus::BuildGauge()
        .Name("attn_build_info")
        .Help("Versions and instruction set; always 1.")
        .Register(registry_)
        .Add({{"version", info.version},
              {"isa", info.isa},
              {"onednn", info.onednn_version},
              {"grpc", info.grpc_version}})
        .Set(1);
  }

  prometheus::Registry registry_;
  prometheus::Gauge* inflight_ = nullptr;
  const Counters<kRejectReasonCount> rejected_ =
      AddCounters("attn_requests_rejected_total",
                  "Requests turned away, by reason.", "reason", kReasonNames);
  prometheus::Counter* const received_bytes_ =
      AddCounter("attn_received_bytes_total", "Bytes of request messages.");
  prometheus::Counter* const sent_bytes_ =
      AddCounter("attn_sent_bytes_total", "Bytes of response messages.");
  prometheus::Counter* const copies_ =
      AddCounter("attn_payload_copies_total",
                 "Copies of a tensor's payload in user space.");
  prometheus::Counter* const batch_ready_ =
      AddCounter("attn_batch_ready_requests_total",
                 "Requests that could have been started as batches were: those "
                 "that were, and those left for want of room.");
  prometheus::Counter* const flops_ =
      AddCounter("attn_compute_flops_total",
                 "Floating-point operations of finished calls.");
  const Counters<kDeadReasonCount> dead_heads_ =
      AddCounters("attn_dead_heads_total",
                  "Heads of calls that told nothing of their input, by reason.",
                  "reason", kDeadNames);
  prometheus::Counter* const masked_rows_ =
      AddCounter("attn_fully_masked_rows_total", "Rows that saw no key.");
  const Counters<kInputTensorCount> nonfinite_inputs_ =
      AddCounters("attn_nonfinite_inputs_total",
                  "NaN and infinite input elements.", "tensor", kInputNames);
  prometheus::Counter* const nonfinite_outputs_ = AddCounter(
      "attn_nonfinite_outputs_total", "NaN and infinite output elements.");
  std::array<Histogram, kPhaseCount> phases_ = {
      Histogram(LatencyBounds()), Histogram(LatencyBounds()),
      Histogram(LatencyBounds()), Histogram(LatencyBounds())};
  Histogram batch_requests_{BatchRequestBounds()};
  Histogram batch_tokens_{BatchTokenBounds()};
  VariantSeries variants_;
  LayerSeries layers_;
};

}  // namespace

std::unique_ptr<WrittenMetrics> MakePrometheusMetrics(const MetricsInfo& info) {
  return std::make_unique<PrometheusMetrics>(info);
}

}  // namespace attn
