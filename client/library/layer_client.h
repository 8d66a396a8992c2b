// Layers on an attn server: tensors that calls point to by name.
//
//   auto layers = LayerClient::Connect({.address = "127.0.0.1:8001"});
//   layers->Put("bahdanau", {{"v", v.view()}, {"w_q", w_q.view()}});
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/library/attention_client.h"
#include "client/library/host_tensor.h"
#include "client/library/raw_call.h"
#include "proto/codec/layer_codec.h"
#include "proto/codec/schema.h"

namespace attn {

// A layer with its tensors. Move-only.
struct FetchedLayer {
  v1::LayerInfo info;
  std::map<std::string, HostTensor> tensors;
};

// Errors as those of AttentionClient; NOT_FOUND: no layer of that name. What
// reads is tried again as there. Put and Delete are only where the server says
// that it did nothing: tried again after a lost answer, they could undo what
// another client did meanwhile.
//
// Copies share the connection. Thread-safe.
class LayerClient {
 public:
  // INVALID_ARGUMENT for options that cannot be meant. Does not wait for the
  // server.
  static absl::StatusOr<LayerClient> Connect(const ClientOptions& options);

  // Makes a layer, or replaces it whole. The tensors are copied. When this
  // returns, a server with a --layer-dir has it on disk.
  absl::StatusOr<v1::LayerInfo> Put(const std::string& name,
                                    const std::vector<NamedView>& tensors,
                                    const CallOptions& options = {}) const;
  absl::StatusOr<FetchedLayer> Get(const std::string& name,
                                   const CallOptions& options = {}) const;
  // As Get, without the tensors.
  absl::StatusOr<v1::LayerInfo> Describe(const std::string& name,
                                         const CallOptions& options = {}) const;
  // Every layer, in the order of their names; as many calls as there are pages,
  // all within the one deadline.
  absl::StatusOr<std::vector<v1::LayerInfo>> List(
      const CallOptions& options = {}) const;
  absl::Status Delete(const std::string& name,
                      const CallOptions& options = {}) const;

 private:
  LayerClient(RawChannel channel, absl::Duration deadline)
      : channel_(std::move(channel)), deadline_(deadline) {}

  // A call of one message.
  absl::Status Call(const char* method, const grpc::ByteBuffer& request,
                    Repeat repeat, const CallOptions& options,
                    google::protobuf::MessageLite& response) const;

  RawChannel channel_;
  absl::Duration deadline_;
};

}  // namespace attn
