// A transform stage: acts on the rows of q or k before they are compared.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/core/call_view.h"
#include "engine/core/gradient_sink.h"
#include "engine/core/problem.h"
#include "engine/core/row_span.h"

namespace attn {

// Which of the two tensors a row belongs to.
enum class Side : uint8_t { kQuery, kKey };

// Does to rows of keys, in place, what a transform's Apply() does. For one
// thread at a time.
using KeyTransform =
    std::function<void(const CallView& call, const RowSpan& span, float* rows)>;

// One member of TransformSpec, bound to a problem. Thread-safe: const.
class Transform {
 public:
  virtual ~Transform() = default;

  // Whether rows of this side change at all.
  virtual bool Applies(Side side) const = 0;

  // In place on `span.count` rows, one after the other, of width d_q (d_k).
  virtual void Apply(const CallView& call, Side side, const RowSpan& span,
                     float* rows) const = 0;
  virtual void Apply(const CallView& call, Side side, const RowSpan& span,
                     double* rows) const = 0;

  // Apply() to keys with the same bits, for who goes through a few dozens of
  // positions head by head: it may remember what depends on positions alone,
  // and allocates nothing when called. Borrows this.
  virtual KeyTransform OverHeads() const {
    return [this](const CallView& call, const RowSpan& span, float* rows) {
      Apply(call, Side::kKey, span, rows);
    };
  }

  // Turns the gradient of Apply()'s result into that of its `input` rows, in
  // place, and adds the parameters' gradients to `sink`.
  virtual void Backward(const CallView& call, Side side, const RowSpan& span,
                        const double* input, double* gradient,
                        const GradientSink& sink) const = 0;
};

// One row of the table.
struct TransformEntry {
  const char* name;
  const char* summary;
  // Index of the member in TransformSpec.
  size_t index;
  // INVALID_ARGUMENT that names a field below `field` ("spec.transforms[0]").
  absl::Status (*validate)(const TransformSpec& spec, const Problem& problem,
                           absl::string_view field);
  // The member in a few characters, e.g. "rotary(half_split)".
  std::string (*describe)(const TransformSpec& spec);
  // Makes the stage for a problem that passed `validate`.
  std::unique_ptr<Transform> (*make)(const TransformSpec& spec,
                                     const Problem& problem);
};

// Every transform, in the order of TransformSpec.
absl::Span<const TransformEntry> TransformTable();

}  // namespace attn
