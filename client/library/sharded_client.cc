#include "client/library/sharded_client.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/library/call_status.h"
#include "client/library/merge.h"
#include "client/library/outputs.h"
#include "engine/core/field_error.h"

namespace attn {
namespace {

// [parts, ...] of tensors of one shape and type.
HostTensor Stack(const std::vector<HostTensor>& parts) {
  std::vector<int64_t> dims = {static_cast<int64_t>(parts.size())};
  const auto inner = parts[0].shape().dims();
  dims.insert(dims.end(), inner.begin(), inner.end());
  HostTensor stack(parts[0].dtype(), *Shape::Create(dims, 1, "parts"));
  std::byte* to = stack.data();
  for (const HostTensor& part : parts) {
    to = std::copy_n(part.data(), part.byte_count(), to);
  }
  return stack;
}

// The learned sinks [Hq] or [Hq, n] of a call, if it has any.
std::optional<HostTensor> SinksOf(const AttendMessage& message) {
  const auto* softmax =
      std::get_if<SoftmaxNormalizer>(&message.spec.normalizer);
  if (softmax == nullptr || !softmax->sink.has_value()) return std::nullopt;
  return HostTensor::Copy(message.args.inputs[*softmax->sink]);
}

// INTERNAL unless a server answered what was asked: parts are copied side by
// side.
absl::Status CheckPart(const AttendMessage& shard, const HostTensor& output,
                       const HostTensor& lse) {
  const Shape& q = shard.args.q.shape;
  const Shape rows{q[0], q[1], q[2]};
  const Shape full{q[0], q[1], q[2], shard.args.v.shape[3]};
  const DType dtype = *shard.output_dtype;
  if (output.shape() == full && lse.shape() == rows &&
      output.dtype() == dtype && lse.dtype() == dtype) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat("got output ", Name(output.dtype()), " ",
                   output.shape().ToString(), " and lse ", Name(lse.dtype()),
                   " ", lse.shape().ToString(), ", expected ", Name(dtype), " ",
                   full.ToString(), " and ", rows.ToString()));
}

// INVALID_ARGUMENT if the call names sinks that it does not bring.
absl::Status CheckSinks(const AttendMessage& message) {
  const auto* softmax =
      std::get_if<SoftmaxNormalizer>(&message.spec.normalizer);
  if (softmax == nullptr || !softmax->sink.has_value() ||
      *softmax->sink < message.args.inputs.size()) {
    return absl::OkStatus();
  }
  return FieldError(
      "spec.normalizer", absl::StrCat("input ", *softmax->sink),
      absl::StrCat("one of the call's ", message.args.inputs.size()));
}

}  // namespace

// What one server answered.
struct ShardedClient::Part {
  HostTensor output;
  HostTensor lse;
  ShardReport report;
};

absl::StatusOr<ShardedClient> ShardedClient::Connect(
    const std::vector<std::string>& addresses, const ClientOptions& options) {
  if (addresses.empty()) return FieldError("addresses", "none", "one at least");
  std::vector<AttentionClient> clients;
  for (const std::string& address : addresses) {
    ClientOptions own = options;
    own.address = address;
    auto client = AttentionClient::Connect(own);
    if (!client.ok()) return client.status();
    clients.push_back(*std::move(client));
  }
  return ShardedClient(addresses, std::move(clients), options.deadline);
}

absl::StatusOr<ShardedClient::Part> ShardedClient::Compute(
    const AttendMessage& message, ShardRange keys, size_t first,
    absl::Time end) const {
  auto shard = ShardOf(message, keys);
  if (!shard.ok()) return shard.status();
  absl::Status failed;
  for (size_t i = 0; i < clients_.size(); ++i) {
    const size_t at = (first + i) % clients_.size();
    const CallOptions rest{
        .deadline = std::max(end - absl::Now(), absl::Nanoseconds(1))};
    const auto result = clients_[at].Attend(*shard, rest);
    if (result.ok()) {
      auto output = OutputOf(*result, "output");
      auto lse = OutputOf(*result, "lse");
      if (!output.ok()) return output.status();
      if (!lse.ok()) return lse.status();
      if (absl::Status status = CheckPart(*shard, *output, *lse);
          !status.ok()) {
        return WithMessage(
            status, absl::StrCat(addresses_[at], ": ", status.message()));
      }
      return Part{.output = *std::move(output),
                  .lse = *std::move(lse),
                  .report = {.keys = keys,
                             .address = addresses_[at],
                             .report = result->header.report()}};
    }
    failed = WithMessage(
        result.status(),
        absl::StrCat("keys [", keys.begin, ", ", keys.end, ") at ",
                     addresses_[at], ": ", result.status().message()));
    if (!absl::IsUnavailable(result.status())) break;
  }
  return failed;
}

absl::StatusOr<ShardedAttention> ShardedClient::Attend(
    const AttendMessage& message, const CallOptions& options) const {
  if (absl::Status sinks = CheckSinks(message); !sinks.ok()) return sinks;
  // Says what cannot be divided, before anything is sent.
  if (auto none = ShardOf(message, {}); !none.ok()) return none.status();
  const absl::Time end =
      absl::Now() +
      (options.deadline > absl::ZeroDuration() ? options.deadline : deadline_);
  const auto ranges = DivideKeys(message.args.k.shape[2],
                                 static_cast<int64_t>(clients_.size()));
  std::vector<std::future<absl::StatusOr<Part>>> calls;
  calls.reserve(ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    calls.push_back(std::async(std::launch::async, [&, i] {
      return Compute(message, ranges[i], i, end);
    }));
  }
  ShardedAttention whole;
  std::vector<HostTensor> outputs;
  std::vector<HostTensor> lses;
  absl::Status failed;
  // All of them: they read the caller's tensors.
  for (auto& call : calls) {
    absl::StatusOr<Part> part = call.get();
    failed.Update(part.status());
    if (!part.ok()) continue;
    outputs.push_back(std::move(part->output));
    lses.push_back(std::move(part->lse));
    whole.shards.push_back(std::move(part->report));
  }
  if (!failed.ok()) return failed;
  auto merged = MergePartials(Stack(outputs), Stack(lses));
  if (!merged.ok()) return merged.status();
  if (const auto sinks = SinksOf(message)) {
    auto joined = JoinSinks(*sinks, *merged);
    if (!joined.ok()) return joined.status();
    whole.lse_with_sink = *std::move(joined);
  }
  whole.output =
      merged->output.To(message.output_dtype.value_or(message.args.q.dtype));
  whole.lse = std::move(merged->lse);
  return whole;
}

}  // namespace attn
