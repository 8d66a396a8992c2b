#include "client/cli/check/runner.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/check/handlers.h"
#include "client/cli/colour.h"
#include "client/cli/compare.h"
#include "client/library/call_status.h"

namespace attn {
namespace {

std::string DescribeWorst(const std::string& tensor,
                          const Comparison& comparison) {
  const WorstElement& worst = *comparison.worst;
  return absl::StrFormat(
      "%s%s: got %.17g, want %.17g, tolerance %.3g (%d of %d elements differ)",
      tensor, worst.index, worst.got, worst.want, worst.allowed,
      comparison.mismatches, comparison.elements);
}

// Empty: every output of the case is as wanted.
std::string FirstMismatch(const Case& tested, const Outcome& outcome,
                          const Service& service) {
  for (const auto& [name, want] : tested.outputs) {
    const auto got = outcome.got.find(name);
    if (got == outcome.got.end()) return absl::StrCat(name, ": not given");
    const auto comparison = Compare(got->second, want,
                                    outcome.single_precision.contains(name)
                                        ? tested.tolerance32
                                        : service.ToleranceOf(tested));
    if (!comparison.ok()) {
      return absl::StrCat(name, ": ", comparison.status().message());
    }
    if (comparison->worst.has_value()) return DescribeWorst(name, *comparison);
  }
  return "";
}

std::string Word(Verdict verdict, bool colour) {
  switch (verdict) {
    case Verdict::kPassed:
      return Painted("pass", TextColour::kPassed, colour);
    case Verdict::kFailed:
      return Painted("FAIL", TextColour::kFailed, colour);
    case Verdict::kSkipped:
      return Painted("skip", TextColour::kNote, colour);
  }
  return "";
}

}  // namespace

absl::StatusOr<CaseResult> CheckCase(const std::string& folder,
                                     const Service& service) {
  CaseResult result;
  result.title = folder;
  const auto tested = LoadCase(folder);
  if (!tested.ok()) {
    result.reason = std::string(tested.status().message());
    return result;
  }
  result.title = tested->Title();
  const auto outcome = RunCase(*tested, service);
  if (outcome.ok()) {
    result.reason = FirstMismatch(*tested, *outcome, service);
    result.verdict =
        result.reason.empty() ? Verdict::kPassed : Verdict::kFailed;
    return result;
  }
  if (IsUnreachable(outcome.status())) return outcome.status();
  result.reason = SkipReason(outcome.status());
  if (!result.reason.empty()) {
    result.verdict = Verdict::kSkipped;
  } else {
    result.reason = outcome.status().ToString();
  }
  return result;
}

void CheckTally::Add(const CaseResult& result) {
  switch (result.verdict) {
    case Verdict::kPassed:
      ++passed_;
      break;
    case Verdict::kFailed:
      ++failed_;
      failures_.push_back(result);
      break;
    case Verdict::kSkipped:
      ++skipped_;
      ++skips_[result.reason];
      break;
  }
}

std::string CheckTally::ToString(bool colour) const {
  std::string text;
  if (skipped_ > 0) text += "skipped, for the wire cannot say yet:\n";
  for (const auto& [reason, count] : skips_) {
    absl::StrAppendFormat(&text, "%6d  %s\n", count, reason);
  }
  absl::StrAppend(&text, passed_, " passed, ",
                  Painted(absl::StrCat(failed_, " failed"), TextColour::kFailed,
                          colour && failed_ > 0),
                  ", ", skipped_, " skipped\n");
  return text;
}

nlohmann::json CheckTally::ToJson() const {
  nlohmann::json failures = nlohmann::json::array();
  for (const CaseResult& failure : failures_) {
    failures.push_back({{"case", failure.title}, {"reason", failure.reason}});
  }
  nlohmann::json skips = nlohmann::json::object();
  for (const auto& [reason, count] : skips_) skips[reason] = count;
  return {{"passed", passed_},
          {"failed", failed_},
          {"skipped", skipped_},
          {"failures", failures},
          {"skips", skips}};
}

std::string Describe(const CaseResult& result, bool colour) {
  std::string text =
      absl::StrCat(Word(result.verdict, colour), " ", result.title);
  if (!result.reason.empty()) absl::StrAppend(&text, ": ", result.reason);
  return text + "\n";
}

}  // namespace attn
