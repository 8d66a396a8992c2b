// What a session was given, to give it to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "client/library/host_tensor.h"
#include "engine/core/dtype.h"
#include "proto/codec/session_codec.h"

namespace attn {

// Some tokens of some layers, all from the same position on. k and v are
// [1, tokens, kv_heads, dim].
struct ReplayPart {
  struct Layer {
    int layer = 0;
    HostTensor k;
    HostTensor v;
  };
  int64_t position = 0;
  int64_t tokens = 0;
  std::vector<Layer> layers;
};

// What a part may have.
struct ReplayLimits {
  int64_t max_tokens = 1;
  int64_t max_bytes = 1;
  // What a token of a layer costs beside its k and v.
  int64_t more_row_bytes = 0;
  // Tokens of each layer that the session has already.
  int64_t begin = 0;
};

// k and v of every token of every layer, as they were sent. What a session
// keeps of a token follows from its k, its v and its position alone, so that
// parts of any size make the same cache, bit for bit: how the steps were cut is
// not kept.
//
// Move-only; thread-compatible.
class ReplayHistory {
 public:
  // When k and v have more than `max_bytes` they are let go of; the lengths go
  // on.
  ReplayHistory(int layers, int64_t max_bytes);
  ReplayHistory(ReplayHistory&&) noexcept = default;
  ReplayHistory& operator=(ReplayHistory&&) noexcept = default;

  // Another with the same tokens, whose memory both share from then on: neither
  // writes to it, and other threads may use the other. Each copies at most the
  // last page of a layer, when it goes on there.
  ReplayHistory Share();

  int layers() const { return static_cast<int>(layers_.size()); }
  int64_t length(int layer) const {
    return layers_[static_cast<size_t>(layer)].length;
  }
  // Of the longest layer.
  int64_t length() const;
  // Memory of k and v, that which is shared too: of the tokens, and of fewer
  // than 64 more in each layer.
  int64_t bytes() const { return bytes_; }
  int64_t max_bytes() const { return max_bytes_; }
  // Whether all tokens are there.
  bool complete() const { return complete_; }

  // Copies k and v, [1, kv_heads, n, dim] of any strides, to the end of the
  // step's layer, which must be one of them.
  void Append(const StepTensors& step);
  // Forgets the tokens from `position` on in every layer; what is empty then is
  // complete again.
  void Truncate(int64_t position);

  // Calls `take` with parts in an order in which a session that has the tokens
  // before `limits.begin` can be given them, each within `limits`, though of
  // one token of one layer at least. Ends with the first error. Must be
  // complete().
  absl::Status ForEachPart(
      const ReplayLimits& limits,
      const std::function<absl::Status(const ReplayPart&)>& take) const;

 private:
  // Tokens one after the other.
  struct Page {
    DType k_dtype = DType::kF32;
    DType v_dtype = DType::kF32;
    int64_t kv_heads = 0;
    int64_t k_dim = 0;
    int64_t v_dim = 0;
    // Tokens that there is room for.
    int64_t capacity = 0;
    std::vector<std::byte> k;
    std::vector<std::byte> v;

    int64_t k_row() const;
    int64_t v_row() const;
    int64_t row() const { return k_row() + v_row(); }
    int64_t bytes() const { return capacity * row(); }
    // Whether tokens of both can be in one tensor.
    bool IsLike(const Page& other) const;
  };
  // The first `tokens` tokens of it.
  struct PageUse {
    std::shared_ptr<Page> page;
    int64_t tokens = 0;
    // Not to be written to.
    bool shared = false;
  };
  struct LayerTokens {
    int64_t length = 0;
    std::vector<PageUse> pages;
  };

  ReplayHistory(const ReplayHistory&) = default;

  // Memory of the last page that new tokens like those of `like` would take.
  static int64_t SpareBytes(const LayerTokens& layer, const Page& like);
  // A page that can take the next tokens, of which there are `more`, or as many
  // of them as there is room for: 1 at least.
  PageUse& OpenPage(LayerTokens& layer, const Page& like, int64_t more);
  // Gives it a page of its own with room for so many tokens.
  void Resize(PageUse& use, int64_t capacity);
  // Tokens from `position` on that are alike, and one of their pages.
  static int64_t AlikeFrom(const LayerTokens& layer, int64_t position,
                           const Page*& page);
  static ReplayPart::Layer Gather(const LayerTokens& layer, int64_t position,
                                  int64_t tokens, const Page& like);
  int64_t TokensOfPart(int64_t position, const ReplayLimits& limits) const;

  int64_t max_bytes_;
  int64_t bytes_ = 0;
  bool complete_ = true;
  std::vector<LayerTokens> layers_;
};

}  // namespace attn
