// A context divided among servers gives what one server gives.
#include "client/library/sharded_client.h"

#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/library/key_shard.h"
#include "client/library/outputs.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/server.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kBatch = 2;
constexpr int64_t kQueryHeads = 4;
constexpr int64_t kKeyHeads = 2;
constexpr int64_t kWidth = 8;
// Of f32 and weights of a softmax.
constexpr double kNear = 1e-5;

HostTensor Normal(const Shape& shape, std::mt19937& random) {
  HostTensor tensor(DType::kF32, shape);
  std::normal_distribution<float> normal;
  for (float& x : tensor.values<float>()) x = normal(random);
  return tensor;
}

// A call and the tensors that it is about.
struct OwnedCall {
  OwnedCall(int64_t queries, int64_t keys, uint32_t seed) : random(seed) {
    tensors.push_back(Normal({kBatch, kQueryHeads, queries, kWidth}, random));
    tensors.push_back(Normal({kBatch, kKeyHeads, keys, kWidth}, random));
    tensors.push_back(Normal({kBatch, kKeyHeads, keys, kWidth}, random));
    message.args.q = tensors[0].view();
    message.args.k = tensors[1].view();
    message.args.v = tensors[2].view();
    message.wanted = {.output = true, .lse = true};
  }
  uint32_t Bring(HostTensor tensor) {
    // Their bytes stay where they are when the vector grows.
    tensors.push_back(std::move(tensor));
    message.args.inputs.push_back(tensors.back().view());
    return static_cast<uint32_t>(message.args.inputs.size() - 1);
  }

  std::mt19937 random;
  std::vector<HostTensor> tensors;
  AttendMessage message;
};

class ShardedClientTest : public ::testing::Test {
 protected:
  ShardedClientTest() : log_(LogFormat::kText, [](const std::string&) {}) {
    for (int i = 0; i < 3; ++i) {
      ServerOptions options;
      options.grpc_addresses = {"127.0.0.1:0"};
      options.metrics_address = "";
      options.drain_delay = absl::ZeroDuration();
      options.compute_threads = 1;
      auto server = Server::Start(options, log_);
      EXPECT_TRUE(server.ok()) << server.status();
      addresses_.push_back((*server)->grpc_addresses()[0]);
      servers_.push_back(*std::move(server));
    }
  }
  ~ShardedClientTest() override {
    for (auto& server : servers_) {
      if (server != nullptr) server->Hurry();
    }
  }

  ShardedClient Sharded() const {
    return *ShardedClient::Connect(
        addresses_, {.retry = {.initial_backoff = absl::Milliseconds(1)}});
  }
  // `alike`: of sums in another order.
  static void ExpectAlike(const HostTensor& got, const HostTensor& expected) {
    ASSERT_EQ(got.shape(), expected.shape());
    ASSERT_EQ(got.dtype(), expected.dtype());
    for (int64_t i = 0; i < got.element_count(); ++i) {
      const double wanted = expected.At(i);
      if (std::isinf(wanted)) {
        ASSERT_EQ(got.At(i), wanted) << i;
      } else {
        ASSERT_NEAR(got.At(i), wanted, kNear * std::max(1.0, std::abs(wanted)))
            << i;
      }
    }
  }
  void ExpectAsOneServer(const AttendMessage& message) const {
    const auto client = AttentionClient::Connect({.address = addresses_[0]});
    const auto whole = client->Attend(message);
    ASSERT_TRUE(whole.ok()) << whole.status();
    const auto sharded = Sharded().Attend(message);
    ASSERT_TRUE(sharded.ok()) << sharded.status();
    ExpectAlike(sharded->output, *OutputOf(*whole, "output"));
    ExpectAlike(sharded->lse, *OutputOf(*whole, "lse"));
    EXPECT_EQ(sharded->lse_with_sink.has_value(), message.wanted.lse_with_sink);
    if (!sharded->lse_with_sink.has_value()) return;
    ExpectAlike(*sharded->lse_with_sink, *OutputOf(*whole, "lse_with_sink"));
  }

  LineLog log_;
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Server>> servers_;
};

TEST(DivideKeys, PartsAreInOrderWholeAndNearlyAlike) {
  for (const int64_t keys : {0, 1, 63, 64, 65, 200, 4096, 100000}) {
    for (const int64_t count : {1, 2, 3, 7, 1000}) {
      const auto ranges = DivideKeys(keys, count);
      ASSERT_FALSE(ranges.empty());
      EXPECT_LE(ranges.size(), static_cast<size_t>(count));
      int64_t end = 0;
      int64_t longest = 0;
      int64_t shortest = keys;
      for (const ShardRange& range : ranges) {
        EXPECT_EQ(range.begin, end);
        EXPECT_EQ(range.begin % 64, 0);
        EXPECT_TRUE(range.end > range.begin || keys == 0);
        longest = std::max(longest, range.end - range.begin);
        shortest = std::min(shortest, range.end - range.begin);
        end = range.end;
      }
      EXPECT_EQ(end, keys);
      EXPECT_LE(longest - shortest, 127) << keys << " by " << count;
    }
  }
}

TEST_F(ShardedClientTest, AllKeysWeighTheSameAndTheirMeanIsTheMeanOfAll) {
  constexpr int64_t kKeys = 300;
  OwnedCall call(1, kKeys, 1);
  for (float& x : call.tensors[0].values<float>()) x = 0;
  auto values = call.tensors[2].values<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i / kWidth % kKeys);
  }
  const auto whole = Sharded().Attend(call.message);
  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const float x : whole->output.values<float>()) {
    EXPECT_NEAR(x, (kKeys - 1) / 2.0, 1e-3);
  }
  for (const float x : whole->lse.values<float>()) {
    EXPECT_NEAR(x, std::log(kKeys), kNear);
  }
  ASSERT_THAT(whole->shards, SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(whole->shards[i].address, addresses_[i]);
  }
}

TEST_F(ShardedClientTest, MasksByPositionGoOnFromPartToPart) {
  using Masks = std::vector<MaskSpec>;
  const auto kBottom = Alignment::kBottomRight;
  const auto kTop = Alignment::kTopLeft;
  const std::vector<Masks> cases = {
      {CausalMask{kBottom}},
      {CausalMask{kTop}},
      {WindowMask{.left = 70, .right = std::nullopt, .alignment = kBottom}},
      {WindowMask{.left = 0, .right = 130, .alignment = kTop}},
      {WindowMask{.left = std::nullopt, .right = 3, .alignment = kBottom}},
      {WindowMask{.left = std::numeric_limits<int64_t>::max(),
                  .right = 0,
                  .alignment = kBottom}},
      {CausalMask{kBottom},
       WindowMask{.left = 100, .right = 100, .alignment = kTop}}};
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{1, 400},
                                      {150, 400},
                                      {400, 400},
                                      {300, 200}}) {
    for (size_t i = 0; i < cases.size(); ++i) {
      SCOPED_TRACE(testing::Message()
                   << queries << " queries, " << keys << " keys, masks " << i);
      OwnedCall call(queries, keys, 7);
      call.message.spec.masks = cases[i];
      ExpectAsOneServer(call.message);
    }
  }
}

TEST_F(ShardedClientTest, TensorsOverKeysAreDividedWithThem) {
  OwnedCall call(5, 333, 3);
  call.message.spec.biases = {
      DenseBias{call.Bring(Normal({1, 5, 333}, call.random))},
      DenseBias{call.Bring(Normal({kBatch, 1, 1, 1}, call.random))}};
  HostTensor allowed(DType::kBool, {kBatch, 1, 5, 333});
  for (int64_t i = 0; i < allowed.element_count(); ++i) {
    allowed.Set(i, call.random() % 3 == 0 ? 0 : 1);
  }
  call.message.spec.masks = {DenseMask{call.Bring(std::move(allowed))}};
  ExpectAsOneServer(call.message);
}

// The gate is as long as the keys, and is not cut.
TEST_F(ShardedClientTest, AnInputThatIsNeededWholeStaysWhole) {
  constexpr int64_t kKeys = 128;
  OwnedCall call(kKeys, kKeys, 4);
  HostTensor both(DType::kF32, {kBatch, kQueryHeads, kKeys});
  for (float& x : both.values<float>()) x = 0.5F;
  const uint32_t input = call.Bring(std::move(both));
  call.message.spec.head_gate = input;
  call.message.spec.biases = {DenseBias{
      call.Bring(Normal({kBatch, kQueryHeads, kKeys, kKeys}, call.random))}};
  ExpectAsOneServer(call.message);
}

TEST_F(ShardedClientTest, KeysTurnByTheirOwnPositions) {
  OwnedCall call(5, 333, 5);
  RotaryTransform turn;
  turn.query_offset = 328;
  call.message.spec.transforms = {NormTransform{}, turn};
  ExpectAsOneServer(call.message);
  HostTensor positions(DType::kI64, {333});
  for (int64_t i = 0; i < 333; ++i) {
    positions.values<int64_t>()[static_cast<size_t>(i)] = 7 * i % 333;
  }
  std::get<RotaryTransform>(call.message.spec.transforms[1]).key_positions =
      call.Bring(std::move(positions));
  ExpectAsOneServer(call.message);
}

TEST_F(ShardedClientTest, ShorterSequencesEndInAPartOrBeforeIt) {
  OwnedCall call(4, 300, 6);
  call.message.args.kv_lengths = {300, 70};
  ExpectAsOneServer(call.message);
  // Nothing is seen at all.
  call.message.args.kv_lengths = {0, 299};
  ExpectAsOneServer(call.message);
}

TEST_F(ShardedClientTest, SinksJoinOnce) {
  OwnedCall call(4, 300, 8);
  call.message.spec.normalizer =
      SoftmaxNormalizer{.sink = call.Bring(Normal({kQueryHeads}, call.random))};
  call.message.wanted.lse_with_sink = true;
  ExpectAsOneServer(call.message);
}

TEST_F(ShardedClientTest, TheTypeOfTheOutputIsAsAsked) {
  OwnedCall call(4, 300, 9);
  call.message.output_dtype = DType::kBF16;
  const auto whole = Sharded().Attend(call.message);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->output.dtype(), DType::kBF16);
  EXPECT_EQ(whole->lse.dtype(), DType::kF32);
}

TEST_F(ShardedClientTest, APartWhoseServerIsGoneGoesToTheNext) {
  const ShardedClient client = Sharded();
  OwnedCall call(4, 300, 10);
  const auto before = client.Attend(call.message);
  ASSERT_TRUE(before.ok()) << before.status();
  servers_[1]->Hurry();
  servers_[1] = nullptr;
  const auto after = client.Attend(call.message);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->shards[1].address, addresses_[2]);
  // The same kernels merge the same parts in the same order.
  ExpectAlike(after->output, before->output);
}

TEST_F(ShardedClientTest, AnErrorNamesThePartAndTheServer) {
  OwnedCall call(4, 300, 11);
  call.message.kernel = "nosuch";
  const auto refused = Sharded().Attend(call.message);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("keys [0, 64) at " + addresses_[0]));
}

TEST(ShardOf, RefusesWhatSomeKeysAloneDoNotTell) {
  struct Refused {
    const char* field;
    std::function<void(AttendMessage&)> change;
  };
  const std::vector<Refused> cases = {
      {"spec.sparsifiers",
       [](auto& m) { m.spec.sparsifiers = {TopKSparsifier{}}; }},
      {"spec.normalizer",
       [](auto& m) { m.spec.normalizer = SparsemaxNormalizer{}; }},
      {"spec.biases[0]", [](auto& m) { m.spec.biases = {AlibiBias{}}; }},
      {"spec.biases[0]", [](auto& m) { m.spec.biases = {DenseBias{4}}; }},
      {"spec.masks[1]",
       [](auto& m) {
         m.spec.masks = {CausalMask{Alignment::kTopLeft}, PrefixMask{}};
       }},
      {"spec.masks[0]", [](auto& m) { m.spec.masks = {DenseMask{0}}; }},
      {"spec.masks[0].alignment",
       [](auto& m) { m.spec.masks = {CausalMask{}}; }},
      {"spec.masks[0]",
       [](auto& m) {
         m.spec.masks = {CausalMask{Alignment::kTopLeft}};
         m.args.kv_lengths = {100, 100};
       }},
      {"spec.transforms[0]",
       [](auto& m) {
         RotaryTransform turn;
         turn.cos = 0;
         m.spec.transforms = {turn};
       }},
      {"spec.score_program",
       [](auto& m) {
         m.spec.score_program = ProgramSpec{"score", {}};
       }},
      {"spec.weight_program",
       [](auto& m) {
         m.spec.weight_program = ProgramSpec{"weight", {}};
       }},
      {"spec.dropout", [](auto& m) { m.spec.dropout = DropoutSpec{}; }},
      {"spec.kv_quantization",
       [](auto& m) { m.spec.kv_quantization = KvQuantization{}; }},
      {"spec.projections",
       [](auto& m) { m.spec.projections = ProjectionSpec{}; }},
      {"kv_offsets",
       [](auto& m) {
         m.args.q_offsets = {0, 3};
       }},
      {"qkv", [](auto& m) { m.qkv = m.args.k; }},
      {"q.shape",
       [](auto& m) {
         m.args.q.shape = {4, kWidth};
       }},
      {"v.shape",
       [](auto& m) {
         m.args.v.shape = {kBatch, kKeyHeads, 299, kWidth};
       }},
      {"wanted", [](auto& m) { m.wanted.weights = true; }},
      {"wanted", [](auto& m) { m.wanted.row_statistics = true; }}};
  for (const Refused& each : cases) {
    OwnedCall call(4, 300, 1);
    each.change(call.message);
    const auto shard = ShardOf(call.message, {0, 64});
    EXPECT_TRUE(absl::IsInvalidArgument(shard.status()))
        << each.field << ": " << shard.status();
    EXPECT_EQ(FieldOf(shard.status()), each.field) << shard.status();
  }
  OwnedCall call(4, 300, 1);
  for (const ShardRange& range :
       {ShardRange{-1, 3}, ShardRange{5, 4}, ShardRange{0, 301}}) {
    EXPECT_EQ(FieldOf(ShardOf(call.message, range).status()), "range");
  }
}

TEST(ShardedClient, NeedsServers) {
  EXPECT_EQ(FieldOf(ShardedClient::Connect({}).status()), "addresses");
  EXPECT_EQ(FieldOf(ShardedClient::Connect({"nowhere"}).status()), "address");
}

}  // namespace
}  // namespace attn
