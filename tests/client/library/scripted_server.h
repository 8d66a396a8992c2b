// A server that fails as it is told.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server.h"

namespace attn {

// Takes unary calls of any method. Thread-safe.
class ScriptedServer {
 public:
  // Listens on a free port, or on the port of an address.
  explicit ScriptedServer(const std::string& address = "127.0.0.1:0");
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  // The next `times` calls end with `status`; those after them succeed.
  void Fail(int times, const absl::Status& status);
  // What calls that succeed are answered with; by default, their request.
  void AnswerWith(const std::string& bytes);

  struct Received {
    std::string method;
    std::string request;
    absl::Time at;
  };
  std::vector<Received> received() const;

  const std::string& address() const { return address_; }

 private:
  class Service;

  std::unique_ptr<Service> service_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace attn
