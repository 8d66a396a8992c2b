// What is told of the sessions of a load.
#pragma once

#include <string>

#include "client/load/load_report.h"
#include "nlohmann/json.hpp"

namespace attn {

// "sessions" of a class in the report: counts, microseconds, and the figures of
// each place.
nlohmann::ordered_json SessionsJson(const LoadResult& run,
                                    const SessionTally& tally);

// Lines of the text report, each with its end; `name` is that of the class, ""
// if there is one. The rows of times have MicrosRow()'s columns.
std::string SessionsText(const LoadResult& run, const SessionTally& tally,
                         const std::string& name);

// The same of a step among many: one line.
std::string SessionsRow(const SessionTally& tally);

}  // namespace attn
