#include "server/app/listen_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace attn {
namespace {

constexpr char kUnixPrefix[] = "unix:";
constexpr int kMaxPort = 65535;

// Closes a socket. Move-only use within a function.
class Socket {
 public:
  Socket(int family, int type) : fd_(socket(family, type | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// The addresses to listen on that a name stands for.
class Resolved {
 public:
  explicit Resolved(const HostPort& name) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    error_ = getaddrinfo(name.host.c_str(), std::to_string(name.port).c_str(),
                         &hints, &first_);
  }
  ~Resolved() {
    if (error_ == 0) freeaddrinfo(first_);
  }
  Resolved(const Resolved&) = delete;
  Resolved& operator=(const Resolved&) = delete;
  // Of getaddrinfo.
  int error() const { return error_; }
  const addrinfo* first() const { return error_ == 0 ? first_ : nullptr; }

 private:
  addrinfo* first_ = nullptr;
  int error_ = 0;
};

std::string ErrorText(int error) {
  return std::generic_category().message(error);
}

// "unix:/path" and "unix:///path".
std::string UnixPath(const std::string& address) {
  std::string path = address.substr(sizeof(kUnixPrefix) - 1);
  if (path.rfind("//", 0) == 0) path = path.substr(2);
  return path;
}

int TryBind(const addrinfo& candidate) {
  const Socket socket(candidate.ai_family, candidate.ai_socktype);
  if (socket.fd() < 0) return errno;
  // As gRPC does: a closed connection's leftovers are no obstacle.
  const int on = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(socket.fd(), candidate.ai_addr, candidate.ai_addrlen) != 0) {
    return errno;
  }
  return listen(socket.fd(), 1) == 0 ? 0 : errno;
}

}  // namespace

std::optional<HostPort> SplitHostPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  HostPort result;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &result.port) ||
      result.port < 0 || result.port > kMaxPort) {
    return std::nullopt;
  }
  result.host = address.substr(0, colon);
  const bool bracketed =
      result.host.front() == '[' && result.host.back() == ']';
  if (bracketed) result.host = result.host.substr(1, result.host.size() - 2);
  // Without brackets the last colon may be part of the address.
  const bool has_colon = result.host.find(':') != std::string::npos;
  if (result.host.empty() || has_colon != bracketed) return std::nullopt;
  return result;
}

bool IsUnixAddress(const std::string& address) {
  return address.rfind(kUnixPrefix, 0) == 0 &&
         address.size() > sizeof(kUnixPrefix) - 1;
}

std::string WithPort(const std::string& address, int port) {
  if (IsUnixAddress(address)) return address;
  return absl::StrCat(address.substr(0, address.rfind(':') + 1), port);
}

bool IsUnixSocketTaken(const std::string& address) {
  const std::string path = UnixPath(address);
  sockaddr_un name{};
  if (path.size() >= sizeof(name.sun_path)) return false;
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  const Socket socket(AF_UNIX, SOCK_STREAM);
  return socket.fd() >= 0 &&
         connect(socket.fd(), reinterpret_cast<const sockaddr*>(&name),
                 sizeof(name)) == 0;
}

bool IsLoopback(const std::string& address) {
  const auto split = SplitHostPort(address);
  if (!split.has_value()) return false;
  in_addr v4{};
  if (inet_pton(AF_INET, split->host.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
  }
  in6_addr v6{};
  if (inet_pton(AF_INET6, split->host.c_str(), &v6) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&v6);
  }
  return split->host == "localhost";
}

std::vector<std::string> NumericAddresses(const std::string& address) {
  std::vector<std::string> addresses;
  const auto split = SplitHostPort(address);
  if (!split.has_value()) return addresses;
  const Resolved resolved(*split);
  for (const addrinfo* each = resolved.first(); each != nullptr;
       each = each->ai_next) {
    std::array<char, NI_MAXHOST> host{};
    if (getnameinfo(each->ai_addr, each->ai_addrlen, host.data(), host.size(),
                    nullptr, 0, NI_NUMERICHOST) != 0) {
      continue;
    }
    const bool v6 = each->ai_family == AF_INET6;
    std::string numeric = absl::StrCat(v6 ? "[" : "", host.data(),
                                       v6 ? "]" : "", ":", split->port);
    if (std::find(addresses.begin(), addresses.end(), numeric) ==
        addresses.end()) {
      addresses.push_back(std::move(numeric));
    }
    if (split->port == 0) break;
  }
  return addresses;
}

std::string WhyCannotListen(const std::string& address) {
  if (IsUnixAddress(address)) {
    return IsUnixSocketTaken(address)
               ? ErrorText(EADDRINUSE)
               : "the socket cannot be created; see that its folder exists, "
                 "can be written, and that the path is below 108 bytes";
  }
  const auto split = SplitHostPort(address);
  if (!split.has_value()) return "not of the form host:port";
  const Resolved resolved(*split);
  if (resolved.error() != 0) return gai_strerror(resolved.error());
  int error = 0;
  for (const addrinfo* each = resolved.first(); each != nullptr && error == 0;
       each = each->ai_next) {
    error = TryBind(*each);
  }
  return error == 0 ? "it was taken for a moment; try again" : ErrorText(error);
}

}  // namespace attn
