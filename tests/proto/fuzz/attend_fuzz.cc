// Bytes from anybody: the decoders must take them or refuse them.
//
// Built by clang with -DATTN_BUILD_FUZZERS=ON and
// -DATTN_SANITIZE=address,undefined,fuzzer-no-link; run on a corpus folder.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "google/protobuf/stubs/logging.h"
#include "proto/codec/attend_codec.h"
#include "proto/codec/attend_stream_codec.h"
#include "proto/codec/backward_codec.h"
#include "proto/codec/error_details.h"
#include "proto/codec/session_codec.h"
#include "tests/proto/codec/piece_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace attn {
namespace {

constexpr int64_t kMaxPayload = int64_t{1} << 20;
constexpr size_t kPieceSize = 5;

// A call that was taken is whole: every byte of its views can be read.
void Touch(const TensorView& view) {
  int sum = 0;
  for (int64_t i = 0; i < view.byte_count(); ++i) {
    sum += static_cast<int>(view.data[i]);
  }
  if (sum < 0) std::abort();
}

void TryRequest(const std::string& bytes) {
  PieceStream stream(bytes, kPieceSize);
  const auto call = DecodeAttendRequest(
      stream, static_cast<int64_t>(bytes.size()), kMaxPayload);
  if (!call.ok()) return;
  Touch(call->args.q);
  Touch(call->args.k);
  Touch(call->args.v);
  for (const TensorView& input : call->args.inputs) Touch(input);
}

void TryBackwardRequest(const std::string& bytes) {
  PieceStream stream(bytes, kPieceSize);
  const auto call = DecodeBackwardRequest(
      stream, static_cast<int64_t>(bytes.size()), kMaxPayload);
  if (!call.ok()) return;
  Touch(call->args.q);
  // Either may be absent.
  for (const TensorView* view :
       {&call->cotangents.output, &call->cotangents.lse}) {
    if (view->data != nullptr) Touch(*view);
  }
  for (const uint32_t input : call->wanted.inputs) {
    Touch(call->args.inputs[input]);
  }
}

void TryBackwardResponse(const std::string& bytes) {
  PieceStream stream(bytes, kPieceSize);
  const auto result =
      DecodeBackwardResponse(stream, static_cast<int64_t>(bytes.size()));
  if (!result.ok()) return;
  for (const uint32_t input : result->header.gradient_inputs()) {
    const ResponseTensor* tensor = FindInputGradient(*result, input);
    if (tensor == nullptr) std::abort();
    Touch(TensorView::Dense(tensor->data.data(), tensor->dtype, tensor->shape));
  }
}

void TryResponse(const std::string& bytes) {
  PieceStream stream(bytes, kPieceSize);
  const auto result =
      DecodeAttendResponse(stream, static_cast<int64_t>(bytes.size()));
  if (!result.ok()) return;
  for (const ResponseTensor& tensor : result->tensors) {
    Touch(TensorView::Dense(tensor.data.data(), tensor.dtype, tensor.shape));
  }
}

void TouchStep(const absl::StatusOr<StepCall>& call) {
  if (!call.ok()) return;
  for (const StepTensors& layer : call->layers) {
    Touch(layer.q);
    Touch(layer.k);
    Touch(layer.v);
  }
}

void TrySteps(const std::string& bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  PieceStream step(bytes, kPieceSize);
  TouchStep(DecodeStepRequest(step, size, kMaxPayload));
  PieceStream streamed(bytes, kPieceSize);
  TouchStep(DecodeStepStreamRequest(streamed, size, kMaxPayload));
  PieceStream answer(bytes, kPieceSize);
  const auto result = DecodeStepResponse(answer, size);
  if (!result.ok()) return;
  for (const ResponseTensor& tensor : result->tensors) {
    Touch(TensorView::Dense(tensor.data.data(), tensor.dtype, tensor.shape));
  }
}

// Whatever a message of a stream says of itself lies in it, and a header's
// memory is whole once it was agreed to.
void TryStreamMessage(const std::string& bytes,
                      const google::protobuf::Descriptor* type) {
  const auto size = static_cast<int64_t>(bytes.size());
  PieceStream stream(bytes, kPieceSize);
  const auto message = ReadStreamMessage(stream, size, type);
  if (!message.ok()) return;
  for (const WireRange& range : {message->body, message->chunk.data}) {
    if (range.offset < 0 || range.size < 0 ||
        range.size > size - range.offset) {
      std::abort();
    }
  }
  if (message->part != v1::AttendStreamRequest::kHeaderFieldNumber) return;
  PieceStream again(bytes, kPieceSize);
  if (!again.Skip(static_cast<int>(message->body.offset))) std::abort();
  const BookBytes book = [](int64_t wanted) {
    return wanted <= kMaxPayload ? absl::OkStatus()
                                 : absl::ResourceExhaustedError("too much");
  };
  ChunkAssembly assembly;
  if (DecodeAttendHeader(again, message->body.size, kMaxPayload, book, assembly)
          .ok() &&
      assembly.total_bytes() > kMaxPayload) {
    std::abort();
  }
}

}  // namespace
}  // namespace attn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The generated parser prints each string that is not UTF-8.
  google::protobuf::SetLogHandler(nullptr);
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  attn::TryRequest(bytes);
  attn::TryResponse(bytes);
  attn::TryBackwardRequest(bytes);
  attn::TryBackwardResponse(bytes);
  attn::TrySteps(bytes);
  attn::TryStreamMessage(bytes, attn::v1::AttendStreamRequest::descriptor());
  attn::TryStreamMessage(bytes, attn::v1::AttendStreamResponse::descriptor());
  attn::DecodeCallStatus({bytes.data(), bytes.size()}).IgnoreError();
  attn::DecodeErrorDetails({bytes.data(), bytes.size()});
  return 0;
}
