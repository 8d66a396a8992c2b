// The generated messages, under the short name that our code gives them.
#pragma once

#include "attention/v1/attention.pb.h"
#include "attention/v1/layer.pb.h"

namespace attn {

namespace v1 = ::attention::v1;

}  // namespace attn
