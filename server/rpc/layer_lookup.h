// Gives a call the tensors that its spec names by layer.
#pragma once

#include "absl/status/status.h"
#include "proto/codec/call_codec.h"
#include "server/layers/layer_store.h"

namespace attn {

// Appends what call.layer_refs names to the call's inputs, and puts what
// call.operand_refs names in place of q, k and v; the call keeps the layers,
// whatever is put or deleted meanwhile. All tensors of one layer are of one
// version. INVALID_ARGUMENT names the field that names what is not there.
// `store` may be null: there are no layers.
absl::Status AppendLayers(const LayerStore* store, WireCall& call);

// An error about an input that stands for a layer's tensor, as one of the field
// that names the tensor, with both names; other statuses as they are.
absl::Status NameLayers(const absl::Status& status, const WireCall& call);

}  // namespace attn
