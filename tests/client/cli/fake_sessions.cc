#include "tests/client/cli/fake_sessions.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

grpc::Status OutOfStep(const std::string& what) {
  return {grpc::StatusCode::FAILED_PRECONDITION, what};
}

}  // namespace

FakeSessions::FakeSessions() {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  EXPECT_NE(server_, nullptr);
  address_ = absl::StrCat("127.0.0.1:", port);
}

FakeSessions::~FakeSessions() { server_->Shutdown(); }

v1::OpenSessionRequest FakeSessions::opened() const {
  const absl::MutexLock lock(&mutex_);
  return opened_;
}

v1::StepRequest FakeSessions::stepped() const {
  const absl::MutexLock lock(&mutex_);
  return stepped_;
}

int FakeSessions::gets() const {
  const absl::MutexLock lock(&mutex_);
  return gets_;
}

v1::SessionInfo* FakeSessions::Find(const std::string& id,
                                    grpc::Status& status) {
  const auto found = sessions_.find(id);
  if (found != sessions_.end()) return &found->second;
  status = grpc::Status(grpc::StatusCode::NOT_FOUND, "no session " + id);
  return nullptr;
}

v1::SessionInfo& FakeSessions::Add(v1::SessionInfo session) {
  const std::string id = absl::StrFormat("%032x", next_id_++);
  session.set_session_id(id);
  session.set_epoch(1);
  session.set_next_step(0);
  return sessions_[id] = std::move(session);
}

grpc::Status FakeSessions::OpenSession(grpc::ServerContext* /*context*/,
                                       const v1::OpenSessionRequest* request,
                                       v1::OpenSessionResponse* response) {
  const absl::MutexLock lock(&mutex_);
  opened_ = *request;
  v1::SessionInfo session;
  session.mutable_lengths()->Resize(std::max(request->layers(), 1), 0);
  session.set_q_heads(request->q_heads());
  session.set_kv_heads(request->kv_heads());
  session.set_q_dim(request->q_dim());
  session.set_k_dim(request->k_dim());
  session.set_v_dim(request->v_dim());
  session.set_kv_dtype(request->kv_dtype());
  const v1::SessionInfo& added = Add(session);
  response->set_session_id(added.session_id());
  response->set_epoch(added.epoch());
  response->set_owner("owner.example:8001");
  *response->mutable_session() = added;
  return grpc::Status::OK;
}

grpc::Status FakeSessions::Step(grpc::ServerContext* /*context*/,
                                const v1::StepRequest* request,
                                v1::StepResponse* response) {
  const absl::MutexLock lock(&mutex_);
  stepped_ = *request;
  grpc::Status status;
  v1::SessionInfo* session = Find(request->session_id(), status);
  if (session == nullptr) return status;
  if (request->epoch() != session->epoch()) return OutOfStep("epoch");
  if (request->step() != session->next_step()) return OutOfStep("step");
  std::vector<int> layers(request->layers().begin(), request->layers().end());
  if (layers.empty()) layers = {0};
  for (const int layer : layers) {
    if (request->position() != session->lengths(layer)) {
      return OutOfStep("position");
    }
    session->set_lengths(layer, request->position() + request->q(0).shape(2));
  }
  session->set_next_step(request->step() + 1);
  response->set_epoch(request->epoch());
  response->set_step(request->step());
  response->set_length(request->position() + request->q(0).shape(2));
  response->mutable_report()->set_kernel("fake");
  *response->mutable_output() = request->q();
  return grpc::Status::OK;
}

grpc::Status FakeSessions::Fork(grpc::ServerContext* /*context*/,
                                const v1::ForkRequest* request,
                                v1::ForkResponse* response) {
  const absl::MutexLock lock(&mutex_);
  grpc::Status status;
  const v1::SessionInfo* session = Find(request->session_id(), status);
  if (session == nullptr) return status;
  if (request->epoch() != session->epoch()) return OutOfStep("epoch");
  v1::SessionInfo copy = *session;
  for (int64_t& length : *copy.mutable_lengths()) {
    if (request->has_position()) {
      length = std::min(length, request->position());
    }
  }
  const v1::SessionInfo& added = Add(copy);
  response->set_session_id(added.session_id());
  response->set_epoch(added.epoch());
  *response->mutable_session() = added;
  return grpc::Status::OK;
}

grpc::Status FakeSessions::Rollback(grpc::ServerContext* /*context*/,
                                    const v1::RollbackRequest* request,
                                    v1::RollbackResponse* response) {
  const absl::MutexLock lock(&mutex_);
  grpc::Status status;
  v1::SessionInfo* session = Find(request->session_id(), status);
  if (session == nullptr) return status;
  if (request->epoch() != session->epoch()) return OutOfStep("epoch");
  for (int64_t& length : *session->mutable_lengths()) {
    length = std::min(length, request->position());
  }
  session->set_epoch(session->epoch() + 1);
  response->set_epoch(session->epoch());
  response->set_step(session->next_step());
  return grpc::Status::OK;
}

grpc::Status FakeSessions::CloseSession(grpc::ServerContext* /*context*/,
                                        const v1::CloseSessionRequest* request,
                                        v1::CloseSessionResponse* response) {
  const absl::MutexLock lock(&mutex_);
  response->set_closed(sessions_.erase(request->session_id()) > 0);
  return grpc::Status::OK;
}

grpc::Status FakeSessions::GetSession(grpc::ServerContext* /*context*/,
                                      const v1::GetSessionRequest* request,
                                      v1::GetSessionResponse* response) {
  const absl::MutexLock lock(&mutex_);
  ++gets_;
  grpc::Status status;
  const v1::SessionInfo* session = Find(request->session_id(), status);
  if (session != nullptr) *response->mutable_session() = *session;
  return status;
}

grpc::Status FakeSessions::ListSessions(grpc::ServerContext* /*context*/,
                                        const v1::ListSessionsRequest* request,
                                        v1::ListSessionsResponse* response) {
  const absl::MutexLock lock(&mutex_);
  const auto next = sessions_.upper_bound(request->page_token());
  if (next == sessions_.end()) return grpc::Status::OK;
  *response->add_sessions() = next->second;
  if (std::next(next) != sessions_.end()) {
    response->set_next_page_token(next->first);
  }
  return grpc::Status::OK;
}

}  // namespace attn
