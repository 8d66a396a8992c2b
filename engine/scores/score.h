// A score stage: compares queries with keys.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/core/call_view.h"
#include "engine/core/problem.h"
#include "engine/tile/tile.h"

namespace attn {

// One member of ScoreSpec, bound to a problem. Thread-safe: const.
class Score {
 public:
  virtual ~Score() = default;

  // Whether the score is scale() * <q, k>: then a kernel may form the tile as
  // a matrix product and need not call Compute().
  virtual bool is_dot() const = 0;
  // The multiplier of the raw score, applied exactly once.
  virtual double scale(int64_t head) const = 0;

  // Writes the scaled scores of the tile. q_rows [rows, d_k] and k_rows
  // [keys, d_k] are row-major, of the tile's own rows and keys.
  virtual void Compute(const CallView& call, const float* q_rows,
                       const float* k_rows, const Tile<float>& tile) const = 0;
  virtual void Compute(const CallView& call, const double* q_rows,
                       const double* k_rows,
                       const Tile<double>& tile) const = 0;
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
  // The member in a few characters, e.g. "causal(bottom_right)".
  std::string (*describe)(const ScoreSpec& spec);
  // Makes the stage for a problem that passed `validate`.
  std::unique_ptr<Score> (*make)(const ScoreSpec& spec, const Problem& problem);
};

// Every score, in the order of ScoreSpec.
absl::Span<const ScoreEntry> ScoreTable();

}  // namespace attn
