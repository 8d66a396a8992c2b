// A bias stage: adds to the logits of a tile.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/core/call_view.h"
#include "engine/core/gradient_sink.h"
#include "engine/core/problem.h"
#include "engine/tile/tile.h"

namespace attn {

// One member of BiasSpec, bound to a problem. Thread-safe: const.
class Bias {
 public:
  virtual ~Bias() = default;

  // Adds the bias to every element of `tile`.
  virtual void Add(const CallView& call, const Tile<float>& tile) const = 0;
  virtual void Add(const CallView& call, const Tile<double>& tile) const = 0;

  // Asks the memory for what Add() will read of the tile of these bounds.
  virtual void Prefetch(const CallView& /*call*/,
                        const TileBounds& /*bounds*/) const {}

  // Adds the parameters' gradients to `sink`, given that of the tile.
  virtual void Backward(const CallView& /*call*/,
                        const Tile<double>& /*gradient*/,
                        const GradientSink& /*sink*/) const {}
};

// One row of the table: how a member is named, checked and made.
struct BiasEntry {
  const char* name;
  const char* summary;
  // Index of the member in BiasSpec.
  size_t index;
  // INVALID_ARGUMENT that names a field below `field` ("spec.biases[0]").
  absl::Status (*validate)(const BiasSpec& spec, const Problem& problem,
                           absl::string_view field);
  // The member in a few characters, e.g. "alibi(slopes)".
  std::string (*describe)(const BiasSpec& spec);
  // Makes the stage for a problem that passed `validate`.
  std::unique_ptr<Bias> (*make)(const BiasSpec& spec, const Problem& problem);
};

// Every bias, in the order of BiasSpec.
absl::Span<const BiasEntry> BiasTable();

}  // namespace attn
