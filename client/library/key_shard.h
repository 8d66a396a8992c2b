// A call about some of its keys, for servers that share a context.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/codec/attend_codec.h"

namespace attn {

// Keys [begin, end).
struct ShardRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// At most `count` ranges of [0, keys) in order, about equally long, each but
// the last a multiple of 64 keys. One at least.
std::vector<ShardRange> DivideKeys(int64_t keys, int64_t count);

// The call of `message` about the keys of `range` alone. Its views are into the
// tensors of `message`. Asks for output and lse, in F32 (F64 if q is), without
// learned sinks, which join after merging: MergePartials() and JoinSinks()
// (merge.h) of all ranges give what `message` asks for.
//
// INVALID_ARGUMENT names what the rows of some keys alone do not tell: members
// that look at other keys of the row (sparsifiers; normalizers but softmax;
// masks but causal, window and dense), or at positions that cannot be moved
// (biases but dense and constant; programs; sines of each row); dropout,
// projections, I8 keys, packed or ragged tensors; other outputs; and causal or
// window masks beside lengths. Also what the whole call could not mean, and a
// server would not see: lengths and tensors that are not those of the keys.
absl::StatusOr<AttendMessage> ShardOf(const AttendMessage& message,
                                      ShardRange range);

}  // namespace attn
