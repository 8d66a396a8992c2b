// Statistics of rows and heads as messages.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "engine/core/attention_args.h"
#include "engine/core/head_statistics.h"
#include "engine/core/row_statistics.h"
#include "proto/codec/schema.h"

namespace attn {

// Bytes of one v1::HeadStatistics at its widest, its words included, and of the
// numbers of one row in v1::RowStatistics.
inline constexpr int64_t kHeadStatisticsBytes = 448;
inline constexpr int64_t kRowStatisticsBytes = 11 * 8;

// One for each batch entry and query head, from rows [B, Hq, Sq] that were
// computed with OutputSelection::statistics.
std::vector<HeadStatistics> SummarizeHeads(absl::Span<const RowStatistics> rows,
                                           const AttentionShape& shape);

// `heads` in the order of SummarizeHeads().
void FillHeads(
    absl::Span<const HeadStatistics> heads, const AttentionShape& shape,
    google::protobuf::RepeatedPtrField<v1::HeadStatistics>& messages);

// Real numbers become `real`: F32 or F64.
void FillRows(absl::Span<const RowStatistics> rows, const AttentionShape& shape,
              DType real, v1::RowStatistics& message);

}  // namespace attn
