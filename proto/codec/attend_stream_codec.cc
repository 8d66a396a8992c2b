#include "proto/codec/attend_stream_codec.h"

#include <string>
#include <utility>

#include "absl/types/span.h"
#include "proto/codec/attend_parts.h"
#include "proto/codec/enum_names.h"
#include "proto/codec/response_codec.h"
#include "proto/codec/schema.h"
#include "proto/codec/status_codec.h"

namespace attn {
namespace {

// A value of an enum, and the field of the message that it names.
struct SlotRow {
  int value;
  int field;
};

using Request = v1::AttendRequest;
constexpr SlotRow kRequestSlots[] = {
    {v1::TENSOR_SLOT_Q, Request::kQFieldNumber},
    {v1::TENSOR_SLOT_K, Request::kKFieldNumber},
    {v1::TENSOR_SLOT_V, Request::kVFieldNumber},
    {v1::TENSOR_SLOT_INPUT, Request::kInputsFieldNumber},
    {v1::TENSOR_SLOT_QKV, Request::kQkvFieldNumber},
};

using Response = v1::AttendResponse;
constexpr SlotRow kResponseSlots[] = {
    {v1::OUTPUT_OUTPUT, Response::kOutputFieldNumber},
    {v1::OUTPUT_LSE, Response::kLseFieldNumber},
    {v1::OUTPUT_LOGITS, Response::kLogitsFieldNumber},
    {v1::OUTPUT_MASKED_LOGITS, Response::kMaskedLogitsFieldNumber},
    {v1::OUTPUT_WEIGHTS, Response::kWeightsFieldNumber},
    {v1::OUTPUT_LSE_WITH_SINK, Response::kLseWithSinkFieldNumber},
    {v1::OUTPUT_DROPOUT_KEEP, Response::kDropoutKeepFieldNumber},
    {v1::OUTPUT_STATE, Response::kStateFieldNumber},
    {v1::OUTPUT_HEAD_OUTPUT, Response::kHeadOutputFieldNumber},
};

absl::StatusOr<int> FieldOfSlot(const StreamChunk& chunk,
                                absl::Span<const SlotRow> rows,
                                const google::protobuf::EnumDescriptor* type) {
  for (const SlotRow& row : rows) {
    if (row.value == chunk.tensor) return row.field;
  }
  return EnumError("chunk.tensor", chunk.tensor, type,
                   /*zero_is_legal=*/false);
}

// 0: none.
int SlotOfField(int field, absl::Span<const SlotRow> rows) {
  for (const SlotRow& row : rows) {
    if (row.field == field) return row.value;
  }
  return 0;
}

SplitMessage Split(ChunkWriter& writer) {
  SplitMessage split;
  split.header = writer.Finish();
  split.payloads = writer.TakeDetached();
  return split;
}

}  // namespace

SplitMessage SplitAttendRequest(const AttendMessage& message) {
  ChunkWriter writer;
  writer.DetachPayloads();
  WriteAttendRequest(message, writer);
  return Split(writer);
}

SplitMessage SplitAttendResponse(const v1::AttendResponse& header,
                                 std::vector<ResponseTensor> tensors) {
  ChunkWriter writer;
  writer.DetachPayloads();
  WriteResponse(header, std::move(tensors), writer);
  return Split(writer);
}

absl::StatusOr<AttendCall> DecodeAttendHeader(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes, const BookBytes& book, ChunkAssembly& assembly) {
  return DecodeAttendParts(stream, size, max_payload_bytes,
                           [&book, &assembly](WireMessage& message) {
                             return assembly.Begin(message, book);
                           });
}

absl::StatusOr<AttendResult> DecodeAttendResponseHeader(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    const BookBytes& book, ChunkAssembly& assembly) {
  AttendResult result;
  auto tensors = ReadResponse(stream, size, result.header,
                              [&book, &assembly](WireMessage& message) {
                                return assembly.Begin(message, book);
                              });
  if (!tensors.ok()) return tensors.status();
  result.tensors = *std::move(tensors);
  return result;
}

absl::StatusOr<int> RequestFieldOf(const StreamChunk& chunk) {
  return FieldOfSlot(chunk, kRequestSlots, v1::TensorSlot_descriptor());
}

absl::StatusOr<int> ResponseFieldOf(const StreamChunk& chunk) {
  return FieldOfSlot(chunk, kResponseSlots, v1::Output_descriptor());
}

int TensorSlotOf(int request_field) {
  return SlotOfField(request_field, kRequestSlots);
}

int OutputSlotOf(int response_field) {
  return SlotOfField(response_field, kResponseSlots);
}

absl::Status DecodeCallStatus(absl::string_view bytes) {
  v1::CallStatus status;
  if (!status.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InternalError("the status of a call is malformed");
  }
  const grpc::Status error(static_cast<grpc::StatusCode>(status.code()),
                           status.message(), std::string(bytes));
  if (!error.ok()) return FromGrpcStatus(error);
  return absl::InternalError("a call failed without a status");
}

}  // namespace attn
