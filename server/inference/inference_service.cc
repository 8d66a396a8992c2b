#include "server/inference/inference_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "server/inference/infer_job.h"
#include "server/inference/infer_model.h"
#include "server/inference/quoted.h"
#include "server/rpc/byte_buffer.h"
#include "server/rpc/call_reactor.h"
#include "server/rpc/message_size.h"

namespace attn {
namespace {

constexpr char kServerName[] = "attn";
// Names of Triton's: parameters of requests, priority and timeout among them.
constexpr const char* kExtensions[] = {"parameters", "schedule_policy"};

// Reads a request of that type, if its bytes are one.
template <typename Request>
absl::StatusOr<Request> Parse(grpc::ByteBuffer& bytes) {
  Request request;
  if (ParseMessage(bytes, request)) return request;
  return FieldError(
      "request", "bytes that are no protobuf",
      absl::StrCat("a message ", Request::descriptor()->full_name()));
}

inference::RepositoryIndexResponse ListModels(bool serving, bool only_ready) {
  inference::RepositoryIndexResponse response;
  if (only_ready && !serving) return response;
  for (const InferModel& model : InferModels()) {
    auto& index = *response.add_models();
    index.set_name(model.name);
    index.set_version(kInferModelVersion);
    index.set_state(serving ? "READY" : "UNAVAILABLE");
    if (!serving) index.set_reason("the server is starting or stopping");
  }
  return response;
}

}  // namespace

InferenceService::InferenceService(const CallContext& context,
                                   const CallerReader& callers,
                                   ReplyWatch& replies,
                                   std::function<bool()> serving)
    : context_(context),
      callers_(callers),
      replies_(replies),
      serving_(std::move(serving)),
      short_calls_{context.observer, context.clock, callers, replies,
                   context.max_message_bytes} {}

grpc::ServerUnaryReactor* InferenceService::ServerLive(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const Probe answer = [](grpc::ByteBuffer&) {
    inference::ServerLiveResponse message;
    message.set_live(true);
    return ToByteBuffer(message);
  };
  return RunProbe(answer, *call, *request, *response);
}

grpc::ServerUnaryReactor* InferenceService::ServerReady(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const Probe answer = [this](grpc::ByteBuffer&) {
    inference::ServerReadyResponse message;
    message.set_ready(serving_());
    return ToByteBuffer(message);
  };
  return RunProbe(answer, *call, *request, *response);
}

grpc::ServerUnaryReactor* InferenceService::ModelReady(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const Probe answer =
      [this](grpc::ByteBuffer& bytes) -> absl::StatusOr<grpc::ByteBuffer> {
    auto asked = Parse<inference::ModelReadyRequest>(bytes);
    if (!asked.ok()) return asked.status();
    inference::ModelReadyResponse message;
    // As Triton's, also of a model that there is not.
    message.set_ready(serving_() &&
                      FindInferModel(asked->name(), asked->version()).ok());
    return ToByteBuffer(message);
  };
  return RunProbe(answer, *call, *request, *response);
}

grpc::ServerUnaryReactor* InferenceService::ServerMetadata(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const ShortAnswer answer =
      [](grpc::ByteBuffer&, ShortCall&) -> absl::StatusOr<grpc::ByteBuffer> {
    inference::ServerMetadataResponse message;
    message.set_name(kServerName);
    message.set_version(ATTN_VERSION);
    for (const char* extension : kExtensions) {
      message.add_extensions(extension);
    }
    return ToByteBuffer(message);
  };
  return ServeShort(short_calls_, "ServerMetadata", answer, *call, *request,
                    *response);
}

grpc::ServerUnaryReactor* InferenceService::ModelMetadata(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const ShortAnswer answer =
      [](grpc::ByteBuffer& bytes,
         ShortCall&) -> absl::StatusOr<grpc::ByteBuffer> {
    auto asked = Parse<inference::ModelMetadataRequest>(bytes);
    if (!asked.ok()) return asked.status();
    auto model = FindInferModel(asked->name(), asked->version());
    if (!model.ok()) return model.status();
    return ToByteBuffer(DescribeModel(**model));
  };
  return ServeShort(short_calls_, "ModelMetadata", answer, *call, *request,
                    *response);
}

grpc::ServerUnaryReactor* InferenceService::ModelInfer(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  return RunCall<InferJob>(context_, callers_, replies_, *call, *request,
                           *response);
}

grpc::ServerUnaryReactor* InferenceService::RepositoryIndex(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
    grpc::ByteBuffer* response) {
  const ShortAnswer answer =
      [this](grpc::ByteBuffer& bytes,
             ShortCall&) -> absl::StatusOr<grpc::ByteBuffer> {
    auto asked = Parse<inference::RepositoryIndexRequest>(bytes);
    if (!asked.ok()) return asked.status();
    if (!asked->repository_name().empty()) {
      return absl::NotFoundError(
          absl::StrCat("no repository ", Quoted(asked->repository_name()),
                       "; the one that there is has no name"));
    }
    return ToByteBuffer(ListModels(serving_(), asked->ready()));
  };
  return ServeShort(short_calls_, "RepositoryIndex", answer, *call, *request,
                    *response);
}

grpc::ServerUnaryReactor* InferenceService::RunProbe(
    const Probe& answer, grpc::CallbackServerContext& call,
    const grpc::ByteBuffer& request, grpc::ByteBuffer& response) {
  absl::Status status = CheckMetadataSize(request.Length());
  if (status.ok()) {
    auto message = answer(const_cast<grpc::ByteBuffer&>(request));
    status = message.status();
    if (message.ok()) response = *std::move(message);
  }
  return ReplyNow(replies_, call, callers_.Read(call).deadline, response,
                  status);
}

}  // namespace attn
