// The calls of a stream that have no answer yet, and those that have one.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/alarm.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/rpc/attend_stream_job.h"

namespace attn {

struct OpenStreamCall {
  std::shared_ptr<AttendStreamJob> job;
  // Run() or Open() has returned: it may be cancelled, and is to be if
  // somebody wanted it before.
  bool under_way = false;
  bool cancel_wanted = false;
  // It waits for chunks. Who sets this to false has the job's next step.
  bool collecting = false;
  // Its answer is decided without the chunks that may be on their way: those
  // are passed over.
  bool given_up = false;
  // Ends a call whose chunks do not come.
  std::shared_ptr<grpc::Alarm> alarm;
  // What is answered in place of what the job says.
  absl::Status fault;
};

// What is to be sent of a call.
struct QueuedAnswer {
  // Null: it failed, and holds nothing.
  std::shared_ptr<AttendStreamJob> job;
  std::vector<grpc::ByteBuffer> messages;
  size_t next = 0;
  absl::Time send_by = absl::InfiniteFuture();
};

}  // namespace attn
