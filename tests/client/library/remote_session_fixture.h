// Some servers, and sessions that may be at any of them.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "client/library/remote_session.h"
#include "gtest/gtest.h"
#include "tests/client/library/fake_session_server.h"
#include "tests/client/library/plain_decode.h"

namespace attn {

class RemoteSessionFixture : public ::testing::Test {
 protected:
  void StartServers(int count) {
    for (int i = 0; i < count; ++i) {
      servers_.push_back(std::make_unique<FakeSessionServer>());
    }
  }
  FakeSessionServer& server(size_t i) { return *servers_[i]; }

  RemoteSessionOptions Options() const {
    RemoteSessionOptions options;
    options.addresses.clear();
    for (const auto& server : servers_) {
      options.addresses.push_back(server->address());
    }
    options.patience = absl::ZeroDuration();
    // Waits little, so that tests do.
    options.client.retry = {.initial_backoff = absl::Milliseconds(1),
                            .max_backoff = absl::Milliseconds(10)};
    return options;
  }
  RemoteSession Open(int layers) {
    auto session = RemoteSession::Open(PlainSession(layers), Options());
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  std::vector<std::unique_ptr<FakeSessionServer>> servers_;
};

}  // namespace attn
