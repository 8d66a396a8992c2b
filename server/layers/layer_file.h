// One layer as a .safetensors file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/layers/layer.h"

namespace attn {

// The file of a layer, and whether a file is one that a write left behind.
std::string LayerFileName(const std::string& layer);
bool IsTemporaryLayerFile(const std::string& file);

// Puts the file in the place of one that is there, or leaves that one: nothing
// in between can be seen, also after a loss of power. Which of the two is there
// then is sure only after SyncLayerDirectory(). Blocks on the disk.
// FAILED_PRECONDITION says what could not be done; the old file is there then.
absl::Status WriteLayerFile(const std::string& directory, const Layer& layer);

// Reads DIRECTORY/NAME.safetensors; `version` is 0 if the file names none.
// INVALID_ARGUMENT for a file that is no layer or holds more than `max_bytes`
// of tensors; FAILED_PRECONDITION for one that cannot be read.
absl::StatusOr<Layer> ReadLayerFile(const std::string& directory,
                                    const std::string& layer,
                                    int64_t max_bytes);

// No error if there is no such file. FAILED_PRECONDITION otherwise. Lasts after
// SyncLayerDirectory().
absl::Status RemoveLayerFile(const std::string& directory,
                             const std::string& file);

// Makes what was written and removed in it last through a loss of power. Blocks
// on the disk. FAILED_PRECONDITION if that is not sure.
absl::Status SyncLayerDirectory(const std::string& directory);

}  // namespace attn
