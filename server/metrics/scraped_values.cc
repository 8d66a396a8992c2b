#include "server/metrics/scraped_values.h"

#include <array>
#include <cstddef>

#include "server/metrics/process_stats.h"

namespace attn {
namespace {

constexpr auto kCounterKind = MetricKind::kCounter;
constexpr auto kGaugeKind = MetricKind::kGauge;

void WriteKvSessions(const KvSessionValues& values, TextPage& page) {
  page.Single("attn_kv_sessions", "Sessions that are open.", kGaugeKind,
              values.sessions);
  page.Single(
      "attn_kv_bytes",
      "Memory of sessions: blocks of keys and values, shared ones once, "
      "kept answers, and the sessions themselves.",
      kGaugeKind, values.bytes);
  page.Single("attn_kv_capacity_bytes", "Most of it.", kGaugeKind,
              values.capacity_bytes);
  constexpr std::array kClosed = {"client", "idle", "evicted", "damaged"};
  page.Family("attn_kv_sessions_closed_total",
              "Sessions that ended, by reason.", kCounterKind);
  for (size_t i = 0; i < kClosed.size(); ++i) {
    page.Line("", LabelText({{"reason", kClosed[i]}}), values.closed[i]);
  }
  constexpr std::array kErrors = {"not_found", "wrong_epoch", "step_gap",
                                  "step_replayed", "kv_memory"};
  page.Family("attn_kv_session_errors_total",
              "Calls that a session could not go on with, and steps that were "
              "answered again, by reason.",
              kCounterKind);
  for (size_t i = 0; i < kErrors.size(); ++i) {
    page.Line("", LabelText({{"reason", kErrors[i]}}), values.errors[i]);
  }
}

void WriteSpilledSessions(const KvSessionValues& values, TextPage& page) {
  page.Single("attn_kv_spilled_sessions", "Sessions that are on disk.",
              kGaugeKind, values.spilled_sessions);
  page.Single("attn_kv_spilled_bytes", "Their files.", kGaugeKind,
              values.spilled_bytes);
  page.Single("attn_kv_spills_total", "Sessions that went to disk.",
              kCounterKind, values.spills);
  page.Single("attn_kv_restores_total", "Sessions that came back from disk.",
              kCounterKind, values.restores);
  constexpr std::array kReasons = {"write", "full", "read", "damaged"};
  page.Family("attn_kv_spill_errors_total",
              "Sessions that could not go to disk or come back, by reason.",
              kCounterKind);
  for (size_t i = 0; i < kReasons.size(); ++i) {
    page.Line("", LabelText({{"reason", kReasons[i]}}), values.spill_errors[i]);
  }
}

}  // namespace

void WriteServerValues(const MetricsInfo& info, const GaugeSources& sources,
                       TextPage& page) {
  page.Single("attn_queue_depth", "Requests that wait.", kGaugeKind,
              sources.queue_depth());
  page.Single("attn_queue_capacity", "Requests that may wait at once.",
              kGaugeKind, info.queue_capacity);
  page.Single("attn_queue_oldest_age_seconds",
              "Age of the request that has waited longest.", kGaugeKind,
              sources.queue_oldest_age_seconds());
  page.Single("attn_inflight_bytes", "Bytes booked by admitted requests.",
              kGaugeKind, sources.inflight_bytes());
  page.Single("attn_inflight_capacity_bytes",
              "Bytes that may be booked at once.", kGaugeKind,
              info.inflight_bytes_capacity);
  page.Single("attn_compute_busy_seconds_total",
              "Time that compute threads spent in tile jobs.", kCounterKind,
              sources.compute_busy_seconds());
  page.Single("attn_cpu_quota_cores", "Cores that this process may use.",
              kGaugeKind, info.cpu_quota_cores);
  page.Single("attn_compute_threads", "Compute threads.", kGaugeKind,
              info.compute_threads);
  if (sources.kv_sessions != nullptr) {
    const KvSessionValues values = sources.kv_sessions();
    WriteKvSessions(values, page);
    WriteSpilledSessions(values, page);
  }
}

void WriteProcessValues(TextPage& page) {
  const ProcessStats stats = ReadProcessStats();
  page.Single("attn_cgroup_periods_total",
              "Periods of the CPU quota with work to do.", kCounterKind,
              stats.quota_periods);
  page.Single("attn_cgroup_throttled_periods_total",
              "Periods in which the CPU quota ran out.", kCounterKind,
              stats.throttled_periods);
  page.Single("attn_cgroup_throttled_seconds_total",
              "Time that the CPU quota held threads back.", kCounterKind,
              stats.throttled_seconds);
  page.Single("process_cpu_seconds_total", "User and system CPU time.",
              kCounterKind, stats.cpu_seconds);
  page.Single("process_start_time_seconds", "Start time since the epoch.",
              kGaugeKind, stats.start_time_seconds);
  page.Single("process_resident_memory_bytes", "Resident memory.", kGaugeKind,
              stats.resident_bytes);
  page.Single("process_virtual_memory_bytes", "Virtual memory.", kGaugeKind,
              stats.virtual_bytes);
  page.Single("process_open_fds", "Open file descriptors.", kGaugeKind,
              stats.open_fds);
  page.Single("process_max_fds", "Limit of file descriptors.", kGaugeKind,
              stats.max_fds);
  page.Single("process_threads", "Threads.", kGaugeKind, stats.threads);
}

}  // namespace attn
