#include "tests/integration/server/session_client.h"

#include "gtest/gtest.h"

namespace attn {

SequenceTokens::SequenceTokens(const TestShape& of, uint32_t seed)
    : shape(of),
      q(RandomFloats(of.q_heads * of.q_length * of.dim, seed)),
      k(RandomFloats(of.kv_heads * of.kv_length * of.dim, seed + 1)),
      v(RandomFloats(of.kv_heads * of.kv_length * of.dim, seed + 2)) {}

std::vector<float> SequenceTokens::Rows(const std::vector<float>& of,
                                        int64_t heads, int64_t length,
                                        int64_t dim, int64_t begin,
                                        int64_t count) {
  std::vector<float> rows;
  for (int64_t head = 0; head < heads; ++head) {
    const auto from = of.begin() + (head * length + begin) * dim;
    rows.insert(rows.end(), from, from + count * dim);
  }
  return rows;
}

void SequenceTokens::AddTo(wire::StepRequest& step, int64_t begin,
                           int64_t count) const {
  const TestShape& s = shape;
  *step.add_q() =
      FloatTensor({1, s.q_heads, count, s.dim},
                  Rows(q, s.q_heads, s.q_length, s.dim, begin, count));
  *step.add_k() =
      FloatTensor({1, s.kv_heads, count, s.dim},
                  Rows(k, s.kv_heads, s.kv_length, s.dim, begin, count));
  *step.add_v() =
      FloatTensor({1, s.kv_heads, count, s.dim},
                  Rows(v, s.kv_heads, s.kv_length, s.dim, begin, count));
}

wire::AttendRequest SequenceTokens::Whole(
    const wire::AttentionSpec& spec) const {
  const TestShape& s = shape;
  wire::AttendRequest request;
  *request.mutable_spec() = spec;
  *request.mutable_q() = FloatTensor({1, s.q_heads, s.q_length, s.dim}, q);
  *request.mutable_k() = FloatTensor({1, s.kv_heads, s.kv_length, s.dim}, k);
  *request.mutable_v() = FloatTensor({1, s.kv_heads, s.kv_length, s.dim}, v);
  return request;
}

wire::AttentionSpec CausalSpec() {
  wire::AttentionSpec spec;
  spec.add_masks()->mutable_causal()->set_alignment(
      wire::ALIGNMENT_BOTTOM_RIGHT);
  return spec;
}

wire::AttentionSpec RotarySpec() {
  wire::AttentionSpec spec = CausalSpec();
  spec.add_transforms()->mutable_rotary()->set_layout(
      wire::ROTARY_LAYOUT_INTERLEAVED);
  return spec;
}

wire::OpenSessionRequest OpenFor(const TestShape& shape,
                                 const wire::AttentionSpec& spec) {
  wire::OpenSessionRequest open;
  *open.mutable_spec() = spec;
  open.set_q_heads(static_cast<int32_t>(shape.q_heads));
  open.set_kv_heads(static_cast<int32_t>(shape.kv_heads));
  open.set_q_dim(static_cast<int32_t>(shape.dim));
  return open;
}

TestSession::TestSession(RunningServer& server,
                         const wire::OpenSessionRequest& open)
    : stub_(wire::SessionService::NewStub(server.Connect())) {
  grpc::ClientContext context;
  wire::OpenSessionResponse response;
  const grpc::Status status = stub_->OpenSession(&context, open, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  id_ = response.session_id();
  epoch = response.epoch();
}

TestSession::TestSession(RunningServer& server, const std::string& id,
                         uint64_t of_epoch, int64_t at)
    : epoch(of_epoch),
      position(at),
      stub_(wire::SessionService::NewStub(server.Connect())),
      id_(id) {}

wire::StepRequest TestSession::Next() const {
  wire::StepRequest request;
  request.set_session_id(id_);
  request.set_epoch(epoch);
  request.set_step(step);
  request.set_position(position);
  return request;
}

grpc::Status TestSession::Send(const wire::StepRequest& request,
                               wire::StepResponse* response) {
  grpc::ClientContext context;
  const grpc::Status status = stub_->Step(&context, request, response);
  if (status.ok() && request.step() == step) {
    ++step;
    position = response->length();
  }
  return status;
}

std::vector<float> TestSession::Step(const SequenceTokens& tokens,
                                     int64_t begin, int64_t count) {
  wire::StepRequest request = Next();
  tokens.AddTo(request, begin, count);
  wire::StepResponse response;
  const grpc::Status status = Send(request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  if (response.output_size() != 1) return {};
  return Floats(response.output(0));
}

grpc::Status TestSession::Rollback(int64_t to) {
  grpc::ClientContext context;
  wire::RollbackRequest request;
  request.set_session_id(id_);
  request.set_epoch(epoch);
  request.set_position(to);
  wire::RollbackResponse response;
  const grpc::Status status = stub_->Rollback(&context, request, &response);
  if (status.ok()) {
    epoch = response.epoch();
    step = response.step();
    position = to;
  }
  return status;
}

grpc::Status TestSession::Fork(std::optional<int64_t> at,
                               wire::ForkResponse* response) {
  grpc::ClientContext context;
  wire::ForkRequest request;
  request.set_session_id(id_);
  request.set_epoch(epoch);
  if (at.has_value()) request.set_position(*at);
  return stub_->Fork(&context, request, response);
}

wire::SessionInfo TestSession::Info() {
  grpc::ClientContext context;
  wire::GetSessionRequest request;
  request.set_session_id(id_);
  wire::GetSessionResponse response;
  const grpc::Status status = stub_->GetSession(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.session();
}

grpc::Status TestSession::Close() {
  grpc::ClientContext context;
  wire::CloseSessionRequest request;
  request.set_session_id(id_);
  wire::CloseSessionResponse response;
  return stub_->CloseSession(&context, request, &response);
}

std::string ReasonIn(const grpc::Status& status) {
  return DecodeErrorDetails(status.error_details()).reason;
}

}  // namespace attn
