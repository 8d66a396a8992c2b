#include "tests/integration/server/cut_connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "grpcpp/create_channel_posix.h"
#include "gtest/gtest.h"
#include "server/app/listen_address.h"

namespace attn {

CutConnection::CutConnection(const std::string& address) {
  const auto parts = SplitHostPort(address);
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_port = htons(static_cast<uint16_t>(parts->port));
  EXPECT_EQ(inet_pton(AF_INET, parts->host.c_str(), &peer.sin_addr), 1);
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(
      connect(socket_, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)),
      0);
  // gRPC wants it so.
  fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL) | O_NONBLOCK);
  channel_ = grpc::CreateInsecureChannelFromFd("cut", socket_);
}

void CutConnection::Cut() const { shutdown(socket_, SHUT_RDWR); }

}  // namespace attn
