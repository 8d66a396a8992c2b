// A slice of a message that keeps the memory in which its bytes lie.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "grpcpp/support/slice.h"

namespace attn {

// Lets go of `owner` when the transport has let go of the slice.
inline grpc::Slice OwnedBy(std::shared_ptr<const void> owner,
                           const std::byte* data, size_t size) {
  using Owner = std::shared_ptr<const void>;
  // gRPC never writes to a slice that is sent.
  return {const_cast<std::byte*>(data), size,
          [](void* held) { delete static_cast<Owner*>(held); },
          new Owner(std::move(owner))};
}

}  // namespace attn
