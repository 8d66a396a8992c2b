#include <utility>

#include "proto/codec/attend_codec.h"

namespace attn {

std::vector<WireChunk> EncodeAttendResponse(
    const v1::AttendResponse& header, std::vector<ResponseTensor> tensors) {
  return EncodeResponse(header, std::move(tensors));
}

absl::StatusOr<AttendResult> DecodeAttendResponse(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size) {
  return DecodeResult<v1::AttendResponse>(stream, size);
}

}  // namespace attn
