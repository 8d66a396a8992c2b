// Writes the requests that compute: the reverse of call_decode.h.
#pragma once

#include "proto/codec/call_codec.h"
#include "proto/codec/chunk_writer.h"
#include "proto/codec/spec_codec.h"

namespace attn {

// spec, lengths and offsets.
template <typename Request>
void EncodeSpecAndLengths(const CallMessage& message, Request& request) {
  *request.mutable_spec() = EncodeSpec(message.spec);
  const AttentionArgs& args = message.args;
  request.mutable_q_lengths()->Add(args.q_lengths.begin(),
                                   args.q_lengths.end());
  request.mutable_kv_lengths()->Add(args.kv_lengths.begin(),
                                    args.kv_lengths.end());
  request.mutable_q_offsets()->Add(args.q_offsets.begin(),
                                   args.q_offsets.end());
  request.mutable_kv_offsets()->Add(args.kv_offsets.begin(),
                                    args.kv_offsets.end());
}

// Its id and its priority.
template <typename Request>
void EncodeCallInfo(const CallMessage& message, Request& request) {
  request.set_request_id(message.request_id);
  if (message.priority != v1::PRIORITY_NORMAL) {
    request.set_priority(message.priority);
  }
}

// A tensor as a field of the message. `view` with `bshd` is [B, H, S, D].
void AddTensorField(int field, const TensorView& view, bool bshd,
                    ChunkWriter& writer);

// q, k, v and inputs. What a message has before them, with numbers below 16, is
// written already; what has higher numbers follows.
void AddCallTensors(const CallMessage& message, ChunkWriter& writer);
// Those of the stages alone.
void AddInputTensors(const CallMessage& message, ChunkWriter& writer);

}  // namespace attn
