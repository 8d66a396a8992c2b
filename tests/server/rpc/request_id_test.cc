#include "server/rpc/request_id.h"

#include <set>

#include "gtest/gtest.h"

namespace attn {
namespace {

TEST(RequestId, NoTwoAreAlike) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(MakeRequestId());
  EXPECT_EQ(ids.size(), 1000);
}

}  // namespace
}  // namespace attn
