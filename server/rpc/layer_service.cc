#include "server/rpc/layer_service.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "engine/runtime/cancellation.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "proto/codec/layer_codec.h"
#include "server/batching/refusal.h"
#include "server/rpc/byte_buffer.h"
#include "server/rpc/memory_guard.h"
#include "server/rpc/message_size.h"
#include "server/rpc/watched_reactor.h"

namespace attn {
namespace {

constexpr int kDefaultPage = 100;
constexpr int kLargestPage = 1000;
// A page of long descriptions ends early: clients take 4 MiB by default.
constexpr size_t kFullPageBytes = size_t{1} << 20;

std::vector<NamedView> ViewsOf(const Layer& layer) {
  std::vector<NamedView> views;
  views.reserve(layer.tensors.size());
  for (const StoredTensor& tensor : layer.tensors) {
    views.push_back({tensor.name, tensor.view()});
  }
  return views;
}

v1::LayerInfo Describe(const Layer& layer) {
  v1::LayerInfo info;
  info.set_name(layer.name);
  info.set_version(layer.version);
  info.set_bytes(layer.bytes);
  for (const NamedView& view : ViewsOf(layer)) {
    *info.add_tensors() = EncodeNamedTensorInfo(view);
  }
  return info;
}

absl::StatusOr<PutLayerCall> ReadPut(grpc::ByteBuffer& request) {
  const auto size = static_cast<int64_t>(request.Length());
  if (size == 0) return PutLayerCall();
  grpc::ProtoBufferReader reader(&request);
  if (!reader.status().ok()) {
    return absl::InternalError("the request's bytes cannot be read");
  }
  return DecodePutLayerRequest(reader, size,
                               static_cast<int>(kMaxLayerTensors));
}

std::vector<StoredTensor> ToStored(PutLayerCall& call) {
  std::vector<StoredTensor> tensors;
  for (PutLayerCall::Tensor& tensor : call.tensors) {
    StoredTensor& stored = tensors.emplace_back();
    stored.name = std::move(tensor.name);
    stored.dtype = tensor.view.dtype;
    stored.shape = tensor.view.shape;
    stored.data = std::move(tensor.data);
  }
  return tensors;
}

absl::StatusOr<grpc::ByteBuffer> AnswerPut(LayerStore& store,
                                           PutLayerCall& call) {
  const auto layer = store.Put(call.name, ToStored(call));
  if (absl::IsUnavailable(layer.status())) {
    // What fills the budget goes with the calls that hold it.
    return Refuse(Refusal::kMemory, layer.status().message());
  }
  if (!layer.ok()) return layer.status();
  v1::PutLayerResponse message;
  *message.mutable_layer() = Describe(**layer);
  return ToByteBuffer(message);
}

absl::StatusOr<grpc::ByteBuffer> AnswerGet(const LayerStore& store,
                                           const v1::GetLayerRequest& request,
                                           const ShortCall& call) {
  absl::Status named = CheckLayerName(request.name());
  if (!named.ok()) return named;
  const std::shared_ptr<const Layer> layer = store.Find(request.name());
  if (layer == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("name: no layer \"", request.name(), "\""));
  }
  std::vector<NamedView> views;
  if (!request.info_only()) views = ViewsOf(*layer);
  std::vector<WireChunk> chunks =
      EncodeGetLayerResponse(Describe(*layer), views);
  int64_t bytes = 0;
  for (const WireChunk& chunk : chunks) {
    bytes += static_cast<int64_t>(chunk.bytes.size() + chunk.borrowed_size);
  }
  absl::Status fits = call.CheckResponse(bytes);
  if (!fits.ok()) return fits;
  return ToByteBuffer(std::move(chunks), layer);
}

absl::StatusOr<grpc::ByteBuffer> AnswerList(
    const LayerStore& store, const v1::ListLayersRequest& request) {
  if (request.page_size() < 0 || request.page_size() > kLargestPage) {
    return FieldError("page_size", absl::StrCat(request.page_size()),
                      absl::StrCat("0 to ", kLargestPage));
  }
  const auto count = static_cast<size_t>(
      request.page_size() == 0 ? kDefaultPage : request.page_size());
  // The token is the last name of the page before: it stays good whatever is
  // put and deleted in between.
  if (!request.page_token().empty() &&
      !CheckLayerName(request.page_token()).ok()) {
    return FieldError("page_token", "something else",
                      "the next_page_token of a response, or nothing");
  }
  const auto layers = store.List(request.page_token(), count + 1);
  v1::ListLayersResponse response;
  size_t bytes = 0;
  for (const auto& layer : layers) {
    const auto listed = static_cast<size_t>(response.layers_size());
    if (listed == count || bytes > kFullPageBytes) {
      response.set_next_page_token(layers[listed - 1]->name);
      break;
    }
    *response.add_layers() = Describe(*layer);
    bytes += response.layers(response.layers_size() - 1).ByteSizeLong();
  }
  return ToByteBuffer(response);
}

// Whether somebody still waits for what is to be written.
absl::Status CheckAwaited(const grpc::CallbackServerContext& call,
                          const Clock& clock, absl::Time deadline) {
  absl::Status status = Cancellation(clock, deadline).Check();
  if (call.IsCancelled()) {
    status.Update(absl::CancelledError("the call was cancelled"));
  }
  return status;
}

}  // namespace

grpc::ServerUnaryReactor* LayerService::PutLayer(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const Read read = [this](grpc::ByteBuffer& bytes) -> absl::StatusOr<Write> {
    auto put = ReadPut(bytes);
    if (!put.ok()) return put.status();
    auto shared = std::make_shared<PutLayerCall>(*std::move(put));
    return Write([this, shared] { return AnswerPut(context_.store, *shared); });
  };
  return RunWrite("PutLayer", read, *call, *request, *response);
}

grpc::ServerUnaryReactor* LayerService::DeleteLayer(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const Read read = [this](grpc::ByteBuffer& bytes) -> absl::StatusOr<Write> {
    absl::Status small = CheckMetadataSize(bytes.Length());
    if (!small.ok()) return small;
    v1::DeleteLayerRequest message;
    if (!ParseMessage(bytes, message)) {
      return MalformedMessage("DeleteLayerRequest");
    }
    return Write(
        [this, name = message.name()]() -> absl::StatusOr<grpc::ByteBuffer> {
          absl::Status status = context_.store.Delete(name);
          if (!status.ok()) return status;
          return ToByteBuffer(v1::DeleteLayerResponse());
        });
  };
  return RunWrite("DeleteLayer", read, *call, *request, *response);
}

grpc::ServerUnaryReactor* LayerService::GetLayer(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const ShortAnswer answer =
      [this](grpc::ByteBuffer& bytes,
             ShortCall& scope) -> absl::StatusOr<grpc::ByteBuffer> {
    v1::GetLayerRequest message;
    if (!ParseMessage(bytes, message)) {
      return MalformedMessage("GetLayerRequest");
    }
    return AnswerGet(context_.store, message, scope);
  };
  return ServeShort(context_.calls, "GetLayer", answer, *call, *request,
                    *response);
}

grpc::ServerUnaryReactor* LayerService::ListLayers(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const ShortAnswer answer =
      [this](grpc::ByteBuffer& bytes,
             ShortCall&) -> absl::StatusOr<grpc::ByteBuffer> {
    v1::ListLayersRequest message;
    if (!ParseMessage(bytes, message)) {
      return MalformedMessage("ListLayersRequest");
    }
    return AnswerList(context_.store, message);
  };
  return ServeShort(context_.calls, "ListLayers", answer, *call, *request,
                    *response);
}

grpc::ServerUnaryReactor* LayerService::RunWrite(
    const char* method, const Read& read, grpc::CallbackServerContext& call,
    const grpc::ByteBuffer& request, grpc::ByteBuffer& response) {
  // What the writing thread takes over.
  struct Job {
    ShortCall scope;
    Admission::Permit permit;
    Write write;
  };
  auto job = std::make_shared<Job>(
      Job{ShortCall(context_.calls, method, context_.calls.callers.Read(call),
                    request),
          {},
          nullptr});
  const auto begin = [&]() -> absl::Status {
    absl::Status status = job->scope.CheckRequest();
    if (!status.ok()) return status;
    auto permit = context_.admission.Admit(
        static_cast<int64_t>(request.Length()), job->scope.caller().deadline,
        job->scope.caller().tenant);
    if (!permit.ok()) return permit.status();
    job->permit = *std::move(permit);
    // The handler's alone; its slices are of no use once the payloads are
    // gathered.
    auto& bytes = const_cast<grpc::ByteBuffer&>(request);
    auto write = RefusingMemory([&] { return read(bytes); });
    bytes.Clear();
    if (!write.ok()) return write.status();
    job->write = *std::move(write);
    return absl::OkStatus();
  };
  absl::Status status = begin();
  const absl::Time deadline = job->scope.caller().deadline;
  if (!status.ok()) {
    return ReplyNow(context_.calls.replies, call, deadline, response,
                    job->scope.End(status, response));
  }
  auto* reactor =
      new WatchedReactor(context_.calls.replies, call, deadline, response);
  writer_.Run([this, job, reactor, &call, &response, deadline] {
    // It may have waited long for a disk that is stuck.
    const absl::Status awaited =
        CheckAwaited(call, context_.calls.clock, deadline);
    absl::StatusOr<grpc::ByteBuffer> message(
        awaited.ok() ? RefusingMemory(job->write) : awaited);
    if (message.ok()) response = *std::move(message);
    job->write = nullptr;
    job->permit = {};
    reactor->Reply(job->scope.End(message.status(), response));
  });
  return reactor;
}

}  // namespace attn
