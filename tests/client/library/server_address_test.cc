#include "client/library/server_address.h"

#include <string>

#include "engine/core/field_error.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(ServerAddress, TakesOneServerOrSeveral) {
  for (const char* address : {"localhost:8001", "10.0.0.1:8001", "[::1]:8001",
                              "unix:/run/attn.sock"}) {
    EXPECT_TRUE(CheckServerAddress(address).ok()) << address;
    EXPECT_FALSE(NamesSeveralServers(address)) << address;
  }
  for (const char* address :
       {"dns:///attn.example:8001", "ipv4:10.0.0.1:8001",
        "ipv4:10.0.0.1:8001,10.0.0.2:65535", "ipv6:[::1]:8001,[fe80::2]:1"}) {
    EXPECT_TRUE(CheckServerAddress(address).ok()) << address;
    EXPECT_TRUE(NamesSeveralServers(address)) << address;
  }
}

TEST(ServerAddress, RefusesWhatCannotBeMeant) {
  for (const char* address :
       {"", "attn", "attn:", ":8001", "attn:0", "attn:65536", "attn:-1",
        "attn:http", "unix:", "dns:///attn", "dns:///:8001",
        "ipv4:", "ipv4:attn:8001", "ipv4:10.0.0.1", "ipv4:10.0.0.1:8001,",
        "ipv4:10.0.0.1:8001,attn:8001", "ipv4:[::1]:8001",
        "ipv6:10.0.0.1:8001"}) {
    const absl::Status status = CheckServerAddress(address);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address;
    EXPECT_EQ(FieldOf(status), "address") << address;
  }
}

// A token in plain text stays on this machine: no address of several may be
// elsewhere.
TEST(ServerAddress, ThisMachineIsWhereAllOfThemAre) {
  for (const char* address :
       {"localhost:1", "127.0.0.1:1", "127.255.0.9:1", "[::1]:1", "unix:/a",
        "dns:///localhost:1", "ipv4:127.0.0.1:1,127.0.0.2:1", "ipv6:[::1]:1"}) {
    EXPECT_TRUE(IsThisMachine(address)) << address;
  }
  for (const char* address :
       {"attn:1", "10.0.0.1:1", "128.0.0.1:1", "[::2]:1", "localhost.example:1",
        "dns:///attn:1", "ipv4:127.0.0.1:1,10.0.0.1:1"}) {
    EXPECT_FALSE(IsThisMachine(address)) << address;
  }
}

}  // namespace
}  // namespace attn
