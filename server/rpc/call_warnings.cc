#include "server/rpc/call_warnings.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attn {
namespace {

// "About 1 / d_k".
constexpr double kScaleTolerance = 0.1;
// Up to here 2 / d_k is no less than 1 / sqrt(d_k).
constexpr int64_t kMaxIndistinctDim = 4;
constexpr double kSmallLogits = 2;
constexpr double kAlike = 1e-6;

v1::Warning Make(v1::WarningKind kind, int64_t count, std::string message) {
  v1::Warning warning;
  warning.set_kind(kind);
  warning.set_count(count);
  warning.set_message(std::move(message));
  return warning;
}

// "1 row", "2 rows".
std::string Count(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::optional<v1::Warning> ExplicitScaleWarning(const Problem& problem) {
  const auto* dot = std::get_if<DotScore>(&problem.spec.score);
  const int64_t dim = problem.shape.k_dim;
  // A learned scale has its own factor; 1 / 1 is 1 / sqrt(1).
  if (dot == nullptr || !dot->scale || dot->learned_scale || dim < 2) {
    return std::nullopt;
  }
  const auto width = static_cast<double>(dim);
  if (std::abs(*dot->scale * width - 1) > kScaleTolerance) return std::nullopt;
  return Make(v1::WARNING_KIND_DOUBLE_SCALING,
              problem.shape.batch * problem.shape.q_heads,
              absl::StrFormat("the scale %.6g is about 1/d_k for d_k = %d; "
                              "scaled dot product has 1/sqrt(d_k) = %.6g, once",
                              *dot->scale, dim, 1 / std::sqrt(width)));
}

void AddNonFinite(const char* tensor, int64_t count,
                  std::vector<v1::Warning>& warnings) {
  if (count == 0) return;
  v1::Warning warning = Make(
      v1::WARNING_KIND_NONFINITE_INPUT, count,
      absl::StrCat(tensor, " has ", Count(count, "NaN or infinite element"),
                   " within the lengths"));
  warning.set_tensor(tensor);
  warnings.push_back(std::move(warning));
}

std::string HeadName(size_t index, const AttentionShape& shape) {
  const auto plane = static_cast<int64_t>(index);
  return absl::StrCat("batch ", plane / shape.q_heads, " head ",
                      plane % shape.q_heads);
}

// Root mean square over the rows of their heads' deviations, temperatures taken
// out again.
double LogitDeviation(const Problem& problem,
                      absl::Span<const HeadStatistics> heads) {
  const std::vector<double>& temperatures = problem.spec.temperatures;
  double squares = 0;
  int64_t rows = 0;
  for (size_t i = 0; i < heads.size(); ++i) {
    const auto head = i % static_cast<size_t>(problem.shape.q_heads);
    const double temperature =
        temperatures.empty()
            ? 1
            : temperatures[temperatures.size() == 1 ? 0 : head];
    const int64_t seen = heads[i].rows - heads[i].empty_rows;
    squares += std::pow(heads[i].logit_std * temperature, 2) *
               static_cast<double>(seen);
    rows += seen;
  }
  return rows == 0 ? 0 : std::sqrt(squares / static_cast<double>(rows));
}

// Whether final logits are the scores, but for temperatures.
bool HasPlainDotLogits(const AttentionSpec& spec) {
  return std::holds_alternative<DotScore>(spec.score) && !spec.softcap &&
         spec.biases.empty() && !spec.score_program &&
         spec.sparsifiers.empty() &&
         !std::holds_alternative<LinearNormalizer>(spec.normalizer) &&
         std::none_of(spec.transforms.begin(), spec.transforms.end(),
                      [](const TransformSpec& transform) {
                        return std::holds_alternative<NormTransform>(transform);
                      });
}

// Whether every head of each batch entry has the weights of its head 0.
template <typename T>
bool AreAlike(const T* weights, const Shape& shape) {
  const int64_t elements = shape[2] * shape[3];
  for (int64_t b = 0; b < shape[0]; ++b) {
    const T* first = weights + b * shape[1] * elements;
    for (int64_t i = elements; i < shape[1] * elements; ++i) {
      const double difference =
          std::abs(static_cast<double>(first[i]) -
                   static_cast<double>(first[i % elements]));
      // NaN is like nothing.
      if (!(difference <= kAlike)) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<v1::Warning> CallWarnings(const Plan& plan,
                                      const CallReport& report) {
  std::vector<v1::Warning> warnings;
  if (auto scale = ExplicitScaleWarning(plan.problem)) {
    warnings.push_back(*std::move(scale));
  }
  if (report.f16_overflows > 0) {
    warnings.push_back(
        Make(v1::WARNING_KIND_F16_OVERFLOW, report.f16_overflows,
             absl::StrCat(Count(report.f16_overflows, "visible logit"),
                          " beyond 65504, the largest F16; software that keeps "
                          "logits in F16 overflows on them")));
  }
  if (report.fully_masked_rows > 0) {
    warnings.push_back(
        Make(v1::WARNING_KIND_FULLY_MASKED_ROWS, report.fully_masked_rows,
             absl::StrCat(Count(report.fully_masked_rows, "row"),
                          " with no visible key; the output there is 0")));
  }
  AddNonFinite("q", report.nonfinite_q, warnings);
  AddNonFinite("k", report.nonfinite_k, warnings);
  AddNonFinite("v", report.nonfinite_v, warnings);
  return warnings;
}

std::vector<v1::Warning> HeadWarnings(absl::Span<const HeadStatistics> heads,
                                      const AttentionShape& shape) {
  int64_t saturated = 0;
  int64_t dead = 0;
  std::string first_saturated;
  std::string first_dead;
  for (size_t i = 0; i < heads.size(); ++i) {
    const HeadStatistics& head = heads[i];
    if (head.saturated_share >= kSaturatedHeadShare && ++saturated == 1) {
      first_saturated = absl::StrFormat(
          "%s, where %.0f %% of the rows have a peak weight of 0.99 or more",
          HeadName(i, shape), 100 * head.saturated_share);
    }
    if (head.dead != DeadHead::kNo && ++dead == 1) {
      first_dead = absl::StrCat(HeadName(i, shape), ": ", head.dead_reason);
    }
  }
  std::vector<v1::Warning> warnings;
  if (saturated > 0) {
    warnings.push_back(
        Make(v1::WARNING_KIND_SATURATED_HEAD, saturated,
             absl::StrCat(Count(saturated, "saturated head"), " of ",
                          heads.size(), "; the first is ", first_saturated)));
  }
  if (dead > 0) {
    warnings.push_back(
        Make(v1::WARNING_KIND_DEAD_HEAD, dead,
             absl::StrCat(Count(dead, "dead head"), " of ", heads.size(),
                          "; the first is ", first_dead)));
  }
  return warnings;
}

std::optional<v1::Warning> SmallLogitsWarning(
    const Plan& plan, absl::Span<const HeadStatistics> heads,
    const InputNorms& norms) {
  const Problem& problem = plan.problem;
  const int64_t dim = problem.shape.k_dim;
  if (!HasPlainDotLogits(problem.spec) || dim <= kMaxIndistinctDim ||
      ExplicitScaleWarning(problem).has_value()) {
    return std::nullopt;
  }
  const auto width = static_cast<double>(dim);
  const double predicted = norms.q * norms.k / std::sqrt(width);
  const double found = LogitDeviation(problem, heads);
  const bool is_small = found > 0 && found < kSmallLogits / width * predicted;
  if (!is_small) return std::nullopt;
  return Make(v1::WARNING_KIND_DOUBLE_SCALING,
              static_cast<int64_t>(heads.size()),
              absl::StrFormat(
                  "the logits deviate by %.3g, below 2/d_k of the %.3g that "
                  "|q| = %.3g and |k| = %.3g allow at 1/sqrt(d_k)",
                  found, predicted, norms.q, norms.k));
}

std::optional<v1::Warning> HeadsAlikeWarning(
    const TensorView& weights, absl::Span<const HeadStatistics> heads) {
  const Shape& shape = weights.shape;
  const bool has_choice = std::any_of(
      heads.begin(), heads.end(),
      [](const HeadStatistics& head) { return head.mean_visible_keys > 1; });
  if (shape[1] < 2 || shape.element_count() == 0 || !has_choice) {
    return std::nullopt;
  }
  const bool alike =
      weights.dtype == DType::kF64
          ? AreAlike(reinterpret_cast<const double*>(weights.data), shape)
          : AreAlike(reinterpret_cast<const float*>(weights.data), shape);
  if (!alike) return std::nullopt;
  return Make(v1::WARNING_KIND_HEADS_ALIKE, shape[1],
              absl::StrFormat("all %d heads of the window have the same "
                              "weights, to %g",
                              shape[1], kAlike));
}

}  // namespace attn
