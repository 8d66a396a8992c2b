// A session over the generated stub, as a stranger's client would have it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attention/v1/session.grpc.pb.h"
#include "proto/codec/error_details.h"
#include "tests/integration/server/running_server.h"

namespace attn {

// Tokens of one layer: q, k and v of `count` of them. Tests cut rows out of one
// whole sequence, so that a session can be held against one call.
struct SequenceTokens {
  TestShape shape;
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;

  // Random ones; q_length and kv_length of the shape are the tokens.
  SequenceTokens(const TestShape& of, uint32_t seed);
  // Rows [begin, begin + count) of a [1, heads, length, dim] tensor.
  static std::vector<float> Rows(const std::vector<float>& of, int64_t heads,
                                 int64_t length, int64_t dim, int64_t begin,
                                 int64_t count);
  // Adds tokens [begin, begin + count) to a step.
  void AddTo(wire::StepRequest& step, int64_t begin, int64_t count) const;
  // All of them as one call.
  wire::AttendRequest Whole(const wire::AttentionSpec& spec) const;
};

wire::AttentionSpec CausalSpec();
// The same with rotary positions.
wire::AttentionSpec RotarySpec();

wire::OpenSessionRequest OpenFor(const TestShape& shape,
                                 const wire::AttentionSpec& spec);

// Keeps count of epoch, step and position as a client does.
class TestSession {
 public:
  // Opens it; the test fails if it cannot.
  TestSession(RunningServer& server, const wire::OpenSessionRequest& open);
  // A session that is there.
  TestSession(RunningServer& server, const std::string& id, uint64_t epoch,
              int64_t position);

  wire::SessionService::Stub& stub() { return *stub_; }
  const std::string& id() const { return id_; }

  // A request for the next step.
  wire::StepRequest Next() const;
  // Sends it; counts if it went well.
  grpc::Status Send(const wire::StepRequest& step,
                    wire::StepResponse* response);
  // Tokens [begin, begin + count) of layer 0: its output [1, H, count, D].
  std::vector<float> Step(const SequenceTokens& tokens, int64_t begin,
                          int64_t count);
  grpc::Status Rollback(int64_t position);
  grpc::Status Fork(std::optional<int64_t> position,
                    wire::ForkResponse* response);
  wire::SessionInfo Info();
  grpc::Status Close();

  uint64_t epoch = 0;
  uint64_t step = 0;
  int64_t position = 0;

 private:
  std::unique_ptr<wire::SessionService::Stub> stub_;
  std::string id_;
};

// ErrorInfo.reason of a reply.
std::string ReasonIn(const grpc::Status& status);

}  // namespace attn
