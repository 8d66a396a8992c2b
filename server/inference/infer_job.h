// One ModelInfer call: an Attend call in the terms of the Open Inference
// Protocol.
#pragma once

#include <utility>

#include "server/inference/field_names.h"
#include "server/inference/infer_call.h"
#include "server/rpc/attend_job.h"

namespace attn {

// Thread-safety as of CallJob.
class InferJob final : public AttendJob {
 public:
  static constexpr char kMethod[] = "ModelInfer";

  InferJob(const CallContext& context, Caller caller, Reply reply)
      : AttendJob(context, kMethod, std::move(caller), std::move(reply)) {}

 private:
  absl::StatusOr<WireCall*> Read(
      google::protobuf::io::ZeroCopyInputStream& stream, int64_t size,
      int64_t max_payload_bytes) override;
  grpc::ByteBuffer Encode(const CallReport& report) override;
  absl::Status NameFields(const absl::Status& status) const override {
    return names_.Rename(CallJob::NameFields(status));
  }
  const char* LargerCallsHint() const override {
    return "; attention.v1's AttendStream takes larger calls in chunks";
  }

  FieldNames names_;
  InferReplyForm form_;
};

}  // namespace attn
