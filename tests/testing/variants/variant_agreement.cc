#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "engine/kernels/pipeline.h"
#include "tests/testing/variants/variant_run.h"

namespace attn::testing {
namespace {

using ::testing::AssertionFailure;
using ::testing::AssertionResult;
using ::testing::AssertionSuccess;

// Compares rows of `width` that are not near another choice.
class RowComparison {
 public:
  RowComparison(const oracle::VariantResult& want, Closeness closeness)
      : want_(want), closeness_(closeness) {}

  // `mass`: what the rounding of an element is of, by row; null: itself.
  void Compare(const char* name, const std::vector<double>& got,
               const std::vector<double>& want,
               const std::vector<double>* mass = nullptr) {
    if (got.size() != want.size()) {
      Fail() << name << " has " << got.size() << " elements, not "
             << want.size();
      return;
    }
    if (want.empty()) return;
    const size_t width = want.size() / want_.margin.size();
    for (size_t i = 0; i < want.size(); ++i) {
      const size_t row = i / width;
      if (want_.margin[row] < closeness_.margin) continue;
      const double size =
          1 + std::abs(want[i]) + (mass != nullptr ? (*mass)[row] : 0);
      if (got[i] == want[i] ||
          std::abs(got[i] - want[i]) <= closeness_.tolerance * size) {
        continue;
      }
      Fail() << name << " of row " << row << ", element " << i % width << " is "
             << got[i] << ", not " << want[i];
      return;
    }
  }

  AssertionResult result() const {
    return failures_.str().empty() ? AssertionSuccess()
                                   : AssertionFailure() << failures_.str();
  }

 private:
  std::ostream& Fail() { return failures_ << "\n  "; }

  const oracle::VariantResult& want_;
  Closeness closeness_;
  std::ostringstream failures_;
};

template <typename Get>
std::vector<double> Each(const std::vector<RowStatistics>& rows, Get get) {
  std::vector<double> values;
  for (const RowStatistics& row : rows) {
    values.push_back(static_cast<double>(get(row)));
  }
  return values;
}

void CompareScores(const VariantOutcome& got, const oracle::VariantResult& want,
                   RowComparison& comparison) {
  if (!got.masked_logits.empty()) {
    comparison.Compare("masked_logits", got.masked_logits, want.masked_logits);
  }
  if (!got.weights.empty()) {
    comparison.Compare("weights", got.weights, want.weights);
  }
  comparison.Compare("lse", got.lse, want.lse);
  comparison.Compare("lse_with_sink", got.lse_with_sink, want.lse_with_sink);
  comparison.Compare(
      "entropy",
      Each(got.rows, [](const RowStatistics& row) { return row.entropy; }),
      want.entropy);
  comparison.Compare(
      "peak_weight",
      Each(got.rows, [](const RowStatistics& row) { return row.peak_weight; }),
      want.peak_weight);
  comparison.Compare(
      "visible_keys",
      Each(got.rows, [](const RowStatistics& row) { return row.visible_keys; }),
      {want.visible_keys.begin(), want.visible_keys.end()});
}

}  // namespace

AssertionResult Agrees(const VariantOutcome& got,
                       const oracle::VariantResult& want,
                       const oracle::VariantCase& call, Closeness closeness) {
  RowComparison comparison(want, closeness);
  comparison.Compare("output", got.output, want.output, &want.mass);
  if (std::holds_alternative<LinearNormalizer>(call.spec.normalizer)) {
    double largest = 0;
    for (const double x : want.state) largest = std::max(largest, std::abs(x));
    for (size_t i = 0; i < want.state.size(); ++i) {
      if (std::abs(got.state[i] - want.state[i]) >
          closeness.tolerance * (1 + largest)) {
        return AssertionFailure() << "state " << i << " is " << got.state[i]
                                  << ", not " << want.state[i];
      }
    }
  } else {
    CompareScores(got, want, comparison);
  }
  return comparison.result();
}

std::string Describe(const oracle::VariantCase& call) {
  const AttentionShape& s = call.shape;
  Problem problem;
  problem.spec = call.spec;
  problem.shape = s;
  for (const oracle::Parameter& input : call.inputs) {
    problem.inputs.push_back(
        {input.dtype, *Shape::Create(input.shape, sizeof(double), "input")});
  }
  problem.has_q_lengths = !call.q_lengths.empty();
  problem.has_kv_lengths = !call.kv_lengths.empty();
  std::ostringstream text;
  text << DescribeStages(problem) << " at [" << s.batch << ", " << s.q_heads
       << "/" << s.kv_heads << ", " << s.q_length << "/" << s.kv_length << ", "
       << s.q_dim << "/" << s.k_dim << "/" << s.v_dim << "]";
  return text.str();
}

}  // namespace attn::testing
