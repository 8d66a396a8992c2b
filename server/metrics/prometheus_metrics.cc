// The only file that knows Prometheus.
#include <array>
#include <cmath>
#include <exception>
#include <map>
#include <optional>
#include <utility>

#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/exposer.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/metric_family.h"
#include "prometheus/registry.h"
#include "server/metrics/metrics_server.h"
#include "server/metrics/process_stats.h"
#include "server/metrics/variant_series.h"

namespace attn {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;
using CounterFamily = prometheus::Family<prometheus::Counter>;
using HistogramFamily = prometheus::Family<prometheus::Histogram>;
using CountersByLabel = std::map<std::string, prometheus::Counter*>;

constexpr std::array<const char*, kPhaseCount> kPhaseNames = {
    "recv_decode", "queue", "compute", "encode_send"};
constexpr std::array<const char*, kRejectReasonCount> kReasonNames = {
    "queue_full",       "deadline_unmeetable",
    "deadline_expired", "cancelled",
    "too_large",        "memory",
    "draining",         "invalid",
    "tenant_quota",     "unauthenticated"};
constexpr std::array<const char*, 3> kInputNames = {"q", "k", "v"};

// 15 us to 14 s in steps of 1.5: quantiles within 25 % from a tiny call on a
// loopback to a prefill that takes seconds.
Buckets LatencyBuckets() {
  constexpr int kCount = 35;
  Buckets buckets;
  double bound = 15e-6;
  for (int i = 0; i < kCount; ++i, bound *= 1.5) buckets.push_back(bound);
  return buckets;
}

Buckets PowersOfTwo(int count) {
  Buckets buckets;
  for (int i = 0; i < count; ++i) buckets.push_back(std::ldexp(1.0, i));
  return buckets;
}

// (0, 1] in 20 equal steps.
Buckets UnitBuckets() {
  constexpr int kCount = 20;
  Buckets buckets;
  for (int i = 1; i <= kCount; ++i) {
    buckets.push_back(static_cast<double>(i) / kCount);
  }
  return buckets;
}

prometheus::MetricFamily OneValue(const std::string& name,
                                  const std::string& help,
                                  prometheus::MetricType type, double value) {
  prometheus::ClientMetric metric;
  if (type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return {name, help, type, {std::move(metric)}};
}

// Values that are read when a scraper asks. Thread-safe.
class ScrapedValues : public prometheus::Collectable {
 public:
  ScrapedValues(MetricsInfo info, GaugeSources sources)
      : info_(std::move(info)), sources_(std::move(sources)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    AddServer(families);
    AddProcess(families);
    return families;
  }

 private:
  using Families = std::vector<prometheus::MetricFamily>;
  static constexpr auto kCounter = prometheus::MetricType::Counter;
  static constexpr auto kGauge = prometheus::MetricType::Gauge;

  void AddServer(Families& out) const {
    out.push_back(OneValue("attn_queue_depth", "Requests that wait.", kGauge,
                           sources_.queue_depth()));
    out.push_back(OneValue("attn_queue_capacity",
                           "Requests that may wait at once.", kGauge,
                           info_.queue_capacity));
    out.push_back(OneValue("attn_queue_oldest_age_seconds",
                           "Age of the request that has waited longest.",
                           kGauge, sources_.queue_oldest_age_seconds()));
    out.push_back(OneValue("attn_inflight_bytes",
                           "Bytes booked by admitted requests.", kGauge,
                           sources_.inflight_bytes()));
    out.push_back(OneValue("attn_inflight_capacity_bytes",
                           "Bytes that may be booked at once.", kGauge,
                           info_.inflight_bytes_capacity));
    out.push_back(OneValue("attn_compute_busy_seconds_total",
                           "Time that compute threads spent in tile jobs.",
                           kCounter, sources_.compute_busy_seconds()));
    out.push_back(OneValue("attn_cpu_quota_cores",
                           "Cores that this process may use.", kGauge,
                           info_.cpu_quota_cores));
    out.push_back(OneValue("attn_compute_threads", "Compute threads.", kGauge,
                           info_.compute_threads));
  }

  static void AddProcess(Families& out) {
    const ProcessStats stats = ReadProcessStats();
    out.push_back(OneValue("attn_cgroup_periods_total",
                           "Periods of the CPU quota with work to do.",
                           kCounter, stats.quota_periods));
    out.push_back(OneValue("attn_cgroup_throttled_periods_total",
                           "Periods in which the CPU quota ran out.", kCounter,
                           stats.throttled_periods));
    out.push_back(OneValue("attn_cgroup_throttled_seconds_total",
                           "Time that the CPU quota held threads back.",
                           kCounter, stats.throttled_seconds));
    out.push_back(OneValue("process_cpu_seconds_total",
                           "User and system CPU time.", kCounter,
                           stats.cpu_seconds));
    out.push_back(OneValue("process_start_time_seconds",
                           "Start time since the epoch.", kGauge,
                           stats.start_time_seconds));
    out.push_back(OneValue("process_resident_memory_bytes", "Resident memory.",
                           kGauge, stats.resident_bytes));
    out.push_back(OneValue("process_virtual_memory_bytes", "Virtual memory.",
                           kGauge, stats.virtual_bytes));
    out.push_back(OneValue("process_open_fds", "Open file descriptors.", kGauge,
                           stats.open_fds));
    out.push_back(OneValue("process_max_fds", "Limit of file descriptors.",
                           kGauge, stats.max_fds));
    out.push_back(
        OneValue("process_threads", "Threads.", kGauge, stats.threads));
  }

  const MetricsInfo info_;
  const GaugeSources sources_;
};

// Every series is made by the constructor, but for those of variants that are
// seen later; the verbs look up. Thread-safe.
class PrometheusMetrics : public Metrics {
 public:
  explicit PrometheusMetrics(const MetricsInfo& info)
      : registry_(std::make_shared<prometheus::Registry>()) {
    AddBuildInfo(info);
    AddRequests(info);
    AddPhases();
    AddNumerics(info);
    for (const std::string& variant : info.initial_variants) {
      for (auto& [name, method] : methods_) method.Of(variant);
      rows_->Of(variant);
    }
  }

  void RequestStarted() override { inflight_->Increment(); }

  void RequestEnded(const std::string& method, const std::string& variant,
                    const std::string& code, double seconds) override {
    inflight_->Decrement();
    const auto found = methods_.find(method);
    if (found == methods_.end()) return;
    const RequestSeries& series = found->second.Of(variant);
    const auto counter = series.by_code.find(code);
    if (counter != series.by_code.end()) counter->second->Increment();
    series.duration->Observe(seconds);
  }

  void PhaseEnded(Phase phase, double seconds) override {
    phases_[static_cast<size_t>(phase)]->Observe(seconds);
  }
  void RequestRejected(RejectReason reason) override {
    rejected_[static_cast<size_t>(reason)]->Increment();
  }
  void BatchFormed(int64_t requests, int64_t tokens) override {
    batch_requests_->Observe(static_cast<double>(requests));
    batch_tokens_->Observe(static_cast<double>(tokens));
  }
  void BytesReceived(int64_t bytes) override { Add(received_bytes_, bytes); }
  void BytesSent(int64_t bytes) override { Add(sent_bytes_, bytes); }
  void PayloadCopies(int64_t copies) override { Add(copies_, copies); }
  void ComputeDone(double flops) override { flops_->Increment(flops); }

  void RowObserved(const std::string& variant, double entropy_ratio,
                   double peak_weight) override {
    const RowSeries& series = rows_->Of(variant);
    series.entropy_ratio->Observe(entropy_ratio);
    series.max_weight->Observe(peak_weight);
  }

  void FullyMaskedRows(int64_t rows) override { Add(masked_rows_, rows); }
  void NonfiniteInputs(const std::string& tensor, int64_t count) override {
    const auto counter = nonfinite_inputs_.find(tensor);
    if (counter != nonfinite_inputs_.end()) Add(counter->second, count);
  }
  void NonfiniteOutputs(int64_t count) override {
    Add(nonfinite_outputs_, count);
  }

  std::shared_ptr<prometheus::Registry> registry() const { return registry_; }

 private:
  // The series of one variant of one RPC.
  struct RequestSeries {
    CountersByLabel by_code;
    prometheus::Histogram* duration = nullptr;
  };
  // Those of the sampled rows of one variant.
  struct RowSeries {
    prometheus::Histogram* entropy_ratio = nullptr;
    prometheus::Histogram* max_weight = nullptr;
  };

  static void Add(prometheus::Counter* counter, int64_t count) {
    if (count > 0) counter->Increment(static_cast<double>(count));
  }

  CounterFamily& Counters(const std::string& name, const std::string& help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(
        *registry_);
  }
  prometheus::Counter* Counter(const std::string& name,
                               const std::string& help) {
    return &Counters(name, help).Add({});
  }
  HistogramFamily& Histograms(const std::string& name,
                              const std::string& help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(
        *registry_);
  }

  void AddBuildInfo(const MetricsInfo& info) {
    prometheus::BuildGauge()
        .Name("attn_build_info")
        .Help("Versions and instruction set; always 1.")
        .Register(*registry_)
        .Add({{"version", info.version},
              {"isa", info.isa},
              {"onednn", info.onednn_version},
              {"grpc", info.grpc_version}})
        .Set(1);
  }

  void AddRequests(const MetricsInfo& info) {
    CounterFamily& counts =
        Counters("attn_requests_total", "Requests that ended, by status code.");
    HistogramFamily& durations =
        Histograms("attn_request_duration_seconds",
                   "From the arrival of a request to its reply.");
    for (const MethodLabels& labels : info.methods) {
      const auto make = [&counts, &durations, codes = info.codes,
                         method = labels.method](const std::string& variant) {
        RequestSeries series;
        for (const std::string& code : codes) {
          series.by_code[code] = &counts.Add(
              {{"method", method}, {"variant", variant}, {"code", code}});
        }
        series.duration = &durations.Add(
            {{"method", method}, {"variant", variant}}, LatencyBuckets());
        return series;
      };
      methods_.try_emplace(labels.method, labels.variants, make, &budget_);
    }
    inflight_ = &prometheus::BuildGauge()
                     .Name("attn_inflight_requests")
                     .Help("Requests that have not ended.")
                     .Register(*registry_)
                     .Add({});
  }

  void AddPhases() {
    HistogramFamily& phases =
        Histograms("attn_phase_duration_seconds", "Phases of Attend calls.");
    for (size_t i = 0; i < phases_.size(); ++i) {
      phases_[i] = &phases.Add({{"phase", kPhaseNames[i]}}, LatencyBuckets());
    }
    CounterFamily& rejected = Counters("attn_requests_rejected_total",
                                       "Requests turned away, by reason.");
    for (size_t i = 0; i < rejected_.size(); ++i) {
      rejected_[i] = &rejected.Add({{"reason", kReasonNames[i]}});
    }
    batch_requests_ =
        &Histograms("attn_batch_requests", "Requests started together.")
             .Add({}, PowersOfTwo(11));
    batch_tokens_ = &Histograms("attn_batch_tokens", "Tokens started together.")
                         .Add({}, PowersOfTwo(21));
    received_bytes_ =
        Counter("attn_received_bytes_total", "Bytes of request messages.");
    sent_bytes_ =
        Counter("attn_sent_bytes_total", "Bytes of response messages.");
    copies_ = Counter("attn_payload_copies_total",
                      "Copies of a tensor's payload in user space.");
    flops_ = Counter("attn_compute_flops_total",
                     "Floating-point operations of finished calls.");
  }

  void AddNumerics(const MetricsInfo& info) {
    HistogramFamily& entropy =
        Histograms("attn_row_entropy_ratio",
                   "Entropy over ln(visible keys) of sampled rows.");
    HistogramFamily& weight =
        Histograms("attn_row_max_weight", "Largest weight of sampled rows.");
    const auto make = [&entropy, &weight](const std::string& variant) {
      return RowSeries{&entropy.Add({{"variant", variant}}, UnitBuckets()),
                       &weight.Add({{"variant", variant}}, UnitBuckets())};
    };
    rows_.emplace(info.row_variants, make, &budget_);
    masked_rows_ =
        Counter("attn_fully_masked_rows_total", "Rows that saw no key.");
    CounterFamily& inputs = Counters("attn_nonfinite_inputs_total",
                                     "NaN and infinite input elements.");
    for (const char* name : kInputNames) {
      nonfinite_inputs_[name] = &inputs.Add({{"tensor", name}});
    }
    nonfinite_outputs_ = Counter("attn_nonfinite_outputs_total",
                                 "NaN and infinite output elements.");
  }

  const std::shared_ptr<prometheus::Registry> registry_;
  VariantBudget budget_{kMaxVariants};
  std::map<std::string, VariantSeries<RequestSeries>> methods_;
  prometheus::Gauge* inflight_ = nullptr;
  std::array<prometheus::Histogram*, kPhaseCount> phases_{};
  std::array<prometheus::Counter*, kRejectReasonCount> rejected_{};
  prometheus::Histogram* batch_requests_ = nullptr;
  prometheus::Histogram* batch_tokens_ = nullptr;
  prometheus::Counter* received_bytes_ = nullptr;
  prometheus::Counter* sent_bytes_ = nullptr;
  prometheus::Counter* copies_ = nullptr;
  prometheus::Counter* flops_ = nullptr;
  std::optional<VariantSeries<RowSeries>> rows_;
  prometheus::Counter* masked_rows_ = nullptr;
  CountersByLabel nonfinite_inputs_;
  prometheus::Counter* nonfinite_outputs_ = nullptr;
};

// The metrics and the HTTP server in front of them. Thread-safe.
class PrometheusServer : public MetricsServer {
 public:
  // Throws if the address cannot be bound.
  PrometheusServer(const std::string& address, const MetricsInfo& info,
                   const GaugeSources& sources)
      : metrics_(info),
        scraped_(std::make_shared<ScrapedValues>(info, sources)),
        exposer_(address.empty()
                     ? nullptr
                     : std::make_unique<prometheus::Exposer>(address)),
        port_(exposer_ ? exposer_->GetListeningPorts().at(0) : 0) {
    if (exposer_ == nullptr) return;
    exposer_->RegisterCollectable(metrics_.registry());
    exposer_->RegisterCollectable(scraped_);
  }

  Metrics& metrics() override { return metrics_; }
  int port() const override { return port_; }
  void StopListening() override { exposer_.reset(); }

 private:
  PrometheusMetrics metrics_;
  const std::shared_ptr<ScrapedValues> scraped_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  const int port_;
};

}  // namespace

std::unique_ptr<MetricsServer> StartMetricsServer(const std::string& address,
                                                  const MetricsInfo& info,
                                                  const GaugeSources& sources,
                                                  std::string* error) {
  try {
    return std::make_unique<PrometheusServer>(address, info, sources);
  } catch (const std::exception&) {
    // The library's own text names no address.
    *error = "cannot listen on " + address +
             ": in use by another process, or not an address of this machine";
    return nullptr;
  }
}

}  // namespace attn
