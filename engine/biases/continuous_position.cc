// Continuous position bias: a small network on the log-spaced offset of two
// cells of a window (Liu et al. 2022, Swin v2, section 3.3).
#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/biases/add_in_chunks.h"
#include "engine/biases/members.h"
#include "engine/core/field_error.h"
#include "engine/tile/parameter_view.h"
#include "engine/tile/sigmoid.h"

namespace attn {
namespace {

// Offsets are scaled to [-8, 8], taken to sign(x) log2(1 + |x|) / log2(8), and
// the network's answer to 16 sigmoid(.): the published constants.
constexpr double kOffsetReach = 8;
constexpr double kBiasReach = 16;

double LogSpaced(int64_t offset, int64_t extent) {
  if (extent <= 1) return 0;
  const double x = kOffsetReach * static_cast<double>(offset) /
                   static_cast<double>(extent - 1);
  return std::copysign(std::log2(1 + std::abs(x)), x) / std::log2(kOffsetReach);
}

class ContinuousPosition final : public Bias {
 public:
  ContinuousPosition(const ContinuousPositionBias& spec, int64_t hidden)
      : spec_(spec), hidden_(hidden) {}

  void Add(const CallView& call, const Tile<float>& tile) const override {
    AddTo(call, tile);
  }
  void Add(const CallView& call, const Tile<double>& tile) const override {
    AddTo(call, tile);
  }
  void Backward(const CallView& call, const Tile<double>& gradient,
                const GradientSink& sink) const override;

 private:
  // The network's parameters for one head.
  struct Network {
    std::vector<double> hidden_weight;  // [2, n]
    std::vector<double> hidden_bias;    // [n]
    std::vector<double> output;         // [n], the head's column
  };
  // Row and column offset of a key from a query, in cells of the window.
  struct Offset {
    double row = 0;
    double column = 0;
  };

  Network Load(const CallView& call, int64_t head) const {
    const auto n = static_cast<size_t>(hidden_);
    Network net{std::vector<double>(2 * n), std::vector<double>(n),
                std::vector<double>(n)};
    ParameterView(call.args.inputs[spec_.hidden_weight])
        .Load(0, 2 * hidden_, net.hidden_weight.data());
    ParameterView(call.args.inputs[spec_.hidden_bias])
        .Load(0, hidden_, net.hidden_bias.data());
    const ParameterView output(call.args.inputs[spec_.output_weight]);
    for (size_t i = 0; i < n; ++i) {
      net.output[i] =
          output.At(static_cast<int64_t>(i) * call.shape.q_heads + head);
    }
    return net;
  }
  Offset OffsetOf(int64_t query, int64_t key) const {
    const int64_t width = spec_.width;
    return {LogSpaced(query / width - key / width, spec_.height),
            LogSpaced(query % width - key % width, width)};
  }
  double Hidden(const Network& net, const Offset& at, size_t i) const {
    return at.row * net.hidden_weight[i] +
           at.column * net.hidden_weight[static_cast<size_t>(hidden_) + i] +
           net.hidden_bias[i];
  }
  double Output(const Network& net, const Offset& at) const {
    double sum = 0;
    for (size_t i = 0; i < net.output.size(); ++i) {
      sum += net.output[i] * std::max(Hidden(net, at, i), 0.0);
    }
    return sum;
  }

  template <typename T>
  void AddTo(const CallView& call, const Tile<T>& tile) const {
    const Network net = Load(call, tile.bounds.head);
    AddInChunks(tile, [&](int64_t row, int64_t key, int64_t count, T* out) {
      for (int64_t j = 0; j < count; ++j) {
        const double x = Output(net, OffsetOf(row, key + j));
        out[j] = static_cast<T>(kBiasReach * SigmoidOf(x));
      }
    });
  }

  ContinuousPositionBias spec_;
  int64_t hidden_;
};

void ContinuousPosition::Backward(const CallView& call,
                                  const Tile<double>& gradient,
                                  const GradientSink& sink) const {
  const TileBounds& b = gradient.bounds;
  const Network net = Load(call, b.head);
  double* of_weight = sink.Of(spec_.hidden_weight);
  double* of_bias = sink.Of(spec_.hidden_bias);
  double* of_output = sink.Of(spec_.output_weight);
  for (int64_t cell = 0; cell < b.rows * b.keys; ++cell) {
    const int64_t r = cell / b.keys;
    const int64_t j = cell % b.keys;
    const Offset at = OffsetOf(b.row_begin + r, b.key_begin + j);
    const double slope = kBiasReach * SigmoidSlope(Output(net, at));
    const double dx = gradient.Row(r)[j] * slope;
    for (int64_t i = 0; i < hidden_; ++i) {
      const auto n = static_cast<size_t>(i);
      const double hidden = Hidden(net, at, n);
      if (hidden <= 0) continue;
      const double dh = dx * net.output[n];
      if (of_output != nullptr) {
        of_output[i * call.shape.q_heads + b.head] += dx * hidden;
      }
      if (of_bias != nullptr) of_bias[i] += dh;
      if (of_weight == nullptr) continue;
      of_weight[i] += dh * at.row;
      of_weight[hidden_ + i] += dh * at.column;
    }
  }
}

absl::Status Validate(const BiasSpec& spec, const Problem& problem,
                      absl::string_view list_field) {
  const auto& cpb = std::get<ContinuousPositionBias>(spec);
  const std::string field = absl::StrCat(list_field, ".continuous_position");
  const AttentionShape& shape = problem.shape;
  int64_t cells = 0;
  if (cpb.height < 1 || cpb.width < 1 ||
      __builtin_mul_overflow(cpb.height, cpb.width, &cells) ||
      cells != shape.q_length || cells != shape.kv_length) {
    return FieldError(absl::StrCat(field, ".height"),
                      absl::StrCat(cpb.height, " x ", cpb.width, " cells"),
                      absl::StrCat("as many as Sq = ", shape.q_length,
                                   " and Sk = ", shape.kv_length));
  }
  int64_t hidden = 0;
  if (cpb.hidden_bias < problem.inputs.size() &&
      problem.inputs[cpb.hidden_bias].shape.rank() == 1) {
    hidden = problem.inputs[cpb.hidden_bias].shape[0];
  }
  for (const absl::Status& status :
       {CheckParameter(problem, cpb.hidden_bias, {Shape{hidden}},
                       absl::StrCat(field, ".hidden_bias.input")),
        CheckParameter(problem, cpb.hidden_weight, {Shape{2, hidden}},
                       absl::StrCat(field, ".hidden_weight.input")),
        CheckParameter(problem, cpb.output_weight,
                       {Shape{hidden, shape.q_heads}},
                       absl::StrCat(field, ".output_weight.input"))}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string Describe(const BiasSpec& /*spec*/) { return "continuous_position"; }

std::unique_ptr<Bias> Make(const BiasSpec& spec, const Problem& problem) {
  const auto& cpb = std::get<ContinuousPositionBias>(spec);
  return std::make_unique<ContinuousPosition>(
      cpb, problem.inputs[cpb.hidden_bias].shape[0]);
}

}  // namespace

BiasEntry ContinuousPositionBiasEntry() {
  return {"continuous_position",
          "16 sigmoid of a small network on the log-spaced offset",
          4,
          Validate,
          Describe,
          Make};
}

}  // namespace attn
