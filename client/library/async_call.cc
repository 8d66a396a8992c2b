#include "client/library/async_call.h"

#include <utility>

#include "absl/time/clock.h"
#include "client/library/call_status.h"
#include "client/library/callback_threads.h"

namespace attn {

void AsyncCall::Start(std::shared_ptr<ChannelState> channel,
                      AsyncRequest request, Done done) {
  KeepCallbackThreads();
  const std::shared_ptr<AsyncCall> call(
      new AsyncCall(std::move(channel), std::move(request), std::move(done)));
  call->Attempt();
}

void AsyncCall::Attempt() {
  context_.emplace();
  context_->set_deadline(absl::ToChronoTime(request_.end));
  channel_->Authorize(*context_);
  request_.route.AddTo(*context_);
  response_.Clear();
  request_.stub.UnaryCall(
      &*context_, request_.method, grpc::StubOptions(), &request_.bytes,
      &response_, [self = shared_from_this()](const grpc::Status& status) {
        self->Ended(FromCallStatus(status, self->channel_->address));
      });
}

void AsyncCall::AttemptAfter(absl::Duration wait) {
  // Held here too: the next attempt may end the call before Set() returns.
  const auto alarm = std::make_shared<grpc::Alarm>();
  alarm_ = alarm;
  alarm->Set(absl::ToChronoTime(absl::Now() + wait),
             [self = shared_from_this()](bool /*fired*/) { self->Attempt(); });
}

void AsyncCall::Ended(const absl::Status& status) {
  const auto wait = retries_.WaitAfter(status, absl::Now());
  if (wait.has_value()) {
    AttemptAfter(*wait);
    return;
  }
  // What it was set to do holds this call.
  alarm_.reset();
  done_(status, response_);
}

}  // namespace attn
