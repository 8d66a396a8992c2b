// Inspect over the wire.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/util/field_comparator.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/integration/server/inspecting.h"

namespace attn {
namespace {

using ::testing::StartsWith;

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr int64_t kBatch = 2;
constexpr int64_t kHeads = 4;
constexpr int64_t kQueries = 9;
constexpr int64_t kKeys = 13;
constexpr int64_t kDim = 8;
const TestShape kShape{.batch = kBatch,
                       .q_heads = kHeads,
                       .kv_heads = 2,
                       .q_length = kQueries,
                       .kv_length = kKeys,
                       .dim = kDim};

void SetCausal(wire::AttentionSpec* spec) {
  spec->add_masks()->mutable_causal()->set_alignment(
      wire::ALIGNMENT_BOTTOM_RIGHT);
}

// The same call for both methods.
wire::AttendRequest AttendCall() {
  wire::AttendRequest request = RandomRequest(kShape, 7);
  SetCausal(request.mutable_spec());
  for (const wire::Output output :
       {wire::OUTPUT_LOGITS, wire::OUTPUT_MASKED_LOGITS, wire::OUTPUT_WEIGHTS,
        wire::OUTPUT_ROW_STATISTICS, wire::OUTPUT_HEAD_STATISTICS}) {
    request.add_outputs(output);
  }
  return request;
}

void AddViews(wire::InspectRequest& request) {
  for (int view = wire::INSPECT_VIEW_LOGITS;
       view <= wire::INSPECT_VIEW_CONTRIBUTION; ++view) {
    request.add_views(static_cast<wire::InspectView>(view));
  }
}

struct Range {
  int64_t begin;
  int64_t end;
};

void Set(const Range& from, wire::IndexRange* to) {
  to->set_begin(from.begin);
  to->set_end(from.end);
}

// The bytes of a part of a [B, Hq, Sq, Sk] tensor.
std::string Slice(const wire::Tensor& tensor, const Range& batch,
                  const Range& head, const Range& query, const Range& key) {
  const std::vector<float> all = Floats(tensor);
  std::string bytes;
  for (int64_t b = batch.begin; b < batch.end; ++b) {
    for (int64_t h = head.begin; h < head.end; ++h) {
      for (int64_t i = query.begin; i < query.end; ++i) {
        const int64_t row = ((b * kHeads + h) * kQueries + i) * kKeys;
        const float* from = all.data() + row + key.begin;
        bytes.append(reinterpret_cast<const char*>(from),
                     static_cast<size_t>(key.end - key.begin) * sizeof(float));
      }
    }
  }
  return bytes;
}

TEST_F(InspectTest, AWindowIsTheSliceOfWhatAttendGives) {
  const wire::AttendRequest call = AttendCall();
  const wire::AttendResponse whole = Attended(call);
  wire::InspectRequest request = InspectOf(call);
  AddViews(request);
  const Range batch{1, 2};
  const Range head{1, 4};
  const Range query{2, 8};
  const Range key{3, 12};
  Set(batch, request.mutable_window()->mutable_batch());
  Set(head, request.mutable_window()->mutable_head());
  Set(query, request.mutable_window()->mutable_query());
  Set(key, request.mutable_window()->mutable_key());
  const wire::InspectResponse seen = Inspected(request);
  const auto slice = [&](const wire::Tensor& tensor) {
    return Slice(tensor, batch, head, query, key);
  };
  EXPECT_EQ(seen.logits().data(), slice(whole.logits()));
  EXPECT_EQ(seen.masked_logits().data(), slice(whole.masked_logits()));
  EXPECT_EQ(seen.weights().data(), slice(whole.weights()));
  EXPECT_EQ(seen.weights().shape(3), 9);
}

TEST_F(InspectTest, OnlyWhatIsAskedForIsReturned) {
  wire::InspectRequest request = InspectOf(AttendCall());
  request.add_views(wire::INSPECT_VIEW_LOGITS);
  const wire::InspectResponse seen = Inspected(request);
  EXPECT_TRUE(seen.has_logits());
  EXPECT_FALSE(seen.has_weights());
  EXPECT_FALSE(seen.has_masked_logits());
  EXPECT_EQ(seen.logits().shape_size(), 4);
}

TEST_F(InspectTest, StatisticsAreThoseOfAttend) {
  const wire::AttendRequest call = AttendCall();
  const wire::AttendResponse whole = Attended(call);
  const wire::InspectResponse seen = Inspected(InspectOf(call));
  EXPECT_EQ(seen.row_statistics().SerializeAsString(),
            whole.row_statistics().SerializeAsString());
  ASSERT_EQ(seen.head_statistics_size(), kBatch * kHeads);
  for (int i = 0; i < seen.head_statistics_size(); ++i) {
    EXPECT_EQ(seen.head_statistics(i).SerializeAsString(),
              whole.head_statistics(i).SerializeAsString());
  }
}

// [rows, keys] of one plane pooled as the schema says.
std::vector<float> PoolPlane(const float* values, const float* masked,
                             wire::Pooling pooling) {
  constexpr int64_t kRowTile = 4;
  constexpr int64_t kKeyTile = 5;
  std::vector<float> pooled;
  for (int64_t i0 = 0; i0 < kQueries; i0 += kRowTile) {
    for (int64_t j0 = 0; j0 < kKeys; j0 += kKeyTile) {
      std::vector<double> seen;
      for (int64_t i = i0; i < std::min(i0 + kRowTile, kQueries); ++i) {
        for (int64_t j = j0; j < std::min(j0 + kKeyTile, kKeys); ++j) {
          const int64_t at = i * kKeys + j;
          if (masked[at] != kMasked) seen.push_back(values[at]);
        }
      }
      double result = 0;
      for (const double x : seen) result += x;
      if (pooling != wire::POOLING_SUM) {
        result = seen.empty() ? NAN : result / static_cast<double>(seen.size());
      }
      if (pooling == wire::POOLING_MAX && !seen.empty()) {
        result = *std::max_element(seen.begin(), seen.end());
      }
      if (pooling == wire::POOLING_MIN && !seen.empty()) {
        result = *std::min_element(seen.begin(), seen.end());
      }
      pooled.push_back(static_cast<float>(result));
    }
  }
  return pooled;
}

TEST_F(InspectTest, TilesArePooledFromTheWholeTensor) {
  const wire::AttendRequest call = AttendCall();
  const wire::AttendResponse whole = Attended(call);
  const std::vector<float> weights = Floats(whole.weights());
  const std::vector<float> masked = Floats(whole.masked_logits());
  for (int pooling = wire::POOLING_MEAN; pooling <= wire::POOLING_SUM;
       ++pooling) {
    wire::InspectRequest request = InspectOf(call);
    request.add_views(wire::INSPECT_VIEW_WEIGHTS);
    wire::InspectTiles& tiles = *request.mutable_tiles();
    tiles.set_query_tile(4);
    tiles.set_key_tile(5);
    tiles.set_pooling(static_cast<wire::Pooling>(pooling));
    const wire::InspectResponse seen = Inspected(request);
    std::vector<float> expected;
    for (int64_t plane = 0; plane < kBatch * kHeads; ++plane) {
      const int64_t first = plane * kQueries * kKeys;
      const std::vector<float> part =
          PoolPlane(weights.data() + first, masked.data() + first,
                    static_cast<wire::Pooling>(pooling));
      expected.insert(expected.end(), part.begin(), part.end());
    }
    const std::vector<float> got = Floats(seen.weights());
    EXPECT_EQ(seen.weights().shape(2), 3);
    EXPECT_EQ(seen.weights().shape(3), 3);
    EXPECT_FALSE(seen.has_masked_logits());
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const bool both_nan = std::isnan(got[i]) && std::isnan(expected[i]);
      EXPECT_TRUE(both_nan || got[i] == expected[i])
          << got[i] << " for " << expected[i];
    }
  }
}

// Two heads of 3000 x 3000 are computed in parts, one of them at once.
TEST_F(InspectTest, TilesOfALongCallAreThoseOfItsHeads) {
  constexpr int64_t kLong = 3000;
  wire::InspectRequest request = InspectOf(RandomRequest({.batch = 1,
                                                          .q_heads = 2,
                                                          .kv_heads = 1,
                                                          .q_length = kLong,
                                                          .kv_length = kLong,
                                                          .dim = 4},
                                                         11));
  SetCausal(request.mutable_spec());
  request.add_views(wire::INSPECT_VIEW_LOGITS);
  request.add_views(wire::INSPECT_VIEW_WEIGHTS);
  wire::InspectTiles& tiles = *request.mutable_tiles();
  tiles.set_query_tile(7);
  tiles.set_key_tile(11);
  tiles.set_pooling(wire::POOLING_MEAN);
  const wire::InspectResponse whole = Inspected(request);
  std::string logits;
  std::string weights;
  for (const Range& head : {Range{0, 1}, Range{1, 2}}) {
    Set(head, request.mutable_window()->mutable_head());
    const wire::InspectResponse seen = Inspected(request);
    logits += seen.logits().data();
    weights += seen.weights().data();
    EXPECT_EQ(seen.row_statistics().SerializeAsString(),
              whole.row_statistics().SerializeAsString());
  }
  EXPECT_EQ(whole.weights().shape(2), 429);
  EXPECT_TRUE(whole.weights().data() == weights);
  EXPECT_TRUE(whole.logits().data() == logits);
}

TEST_F(InspectTest, GradientWeightIsWeightTimesCotangentTimesValue) {
  const wire::AttendRequest call = AttendCall();
  wire::InspectRequest request = InspectOf(call);
  request.add_views(wire::INSPECT_VIEW_WEIGHTS);
  request.add_views(wire::INSPECT_VIEW_GRADIENT_WEIGHT);
  const std::vector<float> cotangent =
      RandomFloats(kBatch * kHeads * kQueries * kDim, 31);
  *request.mutable_d_output() =
      FloatTensor({kBatch, kHeads, kQueries, kDim}, cotangent);
  const wire::InspectResponse seen = Inspected(request);
  const std::vector<float> values = Floats(call.v());
  const std::vector<float> weights = Floats(seen.weights());
  const std::vector<float> got = Floats(seen.gradient_weight());
  ASSERT_EQ(got.size(), weights.size());
  for (int64_t at = 0; at < static_cast<int64_t>(got.size()); ++at) {
    const int64_t row = at / kKeys;
    const int64_t plane = row / kQueries;
    const int64_t kv_plane = plane / kHeads * 2 + plane % kHeads / 2;
    const int64_t key = kv_plane * kKeys + at % kKeys;
    double product = 0;
    for (int64_t c = 0; c < kDim; ++c) {
      product +=
          static_cast<double>(cotangent[static_cast<size_t>(row * kDim + c)]) *
          values[static_cast<size_t>(key * kDim + c)];
    }
    const auto i = static_cast<size_t>(at);
    EXPECT_NEAR(got[i], weights[i] * product, 1e-6);
  }
}

// Equal but for the rounding of two kernels: Inspect() needs one that holds
// rows of scores, Attend() may take another.
void ExpectNear(const wire::HeadStatistics& got,
                const wire::HeadStatistics& want) {
  google::protobuf::util::DefaultFieldComparator comparator;
  comparator.set_float_comparison(
      google::protobuf::util::DefaultFieldComparator::APPROXIMATE);
  comparator.SetDefaultFractionAndMargin(1e-5, 1e-6);
  google::protobuf::util::MessageDifferencer differencer;
  differencer.set_field_comparator(&comparator);
  std::string difference;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(got, want)) << difference;
}

TEST_F(InspectTest, ASweepIsTheCallAtEachTemperature) {
  wire::AttendRequest call = AttendCall();
  wire::InspectRequest request = InspectOf(call);
  // What the sweep stands in place of.
  request.mutable_spec()->add_temperatures(3);
  const std::vector<double> temperatures = {0.25, 1, 40};
  for (const double t : temperatures) request.add_sweep_temperatures(t);
  const wire::InspectResponse seen = Inspected(request);
  ASSERT_EQ(seen.sweep_size(), 3);
  for (int i = 0; i < 3; ++i) {
    const double temperature = temperatures[static_cast<size_t>(i)];
    call.mutable_spec()->clear_temperatures();
    call.mutable_spec()->add_temperatures(temperature);
    const wire::AttendResponse at = Attended(call);
    EXPECT_EQ(seen.sweep(i).temperature(), temperature);
    ASSERT_EQ(seen.sweep(i).head_statistics_size(), at.head_statistics_size());
    for (int h = 0; h < at.head_statistics_size(); ++h) {
      ExpectNear(seen.sweep(i).head_statistics(h), at.head_statistics(h));
    }
  }
  // Colder is sharper.
  EXPECT_LT(seen.sweep(0).head_statistics(0).mean_entropy(),
            seen.sweep(2).head_statistics(0).mean_entropy());
}

TEST_F(InspectTest, ACallInF64IsSeenInF64) {
  wire::InspectRequest request;
  const std::vector<double> values = {1, 2, 3, 4};
  wire::Tensor tensor;
  tensor.set_dtype(wire::DATA_TYPE_F64);
  for (const int64_t extent : {1, 1, 2, 2}) tensor.add_shape(extent);
  tensor.set_data(values.data(), values.size() * sizeof(double));
  *request.mutable_q() = *request.mutable_k() = *request.mutable_v() = tensor;
  AddViews(request);
  const wire::InspectResponse seen = Inspected(request);
  EXPECT_EQ(seen.weights().dtype(), wire::DATA_TYPE_F64);
  EXPECT_EQ(seen.contribution().data().size(), 4 * sizeof(double));
  EXPECT_EQ(seen.row_statistics().logit_std().dtype(), wire::DATA_TYPE_F64);
}

TEST_F(InspectTest, LinearAttentionHasStatisticsButNoViews) {
  wire::InspectRequest request = InspectOf(RandomRequest(kShape, 3));
  wire::LinearNormalizer& linear =
      *request.mutable_spec()->mutable_normalizer()->mutable_linear();
  linear.set_feature_map(wire::FEATURE_MAP_ELU_PLUS_ONE);
  linear.set_bidirectional(true);
  EXPECT_EQ(Inspected(request).head_statistics(0).dead(),
            wire::DEAD_HEAD_UNSPECIFIED);
  request.add_views(wire::INSPECT_VIEW_WEIGHTS);
  wire::InspectResponse response;
  const grpc::Status status = Inspect(server_, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), StartsWith("views:"));
}

TEST_F(InspectTest, LinearAttentionHasNoTemperaturesToSweep) {
  wire::InspectRequest request = InspectOf(RandomRequest(kShape, 3));
  request.mutable_spec()
      ->mutable_normalizer()
      ->mutable_linear()
      ->set_feature_map(wire::FEATURE_MAP_ELU_PLUS_ONE);
  request.add_sweep_temperatures(0.5);
  wire::InspectResponse response;
  const grpc::Status status = Inspect(server_, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), StartsWith("sweep_temperatures[0]:"));
}

struct BadQuestion {
  // How the error's text begins.
  const char* field;
  std::function<void(wire::InspectRequest&)> spoil;
};

const std::vector<BadQuestion>& BadQuestions() {
  using Request = wire::InspectRequest;
  static const std::vector<BadQuestion> kQuestions = {
      {"views[0]",
       [](Request& r) { r.add_views(wire::INSPECT_VIEW_UNSPECIFIED); }},
      {"views[1]",
       [](Request& r) {
         r.add_views(wire::INSPECT_VIEW_WEIGHTS);
         r.add_views(static_cast<wire::InspectView>(99));
       }},
      {"window.key.end",
       [](Request& r) { r.mutable_window()->mutable_key()->set_end(99); }},
      {"window.batch.begin",
       [](Request& r) { r.mutable_window()->mutable_batch()->set_begin(-1); }},
      {"tiles.query_tile", [](Request& r) { r.mutable_tiles(); }},
      {"tiles.pooling",
       [](Request& r) {
         r.mutable_tiles()->set_query_tile(1);
         r.mutable_tiles()->set_key_tile(1);
       }},
      {"sweep_temperatures",
       [](Request& r) {
         for (int i = 0; i < 65; ++i) r.add_sweep_temperatures(1);
       }},
      {"sweep_temperatures[1]",
       [](Request& r) {
         r.add_sweep_temperatures(1);
         r.add_sweep_temperatures(0);
       }},
      {"d_output",
       [](Request& r) { r.add_views(wire::INSPECT_VIEW_GRADIENT_WEIGHT); }},
      {"d_output.shape",
       [](Request& r) {
         r.add_views(wire::INSPECT_VIEW_GRADIENT_WEIGHT);
         *r.mutable_d_output() = r.v();
       }},
      {"k.shape", [](Request& r) { r.mutable_k()->add_shape(1); }},
  };
  return kQuestions;
}

TEST_F(InspectTest, ErrorsNameTheField) {
  for (const BadQuestion& bad : BadQuestions()) {
    wire::InspectRequest request = InspectOf(AttendCall());
    bad.spoil(request);
    wire::InspectResponse response;
    const grpc::Status status = Inspect(server_, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << bad.field;
    EXPECT_THAT(status.error_message(),
                StartsWith(std::string(bad.field) + ":"));
  }
}

TEST_F(InspectTest, AWindowCostsTheMemoryOfTheWindow) {
  ServerOptions options = TestOptions();
  // One view of the whole is 4 MiB: the response fits, but not the call.
  options.max_message_bytes = (9 << 20) / 2;
  options.max_inflight_bytes = (9 << 20) / 2;
  RunningServer server(options);
  wire::InspectRequest request = InspectOf(RandomRequest(
      {.q_heads = 4, .kv_heads = 4, .q_length = 512, .kv_length = 512}, 3));
  request.add_views(wire::INSPECT_VIEW_WEIGHTS);
  wire::InspectResponse response;
  EXPECT_EQ(Inspect(server, request, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  Set({0, 64}, request.mutable_window()->mutable_query());
  const grpc::Status status = Inspect(server, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.weights().shape(2), 64);
}

TEST_F(InspectTest, ASweepThatIsLateGivesItsWorkersBack) {
  wire::InspectRequest request = InspectOf(SlowRequest());
  for (int i = 0; i < 64; ++i) request.add_sweep_temperatures(1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(100));
  wire::InspectResponse response;
  EXPECT_EQ(server_.stub().Inspect(&context, request, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  // Would wait for seconds behind a call that went on.
  EXPECT_EQ(Inspected(InspectOf(AttendCall())).head_statistics_size(),
            kBatch * kHeads);
}

}  // namespace
}  // namespace attn
