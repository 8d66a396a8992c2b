// A ModelInferResponse, its contents raw and not copied.
#pragma once

#include <vector>

#include "proto/codec/response_codec.h"
#include "proto/codec/schema.h"
#include "proto/codec/wire_chunk.h"
#include "server/inference/infer_call.h"

namespace attn {

// The tensors, which are given away, are those that `form` names. Of the report
// the response has the kernel and the warnings, as parameters.
std::vector<WireChunk> EncodeInferResponse(const InferReplyForm& form,
                                           const v1::CallReport& report,
                                           std::vector<ResponseTensor> tensors);

}  // namespace attn
