// A server that is asked to look inside calls.
#pragma once

#include "gtest/gtest.h"
#include "tests/integration/server/running_server.h"

namespace attn {

// The call of `call`; no view is asked for yet.
inline wire::InspectRequest InspectOf(const wire::AttendRequest& call) {
  wire::InspectRequest request;
  *request.mutable_spec() = call.spec();
  *request.mutable_q_lengths() = call.q_lengths();
  *request.mutable_kv_lengths() = call.kv_lengths();
  *request.mutable_q() = call.q();
  *request.mutable_k() = call.k();
  *request.mutable_v() = call.v();
  *request.mutable_inputs() = call.inputs();
  return request;
}

inline grpc::Status Inspect(RunningServer& server,
                            const wire::InspectRequest& request,
                            wire::InspectResponse* response) {
  grpc::ClientContext context;
  return server.stub().Inspect(&context, request, response);
}

class InspectTest : public ::testing::Test {
 protected:
  wire::InspectResponse Inspected(const wire::InspectRequest& request) {
    wire::InspectResponse response;
    const grpc::Status status = Inspect(server_, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  wire::AttendResponse Attended(const wire::AttendRequest& request) {
    wire::AttendResponse response;
    const grpc::Status status = server_.Attend(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  RunningServer server_;
};

}  // namespace attn
