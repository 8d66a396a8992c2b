// A store of sessions with a disk, as verbs.
#pragma once

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/runtime/mutex.h"
#include "server/sessions/session_spiller.h"
#include "tests/client/testing/scratch_folder.h"
#include "tests/server/sessions/session_fixture.h"

namespace attn {

// Kept answers of these tests.
using KeptFloats = std::vector<float>;

inline SessionSettings SpilledSettings(int layers = 1,
                                       absl::Duration idle_timeout = {}) {
  SessionSettings settings = TestSettings();
  settings.layers = layers;
  settings.idle_timeout = idle_timeout;
  settings.opening =
      absl::StrCat(layers, " ", absl::ToInt64Milliseconds(idle_timeout));
  return settings;
}

inline SpillCodec TestCodec() {
  return {
      .settings = [](const std::string& opening)
          -> absl::StatusOr<std::shared_ptr<const SessionSettings>> {
        int layers = 0;
        long idle_ms = 0;  // NOLINT(google-runtime-int)
        if (std::sscanf(opening.c_str(), "%d %ld", &layers, &idle_ms) != 2) {
          return absl::InvalidArgumentError("opening: got something else");
        }
        return std::make_shared<const SessionSettings>(
            SpilledSettings(layers, absl::Milliseconds(idle_ms)));
      },
      .answer_bytes =
          [](const std::any& message) {
            const auto& floats = *std::any_cast<KeptFloats>(&message);
            return std::string(reinterpret_cast<const char*>(floats.data()),
                               floats.size() * sizeof(float));
          },
      .answer = [](const std::string& bytes) -> std::any {
        KeptFloats floats(bytes.size() / sizeof(float));
        if (!floats.empty()) {
          std::memcpy(floats.data(), bytes.data(), bytes.size());
        }
        return floats;
      }};
}

inline std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void WriteWhole(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class SpillFixture : public SessionFixture {
 protected:
  SpillFixture() { RestartOnDisk(100); }

  // Another server on the same folder: what is in memory is lost.
  void RestartOnDisk(int64_t max_blocks, SessionStoreOptions options = {},
                     int64_t max_spill_bytes = 0) {
    store_.reset();
    options.max_bytes = BytesOfBlocks(max_blocks);
    auto directory =
        SessionDirectory::Open({.path = path(), .max_bytes = max_spill_bytes});
    ASSERT_TRUE(directory.ok()) << directory.status();
    store_ = std::make_unique<SessionStore>(
        options, clock_,
        std::make_unique<SessionSpiller>(
            *std::move(directory),
            SpillOptions{
                .codec = TestCodec(),
                .report =
                    [this](absl::string_view line) { log_.emplace_back(line); },
                .wall_clock = [this] { return wall_; }}));
  }

  // An idle session of so many blocks, whose rows begin with `first`.
  std::string OpenOnDisk(int64_t blocks, float first,
                         const std::string& tenant = "alice") {
    const Pin pin = Open(tenant, SpilledSettings());
    Step(pin, blocks * kKvBlockTokens, first);
    pin.state().last = SessionAnswer{.step = 0,
                                     .digest = 99,
                                     .message = KeptFloats{first},
                                     .charge = pin.Charge(sizeof(float))};
    return pin.id();
  }
  void ExpectWhole(const std::string& id, int64_t blocks, float first,
                   const std::string& tenant = "alice") {
    Pin pin = Acquire(id, tenant);
    ASSERT_TRUE(pin.held());
    std::vector<float> rows(static_cast<size_t>(blocks * kKvBlockTokens));
    std::iota(rows.begin(), rows.end(), first);
    EXPECT_EQ(RowsOf(pin.state().layers[0]), rows);
    EXPECT_EQ(pin.state().next_step, 1U);
    ASSERT_TRUE(pin.state().last.has_value());
    EXPECT_EQ(pin.state().last->digest, 99U);
    const auto* kept = std::any_cast<KeptFloats>(&pin.state().last->message);
    EXPECT_TRUE(kept != nullptr && *kept == KeptFloats{first});
    pin.Release(true);
  }

  std::string path() const { return folder_.File("sessions"); }
  std::string FileOf(const std::string& id) const {
    return path() + "/" + id + ".session";
  }
  bool HasFile(const std::string& id) const {
    return std::filesystem::exists(FileOf(id));
  }
  // All of the folder but its lock.
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      names.push_back(entry.path().filename().string());
    }
    std::erase(names, ".lock");
    return names;
  }
  bool OnDisk(const std::string& id, const std::string& tenant = "alice") {
    return Describe(id, tenant).spilled_bytes > 0;
  }
  int64_t SpillErrors(SpillError error) const {
    return store_->totals().spill_errors[static_cast<size_t>(error)];
  }

  ScratchFolder folder_;
  Mutex log_mutex_;
  std::vector<std::string> log_;
  absl::Time wall_ = absl::FromUnixSeconds(1700000000);
};

}  // namespace attn
