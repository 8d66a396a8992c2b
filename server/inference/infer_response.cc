#include "server/inference/infer_response.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "inference/open_inference.pb.h"
#include "proto/codec/chunk_writer.h"
#include "server/inference/datatype.h"

namespace attn {
namespace {

using Response = inference::ModelInferResponse;

void AddReport(const v1::CallReport& report, Response& response) {
  auto& parameters = *response.mutable_parameters();
  parameters["kernel"].set_string_param(report.kernel());
  std::string warnings;
  for (const v1::Warning& warning : report.warnings()) {
    absl::StrAppend(&warnings, warnings.empty() ? "" : "; ", warning.message());
  }
  if (!warnings.empty()) parameters["warnings"].set_string_param(warnings);
}

void AddOutput(const std::string& name, const ResponseTensor& tensor,
               Response& response) {
  auto& output = *response.add_outputs();
  output.set_name(name);
  output.set_datatype(std::string(DatatypeOf(tensor.dtype)));
  output.mutable_shape()->Add(tensor.shape.dims().begin(),
                              tensor.shape.dims().end());
  if (tensor.bshd) {
    (*output.mutable_parameters())["layout"].set_string_param("BSHD");
  }
}

}  // namespace

std::vector<WireChunk> EncodeInferResponse(
    const InferReplyForm& form, const v1::CallReport& report,
    std::vector<ResponseTensor> tensors) {
  Response head;
  head.set_model_name(form.model->name);
  head.set_model_version(kInferModelVersion);
  head.set_id(form.id);
  AddReport(report, head);
  std::vector<Payload> contents;
  for (const auto* output : form.outputs) {
    for (ResponseTensor& tensor : tensors) {
      if (tensor.field != output->number()) continue;
      AddOutput(output->name(), tensor, head);
      const size_t size = tensor.data.size();
      contents.push_back({.owned = std::move(tensor.data), .size = size});
    }
  }
  ChunkWriter writer;
  writer.AddMessage(head);
  for (Payload& payload : contents) {
    writer.AddBytes(Response::kRawOutputContentsFieldNumber,
                    std::move(payload));
  }
  return writer.Finish();
}

}  // namespace attn
