// The store's ways to the disk and back.
#include <utility>

#include "server/sessions/session_spiller.h"
#include "server/sessions/session_store.h"
#include "server/sessions/session_table.h"

namespace attn {
namespace {

// How often memory that others freed may be gone before it is refused.
constexpr int kMaxMisses = 100;

}  // namespace

bool SessionStore::MadeRoom(uint64_t seen, int64_t missing, int& misses) {
  SessionTable::Held offer;
  switch (table_->MakeRoom(seen, missing, spills() ? &offer : nullptr)) {
    case SessionTable::Room::kMade:
      return true;
    case SessionTable::Room::kChanged:
      return ++misses < kMaxMisses;
    case SessionTable::Room::kOffered: {
      const bool spilled = spiller_->Spill(*offer, clock_.Now());
      table_->EndOffer(std::move(offer), !spilled);
      if (spilled) spiller_->Sync();
      return true;
    }
    case SessionTable::Room::kNone:
      break;
  }
  return false;
}

void SessionStore::SpillIdle() {
  bool any = false;
  while (spills()) {
    SessionTable::Held offer = table_->OfferIdle(options_.spill_after);
    if (offer == nullptr) break;
    const bool spilled = spiller_->Spill(*offer, clock_.Now());
    table_->EndOffer(std::move(offer), false);
    // The next time will do: the log has one line of it.
    if (!spilled) break;
    any = true;
  }
  if (any) spiller_->Sync();
}

int64_t SessionStore::SpillAll() {
  if (!spills()) return 0;
  Expire();
  // Held until the end, so that nobody is offered twice.
  std::vector<SessionTable::Held> left;
  while (SessionTable::Held offer = table_->OfferAny()) {
    if (spiller_->Spill(*offer, clock_.Now())) {
      table_->EndOffer(std::move(offer), false);
    } else {
      left.push_back(std::move(offer));
    }
  }
  spiller_->Sync();
  const auto count = std::ssize(left);
  for (SessionTable::Held& offer : left) {
    table_->EndOffer(std::move(offer), false);
  }
  return count;
}

absl::StatusOr<std::vector<KvSequence>> SessionStore::TakeLayers(
    const SessionRecord& record, const KvLayout& layout) {
  std::vector<KvSequence> layers;
  for (const KvExtent& extent : record.layers) {
    KvSequence& layer = layers.emplace_back(layout, pool_);
    absl::Status status = TakeOrEvict(
        layout.block_bytes(), [&] { return layer.ReserveExtent(extent); });
    if (!status.ok()) return status;
  }
  return layers;
}

absl::Status SessionStore::Fill(SessionEntry& entry, SessionFile& file) {
  auto layers = TakeLayers(file.record(), entry.settings->layout);
  if (!layers.ok()) return layers.status();
  KvCharge for_answer;
  const auto& last = file.record().last;
  if (last.has_value() && last->kept) {
    auto charge = pool_.Charge(last->message_bytes);
    if (charge.ok()) for_answer = *std::move(charge);
  }
  return spiller_->Restore(entry, file, *std::move(layers),
                           std::move(for_answer));
}

absl::Status SessionStore::Restore(SessionEntry& entry) {
  auto file = spiller_->Read(entry);
  if (!file.ok()) return file.status();
  const int64_t bytes = file->record().memory_bytes();
  absl::Status status = table_->Charge(entry, bytes);
  if (!status.ok()) return status;
  status = TakeBase(entry);
  if (status.ok()) status = Fill(entry, *file);
  if (!status.ok()) {
    entry.base.reset();
    table_->Refund(entry, bytes);
  }
  return status;
}

}  // namespace attn
