// A normalizer stage: turns rows of final logits into weights.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/core/call_view.h"
#include "engine/core/gradient_sink.h"
#include "engine/core/problem.h"
#include "engine/core/row_statistics.h"
#include "engine/tile/tile.h"

namespace attn {

// How a normalizer reaches its result, which decides the kernels that can run
// it.
enum class NormalizerKind : uint8_t {
  kOnline,     // a running state that merges: softmax, sinks, sigmoid
  kRowwise,    // needs the whole row: sparsemax, entmax, top-k
  kRecurrent,  // no score matrix: linear attention
};

// Sinks of a head; more make no sense and would need memory of their own.
inline constexpr int64_t kMaxSinks = 16;

// What Normalize() took and gave, for the way back. `weights` has the bounds.
struct NormalizedTile {
  Tile<double> logits;
  Tile<double> weights;
  const RowStatistics* statistics = nullptr;
  // Gradient of the rows' lse; null: none.
  const double* lse_gradient = nullptr;
};

// One member of NormalizerSpec, bound to a problem. Thread-safe: const.
class Normalizer {
 public:
  virtual ~Normalizer() = default;

  virtual NormalizerKind kind() const = 0;

  // Whether the weights are exp(x) over the sum of exp(x) and of exp(s) for
  // each of Sinks(): then a kernel may add up the sums on its way.
  virtual bool is_softmax() const { return false; }
  // Logits that join the sum for a query head, in `storage` [kMaxSinks].
  virtual absl::Span<const double> Sinks(const CallView& /*call*/,
                                         int64_t /*head*/,
                                         double* /*storage*/) const {
    return {};
  }

  // Replaces each row of final logits by its weights and fills statistics[r]
  // for row r of the tile. -infinity marks an excluded key; its weight is
  // exactly 0. The tile holds every visible key of its rows; top_key counts
  // from the tile's key_begin on in absolute keys.
  virtual void Normalize(const CallView& call, const Tile<float>& tile,
                         RowStatistics* statistics) const = 0;
  virtual void Normalize(const CallView& call, const Tile<double>& tile,
                         RowStatistics* statistics) const = 0;

  // Empty: Backward() works. Otherwise why there is no gradient.
  virtual std::string WhyNoGradient() const { return ""; }
  // Turns the gradient of the weights, in place, into that of the final logits
  // (0 for excluded keys), and adds the parameters' gradients to `sink`.
  virtual void Backward(const CallView& call, const NormalizedTile& forward,
                        const Tile<double>& gradient,
                        const GradientSink& sink) const = 0;

  // Whether weights depend on their row of q besides its logits.
  virtual bool reads_queries() const { return false; }
  // The part of the way back that this is: adds to `of_queries` [rows, d_q] the
  // gradient of q's rows as the call brings them, and the parameters' to
  // `sink`, given that of the weights. Only called if reads_queries().
  virtual void QueriesBackward(const CallView& /*call*/,
                               const NormalizedTile& /*forward*/,
                               const Tile<double>& /*gradient*/,
                               double* /*of_queries*/,
                               const GradientSink& /*sink*/) const {}
};

// One row of the table.
struct NormalizerEntry {
  const char* name;
  const char* summary;
  // Index of the member in NormalizerSpec.
  size_t index;
  // INVALID_ARGUMENT that names a field below `field` ("spec.normalizer").
  absl::Status (*validate)(const NormalizerSpec& spec, const Problem& problem,
                           absl::string_view field);
  // The member in a few characters, e.g. "entmax(1.5)".
  std::string (*describe)(const NormalizerSpec& spec);
  // Makes the stage for a problem that passed `validate`.
  std::unique_ptr<Normalizer> (*make)(const NormalizerSpec& spec,
                                      const Problem& problem);
};

// Every normalizer, in the order of NormalizerSpec.
absl::Span<const NormalizerEntry> NormalizerTable();

}  // namespace attn
