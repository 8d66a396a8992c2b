// A server whose HTTP port is open, and what a client says to it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "tests/integration/server/running_server.h"
#include "tests/server/http/http_client.h"

namespace attn {

// Its HTTP port is any free one.
ServerOptions PageOptions(ServerOptions options = TestOptions());

// Of "http://127.0.0.1:8000/".
int PagePort(const Server& server);

// Protobuf's JSON mapping.
std::string JsonOf(const google::protobuf::Message& message);

// A call of the gateway, its body said to be JSON.
HttpCall JsonCall(const std::string& target, const std::string& json,
                  const std::string& method = "POST");

// The message of a reply of status 200; else the test fails.
void ReadReply(const HttpReply& reply, google::protobuf::Message& message);

// The test fails unless the reply tells of the same error: code, message,
// field, reason and time to come back.
void ExpectSameError(const HttpReply& reply, const grpc::Status& expected);

// The field that the reply's error names; empty if none.
std::string FieldOfReply(const HttpReply& reply);

}  // namespace attn
