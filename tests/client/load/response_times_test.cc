#include "client/load/response_times.h"

#include <algorithm>
#include <string>
#include <vector>

#include "attention/v1/attention.pb.h"
#include "gtest/gtest.h"

namespace attn {
namespace {

v1::AttendResponse Response() {
  v1::AttendResponse response;
  response.mutable_report()->set_kernel("rowwise");
  response.mutable_report()->mutable_timings()->set_queue_ns(1234);
  response.mutable_report()->mutable_timings()->set_compute_ns(56789);
  response.mutable_output()->set_data(std::string(10'000, 'x'));
  return response;
}

// As the network would cut it.
grpc::ByteBuffer Cut(const std::string& bytes, size_t slice_size) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += slice_size) {
    slices.emplace_back(bytes.substr(at, slice_size));
  }
  return {slices.data(), slices.size()};
}

TEST(ResponseTimes, AreReadHoweverTheMessageIsCut) {
  const std::string bytes = Response().SerializeAsString();
  for (const size_t slice_size : {1U, 3U, 17U, 100'000U}) {
    const auto times = ReadServerTimes(Cut(bytes, slice_size));
    ASSERT_TRUE(times.has_value()) << slice_size;
    EXPECT_EQ(times->queue_ns, 1234);
    EXPECT_EQ(times->compute_ns, 56789);
  }
}

TEST(ResponseTimes, AreFoundBehindOtherFields) {
  v1::AttendResponse rest = Response();
  rest.clear_report();
  v1::AttendResponse report;
  *report.mutable_report() = Response().report();
  const std::string bytes =
      rest.SerializeAsString() + report.SerializeAsString();
  EXPECT_TRUE(ReadServerTimes(Cut(bytes, 64)).has_value());
}

TEST(ResponseTimes, AreAbsentFromAnAnswerWithoutThem) {
  v1::AttendResponse response = Response();
  response.mutable_report()->clear_timings();
  EXPECT_FALSE(ReadServerTimes(Cut(response.SerializeAsString(), 64)));
  response.clear_report();
  EXPECT_FALSE(ReadServerTimes(Cut(response.SerializeAsString(), 64)));
}

TEST(ResponseTimes, AreAbsentFromBytesThatAreNoMessage) {
  const std::string bytes = Response().SerializeAsString();
  const size_t report_end = 2 + Response().report().ByteSizeLong();
  for (size_t length = 1; length < report_end; ++length) {
    EXPECT_FALSE(ReadServerTimes(Cut(bytes.substr(0, length), 64))) << length;
  }
  EXPECT_FALSE(ReadServerTimes(Cut(std::string(100, '\xff'), 64)));
}

}  // namespace
}  // namespace attn
