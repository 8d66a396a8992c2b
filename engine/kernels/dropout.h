// Dropout of weights, and the gate of a head's output.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "engine/core/call_view.h"
#include "engine/core/gradient_sink.h"
#include "engine/core/problem.h"
#include "engine/kernels/partition.h"
#include "engine/tile/tile.h"

namespace attn {

// Errors name "spec.dropout...", or "outputs" for a keep mask without dropout.
absl::Status ValidateDropout(const Problem& problem);

// weights * keep / (1 - p). Key j of a row is dropped if word j % 4 of Philox
// at the counter {j / 4, row, head, batch} with the seed as its key is below
// p * 2^32: a function of the indices alone, whatever the tiling. Thread-safe:
// const.
class Dropout {
 public:
  explicit Dropout(const Problem& problem);

  bool on() const { return spec_.has_value(); }
  bool renormalizes() const { return on() && spec_->renormalize; }
  // Changes the weights in place. The tile holds every visible key of its rows.
  void Apply(const CallView& call, const Tile<float>& weights) const;
  void Apply(const CallView& call, const Tile<double>& weights) const;
  // Turns the gradient of Apply()'s result `dropped`, in place, into that of
  // the weights it took.
  void Backward(const CallView& call, const Tile<double>& weights,
                const Tile<double>& dropped,
                const Tile<double>& gradient) const;
  // What multiplies the kept weights of a row, given their sum.
  double FactorOf(double kept_sum) const;
  // keep[j] = 1 for a key that stays, else 0, for the keys of the first row of
  // `bounds`; visible or not.
  void Keep(const CallView& call, const TileBounds& bounds,
            uint8_t* keep) const;

 private:
  template <typename T>
  void ApplyTo(const CallView& call, const Tile<T>& weights) const;
  void Draw(const TileBounds& bounds, uint8_t* keep) const;
  // Sum of the kept weights of one row.
  double KeptSum(const CallView& call, const TileBounds& row,
                 const double* weights) const;

  std::optional<DropoutSpec> spec_;
  // p * 2^32, rounded up: word < p * 2^32 exactly if word < threshold_.
  uint64_t threshold_ = 0;
};

// Errors name "spec.head_gate.input".
absl::Status ValidateHeadGate(const Problem& problem);

// Thread-safe: const.
class HeadGate {
 public:
  explicit HeadGate(const Problem& problem) : gate_(problem.spec.head_gate) {}

  bool on() const { return gate_.has_value(); }
  // The factor of a query row.
  double At(const CallView& call, const RowBlock& block, int64_t row) const;
  // Where the gradient of that factor is added; null: not wanted.
  double* GradientAt(const CallView& call, const RowBlock& block, int64_t row,
                     const GradientSink& sink) const;
  // Multiplies the valid rows of a block's output, [valid_rows, d_v]. A row of
  // zeros, as one that sees no key has, stays so.
  void Apply(const CallView& call, const RowBlock& block, float* rows) const;
  void Apply(const CallView& call, const RowBlock& block, double* rows) const;

 private:
  // The factor's element of the tensor.
  int64_t IndexOf(const CallView& call, const RowBlock& block,
                  int64_t row) const;
  template <typename T>
  void ApplyTo(const CallView& call, const RowBlock& block, T* rows) const;

  std::optional<uint32_t> gate_;
};

}  // namespace attn
