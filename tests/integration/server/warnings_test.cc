// Warnings over the wire, each with its near miss.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/core/half.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/server/inspecting.h"

namespace attn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using WarningsTest = InspectTest;

// The kinds of a report's warnings, in order.
template <typename Response>
std::vector<int> Kinds(const Response& response) {
  std::vector<int> kinds;
  for (const wire::Warning& warning : response.report().warnings()) {
    kinds.push_back(warning.kind());
    EXPECT_NE(warning.message(), "");
    EXPECT_GT(warning.count(), 0);
  }
  return kinds;
}

wire::AttendRequest WideCall(float q_factor) {
  wire::AttendRequest call =
      RandomRequest({.q_length = 32, .kv_length = 64, .dim = 64}, 9);
  std::vector<float> q = Floats(call.q());
  for (float& x : q) x *= q_factor;
  call.mutable_q()->set_data(q.data(), q.size() * sizeof(float));
  return call;
}

TEST_F(WarningsTest, AHealthyCallHasNoWarnings) {
  EXPECT_THAT(Kinds(Inspected(InspectOf(WideCall(1)))), IsEmpty());
  EXPECT_THAT(Kinds(Attended(WideCall(1))), IsEmpty());
}

TEST_F(WarningsTest, AScaleAppliedTwiceIsSeen) {
  wire::AttendRequest call = WideCall(1);
  call.mutable_spec()->mutable_score()->mutable_dot()->set_scale(1.0 / 64);
  EXPECT_THAT(Kinds(Attended(call)),
              ElementsAre(wire::WARNING_KIND_DOUBLE_SCALING));
  // Once, whatever the ways by which it was noticed.
  EXPECT_THAT(Kinds(Inspected(InspectOf(call))),
              ElementsAre(wire::WARNING_KIND_DOUBLE_SCALING));
  // Only the norms tell of 1/80.
  call.mutable_spec()->mutable_score()->mutable_dot()->set_scale(1.0 / 80);
  EXPECT_THAT(Kinds(Attended(call)), IsEmpty());
  EXPECT_THAT(Kinds(Inspected(InspectOf(call))),
              ElementsAre(wire::WARNING_KIND_DOUBLE_SCALING));
  // Small queries are not a scale.
  EXPECT_THAT(Kinds(Inspected(InspectOf(WideCall(1.0F / 8)))), IsEmpty());
}

TEST_F(WarningsTest, HeadsOfEqualQueriesAndKeysAreAlike) {
  wire::AttendRequest call =
      RandomRequest({.q_heads = 2, .kv_heads = 1, .dim = 16}, 9);
  std::vector<float> q = Floats(call.q());
  std::copy_n(q.begin(), q.size() / 2,
              q.begin() + static_cast<int64_t>(q.size()) / 2);
  call.mutable_q()->set_data(q.data(), q.size() * sizeof(float));
  EXPECT_THAT(Kinds(Inspected(InspectOf(call))),
              ElementsAre(wire::WARNING_KIND_HEADS_ALIKE));
  q.back() += 0.5F;
  call.mutable_q()->set_data(q.data(), q.size() * sizeof(float));
  EXPECT_THAT(Kinds(Inspected(InspectOf(call))), IsEmpty());
}

TEST_F(WarningsTest, NonFiniteInputAndEmptyRowsAreSeenByAttendToo) {
  wire::AttendRequest call = WideCall(1);
  std::vector<float> k = Floats(call.k());
  k[3] = NAN;
  call.mutable_k()->set_data(k.data(), k.size() * sizeof(float));
  const wire::AttendResponse response = Attended(call);
  ASSERT_EQ(response.report().warnings_size(), 1);
  EXPECT_EQ(response.report().warnings(0).kind(),
            wire::WARNING_KIND_NONFINITE_INPUT);
  EXPECT_EQ(response.report().warnings(0).tensor(), "k");
  call = WideCall(1);
  call.add_kv_lengths(0);
  EXPECT_THAT(Kinds(Attended(call)),
              ElementsAre(wire::WARNING_KIND_FULLY_MASKED_ROWS));
}

TEST_F(WarningsTest, DeadAndSaturatedHeadsAreSeenWhereStatisticsAreAskedFor) {
  wire::AttendRequest call = WideCall(0);
  EXPECT_THAT(Kinds(Attended(call)), IsEmpty());
  call.add_outputs(wire::OUTPUT_HEAD_STATISTICS);
  EXPECT_THAT(Kinds(Attended(call)), ElementsAre(wire::WARNING_KIND_DEAD_HEAD));
  call = WideCall(1e4F);
  call.add_outputs(wire::OUTPUT_HEAD_STATISTICS);
  EXPECT_THAT(Kinds(Attended(call)),
              ElementsAre(wire::WARNING_KIND_SATURATED_HEAD));
}

TEST_F(WarningsTest, AStepOfDecodingIsTooShortForADeadHead) {
  for (const float factor : {0.0F, 1e4F}) {
    wire::AttendRequest call = WideCall(factor);
    call.add_outputs(wire::OUTPUT_HEAD_STATISTICS);
    call.add_q_lengths(1);
    for (const int kind : Kinds(Attended(call))) {
      EXPECT_NE(kind, wire::WARNING_KIND_DEAD_HEAD) << factor;
    }
  }
}

TEST_F(WarningsTest, LogitsBeyondF16AreSeenInCallsOfF16) {
  wire::AttendRequest call = WideCall(1);
  for (wire::Tensor* tensor :
       {call.mutable_q(), call.mutable_k(), call.mutable_v()}) {
    std::vector<uint16_t> bits;
    for (const float x : Floats(*tensor)) bits.push_back(ToF16(100 * x));
    tensor->set_dtype(wire::DATA_TYPE_F16);
    tensor->set_data(bits.data(), bits.size() * sizeof(uint16_t));
  }
  EXPECT_THAT(Kinds(Attended(call)), IsEmpty());
  call.mutable_spec()->mutable_score()->mutable_dot()->set_scale(1);
  EXPECT_THAT(Kinds(Attended(call)),
              ElementsAre(wire::WARNING_KIND_F16_OVERFLOW));
}

TEST_F(WarningsTest, WarningsSayWhy) {
  wire::AttendRequest call = WideCall(0);
  call.add_outputs(wire::OUTPUT_HEAD_STATISTICS);
  EXPECT_THAT(Attended(call).report().warnings(0).message(),
              HasSubstr("every visible logit is 0"));
}

}  // namespace
}  // namespace attn
