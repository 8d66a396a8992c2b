#include "engine/core/spec_inputs.h"

#include <concepts>
#include <optional>
#include <tuple>
#include <variant>
#include <vector>

#include "engine/core/spec_value.h"

namespace attn {
namespace {

// One walk over a spec, in which whatever is a uint32_t names an input.
// Thread-compatible.
class Walk {
 public:
  template <typename T>
  void Visit(const T& value) {
    if constexpr (std::same_as<T, uint32_t>) {
      found_.insert(value);
    } else if constexpr (SpecValue<T>) {
      std::apply([this](const auto&... fields) { (Visit(fields), ...); },
                 value.Fields());
    }
  }
  template <typename T>
  void Visit(const std::optional<T>& value) {
    if (value.has_value()) Visit(*value);
  }
  template <typename... T>
  void Visit(const std::variant<T...>& value) {
    std::visit([this](const auto& member) { Visit(member); }, value);
  }
  template <typename T>
  void Visit(const std::vector<T>& values) {
    for (const T& value : values) Visit(value);
  }
  const std::set<uint32_t>& found() const { return found_; }

 private:
  std::set<uint32_t> found_;
};

}  // namespace

std::set<uint32_t> NamedInputs(const AttentionSpec& spec) {
  Walk walk;
  walk.Visit(spec);
  return walk.found();
}

}  // namespace attn
