#include "client/library/server_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

constexpr char kUnix[] = "unix:";
constexpr char kDns[] = "dns:///";
constexpr char kIpv4[] = "ipv4:";
constexpr char kIpv6[] = "ipv6:";

// The host of host:port, without the brackets of an IPv6 address.
std::string HostOf(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

bool IsHostAndPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  return colon != std::string::npos && colon != 0 &&
         absl::SimpleAtoi(address.substr(colon + 1), &port) && port > 0 &&
         port <= std::numeric_limits<uint16_t>::max();
}

bool IsNumeric(int family, const std::string& host) {
  in6_addr any{};
  return inet_pton(family, host.c_str(), &any) == 1;
}

// The addresses that one stands for, each host:port; one alone for most.
std::vector<std::string> PartsOf(const std::string& address) {
  for (const char* scheme : {kIpv4, kIpv6}) {
    if (!absl::StartsWith(address, scheme)) continue;
    return absl::StrSplit(address.substr(std::string(scheme).size()), ',');
  }
  if (!absl::StartsWith(address, kDns)) return {address};
  return {address.substr(sizeof(kDns) - 1)};
}

bool IsMeant(const std::string& address) {
  if (NamesUnixSocket(address)) return address.size() > sizeof(kUnix) - 1;
  const std::vector<std::string> parts = PartsOf(address);
  const int family = absl::StartsWith(address, kIpv6) ? AF_INET6 : AF_INET;
  const bool numeric =
      absl::StartsWith(address, kIpv4) || absl::StartsWith(address, kIpv6);
  return std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return IsHostAndPort(part) && (!numeric || IsNumeric(family, HostOf(part)));
  });
}

bool IsLoopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
  }
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&v6);
  }
  return host == "localhost";
}

}  // namespace

absl::Status CheckServerAddress(const std::string& address) {
  if (IsMeant(address)) return absl::OkStatus();
  return FieldError("address", absl::StrCat("\"", address, "\""),
                    kServerAddressForms);
}

bool NamesSeveralServers(const std::string& address) {
  return absl::StartsWith(address, kDns) || absl::StartsWith(address, kIpv4) ||
         absl::StartsWith(address, kIpv6);
}

bool NamesUnixSocket(const std::string& address) {
  return absl::StartsWith(address, kUnix);
}

bool IsThisMachine(const std::string& address) {
  if (NamesUnixSocket(address)) return true;
  const std::vector<std::string> parts = PartsOf(address);
  return std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
    return IsLoopback(HostOf(part));
  });
}

}  // namespace attn
