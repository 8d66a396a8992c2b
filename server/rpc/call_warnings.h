// What deserves a look in a finished call. A warning never changes a result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/core/attention_args.h"
#include "engine/core/head_statistics.h"
#include "engine/core/tensor_view.h"
#include "engine/engine.h"
#include "proto/codec/schema.h"

namespace attn {

// What every call knows: an explicit scale of about 1/d_k on a dot score,
// logits beyond F16, rows that see no key, tensors that are not finite.
std::vector<v1::Warning> CallWarnings(const Plan& plan,
                                      const CallReport& report);

// Saturated and dead heads, from statistics [B, Hq].
std::vector<v1::Warning> HeadWarnings(absl::Span<const HeadStatistics> heads,
                                      const AttentionShape& shape);

// Norms of the rows of q and k, as MeanRowNorm() has them.
struct InputNorms {
  double q = 0;
  double k = 0;
};

// A dot score whose logits deviate by less than 2 / d_k of what the norms
// predict at 1 / sqrt(d_k), |q| |k| / sqrt(d_k). For independent elements the
// deviation is 1 / sqrt(d_k) of that, with the scale applied twice 1 / d_k; so
// that d_k <= 4 cannot be told, nor can logits that something else than scale
// and temperature changed, nor constant ones. None if CallWarnings() has said
// it of the scale.
std::optional<v1::Warning> SmallLogitsWarning(
    const Plan& plan, absl::Span<const HeadStatistics> heads,
    const InputNorms& norms);

// Whether all heads of each batch entry have the same weights [B, H, Sq, Sk],
// F32 or F64, to 1e-6. Rows of one visible key tell nothing: heads none of
// which sees two keys in a row get no warning, nor does a single head.
std::optional<v1::Warning> HeadsAlikeWarning(
    const TensorView& weights, absl::Span<const HeadStatistics> heads);

}  // namespace attn
