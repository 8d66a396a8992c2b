#include "tests/server/http/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace attn {
namespace {

constexpr timeval kPatience = {.tv_sec = 60, .tv_usec = 0};

}  // namespace

HttpClient::HttpClient(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0) {
    Close();
  }
}

HttpClient::HttpClient(HttpClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      buffer_(std::move(other.buffer_)) {}

bool HttpClient::Send(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

HttpReply HttpClient::Read(bool only_header) {
  constexpr absl::string_view kEnd = "\r\n\r\n";
  size_t end = 0;
  while ((end = buffer_.find(kEnd.data(), 0, kEnd.size())) ==
         std::string::npos) {
    if (!Fill(buffer_.size() + 1)) return {};
  }
  HttpReply reply = ReadHead(absl::string_view(buffer_).substr(0, end));
  buffer_.erase(0, end + kEnd.size());
  const size_t size = BodySize(reply, only_header);
  if (!Fill(size)) return {};
  reply.body = buffer_.substr(0, size);
  buffer_.erase(0, size);
  return reply;
}

HttpReply HttpClient::Call(const HttpCall& call) {
  if (!Send(RequestText(call))) return {};
  return Read(call.method == "HEAD");
}

bool HttpClient::IsClosed() {
  char byte = 0;
  if (!buffer_.empty()) return false;
  const ssize_t got = recv(socket_, &byte, 1, 0);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

void HttpClient::Close() {
  if (socket_ >= 0) close(std::exchange(socket_, -1));
}

bool HttpClient::Fill(size_t size) {
  std::array<char, 4096> bytes;
  while (buffer_.size() < size) {
    const ssize_t got = recv(socket_, bytes.data(), bytes.size(), 0);
    if (got <= 0) return false;
    buffer_.append(bytes.data(), static_cast<size_t>(got));
  }
  return true;
}

}  // namespace attn
