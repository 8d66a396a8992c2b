// Tensors of a message whose data comes later, in chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/codec/wire_message.h"

namespace attn {

// Books bytes, or says why not.
using BookBytes = std::function<absl::Status(int64_t bytes)>;

// Knows which bytes are still to come, and where they belong. The chunks of one
// tensor come in order, those of several tensors mix. Refers to the tensors'
// memory, which moves with its buffers but never on its own. Thread-compatible.
class ChunkAssembly {
 public:
  // Gives each tensor of `message` that has elements and no data its memory,
  // uninitialised, once `book` has agreed to all of it. Errors name the tensor.
  absl::Status Begin(WireMessage& message, const BookBytes& book);

  // Where the next `size` bytes of the tensor belong, and counts them in.
  // Errors name the field of the chunk: a tensor that waits for none, an offset
  // other than the bytes that came before, no bytes or too many.
  absl::StatusOr<std::byte*> Next(int field, uint32_t index, int64_t offset,
                                  int64_t size);

  bool complete() const { return received_bytes_ == total_bytes_; }
  int64_t total_bytes() const { return total_bytes_; }
  int64_t received_bytes() const { return received_bytes_; }
  // INVALID_ARGUMENT that names the first tensor whose bytes are not there.
  absl::Status CheckComplete() const;
  // Once the bytes are there: a BOOL must be 0 or 1.
  absl::Status CheckValues() const;

 private:
  struct Part {
    int field = 0;
    uint32_t index = 0;
    std::string name;
    bool is_bool = false;
    std::byte* data = nullptr;
    int64_t size = 0;
    int64_t received = 0;
  };

  std::vector<Part> parts_;
  int64_t total_bytes_ = 0;
  int64_t received_bytes_ = 0;
};

}  // namespace attn
