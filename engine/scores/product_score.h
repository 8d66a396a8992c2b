// What scores that are a scaled product of prepared rows have in common.
#pragma once

#include <optional>
#include <string>

#include "engine/scores/score.h"

namespace attn {

// scale * exp(min(log_scale[h], max)) * <q', k'>. Thread-safe: const.
class ProductScore : public Score {
 public:
  ProductScore(double scale, const std::optional<LearnedScale>& learned)
      : scale_(scale), learned_(learned) {}

  bool is_dot() const final { return true; }
  double scale(const CallView& call, int64_t head) const final;
  double static_scale() const final { return scale_; }

  void Compute(const CallView& call, const float* q_rows, const float* k_rows,
               const Tile<float>& tile) const final;
  void Compute(const CallView& call, const double* q_rows, const double* k_rows,
               const Tile<double>& tile) const final;
  double Backward(const CallView& call, const ScoreRows& rows,
                  const Tile<double>& gradient,
                  const GradientSink& sink) const final;
  double ScaleBackward(const CallView& call, int64_t head, double gradient,
                       const GradientSink& sink) const override;

 private:
  template <typename T>
  void ComputeTile(const CallView& call, const T* q_rows, const T* k_rows,
                   const Tile<T>& tile) const;

  double scale_;
  std::optional<LearnedScale> learned_;
};

// Whether `learned` is well-formed; nothing is.
absl::Status CheckLearnedScale(const Problem& problem,
                               const std::optional<LearnedScale>& learned,
                               const std::string& field);

// Whether `scale` is finite; nothing is.
absl::Status CheckScale(const std::optional<double>& scale,
                        const std::string& field);

// Scores that compare rows element by element need d_q = d_k.
absl::Status CheckEqualWidths(const Problem& problem);

}  // namespace attn
