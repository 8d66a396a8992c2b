// Attend requests whose payloads may be elsewhere: what attend_codec.h and
// attend_stream_codec.h share.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "proto/codec/attend_codec.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/response_codec.h"

namespace attn {

// As DecodeAttendRequest(). `hook`, unless null, sees the tensors once all else
// of the request was understood.
absl::StatusOr<AttendCall> DecodeAttendParts(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes, const TensorsHook& hook);

// The rest of the way, for requests whose tensors are apart already: `message`
// holds them, and what of layers TakeLayerReferencesOf() took out of `request`.
absl::StatusOr<AttendCall> DecodeAttendParts(const v1::AttendRequest& request,
                                             WireMessage& message,
                                             const TensorsHook& hook = nullptr);

void WriteAttendRequest(const AttendMessage& message, ChunkWriter& writer);

}  // namespace attn
