// A store of sessions, as verbs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/sessions/session_store.h"
#include "tests/server/batching/fake_clock.h"

namespace attn {

// One head of 64 floats each for k and v.
inline constexpr int64_t kTestDim = 64;
// Of 64 tokens.
inline constexpr int64_t kTestBlockBytes =
    kKvBlockTokens * 2 * kTestDim * int64_t{sizeof(float)};

// A budget of so many blocks, and of what a few sessions take by themselves.
inline int64_t BytesOfBlocks(int64_t blocks) {
  return blocks * kTestBlockBytes + kTestBlockBytes / 2;
}

inline SessionSettings TestSettings() {
  SessionSettings settings;
  settings.q_heads = 1;
  settings.q_dim = kTestDim;
  settings.layout = {.kv_heads = 1,
                     .k_dim = kTestDim,
                     .v_dim = kTestDim,
                     .dtype = DType::kF32};
  return settings;
}

// Appends rows that hold `first`, first + 1, ... to a layer that has room.
inline void AppendRows(KvSequence& layer, int64_t count, float first = 0) {
  std::vector<float> rows;
  for (int64_t i = 0; i < count; ++i) {
    rows.insert(rows.end(), kTestDim, first + static_cast<float>(i));
  }
  const TensorView view =
      TensorView::Dense(rows.data(), DType::kF32, {1, 1, count, kTestDim});
  layer.Append(view, view, {});
}

// The first element of each row of k.
inline std::vector<float> RowsOf(const KvSequence& layer) {
  const KvBlocks blocks = layer.Describe();
  std::vector<float> rows;
  for (int64_t i = 0; i < layer.length(); ++i) {
    const auto* k =
        reinterpret_cast<const float*>(blocks.blocks[i / blocks.block_tokens]);
    rows.push_back(k[i % blocks.block_tokens * kTestDim]);
  }
  return rows;
}

MATCHER_P(HasReason, reason, "") {
  *result_listener << arg;
  return SessionReasonOf(arg) == std::string(reason);
}

class SessionFixture : public ::testing::Test {
 protected:
  using Pin = SessionStore::Pin;

  // Begins anew; the budget in blocks.
  void Restart(int64_t max_blocks, SessionStoreOptions options = {}) {
    options.max_bytes = BytesOfBlocks(max_blocks);
    store_ = std::make_unique<SessionStore>(options, clock_);
  }

  Pin Open(const std::string& tenant = "alice",
           SessionSettings settings = TestSettings()) {
    auto pin = store_->Open(
        std::make_shared<SessionSettings>(std::move(settings)), tenant);
    EXPECT_TRUE(pin.ok()) << pin.status();
    return pin.ok() ? *std::move(pin) : Pin();
  }
  // An idle one of so many blocks.
  std::string OpenIdle(int64_t blocks, const std::string& tenant = "alice") {
    Pin pin = Open(tenant);
    Step(pin, blocks * kKvBlockTokens);
    return pin.id();
  }
  Pin Acquire(const std::string& id, const std::string& tenant = "alice") {
    auto pin = store_->Acquire(id, tenant);
    EXPECT_TRUE(pin.ok()) << pin.status();
    return pin.ok() ? *std::move(pin) : Pin();
  }
  absl::Status TryAcquire(const std::string& id,
                          const std::string& tenant = "alice") {
    return store_->Acquire(id, tenant).status();
  }
  SessionSnapshot Describe(const std::string& id,
                           const std::string& tenant = "alice") {
    auto snapshot = store_->Describe(id, tenant);
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    return snapshot.ok() ? *snapshot : SessionSnapshot();
  }
  static void Step(const Pin& pin, int64_t tokens, float first = 0) {
    const absl::Status reserved = pin.Reserve({0}, tokens);
    ASSERT_TRUE(reserved.ok()) << reserved;
    AppendRows(pin.state().layers[0], tokens, first);
    ++pin.state().next_step;
  }
  int64_t UsedBlocks() const {
    return store_->totals().bytes / kTestBlockBytes;
  }
  int64_t Ended(SessionEnd end) const {
    return store_->totals().ended[static_cast<size_t>(end)];
  }
  void Advance(absl::Duration time) {
    clock_.AdvanceMilliseconds(absl::ToInt64Milliseconds(time));
  }

  FakeClock clock_;
  std::unique_ptr<SessionStore> store_ =
      std::make_unique<SessionStore>(SessionStoreOptions(), clock_);
};

}  // namespace attn
