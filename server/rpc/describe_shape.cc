#include "server/rpc/describe_shape.h"

#include "absl/strings/str_cat.h"

namespace attn {

std::string DescribeShape(const AttentionArgs& args) {
  return absl::StrCat("q", args.q.shape.ToString(), " k",
                      args.k.shape.ToString(), " v", args.v.shape.ToString(),
                      " ", Name(args.q.dtype));
}

}  // namespace attn
