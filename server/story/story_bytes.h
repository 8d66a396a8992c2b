// A file's bytes, read from the front.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"

namespace attn {

static_assert(std::endian::native == std::endian::little,
              "the story's files are little-endian and are copied as they are");

// Reads values one after another; nothing past the end is touched, and a read
// that does not fit takes nothing. The bytes must outlive it.
// Thread-compatible.
class StoryBytes {
 public:
  explicit StoryBytes(absl::string_view bytes) : rest_(bytes) {}

  size_t left() const { return rest_.size(); }

  template <typename Value>
  std::optional<Value> Read() {
    Value value{};
    if (rest_.size() < sizeof(value)) return std::nullopt;
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_.remove_prefix(sizeof(value));
    return value;
  }

  std::optional<absl::string_view> ReadText(size_t size) {
    if (rest_.size() < size) return std::nullopt;
    const absl::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return text;
  }

  std::optional<std::vector<float>> ReadFloats(size_t count) {
    if (rest_.size() / sizeof(float) < count) return std::nullopt;
    std::vector<float> values(count);
    if (count == 0) return values;
    std::memcpy(values.data(), rest_.data(), count * sizeof(float));
    rest_.remove_prefix(count * sizeof(float));
    return values;
  }

 private:
  absl::string_view rest_;
};

}  // namespace attn
