#include "client/library/replay_history.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/codec/tensor_codec.h"

namespace attn {
namespace {

// Small enough that what a layer's last page leaves unused is little, and large
// enough that a page's own size does not count.
constexpr int64_t kPageTokens = 64;
constexpr int kHeadAxis = 1;
constexpr int kTokenAxis = 2;

int64_t RowBytes(DType dtype, int64_t heads, int64_t dim) {
  return heads * dim * static_cast<int64_t>(SizeOf(dtype));
}

const std::byte* DataOf(const Payload& payload) {
  return payload.borrowed != nullptr ? payload.borrowed : payload.owned.data();
}

// Rows from `first` on to `at` of a page's memory.
void CopyRows(const std::byte* rows, int64_t row_bytes, int64_t first,
              int64_t count, int64_t at, std::vector<std::byte>& to) {
  std::memcpy(to.data() + at * row_bytes, rows + first * row_bytes,
              static_cast<size_t>(count * row_bytes));
}

}  // namespace

int64_t ReplayHistory::Page::k_row() const {
  return RowBytes(k_dtype, kv_heads, k_dim);
}

int64_t ReplayHistory::Page::v_row() const {
  return RowBytes(v_dtype, kv_heads, v_dim);
}

bool ReplayHistory::Page::IsLike(const Page& other) const {
  return k_dtype == other.k_dtype && v_dtype == other.v_dtype &&
         kv_heads == other.kv_heads && k_dim == other.k_dim &&
         v_dim == other.v_dim;
}

ReplayHistory::ReplayHistory(int layers, int64_t max_bytes)
    : max_bytes_(max_bytes), layers_(static_cast<size_t>(layers)) {}

int64_t ReplayHistory::length() const {
  int64_t longest = 0;
  for (const LayerTokens& layer : layers_) {
    longest = std::max(longest, layer.length);
  }
  return longest;
}

int64_t ReplayHistory::SpareBytes(const LayerTokens& layer, const Page& like) {
  if (layer.pages.empty()) return 0;
  const PageUse& last = layer.pages.back();
  return last.page->IsLike(like)
             ? (last.page->capacity - last.tokens) * like.row()
             : 0;
}

ReplayHistory::PageUse& ReplayHistory::OpenPage(LayerTokens& layer,
                                                const Page& like,
                                                int64_t more) {
  if (layer.pages.empty() || !layer.pages.back().page->IsLike(like) ||
      layer.pages.back().tokens == kPageTokens) {
    if (!layer.pages.empty()) {
      PageUse& full = layer.pages.back();
      if (full.page->capacity > full.tokens) Resize(full, full.tokens);
    }
    layer.pages.push_back(
        PageUse{.page = std::make_shared<Page>(like), .tokens = 0});
  }
  PageUse& last = layer.pages.back();
  const int64_t wanted = std::min(last.tokens + more, kPageTokens);
  if (!last.shared && wanted <= last.page->capacity) return last;
  // Twice as large, so that tokens that come one by one are copied few times.
  int64_t grown = std::clamp(2 * last.tokens, wanted, kPageTokens);
  const int64_t others = bytes_ - last.page->bytes();
  if (others + grown * like.row() > max_bytes_) grown = wanted;
  Resize(last, grown);
  return last;
}

void ReplayHistory::Resize(PageUse& use, int64_t capacity) {
  const Page& from = *use.page;
  auto page = std::make_shared<Page>();
  page->k_dtype = from.k_dtype;
  page->v_dtype = from.v_dtype;
  page->kv_heads = from.kv_heads;
  page->k_dim = from.k_dim;
  page->v_dim = from.v_dim;
  page->capacity = capacity;
  page->k.resize(static_cast<size_t>(capacity * page->k_row()));
  page->v.resize(static_cast<size_t>(capacity * page->v_row()));
  if (use.tokens > 0) {
    CopyRows(from.k.data(), from.k_row(), 0, use.tokens, 0, page->k);
    CopyRows(from.v.data(), from.v_row(), 0, use.tokens, 0, page->v);
  }
  bytes_ += page->bytes() - from.bytes();
  use.page = std::move(page);
  use.shared = false;
}

ReplayHistory ReplayHistory::Share() {
  for (LayerTokens& layer : layers_) {
    for (PageUse& use : layer.pages) use.shared = true;
  }
  return *this;
}

void ReplayHistory::Append(const StepTensors& step) {
  LayerTokens& layer = layers_[static_cast<size_t>(step.layer)];
  const int64_t tokens = step.k.shape[kTokenAxis];
  const Page like{.k_dtype = step.k.dtype,
                  .v_dtype = step.v.dtype,
                  .kv_heads = step.k.shape[kHeadAxis],
                  .k_dim = step.k.shape[3],
                  .v_dim = step.v.shape[3],
                  .capacity = 0,
                  .k = {},
                  .v = {}};
  layer.length += tokens;
  if (!complete_) return;
  if (bytes_ + tokens * like.row() - SpareBytes(layer, like) > max_bytes_) {
    complete_ = false;
    bytes_ = 0;
    for (LayerTokens& each : layers_) each.pages = {};
    return;
  }
  const Payload k = RowMajorPayload(step.k.SwapAxes(kHeadAxis, kTokenAxis));
  const Payload v = RowMajorPayload(step.v.SwapAxes(kHeadAxis, kTokenAxis));
  for (int64_t first = 0; first < tokens;) {
    PageUse& use = OpenPage(layer, like, tokens - first);
    const int64_t count = std::min(tokens - first, kPageTokens - use.tokens);
    CopyRows(DataOf(k), like.k_row(), first, count, use.tokens, use.page->k);
    CopyRows(DataOf(v), like.v_row(), first, count, use.tokens, use.page->v);
    use.tokens += count;
    first += count;
  }
}

void ReplayHistory::Truncate(int64_t position) {
  for (LayerTokens& layer : layers_) {
    int64_t surplus = std::max<int64_t>(layer.length - position, 0);
    layer.length -= surplus;
    while (complete_ && surplus > 0) {
      PageUse& last = layer.pages.back();
      const int64_t cut = std::min(surplus, last.tokens);
      last.tokens -= cut;
      surplus -= cut;
      if (last.tokens > 0) continue;
      bytes_ -= last.page->bytes();
      layer.pages.pop_back();
    }
  }
  if (length() == 0) complete_ = true;
}

int64_t ReplayHistory::AlikeFrom(const LayerTokens& layer, int64_t position,
                                 const Page*& page) {
  page = nullptr;
  int64_t begin = 0;
  int64_t alike = 0;
  for (const PageUse& use : layer.pages) {
    const int64_t end = begin + use.tokens;
    if (page == nullptr && position < end) {
      page = use.page.get();
      alike = end - position;
    } else if (page != nullptr) {
      if (!page->IsLike(*use.page)) break;
      alike += use.tokens;
    }
    begin = end;
  }
  return alike;
}

ReplayPart::Layer ReplayHistory::Gather(const LayerTokens& layer,
                                        int64_t position, int64_t tokens,
                                        const Page& like) {
  ReplayPart::Layer part{
      .layer = 0,
      .k = {like.k_dtype, Shape{1, tokens, like.kv_heads, like.k_dim}},
      .v = {like.v_dtype, Shape{1, tokens, like.kv_heads, like.v_dim}}};
  int64_t begin = 0;
  for (const PageUse& use : layer.pages) {
    const int64_t first = std::max(position, begin);
    const int64_t end = std::min(position + tokens, begin + use.tokens);
    if (first < end) {
      const auto copy = [&](const std::vector<std::byte>& from,
                            int64_t row_bytes, HostTensor& to) {
        std::memcpy(to.data() + (first - position) * row_bytes,
                    from.data() + (first - begin) * row_bytes,
                    static_cast<size_t>((end - first) * row_bytes));
      };
      copy(use.page->k, like.k_row(), part.k);
      copy(use.page->v, like.v_row(), part.v);
    }
    begin += use.tokens;
  }
  return part;
}

// As many as every layer that goes on from there has, alike.
int64_t ReplayHistory::TokensOfPart(int64_t position,
                                    const ReplayLimits& limits) const {
  int64_t tokens = limits.max_tokens;
  for (const LayerTokens& layer : layers_) {
    if (layer.length <= position) continue;
    const Page* page = nullptr;
    tokens = std::min(tokens, AlikeFrom(layer, position, page));
    const int64_t row =
        std::max<int64_t>(page->row() + limits.more_row_bytes, 1);
    tokens = std::min(tokens, std::max<int64_t>(limits.max_bytes / row, 1));
  }
  return tokens;
}

absl::Status ReplayHistory::ForEachPart(
    const ReplayLimits& limits,
    const std::function<absl::Status(const ReplayPart&)>& take) const {
  const int64_t end = length();
  for (int64_t position = limits.begin; position < end;) {
    const int64_t tokens = TokensOfPart(position, limits);
    ReplayPart part{.position = position, .tokens = tokens, .layers = {}};
    int64_t part_bytes = 0;
    for (int layer = 0; layer < layers(); ++layer) {
      const LayerTokens& from = layers_[static_cast<size_t>(layer)];
      if (from.length <= position) continue;
      const Page* page = nullptr;
      AlikeFrom(from, position, page);
      const int64_t layer_bytes =
          tokens * (page->row() + limits.more_row_bytes);
      if (!part.layers.empty() && part_bytes + layer_bytes > limits.max_bytes) {
        if (absl::Status status = take(part); !status.ok()) return status;
        part.layers.clear();
        part_bytes = 0;
      }
      part.layers.push_back(Gather(from, position, tokens, *page));
      part.layers.back().layer = layer;
      part_bytes += layer_bytes;
    }
    if (absl::Status status = take(part); !status.ok()) return status;
    position += tokens;
  }
  return absl::OkStatus();
}

}  // namespace attn
