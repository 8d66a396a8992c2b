#include "server/rpc/caller.h"

#include <string>

#include "gtest/gtest.h"

namespace attn {
namespace {

constexpr char kTraceId[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kParent[] = "-00f067aa0ba902b7-01";

std::string Traceparent(const std::string& version) {
  return version + "-" + kTraceId + kParent;
}

TEST(TraceIdTest, ATraceparentOfVersion00GivesItsId) {
  EXPECT_EQ(TraceIdOf(Traceparent("00")), kTraceId);
}

TEST(TraceIdTest, ALaterVersionMayBeLonger) {
  EXPECT_EQ(TraceIdOf(Traceparent("01") + "-more"), kTraceId);
  EXPECT_EQ(TraceIdOf(Traceparent("01") + "more"), "");
  EXPECT_EQ(TraceIdOf(Traceparent("00") + "-more"), "");
}

TEST(TraceIdTest, WhatIsNoTraceparentGivesNothing) {
  EXPECT_EQ(TraceIdOf(""), "");
  EXPECT_EQ(TraceIdOf("00"), "");
  EXPECT_EQ(TraceIdOf(Traceparent("ff")), "");
  std::string upper = Traceparent("00");
  upper[3] = 'A';
  EXPECT_EQ(TraceIdOf(upper), "");
  std::string zero = Traceparent("00");
  zero.replace(3, 32, 32, '0');
  EXPECT_EQ(TraceIdOf(zero), "");
  for (const size_t dash : {2U, 35U, 52U}) {
    std::string glued = Traceparent("00");
    glued[dash] = '0';
    EXPECT_EQ(TraceIdOf(glued), "") << dash;
  }
}

}  // namespace
}  // namespace attn
