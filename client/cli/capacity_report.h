// What `attn capacity` says: tables and one JSON document.
#pragma once

#include <string>
#include <vector>

#include "client/capacity/capacity_plan.h"
#include "client/capacity/replica_sweep.h"
#include "client/cli/capacity_flags.h"
#include "nlohmann/json.hpp"

namespace attn {

// One question: a row for each resource and promise, then the answer.
std::string CapacityText(const CapacityJob& job, const CapacityPlan& plan);
// Several questions, of which each is a row; plans in the order of questions.
std::string CapacityTable(const CapacityJob& job,
                          const std::vector<CapacityPlan>& plans);
std::string SweepText(const CapacityJob& job,
                      const std::vector<SweepRow>& rows);

nlohmann::ordered_json CapacityJson(const CapacityJob& job,
                                    const std::vector<CapacityPlan>& plans);
nlohmann::ordered_json SweepJson(const CapacityJob& job,
                                 const std::vector<SweepRow>& rows);

}  // namespace attn
