#include "server/inference/infer_job.h"

#include "proto/codec/attend_parts.h"
#include "server/inference/infer_message.h"
#include "server/inference/infer_response.h"
#include "server/rpc/byte_buffer.h"

namespace attn {

absl::StatusOr<WireCall*> InferJob::Read(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes) {
  auto message = ReadInferMessage(stream, size, max_payload_bytes);
  if (!message.ok()) return message.status();
  const auto book = [this](int64_t bytes) { return BookMore(bytes); };
  auto infer = TranslateInferMessage(*std::move(message), book, names_);
  if (!infer.ok()) return infer.status();
  LimitTime(infer->timeout);
  form_ = std::move(infer->form);
  auto call = DecodeAttendParts(infer->request, infer->tensors);
  if (!call.ok()) return names_.Rename(call.status());
  call_ = *std::move(call);
  return &call_;
}

grpc::ByteBuffer InferJob::Encode(const CallReport& report) {
  const v1::AttendResponse header = MakeHeader(report);
  return ToByteBuffer(
      EncodeInferResponse(form_, header.report(), response_.TakeTensors()));
}

}  // namespace attn
