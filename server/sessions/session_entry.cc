#include "server/sessions/session_entry.h"

#include <algorithm>
#include <utility>

#include "server/sessions/session_id.h"

namespace attn {
namespace {

// Maps, orders and the allocator's own, as measured.
constexpr int64_t kSessionBytes = 1024;

}  // namespace

int64_t BytesOfEmptySession(const SessionSettings& settings) {
  constexpr auto kLayerBytes =
      static_cast<int64_t>(sizeof(KvSequence) + sizeof(LayerFigures));
  int64_t bytes = kSessionBytes + settings.layers * kLayerBytes +
                  std::ssize(settings.opening);
  for (const AlignedBuffer& input : settings.storage) {
    bytes += static_cast<int64_t>(input.size());
  }
  return bytes;
}

SessionEntry::SessionEntry(std::shared_ptr<const SessionSettings> made_with,
                           SessionState begun)
    : id(MakeSessionId()),
      settings(std::move(made_with)),
      base_bytes(BytesOfEmptySession(*settings)),
      state(std::move(begun)),
      figures(state.layers.size()) {
  Measure();
  Publish();
  // A fork's blocks are its own once the other is gone.
  TouchLayers();
}

SessionEntry::SessionEntry(std::shared_ptr<const SessionSettings> made_with,
                           const SessionRecord& record, int64_t file_bytes)
    : id(record.id),
      settings(std::move(made_with)),
      base_bytes(BytesOfEmptySession(*settings)),
      spilled_bytes(file_bytes) {
  state.epoch = record.epoch;
  state.next_step = record.next_step;
  for (const KvExtent& extent : record.layers) {
    told.lengths.push_back(extent.length);
  }
  Publish();
}

void SessionEntry::Spilled(int64_t file_bytes) {
  state.layers = {};
  state.last.reset();
  figures = {};
  bytes = own_bytes = 0;
  base.reset();
  spilled_bytes = file_bytes;
}

void SessionEntry::Restored(SessionState read) {
  state = std::move(read);
  figures.assign(state.layers.size(), {});
  spilled_bytes = 0;
  Measure();
}

void SessionEntry::Refresh(size_t layer) {
  LayerFigures& known = figures[layer];
  const KvSequence& sequence = state.layers[layer];
  const int64_t begun = KvBlocksFor(sequence.length());
  const int64_t bytes_now = sequence.bytes();
  // Other bytes: blocks were let go, and with them those not begun.
  known.blocks =
      bytes_now == known.bytes ? std::max(begun, known.blocks) : begun;
  bytes += bytes_now - known.bytes;
  known.bytes = bytes_now;
}

int64_t SessionEntry::BytesToReserve(int layer, int64_t tokens) {
  const auto index = static_cast<size_t>(layer);
  Refresh(index);
  const int64_t wanted = KvBlocksFor(state.layers[index].length() + tokens);
  const int64_t missing = std::max<int64_t>(0, wanted - figures[index].blocks);
  return missing * settings->layout.block_bytes();
}

void SessionEntry::Reserved(int layer, int64_t tokens) {
  LayerFigures& known = figures[static_cast<size_t>(layer)];
  const KvSequence& sequence = state.layers[static_cast<size_t>(layer)];
  known.blocks =
      std::max(known.blocks, KvBlocksFor(sequence.length() + tokens));
  const int64_t bytes_now = sequence.bytes();
  bytes += bytes_now - known.bytes;
  known.bytes = bytes_now;
  known.touched = true;
}

void SessionEntry::TouchLayers() {
  for (LayerFigures& layer : figures) layer.touched = true;
}

void SessionEntry::Measure() {
  for (size_t i = 0; i < figures.size(); ++i) {
    LayerFigures& known = figures[i];
    const KvSequence& sequence = state.layers[i];
    const int64_t bytes_before = known.bytes;
    Refresh(i);
    if (!known.touched && known.length == sequence.length() &&
        known.bytes == bytes_before) {
      continue;
    }
    known.length = sequence.length();
    const int64_t own_now = sequence.own_bytes();
    own_bytes += own_now - known.own_bytes;
    known.own_bytes = own_now;
    known.touched = false;
  }
}

void SessionEntry::Publish() {
  told.epoch = state.epoch;
  told.next_step = state.next_step;
  told.bytes = bytes;
  told.own_bytes = own_bytes;
  told.spilled_bytes = spilled_bytes;
  if (spilled_bytes > 0) return;
  told.lengths.resize(figures.size());
  for (size_t i = 0; i < figures.size(); ++i) {
    told.lengths[i] = figures[i].length;
  }
}

}  // namespace attn
