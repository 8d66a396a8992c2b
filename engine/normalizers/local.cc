// Softmax times a Gaussian around a predicted position: local-p of Luong et al.
// 2015, section 3.2. Keys beyond the radius have weight 0; the product is not
// normalised again.
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/normalizers/members.h"
#include "engine/normalizers/softmax_row.h"
#include "engine/tile/convert.h"
#include "engine/tile/parameter_view.h"

namespace attn {
namespace {

class Local final : public RowNormalizer<Local> {
 public:
  static constexpr NormalizerKind kKind = NormalizerKind::kRowwise;
  static constexpr bool kSumsToOne = true;

  Local(const LocalNormalizer& spec, int64_t hidden)
      : spec_(spec), hidden_(hidden) {}

  template <typename T>
  void Weigh(const CallView& call, const RowAt& at, const RowRange<T>& range,
             T* row, int64_t count, RowStatistics* statistics) const {
    SoftmaxRow(row, count, range, {}, at, statistics);
    const double centre = Centre(call, at, range.visible);
    for (int64_t j = 0; j < count; ++j) {
      row[j] = static_cast<T>(static_cast<double>(row[j]) *
                              Window(at.key_begin + j, centre));
    }
    DescribeWeights(row, count, at, statistics);
  }
  std::string WhyNoGradient() const override {
    return "the local window's edge moves with the query: its gradient is not "
           "defined there";
  }
  void BackwardRow(const CallView& /*call*/, const RowAt& /*at*/,
                   const ForwardRow& row, double* gradient,
                   const GradientSink& /*sink*/) const {
    std::fill_n(gradient, row.count, 0.0);
  }

 private:
  double Window(int64_t key, double centre) const {
    const double distance = static_cast<double>(key) - centre;
    if (std::abs(distance) > spec_.radius) return 0;
    const double deviation = spec_.radius / 2;
    return std::exp(-distance * distance / (2 * deviation * deviation));
  }
  // visible * sigmoid(v . tanh(q W))
  double Centre(const CallView& call, const RowAt& at, int64_t visible) const {
    const int64_t dim = call.shape.q_dim;
    const TensorView& q = call.args.q;
    std::vector<double> query(static_cast<size_t>(dim));
    const int64_t offset = at.batch * q.strides[0] + at.head * q.strides[1] +
                           at.row * q.strides[2];
    LoadElements(q.data + offset * static_cast<int64_t>(SizeOf(q.dtype)),
                 q.dtype, q.strides[3], dim, query.data());
    const ParameterView weight(call.args.inputs[spec_.weight]);
    const ParameterView v(call.args.inputs[spec_.v]);
    double sum = 0;
    for (int64_t a = 0; a < hidden_; ++a) {
      double x = 0;
      for (int64_t i = 0; i < dim; ++i) {
        x += query[static_cast<size_t>(i)] * weight.At(i * hidden_ + a);
      }
      sum += v.At(a) * std::tanh(x);
    }
    return static_cast<double>(visible) / (1 + std::exp(-sum));
  }

  LocalNormalizer spec_;
  int64_t hidden_;
};

absl::Status Validate(const NormalizerSpec& spec, const Problem& problem,
                      absl::string_view normalizer_field) {
  const auto& local = std::get<LocalNormalizer>(spec);
  const std::string field = absl::StrCat(normalizer_field, ".local");
  if (!std::isfinite(local.radius) || local.radius <= 0) {
    return FieldError(absl::StrCat(field, ".radius"),
                      absl::StrCat(local.radius), "a finite number above 0");
  }
  int64_t hidden = 1;
  if (local.v < problem.inputs.size() &&
      problem.inputs[local.v].shape.rank() == 1) {
    hidden = problem.inputs[local.v].shape[0];
  }
  absl::Status status = CheckParameter(problem, local.v, {Shape{hidden}},
                                       absl::StrCat(field, ".v.input"));
  if (!status.ok()) return status;
  return CheckParameter(problem, local.weight,
                        {Shape{problem.shape.q_dim, hidden}},
                        absl::StrCat(field, ".weight.input"));
}

std::string Describe(const NormalizerSpec& spec) {
  return absl::StrCat("local(", std::get<LocalNormalizer>(spec).radius, ")");
}

std::unique_ptr<Normalizer> Make(const NormalizerSpec& spec,
                                 const Problem& problem) {
  const auto& local = std::get<LocalNormalizer>(spec);
  return std::make_unique<Local>(local, problem.inputs[local.v].shape[0]);
}

}  // namespace

NormalizerEntry LocalNormalizerEntry() {
  return {"local",  "softmax times a Gaussian around a predicted key",
          8,        Validate,
          Describe, Make};
}

}  // namespace attn
