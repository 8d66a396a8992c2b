// Addresses to listen on: "host:port" and "unix:/path".
#pragma once

#include <optional>
#include <string>

namespace attn {

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  int port = 0;
};

// Absent if `address` is not of the form host:port.
std::optional<HostPort> SplitHostPort(const std::string& address);

bool IsUnixAddress(const std::string& address);

// `address` with the port that was really bound.
std::string WithPort(const std::string& address, int port);

// Whether a process listens on this unix socket. gRPC would take its path over
// without a word.
bool IsUnixSocketTaken(const std::string& address);

// The system's words for why `address` cannot be bound now, found by trying.
std::string WhyCannotListen(const std::string& address);

}  // namespace attn
