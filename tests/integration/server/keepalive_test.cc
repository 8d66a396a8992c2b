// Clients that ping without calling.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "server/app/listen_address.h"
#include "tests/integration/server/raw_rpc.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

// A connection that pings every `interval`, calls or no calls.
class PingingConnection {
 public:
  PingingConnection(const std::string& address, milliseconds interval) {
    grpc::ChannelArguments arguments;
    const auto ms = static_cast<int>(interval.count());
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, ms);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    channel_ = grpc::CreateCustomChannel(
        address, grpc::InsecureChannelCredentials(), arguments);
    EXPECT_EQ(HealthOf(channel_, ""), "SERVING");
  }

  // Whether the connection it began with is lost within `patience`.
  bool IsLostWithin(milliseconds patience) {
    return channel_->WaitForStateChange(GRPC_CHANNEL_READY,
                                        system_clock::now() + patience);
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
};

TEST(Keepalive, ServersAcceptPingsEveryTenSeconds) {
  // Twice as often, for jitter.
  EXPECT_LE(ServerOptions().min_ping_interval, absl::Seconds(10) / 2);
}

// "too_many_pings" took whole fleets of clients down whose pings their servers
// did not expect.
TEST(Keepalive, AnIdleClientMayPingAsOftenAsTheServerAllows) {
  constexpr milliseconds kInterval(300);
  constexpr milliseconds kHangGuard(120000);
  ServerOptions lenient = TestOptions();
  lenient.min_ping_interval = absl::Milliseconds(30);
  RunningServer strict_server(TestOptions());
  RunningServer lenient_server(lenient);
  PingingConnection welcome(lenient_server.address(), kInterval);
  PingingConnection unwelcome(strict_server.address(), kInterval);
  // As many pings as it takes to be thrown out.
  EXPECT_TRUE(unwelcome.IsLostWithin(kHangGuard));
  EXPECT_FALSE(welcome.IsLostWithin(2 * kInterval));
}

// Clients that balance by themselves look for new servers when they connect.
TEST(Keepalive, AnOldConnectionEndsAndItsClientGoesOn) {
  constexpr milliseconds kHangGuard(120000);
  ServerOptions options = TestOptions();
  options.max_connection_age = absl::Milliseconds(200);
  RunningServer ageing(options);
  RunningServer ageless(TestOptions());
  PingingConnection old(ageing.address(), milliseconds(60000));
  PingingConnection lasting(ageless.address(), milliseconds(60000));
  EXPECT_TRUE(old.IsLostWithin(kHangGuard));
  EXPECT_FALSE(lasting.IsLostWithin(milliseconds(400)));
  // Several ages long.
  const auto channel =
      grpc::CreateChannel(ageing.address(), grpc::InsecureChannelCredentials());
  const auto end = system_clock::now() + milliseconds(1000);
  while (system_clock::now() < end) EXPECT_EQ(HealthOf(channel, ""), "SERVING");
}

// Like a machine that lost its network: it takes what comes and says nothing.
TEST(Keepalive, AConnectionThatAnswersNoPingIsClosed) {
  ServerOptions options = TestOptions();
  options.keepalive_time = absl::Milliseconds(100);
  options.keepalive_timeout = absl::Milliseconds(100);
  RunningServer server(options);
  const auto parts = SplitHostPort(server.address());
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(parts->port));
  ASSERT_EQ(inet_pton(AF_INET, parts->host.c_str(), &peer.sin_addr), 1);
  const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(
      connect(silent, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)),
      0);
  // RFC 9113, section 3.4: the preface and an empty SETTINGS frame; then its
  // acknowledgement of the server's.
  const std::string hello =
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
      std::string("\0\0\0\4\0\0\0\0\0\0\0\0\4\1\0\0\0\0", 18);
  ASSERT_EQ(write(silent, hello.data(), hello.size()),
            static_cast<ssize_t>(hello.size()));
  // A hang guard.
  const timeval guard = {.tv_sec = 60, .tv_usec = 0};
  setsockopt(silent, SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof(guard));
  ssize_t got = 1;
  std::array<char, 4096> bytes{};
  bool timed_out = false;
  while (got > 0) {
    got = read(silent, bytes.data(), bytes.size());
    timed_out = got < 0 && errno == EAGAIN;
  }
  EXPECT_FALSE(timed_out);
  close(silent);
}

}  // namespace
}  // namespace attn
