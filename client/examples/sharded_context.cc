// A context that is too long for one server: each of two attends to its half of
// the keys, at the same time, and the halves are merged by their log-sum-exp.
// The result is that of one server with all keys, up to rounding.
//
//   sharded_context 127.0.0.1:8001 127.0.0.1:9001
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <future>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/library/attention_client.h"
#include "client/library/host_tensor.h"
#include "client/library/merge.h"
#include "client/library/outputs.h"

namespace {

using Answer = absl::StatusOr<attn::AttendResult>;

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

// Tokens [first, first + count) of every head.
attn::HostTensor Tokens(const attn::HostTensor& tensor, int64_t first,
                        int64_t count) {
  attn::TensorView view = tensor.view();
  view.data += first * kWidth * static_cast<int64_t>(sizeof(float));
  view.shape = {1, kHeads, count, kWidth};
  return attn::HostTensor::Copy(view);
}

attn::AttendMessage Message(const attn::HostTensor& q,
                            const attn::HostTensor& k,
                            const attn::HostTensor& v) {
  attn::AttendMessage message;
  message.args.q = q.view();
  message.args.k = k.view();
  message.args.v = v.view();
  message.wanted = {.output = true, .lse = true};
  return message;
}

std::future<Answer> Start(const attn::AttentionClient& client,
                          const attn::AttendMessage& message) {
  const auto promise = std::make_shared<std::promise<Answer>>();
  auto future = promise->get_future();
  client.AttendAsync(message, {}, [promise](Answer answer) {
    promise->set_value(std::move(answer));
  });
  return future;
}

// One tensor of all parts, [parts, ...].
attn::HostTensor Stack(const std::vector<attn::AttendResult>& parts,
                       const std::string& name, const attn::Shape& shape) {
  attn::HostTensor stack(attn::DType::kF32, shape);
  float* to = stack.values<float>().data();
  for (const attn::AttendResult& part : parts) {
    const auto tensor = attn::OutputOf(part, name);
    const auto values = tensor->values<float>();
    to = std::copy(values.begin(), values.end(), to);
  }
  return stack;
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

int Fail(const std::string& where, const absl::Status& status) {
  std::cerr << "sharded_context: " << where << ": " << status.message() << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: sharded_context ADDRESS ADDRESS\n";
    return 2;
  }
  std::vector<attn::AttentionClient> clients;
  for (const std::string address : {argv[1], argv[2]}) {
    const auto client = attn::AttentionClient::Connect({.address = address});
    if (!client.ok()) return Fail(address, client.status());
    clients.push_back(*client);
  }
  std::mt19937 random(1);
  const attn::HostTensor q = Random(kQueries, random);
  const attn::HostTensor k = Random(kKeys, random);
  const attn::HostTensor v = Random(kKeys, random);

  const auto shards = static_cast<int64_t>(clients.size());
  const int64_t share = kKeys / shards;
  std::vector<std::future<Answer>> answers;
  for (int64_t i = 0; i < shards; ++i) {
    const attn::HostTensor keys = Tokens(k, i * share, share);
    const attn::HostTensor values = Tokens(v, i * share, share);
    // The tensors are copied before this returns.
    answers.push_back(
        Start(clients[static_cast<size_t>(i)], Message(q, keys, values)));
  }
  // All of them, before any is looked at: clients must outlive their calls.
  std::vector<Answer> ended;
  ended.reserve(answers.size());
  for (std::future<Answer>& answer : answers) ended.push_back(answer.get());
  std::vector<attn::AttendResult> parts;
  for (size_t i = 0; i < ended.size(); ++i) {
    if (!ended[i].ok()) return Fail(argv[i + 1], ended[i].status());
    parts.push_back(*std::move(ended[i]));
  }
  const auto merged = attn::MergePartials(
      Stack(parts, "output", {shards, 1, kHeads, kQueries, kWidth}),
      Stack(parts, "lse", {shards, 1, kHeads, kQueries}));
  if (!merged.ok()) return Fail("merge", merged.status());

  const Answer whole = clients[0].Attend(Message(q, k, v));
  if (!whole.ok()) return Fail(argv[1], whole.status());
  const double difference =
      MaxDifference(merged->output, *attn::OutputOf(*whole, "output"));
  std::cout << kQueries << " queries, " << kKeys << " keys on " << shards
            << " servers: max difference from one server " << difference
            << "\n";
  return difference <= kTolerance ? 0 : 1;
}
