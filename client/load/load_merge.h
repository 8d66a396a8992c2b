// One report of what several processes measured at once.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/load/load_report.h"

namespace attn {

// Each with the name of its file. They must have run the same loop on the same
// classes, for equal times, with equally many steps: INVALID_ARGUMENT names the
// file that differs, and in what. Rates, callers and counts add up, histograms
// merge exactly; a timeline cannot be merged and is left out. Results tell the
// truth only if the processes ran at the same time.
absl::StatusOr<LoadReport> MergeReports(
    std::vector<std::pair<std::string, LoadReport>> reports);

}  // namespace attn
