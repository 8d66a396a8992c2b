// The codecs as verbs for tests.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/field_error.h"
#include "proto/codec/attend_codec.h"
#include "tests/proto/codec/piece_stream.h"

namespace attn {

inline constexpr int64_t kRoomy = int64_t{1} << 30;

inline absl::StatusOr<AttendCall> Decode(const std::string& bytes,
                                         int64_t max_payload = kRoomy,
                                         size_t piece_size = 1024) {
  PieceStream stream(bytes, piece_size);
  return DecodeAttendRequest(stream, static_cast<int64_t>(bytes.size()),
                             max_payload);
}

inline absl::StatusOr<AttendCall> Decode(const v1::AttendRequest& request) {
  return Decode(request.SerializeAsString());
}

// The field that decoding `request` complains about; "" if it does not.
inline std::string BadField(const v1::AttendRequest& request) {
  const auto call = Decode(request);
  return FieldOf(call.status()).value_or("");
}

inline std::string Join(const std::vector<WireChunk>& chunks) {
  std::string bytes;
  for (const WireChunk& chunk : chunks) {
    bytes += chunk.bytes;
    bytes.append(reinterpret_cast<const char*>(chunk.owned.data()),
                 chunk.owned_size);
    bytes.append(reinterpret_cast<const char*>(chunk.borrowed),
                 chunk.borrowed_size);
  }
  return bytes;
}

// The payload of a view that is row-major, perhaps after a swap of axes.
inline std::string BytesOf(const TensorView& view) {
  return {reinterpret_cast<const char*>(view.data),
          static_cast<size_t>(view.byte_count())};
}

inline std::vector<int64_t> DimsOf(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

// `values` as the payload of a tensor.
template <typename T>
void SetTensor(v1::DataType dtype, const std::vector<int64_t>& shape,
               const std::vector<T>& values, v1::Tensor* tensor) {
  tensor->set_dtype(dtype);
  tensor->mutable_shape()->Assign(shape.begin(), shape.end());
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  tensor->set_data(bytes);
}

// q [1, 2, 2, 2], k [1, 1, 3, 2], v [1, 1, 3, 1], F32, different values.
inline v1::AttendRequest SmallRequest() {
  v1::AttendRequest request;
  SetTensor<float>(v1::DATA_TYPE_F32, {1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8},
                   request.mutable_q());
  SetTensor<float>(v1::DATA_TYPE_F32, {1, 1, 3, 2}, {9, 10, 11, 12, 13, 14},
                   request.mutable_k());
  SetTensor<float>(v1::DATA_TYPE_F32, {1, 1, 3, 1}, {15, 16, 17},
                   request.mutable_v());
  return request;
}

}  // namespace attn
