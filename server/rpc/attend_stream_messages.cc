// What the messages of a client do to the calls of its stream.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/field_error.h"
#include "google/protobuf/io/coded_stream.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "server/batching/refusal.h"
#include "server/rpc/attend_stream_calls.h"
#include "server/rpc/message_size.h"

namespace attn {
namespace {

using Request = v1::AttendStreamRequest;

// A long answer in shorter messages would be a message's cost many times over.
constexpr int64_t kLeastMessageBytes = int64_t{64} << 10;

absl::StatusOr<StreamMessage> Parse(grpc::ByteBuffer& message) {
  // A message of no bytes is one of no fields.
  if (message.Length() == 0) return StreamMessage();
  grpc::ProtoBufferReader reader(&message);
  if (!reader.status().ok()) {
    return absl::InternalError("a message of the stream cannot be read");
  }
  return ReadStreamMessage(reader, static_cast<int64_t>(message.Length()),
                           Request::descriptor());
}

// The one copy of a chunk's bytes: from the socket's slices to their place.
absl::Status Gather(grpc::ByteBuffer& message, const WireRange& range,
                    std::byte* target) {
  grpc::ProtoBufferReader reader(&message);
  google::protobuf::io::CodedInputStream input(&reader);
  if (reader.status().ok() && input.Skip(static_cast<int>(range.offset)) &&
      input.ReadRaw(target, static_cast<int>(range.size))) {
    return absl::OkStatus();
  }
  return absl::InternalError("a chunk's bytes cannot be read");
}

absl::Status NeverOpened(uint64_t call) {
  return FieldError("call", absl::StrCat("a chunk of call ", call),
                    "a call that was opened by a request or a header");
}

}  // namespace

AttendStreamCalls::Job AttendStreamCalls::Handle(grpc::ByteBuffer& message) {
  const auto part = Parse(message);
  if (!part.ok()) {
    Fault(part.status());
    return nullptr;
  }
  switch (part->part) {
    case Request::kRequestFieldNumber:
    case Request::kHeaderFieldNumber:
      return Open(*part, message);
    case Request::kChunkFieldNumber:
      TakeChunk(*part, message);
      return nullptr;
    case Request::kCancelFieldNumber:
      CancelCall(part->call);
      return nullptr;
    default:
      Fault(FieldError("part", "nothing", "request, header, chunk or cancel"));
      return nullptr;
  }
}

AttendStreamCalls::Job AttendStreamCalls::Open(const StreamMessage& opening,
                                               grpc::ByteBuffer& message) {
  uint64_t last = 0;
  {
    MutexLock lock(mutex_);
    last = last_call_;
    last_call_ = std::max(last_call_, opening.call);
  }
  if (opening.call <= last) {
    Fault(FieldError(
        "call", absl::StrCat(opening.call),
        absl::StrCat("more than ", last, ", the highest that was opened")));
    return nullptr;
  }
  Job job = MakeJob(opening, CheckOpening(opening));
  if (opening.part == Request::kRequestFieldNumber) return job;
  // Before its chunks are read.
  if (job->Open(message)) Collect(opening.call, job);
  NoteUnderWay(job);
  return nullptr;
}

void AttendStreamCalls::Start(const Job& job, grpc::ByteBuffer& message) {
  job->Run(message);
  NoteUnderWay(job);
}

void AttendStreamCalls::NoteUnderWay(const Job& job) {
  bool cancel = false;
  {
    MutexLock lock(mutex_);
    const auto call = calls_.find(job->number());
    if (call == calls_.end()) return;
    call->second.under_way = true;
    cancel = gone_ || call->second.cancel_wanted;
  }
  if (cancel) job->Cancel();
}

AttendStreamCalls::Job AttendStreamCalls::ToCancel(OpenStreamCall& call) {
  call.cancel_wanted = true;
  return call.under_way ? call.job : nullptr;
}

absl::Status AttendStreamCalls::CheckOpening(const StreamMessage& opening) {
  if (opening.timeout_ms < 0) {
    return FieldError("timeout_ms", absl::StrCat(opening.timeout_ms),
                      "0 or more");
  }
  const int64_t least =
      std::min(kLeastMessageBytes, context_.max_message_bytes);
  if (opening.max_message_bytes != 0 && opening.max_message_bytes < least) {
    return FieldError("max_message_bytes",
                      absl::StrCat(opening.max_message_bytes),
                      absl::StrCat("0, or ", least, " or more"));
  }
  MutexLock lock(mutex_);
  // The client may have the whole answer before the transport says so.
  const bool leaves =
      is_sending_ && sending_.next + 1 == sending_.messages.size();
  const int64_t open = OpenCount() - (leaves ? 1 : 0);
  if (open < options_.max_calls) return absl::OkStatus();
  return Refuse(Refusal::kQueueFull,
                absl::StrCat(open,
                             " calls are open on the stream, as many as "
                             "--max-stream-calls=",
                             options_.max_calls, " allows"));
}

absl::Time AttendStreamCalls::DeadlineOf(const StreamMessage& opening) const {
  absl::Duration timeout = absl::Milliseconds(opening.timeout_ms);
  if (opening.timeout_ms == 0) {
    timeout = caller_.deadline == absl::InfiniteFuture()
                  ? options_.default_timeout
                  : options_.max_timeout;
  }
  return std::min(
      caller_.deadline,
      context_.clock.Now() + std::min(timeout, options_.max_timeout));
}

AttendStreamCalls::Job AttendStreamCalls::MakeJob(const StreamMessage& opening,
                                                  const absl::Status& refusal) {
  Caller caller = caller_;
  caller.deadline = DeadlineOf(opening);
  if (identify_ != nullptr) {
    // A stream may outlive what its caller was let in by.
    auto tenant = identify_();
    if (tenant.ok()) caller.tenant = *std::move(tenant);
    caller.status.Update(tenant.status());
  }
  caller.status.Update(refusal);
  auto job = std::make_shared<AttendStreamJob>(
      context_, std::move(caller),
      [self = shared_from_this(), call = opening.call](
          const absl::Status& status, grpc::ByteBuffer& response) {
        self->Replied(call, status, response);
      },
      opening);
  MutexLock lock(mutex_);
  calls_[opening.call].job = job;
  return job;
}

// The job is open, and replies when it is told to.
void AttendStreamCalls::Collect(uint64_t call, const Job& job) {
  std::shared_ptr<grpc::Alarm> alarm;
  absl::Status ended;
  {
    MutexLock lock(mutex_);
    if (gone_) ended = absl::CancelledError("the client is gone");
    if (ending_) ended = end_status_;
    if (ended.ok() && !job->has_all_bytes()) {
      OpenStreamCall& open = calls_[call];
      open.collecting = true;
      open.alarm = alarm = std::make_shared<grpc::Alarm>();
      ++collecting_;
    }
  }
  if (!ended.ok()) {
    job->Abandon(ended);
  } else if (alarm == nullptr) {
    job->Complete();
  } else {
    const absl::Duration left = job->deadline() - context_.clock.Now();
    alarm->Set(
        std::chrono::system_clock::now() + absl::ToChronoMicroseconds(left),
        [weak = weak_from_this(), call](bool fired) {
          const auto self = fired ? weak.lock() : nullptr;
          if (self != nullptr) self->Expire(call);
        });
  }
}

void AttendStreamCalls::TakeChunk(const StreamMessage& part,
                                  grpc::ByteBuffer& message) {
  Job job;
  const auto target = Place(part, static_cast<int64_t>(message.Length()), job);
  absl::Status status = target.status();
  if (status.ok() && *target == nullptr) return;
  if (status.ok()) status = Gather(message, part.chunk.data, *target);
  if (status.ok()) {
    CompleteIfAll(part.call, job);
    return;
  }
  OpenStreamCall failed;
  Job running;
  bool claimed = false;
  {
    MutexLock lock(mutex_);
    const auto call = calls_.find(part.call);
    if (call != calls_.end()) {
      claimed = call->second.collecting;
      if (claimed) failed = Claim(call->second);
      if (!claimed) {
        call->second.fault.Update(status);
        running = ToCancel(call->second);
      }
    }
  }
  if (claimed) job->Abandon(status);
  if (running != nullptr) running->Cancel();
  if (job == nullptr) {
    {
      MutexLock lock(mutex_);
      last_call_ = part.call;
    }
    message.Clear();
    MakeJob(part, status)->Run(message);
  }
}

absl::StatusOr<std::byte*> AttendStreamCalls::Place(const StreamMessage& part,
                                                    int64_t size, Job& job) {
  absl::Status fits = CheckMessageSize("a message of the stream", size,
                                       context_.max_message_bytes);
  MutexLock lock(mutex_);
  const auto call = calls_.find(part.call);
  if (call == calls_.end()) {
    // It was on its way when the call ended.
    if (part.call <= last_call_) return nullptr;
    return NeverOpened(part.call);
  }
  job = call->second.job;
  if (call->second.given_up) return nullptr;
  if (!call->second.collecting) {
    return FieldError("chunk", absl::StrCat("a chunk of call ", part.call),
                      "none: all bytes of the call came");
  }
  if (!fits.ok()) return fits;
  return job->Expect(part.chunk, size);
}

void AttendStreamCalls::CompleteIfAll(uint64_t call, const Job& job) {
  OpenStreamCall complete;
  {
    MutexLock lock(mutex_);
    const auto open = calls_.find(call);
    if (open == calls_.end() || !open->second.collecting ||
        !job->has_all_bytes()) {
      return;
    }
    complete = Claim(open->second);
    open->second.given_up = false;
  }
  absl::Status values = job->assembly().CheckValues();
  if (values.ok()) {
    job->Complete();
  } else {
    job->Abandon(values);
  }
}

void AttendStreamCalls::CancelCall(uint64_t call) {
  OpenStreamCall given_up;
  Job running;
  {
    MutexLock lock(mutex_);
    const auto open = calls_.find(call);
    // The answer may have crossed the message.
    if (open == calls_.end()) return;
    if (open->second.collecting) {
      given_up = Claim(open->second);
    } else {
      running = ToCancel(open->second);
    }
  }
  if (running != nullptr) running->Cancel();
  if (given_up.job != nullptr) {
    given_up.job->Abandon(absl::CancelledError("the client gave the call up"));
  }
}

void AttendStreamCalls::Expire(uint64_t call) {
  OpenStreamCall late;
  {
    MutexLock lock(mutex_);
    const auto open = calls_.find(call);
    if (open == calls_.end() || !open->second.collecting) return;
    late = Claim(open->second);
    ++leaving_;
  }
  late.job->Abandon(
      Refuse(Refusal::kDeadlineExpired,
             absl::StrCat("the deadline passed when ",
                          late.job->assembly().received_bytes(), " of ",
                          late.job->assembly().total_bytes(),
                          " bytes in chunks had come")));
  // The server may go when the stream has ended, and with it what a job needs
  // to leave: not before it has left.
  late = {};
  {
    MutexLock lock(mutex_);
    --leaving_;
  }
  Pump();
}

}  // namespace attn
