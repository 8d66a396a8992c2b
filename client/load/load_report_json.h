// A load report for programs.
#pragma once

#include "client/load/load_report.h"
#include "nlohmann/json.hpp"

namespace attn {

// Times in microseconds, null where nothing was measured. "latency_us" is from
// the intended send, "service_us" from the actual one. Where there are several
// steps, they are in "steps", and the figures at the top level are those of
// "main_step", counted from 0: LoadReport::MainStep().
nlohmann::ordered_json LoadReportJson(const LoadReport& report);

// The reported percentiles of nanoseconds, "mean", "min" and "count".
nlohmann::ordered_json PercentilesJson(const HdrHistogram& histogram);

}  // namespace attn
