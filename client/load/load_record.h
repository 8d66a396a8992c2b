// A load report for other processes of `attn load`, with all its histograms:
// what --histogram-out writes and --merge reads.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/load/load_report.h"

namespace attn {

// One JSON document. A search is left out: its steps are kept as steps.
std::string LoadRecord(const LoadReport& report);

// The report again. Errors begin with `name`, that of the file, and say which
// field is wrong.
absl::StatusOr<LoadReport> ParseLoadRecord(const std::string& text,
                                           const std::string& name);

}  // namespace attn
