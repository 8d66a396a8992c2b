// The rows that tie the wire's Output to WantedOutputs.
#pragma once

#include "proto/codec/attend_codec.h"
#include "proto/codec/schema.h"

namespace attn {

struct OutputRow {
  v1::Output value;
  bool WantedOutputs::*wanted;
};

inline constexpr OutputRow kOutputRows[] = {
    {v1::OUTPUT_OUTPUT, &WantedOutputs::output},
    {v1::OUTPUT_LSE, &WantedOutputs::lse},
    {v1::OUTPUT_LOGITS, &WantedOutputs::logits},
    {v1::OUTPUT_MASKED_LOGITS, &WantedOutputs::masked_logits},
    {v1::OUTPUT_WEIGHTS, &WantedOutputs::weights},
    {v1::OUTPUT_ROW_STATISTICS, &WantedOutputs::row_statistics},
    {v1::OUTPUT_HEAD_STATISTICS, &WantedOutputs::head_statistics},
    {v1::OUTPUT_LSE_WITH_SINK, &WantedOutputs::lse_with_sink},
    {v1::OUTPUT_DROPOUT_KEEP, &WantedOutputs::dropout_keep},
    {v1::OUTPUT_STATE, &WantedOutputs::state},
    {v1::OUTPUT_HEAD_OUTPUT, &WantedOutputs::head_output},
};

}  // namespace attn
