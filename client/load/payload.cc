#include "client/load/payload.h"

#include <cmath>
#include <random>
#include <utility>

namespace attn {
namespace {

// Standard normal by the method of Box and Muller (1958). Not
// std::normal_distribution, whose series differs between libraries.
class NormalSource {
 public:
  explicit NormalSource(uint64_t seed) : random_(seed) {}

  double Next() {
    constexpr double kTwoPi = 6.283185307179586;
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(kTwoPi * Uniform());
  }

 private:
  // In (0, 1].
  double Uniform() {
    return (static_cast<double>(random_() >> 11) + 1) * 0x1.0p-53;
  }

  std::mt19937_64 random_;
};

absl::StatusOr<HostTensor> Draw(std::initializer_list<int64_t> dims,
                                DType dtype, absl::string_view field,
                                NormalSource& source) {
  // Drawn as F32 first: the widest of the four that everyone can send.
  absl::StatusOr<Shape> shape = Shape::Create(dims, sizeof(double), field);
  if (!shape.ok()) return shape.status();
  HostTensor tensor(DType::kF32, *shape);
  for (float& value : tensor.values<float>()) {
    value = static_cast<float>(source.Next());
  }
  return tensor.To(dtype);
}

grpc::ByteBuffer Encode(const CallProfile& profile, const CallMessage& call) {
  // Each step is encoded when it is sent: it has a number.
  if (profile.kind == CallKind::kSession) return {};
  if (profile.kind == CallKind::kInspect) {
    InspectMessage message;
    static_cast<CallMessage&>(message) = call;
    message.question = profile.question;
    return OwnChunks(EncodeInspectRequest(message));
  }
  AttendMessage message;
  static_cast<CallMessage&>(message) = call;
  message.wanted.output = true;
  return EncodeRequest(message);
}

absl::StatusOr<LoadPayload> MakePayload(const CallProfile& profile,
                                        NormalSource& source) {
  const AttentionShape& s = profile.shape;
  auto q = Draw({s.batch, s.q_heads, s.q_length, s.q_dim}, profile.dtype, "q",
                source);
  if (!q.ok()) return q.status();
  auto k = Draw({s.batch, s.kv_heads, s.kv_length, s.k_dim}, profile.dtype, "k",
                source);
  if (!k.ok()) return k.status();
  auto v = Draw({s.batch, s.kv_heads, s.kv_length, s.v_dim}, profile.dtype, "v",
                source);
  if (!v.ok()) return v.status();
  CallMessage call;
  call.spec = profile.Spec();
  call.args.q = q->view();
  call.args.k = k->view();
  call.args.v = v->view();
  call.priority = profile.priority;
  const grpc::ByteBuffer request = Encode(profile, call);
  return LoadPayload{.q = *std::move(q),
                     .k = *std::move(k),
                     .v = *std::move(v),
                     .request = request};
}

}  // namespace

absl::StatusOr<std::vector<LoadPayload>> MakePayloads(
    const CallProfile& profile, int count) {
  NormalSource source(profile.seed);
  std::vector<LoadPayload> payloads;
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<LoadPayload> payload = MakePayload(profile, source);
    if (!payload.ok()) return payload.status();
    payloads.push_back(*std::move(payload));
  }
  return payloads;
}

}  // namespace attn
