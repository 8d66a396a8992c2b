// /explorer/story: the shipped language model reads a text for the page.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "server/http/http_exchange.h"

namespace attn {

// GET tells what the model is; POST {"text": "..."} gives its tokens and each
// layer's q, k and v, before the rotary transform. The model's own attention is
// computed by Attend on the channel, as the caller: whoever may not call it may
// not have this read either. Thread-safe.
class StoryHandler {
 public:
  // INTERNAL if the model that the program carries cannot be read.
  static absl::StatusOr<std::unique_ptr<StoryHandler>> Make(
      std::shared_ptr<grpc::Channel> channel);
  // Waits for what is being read.
  ~StoryHandler();
  StoryHandler(const StoryHandler&) = delete;
  StoryHandler& operator=(const StoryHandler&) = delete;

  // Never blocks.
  void Handle(std::shared_ptr<HttpExchange> exchange);

 private:
  class Impl;
  explicit StoryHandler(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace attn
