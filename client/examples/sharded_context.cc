// A context that is too long for one server: each of several attends to its
// part of the keys, at the same time, and the parts are merged by their
// log-sum-exp. The result is that of one server with all keys, up to rounding.
//
//   sharded_context 127.0.0.1:8001 127.0.0.1:9001 127.0.0.1:10001
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "client/library/attention_client.h"
#include "client/library/host_tensor.h"
#include "client/library/outputs.h"
#include "client/library/sharded_client.h"

namespace {

constexpr int64_t kHeads = 8;
constexpr int64_t kQueries = 4;
constexpr int64_t kKeys = 4096;
constexpr int64_t kWidth = 64;
// Sums of f32, in another order.
constexpr double kTolerance = 1e-5;

// [batch, heads, tokens, features]
attn::HostTensor Random(int64_t tokens, std::mt19937& random) {
  attn::HostTensor tensor(attn::DType::kF32, {1, kHeads, tokens, kWidth});
  std::normal_distribution<float> normal;
  for (float& x : tensor.values<float>()) x = normal(random);
  return tensor;
}

// NaN if there is one in either.
double MaxDifference(const attn::HostTensor& a, const attn::HostTensor& b) {
  double most = 0;
  for (int64_t i = 0; i < a.element_count(); ++i) {
    const double difference = std::abs(a.At(i) - b.At(i));
    if (std::isnan(difference)) return difference;
    most = std::max(most, difference);
  }
  return most;
}

int Fail(const absl::Status& status) {
  std::cerr << "sharded_context: " << status.message() << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: sharded_context ADDRESS...\n";
    return 2;
  }
  const std::vector<std::string> addresses(argv + 1, argv + argc);
  const auto servers = attn::ShardedClient::Connect(addresses);
  if (!servers.ok()) return Fail(servers.status());
  std::mt19937 random(1);
  const attn::HostTensor q = Random(kQueries, random);
  const attn::HostTensor k = Random(kKeys, random);
  const attn::HostTensor v = Random(kKeys, random);
  attn::AttendMessage message;
  message.args.q = q.view();
  message.args.k = k.view();
  message.args.v = v.view();
  // The queries are the last tokens.
  message.spec.masks = {attn::CausalMask{attn::Alignment::kBottomRight}};
  message.wanted = {.output = true, .lse = true};

  const auto merged = servers->Attend(message);
  if (!merged.ok()) return Fail(merged.status());
  for (const attn::ShardReport& shard : merged->shards) {
    std::cout << "keys " << shard.keys.begin << " to " << shard.keys.end - 1
              << " at " << shard.address << "\n";
  }
  const auto one = attn::AttentionClient::Connect({.address = addresses[0]});
  if (!one.ok()) return Fail(one.status());
  const auto whole = one->Attend(message);
  if (!whole.ok()) return Fail(whole.status());
  const double difference =
      MaxDifference(merged->output, *attn::OutputOf(*whole, "output"));
  std::cout << kQueries << " queries, " << kKeys << " keys on "
            << addresses.size() << " servers: max difference from one server "
            << difference << "\n";
  return difference <= kTolerance ? 0 : 1;
}
