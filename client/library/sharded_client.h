// Attention over a context that is too long for one server: each of several
// attends to a part of the keys, at the same time, and the parts are merged by
// their log-sum-exp, which is exact up to rounding.
//
//   auto client = ShardedClient::Connect({"a:8001", "b:8001", "c:8001"});
//   auto whole = client->Attend(message);   // whole->output, whole->lse
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/library/attention_client.h"
#include "client/library/host_tensor.h"
#include "client/library/key_shard.h"
#include "proto/codec/attend_codec.h"

namespace attn {

// Who attended to which keys.
struct ShardReport {
  ShardRange keys;
  std::string address;
  v1::CallReport report;
};

struct ShardedAttention {
  HostTensor output;  // [B, Hq, Sq, d_v], of the type that was asked for
  HostTensor lse;     // [B, Hq, Sq], F32 (F64 if q is), of the keys alone
  // With learned sinks.
  std::optional<HostTensor> lse_with_sink;
  std::vector<ShardReport> shards;
};

// The keys are divided evenly among the servers, in multiples of 64. A part
// whose server does not answer (UNAVAILABLE after the tries that
// ClientOptions::retry allows) goes to the next one, and so on until all were
// asked. Merging follows lse_m = ln sum_p exp(lse_p): Dao et al. 2022
// (FlashAttention), section 3.1, and `merge.h`.
//
// Copies share the connections. Thread-safe.
class ShardedClient {
 public:
  // One connection for each address. INVALID_ARGUMENT for no address, or as
  // AttentionClient::Connect(). Does not wait for the servers.
  static absl::StatusOr<ShardedClient> Connect(
      const std::vector<std::string>& addresses,
      const ClientOptions& options = {});

  // Computes one call and waits for it. `message` asks for output, lse,
  // lse_with_sink or some of them, and gets them all; its tensors are sent from
  // where they are, and may be reused once this returns. The deadline is one
  // for all parts. INVALID_ARGUMENT for what cannot be divided (ShardOf()),
  // else the error of the first part that failed, with the server's address;
  // INTERNAL for a server that answers something else. Blocks a thread for each
  // part.
  absl::StatusOr<ShardedAttention> Attend(
      const AttendMessage& message, const CallOptions& options = {}) const;

 private:
  ShardedClient(std::vector<std::string> addresses,
                std::vector<AttentionClient> clients, absl::Duration deadline)
      : addresses_(std::move(addresses)),
        clients_(std::move(clients)),
        deadline_(deadline) {}

  struct Part;
  // Asks one server after the other, beginning with `first`.
  absl::StatusOr<Part> Compute(const AttendMessage& message, ShardRange keys,
                               size_t first, absl::Time end) const;

  // As `clients_`.
  std::vector<std::string> addresses_;
  std::vector<AttentionClient> clients_;
  absl::Duration deadline_;
};

}  // namespace attn
