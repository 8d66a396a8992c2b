// Calls of services whose schema is not installed: health and reflection.
#pragma once

#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"

namespace attn {

// A unary call of bytes.
grpc::Status RawUnary(const std::shared_ptr<grpc::Channel>& channel,
                      const std::string& method, const std::string& request,
                      std::string* response);

// A bidirectional call that sends one message and reads one.
grpc::Status RawExchange(const std::shared_ptr<grpc::Channel>& channel,
                         const std::string& method, const std::string& request,
                         std::string* response);

// grpc.health.v1: "SERVING", "NOT_SERVING", or the error's text.
std::string HealthOf(const std::shared_ptr<grpc::Channel>& channel,
                     const std::string& service);

}  // namespace attn
