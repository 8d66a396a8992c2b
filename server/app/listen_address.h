// Addresses to listen on: "host:port" and "unix:/path".
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace attn {

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  int port = 0;
};

// Absent if `address` is not of the form host:port.
std::optional<HostPort> SplitHostPort(const std::string& address);

// Whether only this machine can reach host:port: 127.0.0.0/8, ::1, localhost.
bool IsLoopback(const std::string& address);

// The numeric host:ports that the name in a host:port stands for, each once;
// empty: it stands for none. With port 0 the first only: each of them would get
// a port of its own.
std::vector<std::string> NumericAddresses(const std::string& address);

bool IsUnixAddress(const std::string& address);

// `address` with the port that was really bound.
std::string WithPort(const std::string& address, int port);

// Whether a process listens on this unix socket. gRPC would take its path over
// without a word.
bool IsUnixSocketTaken(const std::string& address);

// The system's words for why `address` cannot be bound now, found by trying.
std::string WhyCannotListen(const std::string& address);

}  // namespace attn
