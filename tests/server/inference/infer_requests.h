// ModelInferRequests that ask for what an AttendRequest asks for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attention/v1/attention.pb.h"
#include "inference/open_inference.pb.h"
#include "proto/codec/schema.h"
#include "server/inference/infer_model.h"
#include "tests/testing/variants/variant_case.h"

namespace attn {

namespace oip = ::inference;

// How the elements of tensors are sent.
enum class ContentForm {
  kRaw,
  // In the field of the datatype, as a generated stub writes it.
  kTyped,
};

// A random call of the model, small enough to be computed where it arrives, in
// `dtype`; of `attention`, any variant. The same for the same seed.
v1::AttendRequest RandomCallOf(const InferModel& model, uint64_t seed,
                               DType dtype = DType::kF32);

// The same call in the terms of the protocol: the model's member as parameters
// and inputs with names, all else of the spec as `spec`. FP16 and BF16 are raw
// in any case, and then all tensors are.
oip::ModelInferRequest InferRequestOf(const InferModel& model,
                                      const v1::AttendRequest& request,
                                      ContentForm form = ContentForm::kRaw);

// An input of F32 with these elements, raw.
void AddFloats(oip::ModelInferRequest& request, const std::string& name,
               const std::vector<int64_t>& shape,
               const std::vector<float>& values);

// A call of `model` with q, k and v [1, 2, 3, 4].
oip::ModelInferRequest PlainRequest(const std::string& model);

}  // namespace attn
