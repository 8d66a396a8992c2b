// oneDNN's Graph API: attention as one fused partition.
//
//   dnnl_graph_bench SHAPES.csv THREADS f32|bf16 [ONLY] [BUDGET]
//
// Masks are tensors that are added; causal rows are computed as wide as others.
#include <cstring>
#include <stdexcept>

#include "oneapi/dnnl/dnnl.hpp"
#include "oneapi/dnnl/dnnl_graph.hpp"
#include "peer_bench.h"

namespace peers {
namespace {

using Logical = dnnl::graph::logical_tensor;
using Dims = Logical::dims;
using Type = Logical::data_type;
using Operation = dnnl::graph::op;

size_t Count(const Dims& dims) {
  size_t count = 1;
  for (const auto extent : dims) count *= static_cast<size_t>(extent);
  return count;
}

// Bytes of the numbers in a type; gives back what the type could hold.
std::vector<char> Encode(std::vector<float>& numbers, Type type) {
  const size_t size = type == Type::f32 ? 4 : 2;
  std::vector<char> bytes(numbers.size() * size + 64);
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &numbers[i], 4);
    // Infinities must not be rounded away.
    if (size == 2 && std::isfinite(numbers[i])) bits += 0x8000;
    if (size == 2) bits &= 0xffff0000;
    std::memcpy(&numbers[i], &bits, 4);
    std::memcpy(&bytes[i * size],
                reinterpret_cast<const char*>(&bits) + (4 - size), size);
  }
  return bytes;
}

std::vector<float> Decode(const std::vector<char>& bytes, size_t count,
                          Type type) {
  const size_t size = type == Type::f32 ? 4 : 2;
  std::vector<float> numbers(count, 0.0F);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(reinterpret_cast<char*>(&numbers[i]) + (4 - size),
                &bytes[i * size], size);
  }
  return numbers;
}

// The graph of one shape and the memory it runs on.
class Attention {
 public:
  Attention(const Shape& shape, Type type)
      : shape_(shape),
        type_(type),
        engine_(dnnl::graph::make_engine_with_allocator(
            dnnl::engine::kind::cpu, 0, dnnl::graph::allocator())),
        stream_(engine_) {
    SetDims();
    Compile();
    Bind();
  }

  void Run() {
    compiled_.execute(stream_, inputs_, outputs_);
    stream_.wait();
  }

  double Error() {
    call_.out = {shape_.q_heads, shape_.q_length, shape_.dim,
                 Decode(memory_.back(), Count(q_dims_), type_)};
    return ErrorOf(shape_, call_);
  }

 private:
  // Groups of query heads are an axis of their own.
  void SetDims() {
    const Shape& s = shape_;
    if (s.q_heads == s.kv_heads) {
      q_dims_ = {s.batch, s.q_heads, s.q_length, s.dim};
      kv_dims_ = {s.batch, s.q_heads, s.kv_length, s.dim};
      score_dims_ = {s.batch, s.q_heads, s.q_length, s.kv_length};
    } else {
      q_dims_ = {s.batch, s.kv_heads, s.group(), s.q_length, s.dim};
      kv_dims_ = {s.batch, s.kv_heads, 1, s.kv_length, s.dim};
      score_dims_ = {s.batch, s.kv_heads, s.group(), s.q_length, s.kv_length};
    }
    if (s.mode == "bias") {
      mask_dims_ = score_dims_;
      return;
    }
    mask_dims_ = Dims(score_dims_.size(), 1);
    mask_dims_.back() = s.kv_length;
    const bool by_length = s.mode == "pad" || s.mode == "ragged";
    if (by_length) mask_dims_[0] = s.batch;
    if (!by_length) mask_dims_[mask_dims_.size() - 2] = s.q_length;
  }

  Logical Make(Type type, const Dims& dims) {
    return Logical(next_id_++, type, dims, Logical::layout_type::strided);
  }

  Operation Add(Operation::kind kind, const std::vector<Logical>& inputs,
                const Logical& output) {
    Operation operation(next_id_++, kind, "op" + std::to_string(next_id_));
    operation.add_inputs(inputs);
    operation.add_outputs({output});
    return operation;
  }

  void Compile() {
    q_ = Make(type_, q_dims_), k_ = Make(type_, kv_dims_);
    v_ = Make(type_, kv_dims_), divisor_ = Make(Type::f32, {1});
    mask_ = Make(type_, mask_dims_), out_ = Make(type_, q_dims_);
    // What lies between the two products is F32.
    const Logical scores = Make(Type::f32, score_dims_);
    const Logical scaled = Make(Type::f32, score_dims_);
    const Logical masked = Make(Type::f32, score_dims_);
    const Logical weights = Make(type_, score_dims_);
    dnnl::graph::graph graph(dnnl::engine::kind::cpu);
    Operation first = Add(Operation::kind::MatMul, {q_, k_}, scores);
    first.set_attr<bool>(Operation::attr::transpose_b, true);
    Operation softmax = Add(Operation::kind::SoftMax,
                            {shape_.has_mask() ? masked : scaled}, weights);
    softmax.set_attr<int64_t>(Operation::attr::axis, -1);
    graph.add_op(first);
    graph.add_op(Add(Operation::kind::Divide, {scores, divisor_}, scaled));
    if (shape_.has_mask()) {
      graph.add_op(Add(Operation::kind::Add, {scaled, mask_}, masked));
    }
    graph.add_op(softmax);
    graph.add_op(Add(Operation::kind::MatMul, {weights, v_}, out_));
    graph.finalize();
    const auto partitions = graph.get_partitions();
    if (partitions.size() != 1) throw std::runtime_error("not one partition");
    for (const Logical& port : partitions[0].get_input_ports()) {
      for (const Logical& input : {q_, k_, v_, divisor_, mask_}) {
        if (input.get_id() == port.get_id()) ports_.push_back(input);
      }
    }
    compiled_ = partitions[0].compile(ports_, {out_}, engine_);
  }

  void Bind() {
    const Shape& s = shape_;
    call_.q = {s.q_heads, s.q_length, s.dim, Normal(Count(q_dims_), 0)};
    call_.k = {s.kv_heads, s.kv_length, s.dim, Normal(Count(kv_dims_), 1)};
    call_.v = {s.kv_heads, s.kv_length, s.dim, Normal(Count(kv_dims_), 2)};
    call_.bias = {s.q_heads, s.q_length, s.kv_length, MaskNumbers()};
    std::vector<float> divisor = {std::sqrt(static_cast<float>(s.dim))};
    for (const Logical& port : ports_) {
      const size_t id = port.get_id();
      const bool is_divisor = id == divisor_.get_id();
      std::vector<float>& numbers = is_divisor          ? divisor
                                    : id == q_.get_id() ? call_.q.numbers
                                    : id == k_.get_id() ? call_.k.numbers
                                    : id == v_.get_id() ? call_.v.numbers
                                                        : call_.bias.numbers;
      memory_.push_back(Encode(numbers, is_divisor ? Type::f32 : type_));
      inputs_.emplace_back(port, engine_, memory_.back().data());
    }
    memory_.emplace_back(Count(q_dims_) * 4 + 64);
    outputs_.emplace_back(out_, engine_, memory_.back().data());
  }

  std::vector<float> MaskNumbers() const {
    const size_t count = Count(mask_dims_);
    if (shape_.mode == "bias") return Normal(count, 3);
    std::vector<float> numbers(count);
    const auto keys = static_cast<size_t>(shape_.kv_length);
    for (size_t i = 0; i < count; ++i) {
      const int line = static_cast<int>(i / keys);
      const bool by_length = mask_dims_[0] > 1;
      const bool visible =
          shape_.Visible(by_length ? line : 0, by_length ? 0 : line,
                         static_cast<int>(i % keys));
      numbers[i] = visible ? 0.0F : -INFINITY;
    }
    return numbers;
  }

  const Shape shape_;
  const Type type_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  Dims q_dims_, kv_dims_, score_dims_, mask_dims_;
  size_t next_id_ = 0;
  Logical q_, k_, v_, divisor_, mask_, out_;
  std::vector<Logical> ports_;
  dnnl::graph::compiled_partition compiled_;
  Call call_;
  std::vector<std::vector<char>> memory_;
  std::vector<dnnl::graph::tensor> inputs_, outputs_;
};

int Main(int argc, char** argv) {
  if (argc < 4) return 2;
  const dnnl_version_t* version = dnnl_version();
  const Options options = {"onednn" + std::to_string(version->major) + "." +
                               std::to_string(version->minor) + "-graph",
                           argv[3], std::stoi(argv[2]),
                           argc > 5 ? std::stod(argv[5]) : 0.5};
  const Type type = options.dtype == "f32" ? Type::f32 : Type::bf16;
  const std::string only = argc > 4 ? argv[4] : "";
  for (const Shape& shape : ReadShapes(argv[1], only, options.dtype)) {
    try {
      Attention attention(shape, type);
      PrintTimes(options, shape, [&] { attention.Run(); });
      std::printf(",%.1e\n", attention.Error());
    } catch (const std::exception& error) {
      std::printf("# %s %s: %s\n", options.peer.c_str(), shape.name.c_str(),
                  error.what());
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace peers

int main(int argc, char** argv) { return peers::Main(argc, argv); }
