// Addresses of servers, as options and flags have them.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace attn {

// What an address may be, for errors and help.
inline constexpr char kServerAddressForms[] =
    "host:port, unix:/path, dns:///name:port or ipv4:host:port,host:port";

// INVALID_ARGUMENT unless it is one of these:
// - host:port: one server; of a name's addresses the first that answers;
// - unix:/path: one server;
// - dns:///name:port: every address of the name;
// - ipv4:a:port,b:port: these, each as dotted numbers; also ipv6:[a]:port,...
absl::Status CheckServerAddress(const std::string& address);

// Whether there may be several servers behind it, among which calls go round:
// the last two forms.
bool NamesSeveralServers(const std::string& address);

bool NamesUnixSocket(const std::string& address);

// Whether only this machine can be behind the address: unix:/path, localhost,
// 127.0.0.0/8 or ::1.
bool IsThisMachine(const std::string& address);

}  // namespace attn
