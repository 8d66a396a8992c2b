#include "server/sessions/gone_sessions.h"

#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(GoneSessions, AnIdIsRememberedForItsTenantOnly) {
  GoneSessions gone(10);
  gone.Remember("alice", "1");
  EXPECT_TRUE(gone.Contains("alice", "1"));
  EXPECT_FALSE(gone.Contains("bob", "1"));
  EXPECT_FALSE(gone.Contains("alice", "2"));
  EXPECT_FALSE(gone.Contains("", "alice1"));
}

TEST(GoneSessions, TheOldestAreForgottenFirst) {
  GoneSessions gone(3);
  for (int i = 0; i < 100; ++i) {
    gone.Remember("alice", std::to_string(i));
    EXPECT_LE(gone.size(), 3U);
    for (int j = 0; j <= i; ++j) {
      EXPECT_EQ(gone.Contains("alice", std::to_string(j)), j > i - 3)
          << i << " " << j;
    }
  }
}

}  // namespace
}  // namespace attn
