#include "server/rpc/inspect_window.h"

#include "engine/core/field_error.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

namespace wire = ::attention::v1;

const AttentionShape kShape{
    .batch = 2, .q_heads = 4, .kv_heads = 2, .q_length = 5, .kv_length = 7};

TEST(InspectWindowTest, UnsetIsTheWhole) {
  const auto window = ResolveWindow({}, kShape);
  ASSERT_TRUE(window.ok());
  EXPECT_EQ(ShapeOf(*window), Shape({2, 4, 5, 7}));
}

TEST(InspectWindowTest, RangesAreHalfOpenAndMayBeEmpty) {
  wire::InspectWindow request;
  request.mutable_head()->set_begin(3);
  request.mutable_query()->set_begin(5);
  request.mutable_key()->set_begin(2);
  request.mutable_key()->set_end(6);
  const auto window = ResolveWindow(request, kShape);
  ASSERT_TRUE(window.ok()) << window.status();
  EXPECT_EQ(ShapeOf(*window), Shape({2, 1, 0, 4}));
  EXPECT_TRUE(window->key.Holds(2));
  EXPECT_FALSE(window->key.Holds(6));
}

TEST(InspectWindowTest, ErrorsNameTheBound) {
  const auto error_of = [](auto change) {
    wire::InspectWindow request;
    change(request);
    return FieldOf(ResolveWindow(request, kShape).status());
  };
  EXPECT_EQ(error_of([](auto& r) { r.mutable_key()->set_end(8); }),
            "window.key.end");
  EXPECT_EQ(error_of([](auto& r) { r.mutable_batch()->set_begin(3); }),
            "window.batch.begin");
  EXPECT_EQ(error_of([](auto& r) { r.mutable_head()->set_begin(-1); }),
            "window.head.begin");
  EXPECT_EQ(error_of([](auto& r) {
              r.mutable_query()->set_begin(3);
              r.mutable_query()->set_end(2);
            }),
            "window.query.end");
}

}  // namespace
}  // namespace attn
