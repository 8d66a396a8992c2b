// Calls of bytes: of services whose schema is not installed, health and
// reflection, and such as no generated stub would make.
#pragma once

#include <memory>
#include <string>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace attn {

// A call of any kind that takes its steps when it is told to, and stays open
// meanwhile. Thread-compatible.
class OpenCall {
 public:
  OpenCall(const std::shared_ptr<grpc::Channel>& channel,
           const std::string& method);
  // Gives the call up if it has not ended.
  ~OpenCall();
  OpenCall(const OpenCall&) = delete;
  OpenCall& operator=(const OpenCall&) = delete;

  // False: the call is over. `last`: the client sends no more.
  bool Write(const std::string& message, bool last);
  bool Read(std::string* message);
  // Waits for the end. Once.
  grpc::Status Finish();

 private:
  // Waits for the step that was begun.
  bool Step();

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool started_ = false;
  bool finished_ = false;
};

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

// grpc.reflection.v1alpha: the names of the services.
inline constexpr char kReflectionPath[] =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
// ServerReflectionRequest { string list_services = 7; }
std::string ListServicesRequest();
grpc::Status ListServices(const std::shared_ptr<grpc::Channel>& channel,
                          std::string* response);

}  // namespace attn
