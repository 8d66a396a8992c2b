// A mask stage: says which keys a query may attend.
#pragma once

#include <limits>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/core/call_view.h"
#include "engine/core/problem.h"
#include "engine/tile/tile.h"

namespace attn {

// One member of MaskSpec, bound to a problem. Thread-safe: const.
class Mask {
 public:
  virtual ~Mask() = default;

  // A range that holds every key which some row of `rows` (its key fields are
  // ignored) may attend. Kernels skip the keys outside. A plan asks before
  // there is data: inputs whose data is null may be any mask.
  virtual KeyRange Visible(const CallView& call,
                           const TileBounds& rows) const = 0;

  // Whether every element of the tile is allowed, so that Exclude() would do
  // nothing. False where it is not cheap to know.
  virtual bool Covers(const CallView& call, const TileBounds& tile) const = 0;

  // Sets every element that is not allowed to -infinity.
  virtual void Exclude(const CallView& call, const Tile<float>& tile) const = 0;
  virtual void Exclude(const CallView& call,
                       const Tile<double>& tile) const = 0;
};

// One row of the table.
struct MaskEntry {
  const char* name;
  const char* summary;
  // Index of the member in MaskSpec.
  size_t index;
  // INVALID_ARGUMENT that names a field below `field` ("spec.masks[0]").
  absl::Status (*validate)(const MaskSpec& spec, const Problem& problem,
                           absl::string_view field);
  // The member in a few characters, e.g. "causal(bottom_right)".
  std::string (*describe)(const MaskSpec& spec);
  // Makes the stage for a problem that passed `validate`.
  std::unique_ptr<Mask> (*make)(const MaskSpec& spec, const Problem& problem);
};

// Every mask, in the order of MaskSpec.
absl::Span<const MaskEntry> MaskTable();

}  // namespace attn
