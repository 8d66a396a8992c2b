// What reflection may cost a server, and that it can be turned off.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/raw_rpc.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

using ::testing::HasSubstr;

// The library gives each of them a thread, for as long as its client likes.
TEST(ReflectionService, StreamsBeyondItsThreadsAreRefusedAndCallsAreNot) {
  constexpr int kStreams = 40;
  RunningServer server;
  const auto channel = server.Connect();
  std::vector<std::unique_ptr<OpenCall>> streams;
  int answered = 0;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(std::make_unique<OpenCall>(channel, kReflectionPath));
    OpenCall& stream = *streams.back();
    std::string response;
    if (stream.Write(ListServicesRequest(), /*last=*/false) &&
        stream.Read(&response)) {
      ++answered;
    } else {
      EXPECT_EQ(stream.Finish().error_code(),
                grpc::StatusCode::RESOURCE_EXHAUSTED);
    }
  }
  EXPECT_GT(answered, 0);
  EXPECT_LT(answered, kStreams);
  EXPECT_EQ(HealthOf(channel, ""), "SERVING");
  wire::AttendResponse response;
  EXPECT_TRUE(server.Attend(RandomRequest({}, 1), &response).ok());
  streams.clear();
  std::string services;
  EXPECT_TRUE(Becomes([&] { return ListServices(channel, &services).ok(); }));
}

TEST(ReflectionService, AServerWithoutItServesAllElse) {
  RunningServer with;
  ServerOptions options = TestOptions();
  options.reflection = ReflectionMode::kOff;
  RunningServer without(options);
  std::string services;
  EXPECT_EQ(ListServices(without.Connect(), &services).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(HealthOf(without.Connect(), ""), "SERVING");
  wire::AttendResponse response;
  EXPECT_TRUE(without.Attend(RandomRequest({}, 1), &response).ok());
  EXPECT_TRUE(ListServices(with.Connect(), &services).ok());
  EXPECT_THAT(services, HasSubstr("attention.v1.AttentionService"));
}

}  // namespace
}  // namespace attn
