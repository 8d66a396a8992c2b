#include "server/app/listen_address.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ListenAddress, SplitsHostAndPort) {
  EXPECT_EQ(SplitHostPort("127.0.0.1:8001")->host, "127.0.0.1");
  EXPECT_EQ(SplitHostPort("127.0.0.1:8001")->port, 8001);
  EXPECT_EQ(SplitHostPort("[::1]:0")->host, "::1");
  EXPECT_EQ(SplitHostPort("localhost:65535")->port, 65535);
}

TEST(ListenAddress, RefusesWhatIsNoHostAndPort) {
  for (const char* address : {"", "8001", ":8001", "host:", "host:65536",
                              "host:-1", "::1:80", "host:8o"}) {
    EXPECT_FALSE(SplitHostPort(address).has_value()) << address;
  }
}

TEST(ListenAddress, KnowsUnixSockets) {
  EXPECT_TRUE(IsUnixAddress("unix:/run/attn.sock"));
  EXPECT_FALSE(IsUnixAddress("unix:"));
  EXPECT_FALSE(IsUnixAddress("127.0.0.1:1"));
}

TEST(ListenAddress, TakesThePortThatWasBound) {
  EXPECT_EQ(WithPort("127.0.0.1:0", 4711), "127.0.0.1:4711");
  EXPECT_EQ(WithPort("[::]:0", 4711), "[::]:4711");
  EXPECT_EQ(WithPort("unix:/x", 1), "unix:/x");
}

TEST(ListenAddress, ASocketWithoutAListenerIsFree) {
  EXPECT_FALSE(
      IsUnixSocketTaken("unix:" + ::testing::TempDir() + "/attn_nobody.sock"));
}

TEST(ListenAddress, SaysWhyAForeignAddressCannotBeBound) {
  // 192.0.2.0/24 is nobody's (RFC 5737).
  EXPECT_EQ(WhyCannotListen("192.0.2.1:0"), "Cannot assign requested address");
}

TEST(ListenAddress, OnlyThisMachineReachesALoopback) {
  for (const char* own :
       {"127.0.0.1:1", "127.9.8.7:1", "localhost:0", "[::1]:8001"}) {
    EXPECT_TRUE(IsLoopback(own)) << own;
  }
  for (const char* open : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "128.0.0.1:1",
                           "localhost.example:1", "127.0.0.1.example:1",
                           "[::2]:1", "unix:/run/a", "8001", ""}) {
    EXPECT_FALSE(IsLoopback(open)) << open;
  }
}

TEST(ListenAddress, ANameIsItsNumericAddresses) {
  EXPECT_THAT(NumericAddresses("127.0.0.1:8001"),
              ElementsAre("127.0.0.1:8001"));
  EXPECT_THAT(NumericAddresses("[::1]:8001"), ElementsAre("[::1]:8001"));
  for (const std::string& each : NumericAddresses("localhost:8001")) {
    EXPECT_TRUE(IsLoopback(each)) << each;
  }
  EXPECT_EQ(NumericAddresses("localhost:0").size(), 1U);
  EXPECT_THAT(NumericAddresses("no port"), IsEmpty());
  EXPECT_THAT(NumericAddresses("no.such.host.invalid:1"), IsEmpty());
}

}  // namespace
}  // namespace attn
