// Layers by name, within a budget of bytes, and on disk if a directory is
// given.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/runtime/mutex.h"
#include "server/layers/layer.h"
#include "server/layers/layer_file.h"

namespace attn {

struct LayerStoreOptions {
  // Empty: layers live as long as the process.
  std::string directory;
  // Of all layers, Layer::charge(), until their memory is free: also of those
  // that were replaced or deleted and that calls still hold. Who takes a layer
  // while its successor is written may keep it beside the budget.
  int64_t max_bytes = int64_t{1} << 30;
  // A test makes it fail.
  std::function<absl::Status(const std::string& directory)> sync =
      SyncLayerDirectory;
};

// Lookups never wait for the disk; Put and Delete run one at a time and do.
// Thread-safe.
class LayerStore {
 public:
  // Takes one line on a file that is left alone.
  using Report = std::function<void(absl::string_view line)>;

  // Makes the directory if need be and loads every layer in it.
  // FAILED_PRECONDITION names --layer-dir if it cannot be used.
  static absl::StatusOr<std::unique_ptr<LayerStore>> Open(
      const LayerStoreOptions& options, const Report& report);

  // Makes a layer, or replaces it whole; on disk first. INVALID_ARGUMENT names
  // a bad name; RESOURCE_EXHAUSTED if the budget does not hold it beside the
  // others; UNAVAILABLE if it will once calls let go of what was replaced or
  // deleted: try again; FAILED_PRECONDITION if the file cannot be written. What
  // was there stays then; but if the file is in its place and the directory
  // cannot be synced, the error says that the new one is served.
  absl::StatusOr<std::shared_ptr<const Layer>> Put(
      const std::string& name, std::vector<StoredTensor> tensors);

  // NOT_FOUND if there is none; FAILED_PRECONDITION if its file cannot go, or
  // if it is gone and the directory cannot be synced, as the error says then.
  absl::Status Delete(const std::string& name);

  // Null if there is none.
  std::shared_ptr<const Layer> Find(const std::string& name) const;
  // At most `count` in the order of their names, those after `after`.
  std::vector<std::shared_ptr<const Layer>> List(const std::string& after,
                                                 size_t count) const;

  // Of the tensors of all layers.
  int64_t bytes() const;

 private:
  explicit LayerStore(const LayerStoreOptions& options) : options_(options) {}

  absl::Status Load(const Report& report);
  void LoadOne(const std::string& name, const Report& report);
  uint64_t NextVersion() ATTN_REQUIRES(writing_);
  // Charge of what there is once `name` is gone: calls keep theirs.
  int64_t ChargeWithout(const std::string& name) const;
  // The same, without what only calls hold.
  int64_t ServedChargeWithout(const std::string& name) const;
  // In the budget, as Put() says.
  absl::Status CheckRoom(const Layer& made) const ATTN_REQUIRES(writing_);
  // Counts the layer until its last holder lets it go.
  std::shared_ptr<const Layer> Count(Layer layer) const;
  // `what` has happened in the directory.
  absl::Status Sync(absl::string_view what) const;
  void Publish(std::shared_ptr<const Layer> layer);

  const LayerStoreOptions options_;
  // Held over the disk; mutex_ never is.
  Mutex writing_;
  uint64_t last_version_ ATTN_GUARDED_BY(writing_) = 0;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<const Layer>> layers_
      ATTN_GUARDED_BY(mutex_);
  int64_t bytes_ ATTN_GUARDED_BY(mutex_) = 0;
  // Of those that Find() gives.
  int64_t charge_ ATTN_GUARDED_BY(mutex_) = 0;
  // Charge of all that live.
  const std::shared_ptr<std::atomic<int64_t>> held_ =
      std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace attn
