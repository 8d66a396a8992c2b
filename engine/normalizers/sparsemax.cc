// Euclidean projection on the simplex (Martins and Astudillo 2016).
#include "engine/normalizers/entmax_gradient.h"
#include "engine/normalizers/entmax_row.h"
#include "engine/normalizers/members.h"
#include "engine/tile/sparse_rows.h"

namespace attn {
namespace {

constexpr double kAlpha = 2;

// p = [x - tau]_+ by repeated averaging over a shrinking support (Michelot
// 1986): exact after finitely many rounds, and without sorting.
void ProjectRow(double* row, int64_t count, double max) {
  double tau = -1;  // of x - max; nothing below has weight
  int64_t support = 0;
  while (true) {
    double sum = 0;
    int64_t kept = 0;
    for (int64_t j = 0; j < count; ++j) {
      const double x = row[j] - max;
      if (!(x > tau)) continue;
      sum += x;
      ++kept;
    }
    if (kept == support) break;
    support = kept;
    tau = (sum - 1) / static_cast<double>(kept);
  }
  for (int64_t j = 0; j < count; ++j) {
    row[j] = std::max(row[j] - max - tau, 0.0);
  }
}

void ProjectRow(float* row, int64_t count, float max) {
  SparsemaxRow(row, count, max);
}

class Sparsemax final : public RowNormalizer<Sparsemax> {
 public:
  static constexpr NormalizerKind kKind = NormalizerKind::kRowwise;
  static constexpr bool kSumsToOne = true;

  template <typename T>
  void Weigh(const CallView& /*call*/, const RowAt& at,
             const RowRange<T>& range, T* row, int64_t count,
             RowStatistics* statistics) const {
    statistics->lse = LogSumExp(row, count, range.max);
    statistics->lse_with_sink = statistics->lse;
    ProjectRow(row, count, range.max);
    DescribeWeights(row, count, at, statistics);
  }
  void BackwardRow(const CallView& /*call*/, const RowAt& /*at*/,
                   const ForwardRow& row, double* gradient,
                   const GradientSink& /*sink*/) const {
    EntmaxBackwardRow(row, kAlpha, gradient);
  }
};

absl::Status Validate(const NormalizerSpec& /*spec*/,
                      const Problem& /*problem*/, absl::string_view /*field*/) {
  return absl::OkStatus();
}

std::string Describe(const NormalizerSpec& /*spec*/) { return "sparsemax"; }

std::unique_ptr<Normalizer> Make(const NormalizerSpec& /*spec*/,
                                 const Problem& /*problem*/) {
  return std::make_unique<Sparsemax>();
}

}  // namespace

NormalizerEntry SparsemaxNormalizerEntry() {
  return {"sparsemax", "Euclidean projection on the simplex",
          2,           Validate,
          Describe,    Make};
}

}  // namespace attn
