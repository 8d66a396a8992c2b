#include "client/library/layer_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/library/server_address.h"
#include "engine/core/field_error.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace attn {
namespace {

constexpr char kPut[] = "/attention.v1.LayerService/PutLayer";
constexpr char kGet[] = "/attention.v1.LayerService/GetLayer";
constexpr char kList[] = "/attention.v1.LayerService/ListLayers";
constexpr char kDelete[] = "/attention.v1.LayerService/DeleteLayer";

v1::GetLayerRequest GetRequest(const std::string& name, bool info_only) {
  v1::GetLayerRequest request;
  request.set_name(name);
  request.set_info_only(info_only);
  return request;
}

}  // namespace

absl::StatusOr<LayerClient> LayerClient::Connect(const ClientOptions& options) {
  if (options.deadline <= absl::ZeroDuration()) {
    return FieldError("deadline", absl::FormatDuration(options.deadline),
                      "> 0");
  }
  if (NamesSeveralServers(options.address)) {
    return FieldError("address", options.address,
                      "one server: layers are kept by each on its own");
  }
  auto channel =
      RawChannel::Create({.address = options.address,
                          .max_response_bytes = options.max_response_bytes,
                          .keepalive = options.keepalive,
                          .security = options.security,
                          .retry = options.retry});
  if (!channel.ok()) return channel.status();
  return LayerClient(*std::move(channel), options.deadline);
}

absl::StatusOr<v1::LayerInfo> LayerClient::Put(
    const std::string& name, const std::vector<NamedView>& tensors,
    const CallOptions& options) const {
  v1::PutLayerResponse response;
  absl::Status status =
      Call(kPut, OwnChunks(EncodePutLayerRequest(name, tensors)),
           Repeat::kIfRefused, options, response);
  if (!status.ok()) return status;
  return std::move(*response.mutable_layer());
}

absl::StatusOr<FetchedLayer> LayerClient::Get(
    const std::string& name, const CallOptions& options) const {
  v1::GetLayerResponse response;
  absl::Status status = Call(kGet, Serialize(GetRequest(name, false)),
                             Repeat::kAlways, options, response);
  if (!status.ok()) return status;
  FetchedLayer layer;
  layer.info = std::move(*response.mutable_layer());
  for (const v1::NamedTensor& named : response.tensors()) {
    auto tensor = HostTensor::Copy(named.tensor());
    if (!tensor.ok()) {
      return absl::InternalError(absl::StrCat("the response is malformed: ",
                                              tensor.status().message()));
    }
    layer.tensors.emplace(named.name(), *std::move(tensor));
  }
  return layer;
}

absl::StatusOr<v1::LayerInfo> LayerClient::Describe(
    const std::string& name, const CallOptions& options) const {
  v1::GetLayerResponse response;
  absl::Status status = Call(kGet, Serialize(GetRequest(name, true)),
                             Repeat::kAlways, options, response);
  if (!status.ok()) return status;
  return std::move(*response.mutable_layer());
}

absl::StatusOr<std::vector<v1::LayerInfo>> LayerClient::List(
    const CallOptions& options) const {
  // One deadline for all pages.
  const absl::Time end =
      absl::Now() +
      (options.deadline > absl::ZeroDuration() ? options.deadline : deadline_);
  std::vector<v1::LayerInfo> layers;
  v1::ListLayersRequest request;
  while (true) {
    v1::ListLayersResponse response;
    const CallOptions rest{
        .deadline = std::max(end - absl::Now(), absl::Nanoseconds(1))};
    absl::Status status =
        Call(kList, Serialize(request), Repeat::kAlways, rest, response);
    if (!status.ok()) return status;
    for (v1::LayerInfo& layer : *response.mutable_layers()) {
      layers.push_back(std::move(layer));
    }
    if (response.next_page_token().empty()) return layers;
    request.set_page_token(response.next_page_token());
  }
}

absl::Status LayerClient::Delete(const std::string& name,
                                 const CallOptions& options) const {
  v1::DeleteLayerRequest request;
  request.set_name(name);
  v1::DeleteLayerResponse response;
  return Call(kDelete, Serialize(request), Repeat::kIfRefused, options,
              response);
}

absl::Status LayerClient::Call(const char* method,
                               const grpc::ByteBuffer& request, Repeat repeat,
                               const CallOptions& options,
                               google::protobuf::MessageLite& response) const {
  RawCallOptions raw;
  raw.repeat = repeat;
  raw.deadline =
      options.deadline > absl::ZeroDuration() ? options.deadline : deadline_;
  auto bytes = channel_.Call(method, request, raw);
  if (!bytes.ok()) return bytes.status();
  if (bytes->Length() == 0) return absl::OkStatus();
  grpc::ProtoBufferReader reader(&*bytes);
  if (!reader.status().ok() || !response.ParseFromZeroCopyStream(&reader)) {
    return absl::InternalError("the response is malformed");
  }
  return absl::OkStatus();
}

}  // namespace attn
