#include "proto/codec/call_encode.h"

#include "proto/codec/tensor_codec.h"

namespace attn {

void AddTensorField(int field, const TensorView& view, bool bshd,
                    ChunkWriter& writer) {
  const TensorView on_wire = ToLayout(view, bshd);
  // Token rows have one order.
  const bool swapped = bshd && view.shape.rank() == 4;
  writer.AddTensor(field, EncodeTensor(view.dtype, on_wire.shape, swapped),
                   RowMajorPayload(on_wire));
}

void AddCallTensors(const CallMessage& message, ChunkWriter& writer) {
  using Numbers = v1::AttendRequest;
  const AttentionArgs& args = message.args;
  AddTensorField(Numbers::kQFieldNumber, args.q, message.bshd, writer);
  AddTensorField(Numbers::kKFieldNumber, args.k, message.bshd, writer);
  if (!MakesValues(message.spec)) {
    AddTensorField(Numbers::kVFieldNumber, args.v, message.bshd, writer);
  }
  AddInputTensors(message, writer);
}

void AddInputTensors(const CallMessage& message, ChunkWriter& writer) {
  for (const TensorView& input : message.args.inputs) {
    AddTensorField(v1::AttendRequest::kInputsFieldNumber, input,
                   /*bshd=*/false, writer);
  }
}

}  // namespace attn
