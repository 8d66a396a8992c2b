#include "tests/client/library/fake_session_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "attention/v1/session.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "proto/codec/status_codec.h"

namespace attn {
class FakeSessionServer::Service final : public v1::SessionService::Service {
 public:
  grpc::Status OpenSession(grpc::ServerContext* /*context*/,
                           const v1::OpenSessionRequest* request,
                           v1::OpenSessionResponse* response) override {
    std::unique_lock lock(mutex);
    if (auto refused = Refused(lock)) return *refused;
    if (full) {
      return ToGrpcStatus(
          FakeError(absl::StatusCode::kResourceExhausted, "KV_MEMORY"));
    }
    const std::string id = NewId();
    const FakeSession session(std::max(request->layers(), 1));
    response->set_session_id(id);
    response->set_epoch(session.epoch());
    sessions.emplace(id, session);
    response->set_owner(owner);
    return grpc::Status::OK;
  }

  grpc::Status Step(grpc::ServerContext* context,
                    const v1::StepRequest* request,
                    v1::StepResponse* response) override {
    std::unique_lock lock(mutex);
    Hear(*context);
    if (auto refused = Refused(lock)) return *refused;
    const absl::Status status = MakeStep(*request, *response);
    if (!status.ok()) return ToGrpcStatus(status);
    if (steps_to_live > 0 && --steps_to_live == 0) dying = true;
    if (dying) return {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
    return Answered();
  }

  grpc::Status StepStream(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::StepStreamResponse, v1::StepStreamRequest>*
          stream) override {
    {
      const std::lock_guard lock(mutex);
      Hear(*context);
    }
    v1::StepStreamRequest request;
    while (stream->Read(&request)) {
      v1::StepStreamResponse answer;
      {
        std::unique_lock lock(mutex);
        if (auto refused = Refused(lock)) return *refused;
        const absl::Status status =
            MakeStep(request.step(), *answer.mutable_response());
        if (!status.ok()) {
          answer.mutable_status()->ParseFromString(
              ToGrpcStatus(status).error_details());
        }
      }
      stream->Write(answer);
    }
    return grpc::Status::OK;
  }

  grpc::Status Fork(grpc::ServerContext* context,
                    const v1::ForkRequest* request,
                    v1::ForkResponse* response) override {
    std::unique_lock lock(mutex);
    Hear(*context);
    if (auto refused = Refused(lock)) return *refused;
    const auto found = Find(request->session_id());
    if (!found.ok()) return ToGrpcStatus(found.status());
    auto fork = (*found)->Fork(*request);
    if (!fork.ok()) return ToGrpcStatus(fork.status());
    const std::string id = NewId();
    response->set_session_id(id);
    response->set_epoch(fork->epoch());
    fork->Describe(id, *response->mutable_session());
    sessions.emplace(id, *std::move(fork));
    return Answered();
  }

  grpc::Status Rollback(grpc::ServerContext* context,
                        const v1::RollbackRequest* request,
                        v1::RollbackResponse* response) override {
    std::unique_lock lock(mutex);
    Hear(*context);
    if (auto refused = Refused(lock)) return *refused;
    const auto found = Find(request->session_id());
    if (!found.ok()) return ToGrpcStatus(found.status());
    const absl::Status status = (*found)->Rollback(*request, *response);
    return status.ok() ? Answered() : ToGrpcStatus(status);
  }

  grpc::Status CloseSession(grpc::ServerContext* context,
                            const v1::CloseSessionRequest* request,
                            v1::CloseSessionResponse* response) override {
    std::unique_lock lock(mutex);
    Hear(*context);
    if (auto refused = Refused(lock)) return *refused;
    response->set_closed(sessions.erase(request->session_id()) > 0);
    return grpc::Status::OK;
  }

  grpc::Status GetSession(grpc::ServerContext* context,
                          const v1::GetSessionRequest* request,
                          v1::GetSessionResponse* response) override {
    std::unique_lock lock(mutex);
    Hear(*context);
    if (auto refused = Refused(lock)) return *refused;
    const auto found = Find(request->session_id());
    if (!found.ok()) return ToGrpcStatus(found.status());
    (*found)->Describe(request->session_id(), *response->mutable_session());
    return grpc::Status::OK;
  }

  // Two to a page.
  grpc::Status ListSessions(grpc::ServerContext* /*context*/,
                            const v1::ListSessionsRequest* request,
                            v1::ListSessionsResponse* response) override {
    std::unique_lock lock(mutex);
    if (auto refused = Refused(lock)) return *refused;
    for (auto at = sessions.upper_bound(request->page_token());
         at != sessions.end(); ++at) {
      if (response->sessions_size() == 2) {
        response->set_next_page_token(response->sessions(1).session_id());
        break;
      }
      at->second.Describe(at->first, *response->add_sessions());
    }
    return grpc::Status::OK;
  }

  mutable std::mutex mutex;
  std::condition_variable killed;
  std::string owner;
  std::string gone_reason = "SESSION_NOT_HERE";
  std::deque<absl::Status> lost;
  std::deque<absl::Status> refusals;
  int steps_to_live = 0;
  bool dying = false;
  bool full = false;
  bool hanging = false;
  int calls = 0;
  std::vector<SeenStep> seen;
  std::vector<CallRoute> routes;
  std::map<std::string, FakeSession> sessions;

 private:
  void Hear(const grpc::ServerContext& context) {
    const auto value = [&](const char* key) -> std::string {
      const auto found = context.client_metadata().find(key);
      if (found == context.client_metadata().end()) return "";
      return {found->second.data(), found->second.size()};
    };
    routes.push_back({.owner = value("x-attn-route"),
                      .session_id = value("x-attn-session")});
  }

  std::optional<grpc::Status> Refused(std::unique_lock<std::mutex>& lock) {
    ++calls;
    if (hanging) killed.wait(lock, [this] { return dying; });
    if (dying) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed");
    }
    if (refusals.empty()) return std::nullopt;
    const absl::Status status = refusals.front();
    refusals.pop_front();
    return ToGrpcStatus(status);
  }

  // The end of a call that was done.
  grpc::Status Answered() {
    if (lost.empty()) return grpc::Status::OK;
    const grpc::Status error = ToGrpcStatus(lost.front());
    lost.pop_front();
    return error;
  }

  std::string NewId() {
    // In no order that means anything, and no server's are another's.
    static std::atomic<int> last = 0;
    return absl::StrCat("session-", 1000 + ++last);
  }

  absl::StatusOr<FakeSession*> Find(const std::string& id) {
    const auto found = sessions.find(id);
    if (found == sessions.end()) {
      return FakeError(absl::StatusCode::kNotFound, gone_reason);
    }
    return &found->second;
  }

  absl::Status MakeStep(const v1::StepRequest& request,
                        v1::StepResponse& response) {
    const auto found = Find(request.session_id());
    if (!found.ok()) return found.status();
    SeenStep step;
    absl::Status status = (*found)->Step(request, step, response);
    if (status.ok()) seen.push_back(step);
    return status;
  }
};

FakeSessionServer::FakeSessionServer(const std::string& address)
    : service_(std::make_unique<Service>()) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
}

FakeSessionServer::~FakeSessionServer() { Kill(); }

void FakeSessionServer::Kill() {
  {
    const std::lock_guard lock(service_->mutex);
    service_->dying = true;
    service_->killed.notify_all();
  }
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_ = nullptr;
}

void FakeSessionServer::Advertise(const std::string& owner) {
  const std::lock_guard lock(service_->mutex);
  service_->owner = owner;
}

void FakeSessionServer::Forget(const std::string& reason) {
  const std::lock_guard lock(service_->mutex);
  service_->gone_reason = reason;
  service_->sessions.clear();
}

void FakeSessionServer::LoseAnswers(int times, const absl::Status& status) {
  const std::lock_guard lock(service_->mutex);
  service_->lost.insert(service_->lost.end(), static_cast<size_t>(times),
                        status);
}

void FakeSessionServer::RefuseSessions() {
  const std::lock_guard lock(service_->mutex);
  service_->full = true;
}

void FakeSessionServer::Hang() {
  const std::lock_guard lock(service_->mutex);
  service_->hanging = true;
}

void FakeSessionServer::Refuse(int times, const absl::Status& status) {
  const std::lock_guard lock(service_->mutex);
  service_->refusals.insert(service_->refusals.end(),
                            static_cast<size_t>(times), status);
}

void FakeSessionServer::DieAfterSteps(int steps) {
  const std::lock_guard lock(service_->mutex);
  service_->steps_to_live = steps;
}

std::vector<SeenStep> FakeSessionServer::steps() const {
  const std::lock_guard lock(service_->mutex);
  return service_->seen;
}

std::vector<CallRoute> FakeSessionServer::routes() const {
  const std::lock_guard lock(service_->mutex);
  return service_->routes;
}

int FakeSessionServer::sessions() const {
  const std::lock_guard lock(service_->mutex);
  return static_cast<int>(service_->sessions.size());
}

int FakeSessionServer::calls() const {
  const std::lock_guard lock(service_->mutex);
  return service_->calls;
}

}  // namespace attn
