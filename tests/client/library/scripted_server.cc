#include "tests/client/library/scripted_server.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "grpcpp/ext/health_check_service_server_builder_option.h"
#include "grpcpp/grpcpp.h"
#include "proto/codec/status_codec.h"

namespace attn {
namespace {

std::string Flat(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string flat;
  if (!bytes.Dump(&slices).ok()) return flat;
  for (const grpc::Slice& slice : slices) {
    flat.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return flat;
}

}  // namespace

class ScriptedServer::Service final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Call(*this, context->method());
  }

  mutable std::mutex mutex;
  std::deque<absl::Status> failures;
  std::optional<std::string> answer;
  std::vector<Received> received;

 private:
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    Call(Service& service, std::string method)
        : service_(service), method_(std::move(method)) {
      StartRead(&request_);
    }
    void OnReadDone(bool /*ok*/) override {
      const absl::Status status = Take();
      if (!status.ok()) {
        Finish(ToGrpcStatus(status));
        return;
      }
      StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    absl::Status Take() {
      const std::lock_guard lock(service_.mutex);
      std::string request = Flat(request_);
      const grpc::Slice answer(service_.answer.value_or(request));
      response_ = grpc::ByteBuffer(&answer, 1);
      service_.received.push_back({method_, std::move(request), absl::Now()});
      if (service_.failures.empty()) return absl::OkStatus();
      absl::Status status = service_.failures.front();
      service_.failures.pop_front();
      return status;
    }

    Service& service_;
    const std::string method_;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer response_;
  };
};

ScriptedServer::ScriptedServer(const std::string& address)
    : service_(std::make_unique<Service>()) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  // Health is a method as any other here, also if a real server of the same
  // process has switched gRPC's own service on.
  builder.SetOption(
      std::make_unique<grpc::HealthCheckServiceServerBuilderOption>(nullptr));
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(service_.get());
  server_ = builder.BuildAndStart();
  address_ = "127.0.0.1:" + std::to_string(port);
}

ScriptedServer::~ScriptedServer() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
}

void ScriptedServer::Fail(int times, const absl::Status& status) {
  const std::lock_guard lock(service_->mutex);
  service_->failures.insert(service_->failures.end(),
                            static_cast<size_t>(times), status);
}

void ScriptedServer::AnswerWith(const std::string& bytes) {
  const std::lock_guard lock(service_->mutex);
  service_->answer = bytes;
}

std::vector<ScriptedServer::Received> ScriptedServer::received() const {
  const std::lock_guard lock(service_->mutex);
  return service_->received;
}

}  // namespace attn
