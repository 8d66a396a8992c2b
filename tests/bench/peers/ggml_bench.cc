// ggml's flash attention on the CPU: F32 queries, keys and values of the dtype.
//
//   ggml_bench SHAPES.csv THREADS f32|f16|bf16|i8 [ONLY] [BUDGET]
//
// i8 is ggml's q8_0: blocks of 32 numbers with a scale each.
#include <memory>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "peer_bench.h"

namespace peers {
namespace {

ggml_type TypeOf(const std::string& dtype) {
  if (dtype == "f32") return GGML_TYPE_F32;
  if (dtype == "f16") return GGML_TYPE_F16;
  return dtype == "bf16" ? GGML_TYPE_BF16 : GGML_TYPE_Q8_0;
}

ggml_backend_t MakeBackend(int threads) {
  ggml_backend_load_all();
  ggml_backend_dev_t device =
      ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  ggml_backend_t backend = ggml_backend_dev_init(device, nullptr);
  ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(device);
  const auto find = [registry](const char* name) {
    return ggml_backend_reg_get_proc_address(registry, name);
  };
  reinterpret_cast<ggml_backend_set_n_threads_t>(
      find("ggml_backend_set_n_threads"))(backend, threads);
  // Threads that stay: otherwise each call starts them.
  using NewPool = ggml_threadpool* (*)(ggml_threadpool_params*);
  using SetPool = void (*)(ggml_backend_t, ggml_threadpool_t);
  const auto new_pool = reinterpret_cast<NewPool>(find("ggml_threadpool_new"));
  const auto set_pool =
      reinterpret_cast<SetPool>(find("ggml_backend_cpu_set_threadpool"));
  if (new_pool != nullptr && set_pool != nullptr) {
    ggml_threadpool_params params = ggml_threadpool_params_default(threads);
    set_pool(backend, new_pool(&params));
  }
  return backend;
}

// Sends the numbers in the tensor's type; leaves in them what it could hold.
void Upload(ggml_tensor* tensor, std::vector<float>& numbers) {
  if (tensor->type == GGML_TYPE_F32) {
    ggml_backend_tensor_set(tensor, numbers.data(), 0, numbers.size() * 4);
    return;
  }
  std::vector<char> bytes(ggml_nbytes(tensor));
  ggml_quantize_chunk(tensor->type, numbers.data(), bytes.data(), 0,
                      ggml_nrows(tensor), tensor->ne[0], nullptr);
  ggml_get_type_traits(tensor->type)
      ->to_float(bytes.data(), numbers.data(),
                 static_cast<int64_t>(numbers.size()));
  ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
}

// The graph of one shape and the memory it runs on.
class Attention {
 public:
  Attention(const Shape& shape, ggml_type kv_type, ggml_backend_t backend)
      : shape_(shape), backend_(backend) {
    const ggml_init_params params{
        ggml_tensor_overhead() * 32 + ggml_graph_overhead(), nullptr, true};
    context_.reset(ggml_init(params));
    q_ = Make(GGML_TYPE_F32, shape.dim, shape.q_length, shape.q_heads);
    k_ = Make(kv_type, shape.dim, shape.kv_length, shape.kv_heads);
    v_ = Make(kv_type, shape.dim, shape.kv_length, shape.kv_heads);
    if (shape.has_mask()) mask_ = MakeMask();
    out_ =
        ggml_flash_attn_ext(context_.get(), q_, k_, v_, mask_,
                            1 / std::sqrt(static_cast<float>(shape.dim)), 0, 0);
    ggml_prec_set_acc(out_, GGML_PREC_F32);
    graph_ = ggml_new_graph(context_.get());
    ggml_build_forward_expand(graph_, out_);
    memory_.reset(ggml_backend_alloc_ctx_tensors(context_.get(), backend));
    Fill();
  }

  void Run() { ggml_backend_graph_compute(backend_, graph_); }

  double Error() {
    std::vector<float> rows(static_cast<size_t>(ggml_nelements(out_)));
    ggml_backend_tensor_get(out_, rows.data(), 0, rows.size() * 4);
    // The result is [B, Sq, Hq, d].
    const Shape& s = shape_;
    const Tensor by_row{s.q_length, s.q_heads, s.dim, std::move(rows)};
    call_.out = {s.q_heads, s.q_length, s.dim,
                 std::vector<float>(by_row.numbers.size())};
    for (int b = 0; b < s.batch; ++b) {
      for (int head = 0; head < s.q_heads; ++head) {
        for (int row = 0; row < s.q_length; ++row) {
          std::copy_n(&by_row.numbers[by_row.Index(b, row, head, 0)], s.dim,
                      &call_.out.numbers[call_.out.Index(b, head, row, 0)]);
        }
      }
    }
    return ErrorOf(s, call_);
  }

 private:
  ggml_tensor* Make(ggml_type type, int columns, int rows, int heads) {
    return ggml_new_tensor_4d(context_.get(), type, columns, rows, heads,
                              shape_.batch);
  }

  ggml_tensor* MakeMask() {
    const Shape& s = shape_;
    const bool by_position = s.mode == "causal" || s.mode == "window";
    return ggml_new_tensor_4d(context_.get(), GGML_TYPE_F16, s.kv_length,
                              s.q_length, s.mode == "bias" ? s.q_heads : 1,
                              by_position ? 1 : s.batch);
  }

  void Fill() {
    const Shape& s = shape_;
    const auto count = [](const ggml_tensor* tensor) {
      return static_cast<size_t>(ggml_nelements(tensor));
    };
    call_.q = {s.q_heads, s.q_length, s.dim, Normal(count(q_), 0)};
    call_.k = {s.kv_heads, s.kv_length, s.dim, Normal(count(k_), 1)};
    call_.v = {s.kv_heads, s.kv_length, s.dim, Normal(count(v_), 2)};
    Upload(q_, call_.q.numbers);
    Upload(k_, call_.k.numbers);
    Upload(v_, call_.v.numbers);
    if (mask_ == nullptr) return;
    call_.bias = {s.q_heads, s.q_length, s.kv_length, Normal(count(mask_), 3)};
    if (s.mode != "bias") FillMask(call_.bias.numbers);
    Upload(mask_, call_.bias.numbers);
  }

  void FillMask(std::vector<float>& numbers) const {
    size_t i = 0;
    for (int b = 0; b < mask_->ne[3]; ++b) {
      for (int row = 0; row < shape_.q_length; ++row) {
        for (int key = 0; key < shape_.kv_length; ++key, ++i) {
          numbers[i] = shape_.Visible(b, row, key) ? 0.0F : -INFINITY;
        }
      }
    }
  }

  struct Free {
    void operator()(ggml_context* context) const { ggml_free(context); }
    void operator()(ggml_backend_buffer* memory) const {
      ggml_backend_buffer_free(memory);
    }
  };

  const Shape shape_;
  ggml_backend_t backend_;
  std::unique_ptr<ggml_context, Free> context_;
  std::unique_ptr<ggml_backend_buffer, Free> memory_;
  ggml_tensor *q_, *k_, *v_, *mask_ = nullptr, *out_;
  ggml_cgraph* graph_;
  Call call_;
};

int Main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string dtype = argv[3];
  const Options options = {"ggml-flash", dtype, std::stoi(argv[2]),
                           argc > 5 ? std::stod(argv[5]) : 0.5};
  ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  ggml_backend_t backend = MakeBackend(options.threads);
  const std::string only = argc > 4 ? argv[4] : "";
  for (const Shape& shape : ReadShapes(argv[1], only, dtype)) {
    Attention attention(shape, TypeOf(dtype), backend);
    PrintTimes(options, shape, [&] { attention.Run(); });
    std::printf(",%.1e\n", attention.Error());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace peers

int main(int argc, char** argv) { return peers::Main(argc, argv); }
