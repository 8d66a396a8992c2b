// attention.v1.LayerService on gRPC's callback API.
#pragma once

#include <functional>
#include <memory>

#include "attention/v1/layer.grpc.pb.h"
#include "proto/codec/schema.h"
#include "server/batching/admission.h"
#include "server/layers/layer_store.h"
#include "server/rpc/short_call.h"
#include "server/rpc/task_thread.h"

namespace attn {

// Borrowed; must outlive the service.
struct LayerServiceContext {
  LayerStore& store;
  Admission& admission;
  ShortCallContext calls;
};

// What writes to the disk runs on one thread of the service's own. The
// tensors of a response are sent from the store's memory. Thread-safe.
class LayerService final
    : public v1::LayerService::WithRawCallbackMethod_PutLayer<
          v1::LayerService::WithRawCallbackMethod_GetLayer<
              v1::LayerService::WithRawCallbackMethod_ListLayers<
                  v1::LayerService::WithRawCallbackMethod_DeleteLayer<
                      v1::LayerService::Service>>>> {
 public:
  // `context` must outlive the gRPC server, and the service too.
  explicit LayerService(const LayerServiceContext& context)
      : context_(context) {}

  grpc::ServerUnaryReactor* PutLayer(grpc::CallbackServerContext* call,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetLayer(grpc::CallbackServerContext* call,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ListLayers(grpc::CallbackServerContext* call,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* DeleteLayer(grpc::CallbackServerContext* call,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;

 private:
  // Gives the bytes of a response.
  using Write = std::function<absl::StatusOr<grpc::ByteBuffer>()>;
  // Reads a request; what it gives runs on the writing thread.
  using Read = std::function<absl::StatusOr<Write>(grpc::ByteBuffer& request)>;

  // Admits and reads here, then writes and answers over there.
  grpc::ServerUnaryReactor* RunWrite(const char* method, const Read& read,
                                     grpc::CallbackServerContext& call,
                                     const grpc::ByteBuffer& request,
                                     grpc::ByteBuffer& response);

  const LayerServiceContext& context_;
  TaskThread writer_;
};

}  // namespace attn
