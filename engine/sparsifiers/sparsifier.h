// A sparsifier stage: drops visible keys by their final logits.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/core/call_view.h"
#include "engine/core/problem.h"
#include "engine/tile/tile.h"

namespace attn {

// One member of SparsifierSpec, bound to a problem. The choice is a constant of
// the gradient: dropped keys have none. Thread-safe: const.
class Sparsifier {
 public:
  virtual ~Sparsifier() = default;

  // Sets what is dropped of each row to -infinity. The tile holds every
  // visible key of its rows. `scratch` has room for one row of the tile.
  virtual void Drop(const CallView& call, const Tile<float>& tile,
                    float* scratch) const = 0;
  virtual void Drop(const CallView& call, const Tile<double>& tile,
                    double* scratch) const = 0;
};

// One row of the table.
struct SparsifierEntry {
  const char* name;
  const char* summary;
  // Index of the member in SparsifierSpec.
  size_t index;
  // INVALID_ARGUMENT that names a field below `field` ("spec.sparsifiers[0]").
  absl::Status (*validate)(const SparsifierSpec& spec, const Problem& problem,
                           absl::string_view field);
  // The member in a few characters, e.g. "top_k(8)".
  std::string (*describe)(const SparsifierSpec& spec);
  // Makes the stage for a problem that passed `validate`.
  std::unique_ptr<Sparsifier> (*make)(const SparsifierSpec& spec,
                                      const Problem& problem);
};

// Every sparsifier, in the order of SparsifierSpec.
absl::Span<const SparsifierEntry> SparsifierTable();

}  // namespace attn
