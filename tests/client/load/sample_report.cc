#include "tests/client/load/sample_report.h"

namespace attn {

LoadReport OneStepReport() {
  LoadReport report;
  report.address = "127.0.0.1:8001";
  report.started = absl::FromUnixSeconds(1'800'000'000);
  report.classes = {{.name = "call",
                     .weight = 1,
                     .call = "1,4,4,16,16,32 F32",
                     .payloads = 4}};
  report.connections = 2;
  LoadStep step;
  step.options.rate = 100;
  step.verification = {{.verified = 7}};
  LoadResult& result = step.result;
  result.window_seconds = 2;
  result.cpu_seconds = 0.5;
  result.offered = 200;
  result.sent = 199;
  result.unsent = 1;
  result.answered = 160;
  result.answered_in_time = 150;
  result.errors[absl::StatusCode::kResourceExhausted] = 39;
  result.first_errors[absl::StatusCode::kResourceExhausted] = "full";
  result.errors_by_reason["KV_MEMORY"] = 30;
  for (int64_t i = 1; i <= 200; ++i) {
    result.latency.Record(i * 1000);
    result.service.Record(500);
    result.slip.Record(i);
  }
  result.timeline = {{.start_s = 0,
                      .length_s = 1,
                      .requests = 200,
                      .errors = 39,
                      .p50 = 100'000,
                      .p99 = 198'000,
                      .max = 200'000}};
  report.steps = {step};
  return report;
}

LoadReport MixedReport() {
  LoadReport report;
  report.address = "unix:/tmp/<a>&\"b\",'c'";
  report.started = absl::FromUnixSeconds(1'800'000'000);
  report.classes = {
      {.name = "a,\"b\"", .weight = 3, .call = "<x>", .payloads = 4},
      {.name = "</script>",
       .weight = 1,
       .call = "inspect &amp;",
       .payloads = 2}};
  report.connections = 1;
  report.slo = ParseSlo("p99=20ms").value();
  for (const int rate : {100, 200, 400}) {
    LoadStep step;
    step.options.rate = rate;
    step.options.weights = {3, 1};
    step.verification = {{.verified = 5}, {}};
    LoadResult& result = step.result;
    result.window_seconds = 1;
    result.classes.resize(2);
    for (int64_t i = 0; i < rate; ++i) {
      CallTally& tally = result.classes[static_cast<size_t>(i % 4 == 3)];
      ++tally.offered;
      ++tally.sent;
      ++tally.answered;
      ++tally.answered_in_time;
      tally.latency.Record(rate * 75'000);
      tally.service.Record(rate * 50'000);
      tally.server_queue.Record(1000);
      tally.server_compute.Record(2000);
    }
    for (const CallTally& tally : result.classes) result.Merge(tally);
    result.timeline = {{.start_s = 0,
                        .length_s = 1,
                        .requests = rate,
                        .p50 = rate * 75'000,
                        .p99 = rate * 75'000,
                        .max = rate * 75'000}};
    report.steps.push_back(step);
  }
  return report;
}

}  // namespace attn
