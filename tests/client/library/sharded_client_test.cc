// A context divided among servers gives what one server gives.
#include "client/library/sharded_client.h"

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "attention/v1/attention.pb.h"
#include "client/library/outputs.h"
#include "engine/core/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/app/server.h"
#include "tests/client/library/owned_call.h"
#include "tests/client/library/scripted_server.h"

namespace attn {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Of f32 and weights of a softmax.
constexpr double kNear = 1e-5;

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

// As one server's, which a program may look at (FieldOf(), ErrorReasonOf()).
TEST_F(ShardedClientTest, AnErrorKeepsWhatTheServerSaidBesideIt) {
  OwnedCall call(4, 300, 11);
  call.message.spec.softcap = -1;
  const auto client = AttentionClient::Connect({.address = addresses_[0]});
  const auto whole = client->Attend(call.message);
  const auto refused = Sharded().Attend(call.message);
  ASSERT_TRUE(FieldOf(whole.status()).has_value()) << whole.status();
  EXPECT_EQ(FieldOf(refused.status()), FieldOf(whole.status()));
}

v1::Tensor Zeros(std::initializer_list<int64_t> shape) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::DATA_TYPE_F32);
  size_t bytes = sizeof(float);
  for (const int64_t extent : shape) {
    tensor.add_shape(extent);
    bytes *= static_cast<size_t>(extent);
  }
  tensor.set_data(std::string(bytes, '\0'));
  return tensor;
}

// Its answer would have been copied behind the room of the others.
TEST_F(ShardedClientTest, AnAnswerOfAnotherShapeIsAnError) {
  OwnedCall call(4, 128, 12);
  v1::AttendResponse larger;
  *larger.mutable_output() = Zeros({kBatch, kQueryHeads, 400, kWidth});
  *larger.mutable_lse() = Zeros({kBatch, kQueryHeads, 400});
  ScriptedServer other;
  other.AnswerWith(larger.SerializeAsString());
  const auto client = ShardedClient::Connect({addresses_[0], other.address()});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto got = client->Attend(call.message);
  EXPECT_TRUE(absl::IsInternal(got.status())) << got.status();
  EXPECT_THAT(std::string(got.status().message()), HasSubstr(other.address()));
}

TEST(ShardedClient, NeedsServers) {
  EXPECT_EQ(FieldOf(ShardedClient::Connect({}).status()), "addresses");
  EXPECT_EQ(FieldOf(ShardedClient::Connect({"nowhere"}).status()), "address");
}

}  // namespace
}  // namespace attn
