#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "proto/codec/backward_codec.h"

namespace attn {
namespace {

using Response = v1::AttendBackwardResponse;

absl::Status CheckCount(const BackwardResult& result, int field, int names,
                        absl::string_view what, absl::string_view of) {
  int tensors = 0;
  for (const ResponseTensor& tensor : result.tensors) {
    tensors += tensor.field == field ? 1 : 0;
  }
  if (tensors == names) return absl::OkStatus();
  return FieldError(what, absl::StrCat(tensors, " tensors"),
                    absl::StrCat("one for each of the ", names, " ", of));
}

// The position-th of its field.
const ResponseTensor* FindAt(const BackwardResult& result, int field,
                             int position) {
  for (const ResponseTensor& tensor : result.tensors) {
    if (tensor.field == field && position-- == 0) return &tensor;
  }
  return nullptr;
}

}  // namespace

std::vector<WireChunk> EncodeBackwardResponse(
    const Response& header, std::vector<ResponseTensor> tensors) {
  return EncodeResponse(header, std::move(tensors));
}

absl::StatusOr<BackwardResult> DecodeBackwardResponse(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size) {
  auto result = DecodeResult<Response>(stream, size);
  if (!result.ok()) return result.status();
  const Response& header = result->header;
  for (const absl::Status& status :
       {CheckCount(*result, Response::kDInputsFieldNumber,
                   header.gradient_inputs_size(), "d_inputs",
                   "gradient_inputs"),
        CheckCount(*result, Response::kDLayersFieldNumber,
                   header.gradient_layers_size(), "d_layers",
                   "gradient_layers")}) {
    if (!status.ok()) return status;
  }
  return result;
}

const ResponseTensor* FindInputGradient(const BackwardResult& result,
                                        uint32_t index) {
  for (int i = 0; i < result.header.gradient_inputs_size(); ++i) {
    if (result.header.gradient_inputs(i) != index) continue;
    return FindAt(result, Response::kDInputsFieldNumber, i);
  }
  return nullptr;
}

const ResponseTensor* FindLayerGradient(const BackwardResult& result,
                                        const std::string& layer,
                                        const std::string& tensor) {
  for (int i = 0; i < result.header.gradient_layers_size(); ++i) {
    const v1::LayerTensor& named = result.header.gradient_layers(i);
    if (named.layer() != layer || named.tensor() != tensor) continue;
    return FindAt(result, Response::kDLayersFieldNumber, i);
  }
  return nullptr;
}

}  // namespace attn
