#include "server/layers/layer_store.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "server/layers/layer_file.h"

namespace attn {
namespace {

absl::Status CannotUse(const std::string& directory,
                       const std::error_code& error) {
  return absl::FailedPreconditionError(absl::StrCat(
      "--layer-dir=", directory, ": cannot be used: ", error.message()));
}

absl::StatusOr<std::vector<std::string>> FilesIn(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return CannotUse(directory, error);
  std::filesystem::directory_iterator files(directory, error);
  if (error) return CannotUse(directory, error);
  std::vector<std::string> names;
  while (files != std::filesystem::directory_iterator()) {
    names.push_back(files->path().filename().string());
    files.increment(error);
    if (error) return CannotUse(directory, error);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LayerStore>> LayerStore::Open(
    const LayerStoreOptions& options, const Report& report) {
  std::unique_ptr<LayerStore> store(new LayerStore(options));
  if (options.directory.empty()) return store;
  absl::Status status = store->Load(report);
  if (!status.ok()) return status;
  return store;
}

absl::Status LayerStore::Load(const Report& report) {
  const auto files = FilesIn(options_.directory);
  if (!files.ok()) return files.status();
  for (const std::string& file : *files) {
    if (IsTemporaryLayerFile(file)) {
      const absl::Status removed = RemoveLayerFile(options_.directory, file);
      if (!removed.ok()) report(removed.message());
      continue;
    }
    absl::string_view name = file;
    if (!absl::ConsumeSuffix(&name, ".safetensors")) continue;
    LoadOne(std::string(name), report);
  }
  return absl::OkStatus();
}

void LayerStore::LoadOne(const std::string& name, const Report& report) {
  const MutexLock writing(writing_);
  const int64_t left = options_.max_bytes - ChargeWithout(name);
  auto layer = CheckLayerName(name).ok()
                   ? ReadLayerFile(options_.directory, name, left)
                   : absl::InvalidArgumentError(absl::StrCat(
                         options_.directory, "/", LayerFileName(name),
                         ": the name is not one that a layer may have"));
  if (layer.ok() && layer->charge() > left) {
    layer = absl::InvalidArgumentError(absl::StrCat(
        options_.directory, "/", LayerFileName(name), ": ", layer->charge(),
        " bytes with all that keeping it takes "
        "exceed the ",
        left, " that --max-layer-bytes leaves"));
  }
  if (!layer.ok()) {
    report(absl::StrCat("layer left alone: ", layer.status().message()));
    return;
  }
  if (layer->version == 0) layer->version = NextVersion();
  last_version_ = std::max(last_version_, layer->version);
  Publish(Count(*std::move(layer)));
}

// Above all that are on disk; the time, so that a layer that was deleted and
// made again after a restart does not get a version it had.
uint64_t LayerStore::NextVersion() {
  const auto now = static_cast<uint64_t>(absl::ToUnixMicros(absl::Now()));
  last_version_ = std::max(last_version_ + 1, now);
  return last_version_;
}

int64_t LayerStore::ChargeWithout(const std::string& name) const {
  const MutexLock lock(mutex_);
  const int64_t charge = held_->load();
  const auto found = layers_.find(name);
  // Only Find() and List() give it to others, and both take the lock.
  const bool goes = found != layers_.end() && found->second.use_count() == 1;
  return charge - (goes ? found->second->charge() : 0);
}

int64_t LayerStore::ServedChargeWithout(const std::string& name) const {
  const MutexLock lock(mutex_);
  const auto found = layers_.find(name);
  return charge_ - (found == layers_.end() ? 0 : found->second->charge());
}

absl::Status LayerStore::CheckRoom(const Layer& made) const {
  const int64_t charge = made.charge();
  const int64_t others = ChargeWithout(made.name);
  if (charge <= options_.max_bytes - others) return absl::OkStatus();
  const int64_t served = ServedChargeWithout(made.name);
  const std::string layer = absl::StrCat(
      "a layer of ", charge,
      " bytes, with names and what keeping each tensor takes, beside ", served,
      " that are kept");
  const std::string limit =
      absl::StrCat(" exceeds --max-layer-bytes=", options_.max_bytes);
  if (charge > options_.max_bytes - served) {
    return absl::ResourceExhaustedError(absl::StrCat(layer, limit));
  }
  return absl::UnavailableError(absl::StrCat(
      layer, " and ", others - served,
      " of replaced or deleted layers that calls still hold", limit));
}

std::shared_ptr<const Layer> LayerStore::Count(Layer layer) const {
  auto counted = std::make_unique<const Layer>(std::move(layer));
  held_->fetch_add(counted->charge());
  // The last holder may outlive the store: a transport that still sends.
  return {counted.release(), [held = held_](const Layer* gone) {
            const int64_t charge = gone->charge();
            delete gone;
            held->fetch_sub(charge);
          }};
}

absl::Status LayerStore::Sync(absl::string_view what) const {
  if (options_.directory.empty()) return absl::OkStatus();
  const absl::Status status = options_.sync(options_.directory);
  if (status.ok()) return status;
  return absl::FailedPreconditionError(absl::StrCat(
      what, ", but a loss of power may undo it: ", status.message()));
}

void LayerStore::Publish(std::shared_ptr<const Layer> layer) {
  const MutexLock lock(mutex_);
  std::shared_ptr<const Layer>& place = layers_[layer->name];
  if (place != nullptr) {
    bytes_ -= place->bytes;
    charge_ -= place->charge();
  }
  bytes_ += layer->bytes;
  charge_ += layer->charge();
  // The old one's memory goes back outside the lock, with the caller's copy.
  place.swap(layer);
}

absl::StatusOr<std::shared_ptr<const Layer>> LayerStore::Put(
    const std::string& name, std::vector<StoredTensor> tensors) {
  absl::Status status = CheckLayerName(name);
  if (status.ok()) status = CheckLayerTensors(tensors);
  if (!status.ok()) return status;
  std::sort(tensors.begin(), tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) {
              return a.name < b.name;
            });
  Layer made;
  made.name = name;
  made.tensors = std::move(tensors);
  for (const StoredTensor& tensor : made.tensors) {
    made.bytes += static_cast<int64_t>(tensor.data.size());
  }
  const MutexLock writing(writing_);
  status = CheckRoom(made);
  if (!status.ok()) return status;
  made.version = NextVersion();
  const std::shared_ptr<const Layer> layer = Count(std::move(made));
  if (!options_.directory.empty()) {
    status = WriteLayerFile(options_.directory, *layer);
    if (!status.ok()) return status;
  }
  // The file is in its place: what is served is what is on disk.
  Publish(layer);
  status = Sync("the layer is replaced and served");
  if (!status.ok()) return status;
  return layer;
}

absl::Status LayerStore::Delete(const std::string& name) {
  if (absl::Status named = CheckLayerName(name); !named.ok()) return named;
  const MutexLock writing(writing_);
  std::shared_ptr<const Layer> layer = Find(name);
  if (layer == nullptr) {
    return absl::NotFoundError(absl::StrCat("name: no layer \"", name, "\""));
  }
  if (!options_.directory.empty()) {
    absl::Status status =
        RemoveLayerFile(options_.directory, LayerFileName(name));
    if (!status.ok()) return status;
  }
  {
    const MutexLock lock(mutex_);
    layers_.erase(name);
    bytes_ -= layer->bytes;
    charge_ -= layer->charge();
  }
  return Sync("the layer is deleted");
}

std::shared_ptr<const Layer> LayerStore::Find(const std::string& name) const {
  const MutexLock lock(mutex_);
  const auto found = layers_.find(name);
  return found == layers_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<const Layer>> LayerStore::List(
    const std::string& after, size_t count) const {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<const Layer>> layers;
  for (auto it = layers_.upper_bound(after);
       it != layers_.end() && layers.size() < count; ++it) {
    layers.push_back(it->second);
  }
  return layers;
}

int64_t LayerStore::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace attn
