#include "client/load/load_plan.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

absl::Status BadRates(const std::string& flag, const std::string& text,
                      const std::string& form) {
  return FieldError(flag, absl::StrCat("\"", text, "\""),
                    absl::StrCat(form, ", rates from ", kLowestRate, " to ",
                                 kHighestRate, " per second"));
}

std::optional<double> ParseRate(absl::string_view text) {
  double rate = 0;
  if (!absl::SimpleAtod(text, &rate)) return std::nullopt;
  if (!(rate >= kLowestRate && rate <= kHighestRate)) return std::nullopt;
  return rate;
}

}  // namespace

absl::StatusOr<std::vector<double>> ParseSteps(const std::string& text) {
  std::vector<double> rates;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::optional<double> rate = ParseRate(part);
    if (!rate.has_value() || rates.size() == kMostSteps) {
      return BadRates(
          "--steps", text,
          absl::StrCat("at most ", kMostSteps, " rates: 100,200,400"));
    }
    rates.push_back(*rate);
  }
  return rates;
}

absl::StatusOr<std::vector<double>> ParseRamp(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  std::optional<double> from;
  std::optional<double> to;
  int count = 0;
  if (parts.size() == 3) {
    from = ParseRate(parts[0]);
    to = ParseRate(parts[1]);
    if (!absl::SimpleAtoi(parts[2], &count)) count = 0;
  }
  if (!from.has_value() || !to.has_value() || count < 2 || count > kMostSteps) {
    return BadRates("--ramp", text,
                    absl::StrCat("FROM:TO:COUNT with a count from 2 to ",
                                 kMostSteps, ": 100:500:5"));
  }
  std::vector<double> rates;
  for (int i = 0; i < count; ++i) {
    const double share = static_cast<double>(i) / (count - 1);
    rates.push_back(*from * (1 - share) + *to * share);
  }
  return rates;
}

absl::StatusOr<RateRange> ParseRateRange(const std::string& text,
                                         const std::string& flag) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  std::optional<double> from;
  std::optional<double> to;
  if (parts.size() == 2) {
    from = ParseRate(parts[0]);
    to = ParseRate(parts[1]);
  }
  if (!from.has_value() || !to.has_value() || *from >= *to) {
    return BadRates(flag, text, "FROM:TO with FROM < TO: 100:5000");
  }
  return RateRange{.from = *from, .to = *to};
}

std::vector<LoadOptions> PlanSteps(const LoadOptions& base,
                                   const std::vector<double>& rates) {
  std::vector<LoadOptions> steps;
  for (const double rate : rates) {
    steps.push_back(base);
    steps.back().rate = rate;
  }
  return steps;
}

}  // namespace attn
