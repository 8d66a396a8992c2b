// unix: addresses: the file's life, and every way in.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/scratch_folder.h"
#include "tests/integration/server/raw_rpc.h"
#include "tests/integration/server/running_server.h"

namespace attn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

bool IsSocket(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

// A socket file that nobody listens on, as a killed server leaves one.
void LeaveStaleSocket(const std::string& path) {
  const int file = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof(name.sun_path));
  std::memcpy(name.sun_path, path.data(), path.size());
  ASSERT_EQ(bind(file, reinterpret_cast<const sockaddr*>(&name), sizeof(name)),
            0);
  close(file);
  ASSERT_TRUE(IsSocket(path));
}

ServerOptions OptionsFor(const std::vector<std::string>& addresses) {
  ServerOptions options = TestOptions();
  options.grpc_addresses = addresses;
  return options;
}

TEST(UnixSocket, EachOfSeveralAddressesServes) {
  const ScratchFolder folder;
  const std::string one = "unix:" + folder.File("one");
  const std::string two = "unix://" + folder.File("two");
  RunningServer server(OptionsFor({one, "127.0.0.1:0", two}));
  ASSERT_EQ(server.server().grpc_addresses().size(), 3U);
  for (const std::string& address : server.server().grpc_addresses()) {
    const auto channel = RunningServer::Connect(address);
    EXPECT_EQ(HealthOf(channel, ""), "SERVING") << address;
    grpc::ClientContext context;
    wire::AttendResponse response;
    EXPECT_TRUE(wire::AttentionService::NewStub(channel)
                    ->Attend(&context, RandomRequest({}, 1), &response)
                    .ok())
        << address;
  }
}

TEST(UnixSocket, TheFileGoesWhenTheServerStops) {
  const ScratchFolder folder;
  const std::string path = folder.File("socket");
  RunningServer server(OptionsFor({"unix:" + path}));
  EXPECT_TRUE(IsSocket(path));
  server.Stop();
  EXPECT_FALSE(IsSocket(path));
}

TEST(UnixSocket, AFileThatAKilledServerLeftIsReplaced) {
  const ScratchFolder folder;
  const std::string path = folder.File("socket");
  LeaveStaleSocket(path);
  RunningServer server(OptionsFor({"unix:" + path}));
  EXPECT_EQ(HealthOf(server.Connect(), ""), "SERVING");
}

TEST(UnixSocket, AFileThatIsNoSocketIsLeftAlone) {
  const ScratchFolder folder;
  const std::string path = folder.Write("notes", "do not lose me");
  const LineLog log(LogFormat::kText, [](const std::string&) {});
  const auto server = Server::Start(OptionsFor({"unix:" + path}), log);
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(
      std::string(server.status().message()),
      AllOf(HasSubstr("--grpc-address=unix:" + path), HasSubstr("cannot")));
  std::string text;
  std::getline(std::ifstream(path), text);
  EXPECT_EQ(text, "do not lose me");
}

TEST(UnixSocket, APathThatIsTooLongIsRefusedInOneLine) {
  const ScratchFolder folder;
  const std::string address = "unix:" + folder.File(std::string(120, 's'));
  const LineLog log(LogFormat::kText, [](const std::string&) {});
  const auto server = Server::Start(OptionsFor({address}), log);
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(std::string(server.status().message()),
              AllOf(HasSubstr(address), HasSubstr("108 bytes")));
}

// Who may connect is decided by the mode of the file, which the process's umask
// gives, and by the folder that it lies in.
TEST(UnixSocket, TheUmaskDecidesWhoMayConnect) {
  const ScratchFolder folder;
  const std::string path = folder.File("socket");
  const mode_t before = umask(0117);
  RunningServer server(OptionsFor({"unix:" + path}));
  umask(before);
  struct stat status {};
  ASSERT_EQ(lstat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0660U);
}

}  // namespace
}  // namespace attn
