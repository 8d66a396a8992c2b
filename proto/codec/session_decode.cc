#include <bitset>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/core/field_error.h"
#include "google/protobuf/io/coded_stream.h"
#include "proto/codec/call_decode.h"
#include "proto/codec/field_reader.h"
#include "proto/codec/session_codec.h"
#include "proto/codec/stable_digest.h"
#include "proto/codec/tensor_codec.h"
#include "proto/codec/wire_message.h"

namespace attn {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::ZeroCopyInputStream;

// Of q, k and v, batch first.
constexpr int kStepRank = 4;
constexpr int kTokenAxis = 2;

// One of q, k and v: its field, and where a layer keeps it.
struct StepOperand {
  int field;
  const char* name;
  TensorView StepTensors::*view;
};

constexpr StepOperand kStepOperands[] = {
    {v1::StepRequest::kQFieldNumber, "q", &StepTensors::q},
    {v1::StepRequest::kKFieldNumber, "k", &StepTensors::k},
    {v1::StepRequest::kVFieldNumber, "v", &StepTensors::v},
};

constexpr int kMaxStepTensors =
    kMaxSessionLayers * static_cast<int>(std::size(kStepOperands));

std::string NameOf(const StepOperand& operand, size_t index) {
  return absl::StrCat(operand.name, "[", index, "]");
}

absl::Status DecodeNumbers(const v1::StepRequest& request, StepCall& call) {
  call.session_id = request.session_id();
  call.epoch = request.epoch();
  call.step = request.step();
  call.position = request.position();
  if (call.position >= 0) return absl::OkStatus();
  return FieldError("position", absl::StrCat(call.position), "0 or more");
}

absl::Status DecodeLayers(const v1::StepRequest& request, StepCall& call) {
  std::bitset<kMaxSessionLayers> seen;
  for (int i = 0; i < request.layers_size(); ++i) {
    const int layer = request.layers(i);
    const std::string field = absl::StrCat("layers[", i, "]");
    if (layer < 0 || layer >= kMaxSessionLayers) {
      return FieldError(field, absl::StrCat(layer),
                        absl::StrCat("0 to ", kMaxSessionLayers - 1));
    }
    const auto index = static_cast<size_t>(layer);
    if (seen[index]) {
      return FieldError(field, absl::StrCat(layer, " again"),
                        "each layer once");
    }
    seen.set(index);
    call.layers.emplace_back().layer = layer;
  }
  if (call.layers.empty()) call.layers.emplace_back();
  return absl::OkStatus();
}

absl::Status CheckCounts(const WireMessage& message, const StepCall& call) {
  const size_t expected = call.layers.size();
  for (const StepOperand& operand : kStepOperands) {
    size_t count = 0;
    for (const WireTensor& tensor : message.tensors) {
      count += tensor.field == operand.field ? 1 : 0;
    }
    if (count == expected) continue;
    return FieldError(
        operand.name, absl::StrCat(count, count == 1 ? " tensor" : " tensors"),
        expected == 1
            ? "1, for the one layer"
            : absl::StrCat("one for each of the ", expected, " layers"));
  }
  return absl::OkStatus();
}

absl::Status CheckSignature(const TensorView& view, const WireTensor& tensor) {
  if (view.shape.rank() != kStepRank || view.shape[0] != 1) {
    const bool bshd = tensor.metadata.layout() == v1::TENSOR_LAYOUT_BSHD;
    return FieldError(absl::StrCat(tensor.name, ".shape"),
                      view.shape.ToString(),
                      bshd ? "[1, tokens, heads, dim], as its layout says"
                           : "[1, heads, tokens, dim]");
  }
  const bool q = tensor.field == v1::StepRequest::kQFieldNumber;
  if (IsFloat(view.dtype) && !(q && view.dtype == DType::kF64)) {
    return absl::OkStatus();
  }
  return FieldError(absl::StrCat(tensor.name, ".dtype"),
                    std::string(Name(view.dtype)),
                    q ? "F32, F16 or BF16" : "F32, F16, BF16 or F64");
}

// As [1, H, n, D].
absl::StatusOr<TensorView> DecodeStepTensor(WireTensor& tensor) {
  auto view = DecodeTensor(tensor);
  if (!view.ok()) return view.status();
  absl::Status status = CheckSignature(*view, tensor);
  if (!status.ok()) return status;
  return FromLayout(*std::move(view), tensor.metadata.layout(), tensor.name);
}

// The n-th tensor of a field is that of the n-th layer.
absl::Status TakeTensors(WireMessage& message, StepCall& call) {
  for (const StepOperand& operand : kStepOperands) {
    size_t index = 0;
    for (WireTensor& tensor : message.tensors) {
      if (tensor.field != operand.field) continue;
      auto view = DecodeStepTensor(tensor);
      if (!view.ok()) return view.status();
      StepTensors& layer = call.layers[index++];
      layer.*operand.view = *std::move(view);
      if (operand.field == v1::StepRequest::kQFieldNumber) {
        layer.bshd = tensor.metadata.layout() == v1::TENSOR_LAYOUT_BSHD;
      }
      call.storage.push_back(std::move(tensor.data));
    }
  }
  call.payload_bytes = message.payload_bytes;
  return absl::OkStatus();
}

absl::Status CheckTokens(const StepCall& call) {
  const int64_t tokens = call.layers[0].q.shape[kTokenAxis];
  if (tokens < 1) return FieldError("q[0].shape", "no tokens", "1 or more");
  for (const StepOperand& operand : kStepOperands) {
    for (size_t i = 0; i < call.layers.size(); ++i) {
      const int64_t got = (call.layers[i].*operand.view).shape[kTokenAxis];
      if (got == tokens) continue;
      return FieldError(absl::StrCat(NameOf(operand, i), ".shape"),
                        absl::StrCat(got, " tokens"),
                        absl::StrCat(tokens, ", as q[0] has"));
    }
  }
  return absl::OkStatus();
}

void AddTensor(const TensorView& view, StableDigest& digest) {
  digest.Add(static_cast<uint64_t>(view.dtype));
  // The strides tell the layouts apart.
  for (int axis = 0; axis < kStepRank; ++axis) {
    digest.Add(static_cast<uint64_t>(view.shape[axis]));
    digest.Add(static_cast<uint64_t>(view.strides[static_cast<size_t>(axis)]));
  }
  digest.Add(view.data, static_cast<size_t>(view.byte_count()));
}

// Sessions outlive the process, and with them the digest of their last step.
uint64_t DigestOf(const StepCall& call) {
  StableDigest digest;
  digest.Add(reinterpret_cast<const std::byte*>(call.session_id.data()),
             call.session_id.size());
  digest.Add(call.epoch);
  digest.Add(call.step);
  digest.Add(static_cast<uint64_t>(call.position));
  for (const StepTensors& layer : call.layers) {
    digest.Add(static_cast<uint64_t>(layer.layer));
    for (const StepOperand& operand : kStepOperands) {
      AddTensor(layer.*operand.view, digest);
    }
  }
  return digest.value();
}

absl::Status MalformedStream(int64_t byte) {
  return FieldError("StepStreamRequest",
                    absl::StrCat("malformed protobuf near byte ", byte),
                    "a well-formed message");
}

// Reads on to the value of the next `step` and gives its length; nothing at
// the end of the message. `left` counts the bytes of the message, `size` in
// all, that were not read.
absl::StatusOr<std::optional<int>> FindStep(ZeroCopyInputStream& stream,
                                            int64_t size, int64_t& left) {
  CodedInputStream input(&stream);
  input.PushLimit(static_cast<int>(left));
  FieldReader fields(input);
  std::optional<int> length;
  while (!length.has_value() && fields.Next()) {
    if (fields.Number() == v1::StepStreamRequest::kStepFieldNumber &&
        fields.IsDelimited()) {
      fields.TakeLength(&length.emplace());
    } else {
      fields.Skip();
    }
  }
  left -= input.CurrentPosition();
  if (!fields.ok()) return MalformedStream(size - left);
  return length;
}

}  // namespace

absl::StatusOr<StepCall> DecodeStepRequest(ZeroCopyInputStream& stream,
                                           int64_t size,
                                           int64_t max_payload_bytes) {
  v1::StepRequest request;
  auto message =
      ReadRequest(stream, size, max_payload_bytes, request, kMaxStepTensors);
  if (!message.ok()) return message.status();
  StepCall call;
  absl::Status status = DecodeNumbers(request, call);
  if (status.ok()) status = DecodeLayers(request, call);
  if (status.ok()) status = CheckCounts(*message, call);
  if (status.ok()) status = TakeTensors(*message, call);
  if (status.ok()) status = CheckTokens(call);
  if (status.ok()) status = DecodeCallInfo(request, call);
  if (!status.ok()) return status;
  call.digest = DigestOf(call);
  return call;
}

absl::StatusOr<StepCall> DecodeStepStreamRequest(ZeroCopyInputStream& stream,
                                                 int64_t size,
                                                 int64_t max_payload_bytes) {
  absl::Status fits = CheckWireSize("StepStreamRequest", size);
  if (!fits.ok()) return fits;
  int64_t left = size;
  auto length = FindStep(stream, size, left);
  if (!length.ok()) return length.status();
  if (!length->has_value()) return FieldError("step", "nothing", "a step");
  auto call = DecodeStepRequest(stream, **length, max_payload_bytes);
  if (!call.ok()) return call.status();
  left -= **length;
  length = FindStep(stream, size, left);
  if (!length.ok()) return length.status();
  if (length->has_value()) {
    return FieldError("step", "a second step", "one in a message");
  }
  return call;
}

absl::StatusOr<StepResult> DecodeStepResponse(ZeroCopyInputStream& stream,
                                              int64_t size) {
  return DecodeResult<v1::StepResponse>(stream, size);
}

}  // namespace attn
