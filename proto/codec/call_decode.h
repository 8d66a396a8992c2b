// Reads the requests that compute. A decoder is three lines:
//
//   v1::InspectRequest request;
//   auto message = ReadRequest(stream, size, max_payload_bytes, request);
//   if (!message.ok()) return message.status();
//   absl::Status status = DecodeCall(request, *message, call);
//
// and then its own fields; tensors of its own are in WireCall::extras.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "google/protobuf/message.h"
#include "proto/codec/call_codec.h"
#include "proto/codec/spec_codec.h"
#include "proto/codec/wire_message.h"

namespace attn {

// A byte of metadata can cost 30 bytes as a message: an empty Bias is 2 bytes
// on the wire. Real calls need some kilobytes; lengths of a batch of 100 000,
// half a megabyte.
inline constexpr int64_t kMaxMetadataBytes = int64_t{1} << 20;

// q, k, v, and more inputs than any pipeline has stages for.
inline constexpr int kMaxRequestTensors = 256;

// Reads `size` bytes as a message of `request`'s type: the tensors are in the
// result, all else in `request`. INVALID_ARGUMENT that names the field for
// malformed bytes and for more than `max_tensors`; RESOURCE_EXHAUSTED if the
// payloads exceed `max_payload_bytes`, or all else 1 MiB. Each payload byte is
// copied once.
absl::StatusOr<WireMessage> ReadRequest(
    google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
    int64_t max_payload_bytes, google::protobuf::Message& request,
    int max_tensors = kMaxRequestTensors);

// Turns references of request.spec to layers into inputs behind the `inputs` of
// the request (layer_refs.h).
absl::StatusOr<std::vector<LayerReference>> TakeLayerReferencesOf(
    google::protobuf::Message& request, size_t inputs);

// Moves the tensors into `call`: q, k and v, which must be there unless `qkv`
// is, inputs, and all others as extras. The numbers of the four are those of
// AttendRequest in every message.
absl::Status DecodeTensors(WireMessage& message, WireCall& call);

// One tensor, as it came, goes to its place in the call.
absl::Status PlaceTensor(TensorView view, int field, v1::TensorLayout layout,
                         const std::string& name, WireCall& call);

// "<field>: nothing; expected a tensor".
absl::Status MissingTensor(absl::string_view field);

// "<field>: a tensor beside qkv; ..."
absl::Status BesideQkv(absl::string_view field);

absl::Status DecodeRequestId(const std::string& request_id, WireCall& call);
absl::Status DecodePriority(v1::Priority priority, WireCall& call);

// What is said of the call itself: its id and its priority.
template <typename Request>
absl::Status DecodeCallInfo(const Request& request, WireCall& call) {
  absl::Status status = DecodeRequestId(request.request_id(), call);
  if (status.ok()) status = DecodePriority(request.priority(), call);
  return status;
}

// spec, lengths and offsets.
template <typename Request>
absl::Status DecodeSpecAndLengths(const Request& request, WireCall& call) {
  auto spec = DecodeSpec(request.spec());
  if (!spec.ok()) return spec.status();
  call.spec = *std::move(spec);
  call.args.q_lengths.assign(request.q_lengths().begin(),
                             request.q_lengths().end());
  call.args.kv_lengths.assign(request.kv_lengths().begin(),
                              request.kv_lengths().end());
  call.args.q_offsets.assign(request.q_offsets().begin(),
                             request.q_offsets().end());
  call.args.kv_offsets.assign(request.kv_offsets().begin(),
                              request.kv_offsets().end());
  return absl::OkStatus();
}

// All that a WireCall holds.
template <typename Request>
absl::Status DecodeCall(const Request& request, WireMessage& message,
                        WireCall& call) {
  absl::Status status = DecodeSpecAndLengths(request, call);
  if (status.ok()) status = DecodeTensors(message, call);
  if (status.ok()) status = DecodeCallInfo(request, call);
  return status;
}

}  // namespace attn
