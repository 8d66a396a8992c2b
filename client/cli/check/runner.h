// Runs cases and keeps the score.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/check/case.h"
#include "client/cli/check/service.h"
#include "nlohmann/json.hpp"

namespace attn {

enum class Verdict { kPassed, kFailed, kSkipped };

struct CaseResult {
  std::string title;
  Verdict verdict = Verdict::kFailed;
  // Why it failed or was skipped.
  std::string reason;
};

// Loads one case, puts it to the service and compares. UNAVAILABLE if there is
// no service; whatever else goes wrong is a failure of the case.
absl::StatusOr<CaseResult> CheckCase(const std::string& folder,
                                     const Service& service);

// Counts results. Thread-compatible.
class CheckTally {
 public:
  void Add(const CaseResult& result);

  int failed() const { return failed_; }

  // Skips by reason, then "N passed, N failed, N skipped" alone on a line.
  // In colours if `colour`.
  std::string ToString(bool colour = false) const;
  nlohmann::json ToJson() const;

 private:
  int passed_ = 0;
  int failed_ = 0;
  int skipped_ = 0;
  std::map<std::string, int> skips_;
  std::vector<CaseResult> failures_;
};

// "FAIL family/name: ..."
std::string Describe(const CaseResult& result, bool colour = false);

}  // namespace attn
