// A connection that is lost as when a client's machine dies.
#pragma once

#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"

namespace attn {

// Connects to "host:port", with the host a number. Not thread-safe.
class CutConnection {
 public:
  explicit CutConnection(const std::string& address);

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // Both directions end at once, whatever is in flight.
  void Cut() const;

 private:
  // The channel's; it closes it.
  int socket_ = -1;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace attn
