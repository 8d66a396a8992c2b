// exp(x - lse), with learned sink logits if the call brings them.
//
// Non-finite logits follow IEEE 754: a visible NaN, or +infinity (infinity -
// infinity), makes every visible weight of its row NaN, and entropy and peak
// with them; no weight is then the largest, and top_key is -1. Excluded keys
// keep weight 0.
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/normalizers/members.h"
#include "engine/normalizers/softmax_row.h"
#include "engine/tile/parameter_view.h"

namespace attn {
namespace {

class Softmax final : public RowNormalizer<Softmax> {
 public:
  static constexpr NormalizerKind kKind = NormalizerKind::kOnline;
  static constexpr bool kSumsToOne = true;

  explicit Softmax(std::optional<uint32_t> sink) : sink_(sink) {}

  bool is_softmax() const override { return true; }
  absl::Span<const double> Sinks(const CallView& call, int64_t head,
                                 double* storage) const override {
    if (!sink_.has_value()) return {};
    const ParameterView view(call.args.inputs[*sink_]);
    const int64_t count = view.rank() == 1 ? 1 : view.extent(1);
    view.Load(head * count, count, storage);
    return {storage, static_cast<size_t>(count)};
  }

  template <typename T>
  void Weigh(const CallView& call, const RowAt& at, const RowRange<T>& range,
             T* row, int64_t count, RowStatistics* statistics) const {
    double sinks[kMaxSinks];
    SoftmaxRow(row, count, range, Sinks(call, at.head, sinks), at, statistics);
  }

  void EmptyRow(const CallView& call, const RowAt& at,
                RowStatistics* statistics) const {
    double storage[kMaxSinks];
    statistics->lse_with_sink = LseOfSinks(Sinks(call, at.head, storage));
  }

  void BackwardRow(const CallView& call, const RowAt& at, const ForwardRow& row,
                   double* gradient, const GradientSink& sink) const {
    const double sum = SoftmaxBackwardRow(row, gradient);
    double* of_sink = sink_.has_value() ? sink.Of(*sink_) : nullptr;
    if (of_sink == nullptr) return;
    double storage[kMaxSinks];
    const absl::Span<const double> sinks = Sinks(call, at.head, storage);
    const auto count = static_cast<int64_t>(sinks.size());
    for (int64_t i = 0; i < count; ++i) {
      const double weight = std::exp(sinks[static_cast<size_t>(i)] -
                                     row.statistics->lse_with_sink);
      of_sink[at.head * count + i] -= weight * sum;
    }
  }

 private:
  std::optional<uint32_t> sink_;
};

absl::Status Validate(const NormalizerSpec& spec, const Problem& problem,
                      absl::string_view normalizer_field) {
  const auto& sink = std::get<SoftmaxNormalizer>(spec).sink;
  if (!sink.has_value()) return absl::OkStatus();
  const std::string field =
      absl::StrCat(normalizer_field, ".softmax.sink.input");
  int64_t count = 1;
  if (*sink < problem.inputs.size() &&
      problem.inputs[*sink].shape.rank() == 2) {
    count = problem.inputs[*sink].shape[1];
  }
  if (count < 1 || count > kMaxSinks) {
    return FieldError(field, absl::StrCat(count, " sinks for each head"),
                      absl::StrCat("1 to ", kMaxSinks));
  }
  return CheckParameter(
      problem, *sink,
      {Shape{problem.shape.q_heads}, Shape{problem.shape.q_heads, count}},
      field);
}

std::string Describe(const NormalizerSpec& spec) {
  return std::get<SoftmaxNormalizer>(spec).sink ? "softmax(sink)" : "softmax";
}

std::unique_ptr<Normalizer> Make(const NormalizerSpec& spec,
                                 const Problem& /*problem*/) {
  return std::make_unique<Softmax>(std::get<SoftmaxNormalizer>(spec).sink);
}

}  // namespace

NormalizerEntry SoftmaxNormalizerEntry() {
  return {"softmax", "exp(x - lse), with learned sinks if given",
          0,         Validate,
          Describe,  Make};
}

}  // namespace attn
