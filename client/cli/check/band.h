// Causal masks and windows whose diagonal lies anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "client/cli/check/service.h"

namespace attn {

// Key j is visible to query i of batch entry b if
// i + offsets[b] - left <= j <= i + offsets[b] + right; absent: unbounded. The
// first `sinks` keys are visible left of the band too.
struct CaseBand {
  std::optional<int64_t> left;
  std::optional<int64_t> right;
  int64_t sinks = 0;
  // One for each batch entry.
  std::vector<int64_t> offsets;
};

// kv_length(b) - Sq, for every batch entry.
std::vector<int64_t> BottomRightOffsets(const ServiceCall& call);

// Adds the band to the call, as a causal, window or streaming mask if one of
// the wire's alignments says it, otherwise as a dense mask. The call has its q,
// k and kv_lengths by then.
void AddBand(const CaseBand& band, ServiceCall& call);

}  // namespace attn
