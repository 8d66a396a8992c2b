// A score stage: compares queries with keys.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/core/call_view.h"
#include "engine/core/gradient_sink.h"
#include "engine/core/problem.h"
#include "engine/core/row_span.h"
#include "engine/tile/tile.h"

namespace attn {

// Prepared rows of a tile and the buffers of their gradients, all row-major.
struct ScoreRows {
  const double* q = nullptr;
  const double* k = nullptr;
  double* q_gradient = nullptr;
  double* k_gradient = nullptr;
};

// Rows, and the gradient of their prepared form, to the gradient of the rows.
struct PreparedGradient {
  const double* rows = nullptr;
  const double* prepared_gradient = nullptr;
  double* gradient = nullptr;
};

// One member of ScoreSpec, bound to a problem. Rows of q and k are first
// prepared, each by itself and once (projected, normalised), then compared.
// Thread-safe: const.
class Score {
 public:
  virtual ~Score() = default;

  // Width of a prepared row; and whether preparing changes anything. If not,
  // the rows are used as they are.
  virtual int64_t prepared_width() const = 0;
  virtual bool prepares() const { return false; }
  // `rows` [span.count, d_q] to `prepared` [span.count, prepared_width()].
  virtual void PrepareQueries(const CallView& /*call*/, const RowSpan& /*span*/,
                              const float* /*rows*/,
                              float* /*prepared*/) const {}
  virtual void PrepareQueries(const CallView& /*call*/, const RowSpan& /*span*/,
                              const double* /*rows*/,
                              double* /*prepared*/) const {}
  // `rows` [span.count, d_k]; span.head is a KV head.
  virtual void PrepareKeys(const CallView& /*call*/, const RowSpan& /*span*/,
                           const float* /*rows*/, float* /*prepared*/) const {}
  virtual void PrepareKeys(const CallView& /*call*/, const RowSpan& /*span*/,
                           const double* /*rows*/, double* /*prepared*/) const {
  }

  // Whether the score is scale() * <q, k> of prepared rows: then a kernel may
  // form the tile as a matrix product and need not call Compute().
  virtual bool is_dot() const = 0;
  // The multiplier of the raw score, applied exactly once.
  virtual double scale(const CallView& call, int64_t head) const = 0;
  // The same without what depends on the call's tensors, to report.
  virtual double static_scale() const = 0;

  // Writes the scaled scores of the tile from its own prepared rows.
  virtual void Compute(const CallView& call, const float* q_rows,
                       const float* k_rows, const Tile<float>& tile) const = 0;
  virtual void Compute(const CallView& call, const double* q_rows,
                       const double* k_rows,
                       const Tile<double>& tile) const = 0;

  // Adds to the gradients of the prepared rows, q_gradient [rows, width] and
  // k_gradient [keys, width], and of the parameters, given that of the tile.
  // An element whose gradient is 0 adds nothing: its rows may hold NaN. Returns
  // what ScaleBackward() does.
  virtual double Backward(const CallView& call, const ScoreRows& rows,
                          const Tile<double>& gradient,
                          const GradientSink& sink) const = 0;
  // From the gradient of scale(call, head) to those of the parameters it
  // depends on. Returns that of the spec's scale; 0 for a score without.
  virtual double ScaleBackward(const CallView& /*call*/, int64_t /*head*/,
                               double /*gradient*/,
                               const GradientSink& /*sink*/) const {
    return 0;
  }
  // From the gradient of prepared rows to that of the rows, and of parameters.
  // Only called if prepares().
  virtual void QueriesBackward(const CallView& /*call*/,
                               const RowSpan& /*span*/,
                               const PreparedGradient& /*gradient*/,
                               const GradientSink& /*sink*/) const {}
  virtual void KeysBackward(const CallView& /*call*/, const RowSpan& /*span*/,
                            const PreparedGradient& /*gradient*/,
                            const GradientSink& /*sink*/) const {}
};

// One row of the table.
struct ScoreEntry {
  const char* name;
  const char* summary;
  // Index of the member in ScoreSpec.
  size_t index;
  // INVALID_ARGUMENT that names a field below `field` ("spec.score").
  absl::Status (*validate)(const ScoreSpec& spec, const Problem& problem,
                           absl::string_view field);
  // The member in a few characters, e.g. "dot * learned".
  std::string (*describe)(const ScoreSpec& spec);
  // Makes the stage for a problem that passed `validate`.
  std::unique_ptr<Score> (*make)(const ScoreSpec& spec, const Problem& problem);
};

// Every score, in the order of ScoreSpec.
absl::Span<const ScoreEntry> ScoreTable();

}  // namespace attn
