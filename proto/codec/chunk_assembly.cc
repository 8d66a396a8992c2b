#include "proto/codec/chunk_assembly.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "proto/codec/tensor_codec.h"

namespace attn {

absl::Status ChunkAssembly::Begin(WireMessage& message, const BookBytes& book) {
  std::vector<WireTensor*> missing;
  // How many of a field came before.
  std::map<int, uint32_t> counts;
  for (WireTensor& tensor : message.tensors) {
    const uint32_t index = counts[tensor.field]++;
    if (tensor.data.size() > 0) continue;
    const auto view = DecodeTensorSignature(tensor.metadata, tensor.name);
    if (!view.ok()) return view.status();
    // At most 2^48 elements in each of 256 tensors: no overflow.
    const int64_t size = view->byte_count();
    if (size == 0) continue;
    parts_.push_back({.field = tensor.field,
                      .index = index,
                      .name = tensor.name,
                      .is_bool = view->dtype == DType::kBool,
                      .size = size});
    missing.push_back(&tensor);
    total_bytes_ += size;
  }
  absl::Status booked = book(total_bytes_);
  if (!booked.ok()) return booked;
  for (size_t i = 0; i < parts_.size(); ++i) {
    WireTensor& tensor = *missing[i];
    tensor.data = AlignedBuffer(static_cast<size_t>(parts_[i].size));
    tensor.pending = true;
    parts_[i].data = tensor.data.data();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::byte*> ChunkAssembly::Next(int field, uint32_t index,
                                               int64_t offset, int64_t size) {
  const auto part = std::find_if(
      parts_.begin(), parts_.end(),
      [&](const Part& p) { return p.field == field && p.index == index; });
  if (part == parts_.end()) {
    return FieldError("chunk.tensor",
                      absl::StrCat("field ", field, ", index ", index),
                      "a tensor of the header that has elements and no data");
  }
  if (offset != part->received) {
    return FieldError(
        "chunk.offset", absl::StrCat(offset, " of ", part->name),
        absl::StrCat(part->received, ", where the bytes before end"));
  }
  const int64_t left = part->size - part->received;
  if (size < 1 || size > left) {
    return FieldError(
        "chunk.data", absl::StrCat(size, " bytes of ", part->name),
        left == 0 ? absl::StrCat("none: all ", part->size, " bytes came")
                  : absl::StrCat("1 to ", left, ", as many as are missing"));
  }
  std::byte* target = part->data + part->received;
  part->received += size;
  received_bytes_ += size;
  return target;
}

absl::Status ChunkAssembly::CheckComplete() const {
  for (const Part& part : parts_) {
    if (part.received == part.size) continue;
    return FieldError(absl::StrCat(part.name, ".data"),
                      absl::StrCat(part.received, " bytes in chunks"),
                      absl::StrCat(part.size, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status ChunkAssembly::CheckValues() const {
  for (const Part& part : parts_) {
    if (!part.is_bool) continue;
    absl::Status status =
        CheckBool({part.data, static_cast<size_t>(part.size)}, part.name);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace attn
