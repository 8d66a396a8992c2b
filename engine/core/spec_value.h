// Equality and hashing of spec members by their fields.
//
// A member lists its fields once, `auto Fields() const { return
// std::tie(...); }`, and gets both. Debian's absl::Hash knows neither
// std::optional nor std::variant.
#pragma once

#include <concepts>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace attn {

template <typename T>
concept SpecValue = requires(const T& value) {
  value.Fields();
};

template <SpecValue T>
bool operator==(const T& a, const T& b) {
  return a.Fields() == b.Fields();
}

namespace internal {

template <typename H, typename T>
H HashField(H h, const T& value) {
  return H::combine(std::move(h), value);
}

template <typename H, typename T>
H HashField(H h, const std::optional<T>& value) {
  if (value.has_value()) h = HashField(std::move(h), *value);
  return H::combine(std::move(h), value.has_value());
}

template <typename H, typename... T>
H HashField(H h, const std::variant<T...>& value) {
  h = std::visit(
      [&h](const auto& member) { return HashField(std::move(h), member); },
      value);
  return H::combine(std::move(h), value.index());
}

template <typename H, typename T>
H HashField(H h, const std::vector<T>& values) {
  for (const T& value : values) h = HashField(std::move(h), value);
  return H::combine(std::move(h), values.size());
}

}  // namespace internal

template <typename H, SpecValue T>
H AbslHashValue(H h, const T& value) {
  return std::apply(
      [&h](const auto&... fields) {
        ((h = internal::HashField(std::move(h), fields)), ...);
        return std::move(h);
      },
      value.Fields());
}

}  // namespace attn
