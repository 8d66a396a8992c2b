// Load reports for the tests of what is told of them.
#pragma once

#include "client/load/load_report.h"

namespace attn {

// One step of 2 s that offered 200 and answered 150 in time, with latencies of
// 1 to 200 us and 39 refusals.
LoadReport OneStepReport();
// Three steps at 100, 200 and 400 per second, of two classes with names that
// have to be escaped, under p99=20ms, which the last misses.
LoadReport MixedReport();

}  // namespace attn
