#include "tests/client/cli/odd_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace attn {

OddServer::OddServer(std::string reply) : reply_(std::move(reply)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(name);
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&name), size), 0);
  EXPECT_EQ(listen(listener_, SOMAXCONN), 0);
  EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&name), &size),
            0);
  address_ = absl::StrCat("127.0.0.1:", ntohs(name.sin_port));
  if (!reply_.empty()) thread_ = std::thread([this] { Serve(); });
}

OddServer::~OddServer() {
  shutdown(listener_, SHUT_RDWR);  // ends accept()
  if (thread_.joinable()) thread_.join();
  close(listener_);
}

void OddServer::Serve() const {
  std::array<char, 4096> request{};
  while (true) {
    const int peer = accept(listener_, nullptr, nullptr);
    if (peer < 0) return;
    if (read(peer, request.data(), request.size()) > 0) {
      static_cast<void>(send(peer, reply_.data(), reply_.size(), MSG_NOSIGNAL));
    }
    close(peer);
  }
}

}  // namespace attn
