#include "engine/kernels/onednn_matmul.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "oneapi/dnnl/dnnl.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace attn {
namespace {

struct RightOperand {
  char transposed;
  ConstMatrix matrix;
};

// c = product * a * b + old * c
struct Factors {
  float product = 1;
  float old = 0;
};

// dnnl_sgemm and not matmul primitives: it has no code to generate for a new
// shape (98 us with 2.6.3), nothing to cache for each thread, and no scratchpad
// that threads could share by mistake. It is the same function in oneDNN 2.6
// and 3.7.
void Gemm(const ProductSize& size, const Factors& factors, ConstMatrix a,
          RightOperand b, Matrix c) {
  // Leading dimensions of 0 are refused.
  const auto leading = [](int64_t stride) {
    return std::max<int64_t>(stride, 1);
  };
  const dnnl_status_t status = dnnl_sgemm(
      'N', b.transposed, size.rows, size.columns, size.inner, factors.product,
      a.data, leading(a.stride), b.matrix.data, leading(b.matrix.stride),
      factors.old, c.data, leading(c.stride));
  if (status != dnnl_success) {
    std::fprintf(stderr, "dnnl_sgemm refused its arguments: status %d\n",
                 static_cast<int>(status));
    std::abort();
  }
}

dnnl::memory::desc Describe(dnnl::memory::data_type type, int64_t rows,
                            int64_t columns,
                            const dnnl::memory::dims& strides) {
  return {dnnl::memory::dims{rows, columns}, type, strides};
}

// A generated product of BF16 with the memory it works in.
class Bf16Product {
 public:
  // Extents, then strides of a, b and c.
  using Key = std::array<int64_t, 6>;

  Bf16Product(const dnnl::engine& engine, const Key& key)
      : a_(Describe(dnnl::memory::data_type::bf16, key[0], key[2],
                    {key[3], 1})),
        b_(Describe(dnnl::memory::data_type::bf16, key[2], key[1],
                    {1, key[4]})),
        c_(Describe(dnnl::memory::data_type::f32, key[0], key[1], {key[5], 1})),
        description_(Make(engine)),
        product_(description_),
        scratchpad_(description_.scratchpad_desc(), engine) {
    const auto borrowed = [&engine](const dnnl::memory::desc& matrix) {
      return dnnl::memory(matrix, engine, DNNL_MEMORY_NONE);
    };
    arguments_ = {{DNNL_ARG_SRC, borrowed(a_)},
                  {DNNL_ARG_WEIGHTS, borrowed(b_)},
                  {DNNL_ARG_DST, borrowed(c_)},
                  {DNNL_ARG_SCRATCHPAD, scratchpad_}};
  }

  void Run(const dnnl::stream& stream, ConstBf16Matrix a, ConstBf16Matrix b,
           Matrix c) {
    // The library takes what it only reads without const.
    arguments_[DNNL_ARG_SRC].set_data_handle(const_cast<uint16_t*>(a.data));
    arguments_[DNNL_ARG_WEIGHTS].set_data_handle(const_cast<uint16_t*>(b.data));
    arguments_[DNNL_ARG_DST].set_data_handle(c.data);
    product_.execute(stream, arguments_);
  }

 private:
  dnnl::matmul::primitive_desc Make(const dnnl::engine& engine) const {
    dnnl::primitive_attr attributes;
    // The library's own scratchpad is shared by threads that run one product at
    // once, and their results are wrong.
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
    return {engine, a_, b_, c_, attributes};
#else
    return {dnnl::matmul::desc(a_, b_, c_), attributes, engine};
#endif
  }

  dnnl::memory::desc a_;
  dnnl::memory::desc b_;
  dnnl::memory::desc c_;
  dnnl::matmul::primitive_desc description_;
  dnnl::matmul product_;
  dnnl::memory scratchpad_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

// The products of one thread: to generate one takes 100 us, to find it among
// those of all threads 3.5 us, and to run it 0.3 us more than its arithmetic.
class Bf16Products {
 public:
  static Bf16Products& OfThisThread() {
    thread_local Bf16Products products;
    return products;
  }

  void Run(const ProductSize& size, ConstBf16Matrix a, ConstBf16Matrix b,
           Matrix c) {
    const Bf16Product::Key key = {size.rows, size.columns, size.inner,
                                  a.stride,  b.stride,     c.stride};
    auto found = products_.find(key);
    if (found == products_.end()) {
      if (products_.size() >= kMostProducts) products_.clear();
      found = products_.try_emplace(key, engine_, key).first;
    }
    found->second.Run(stream_, a, b, c);
  }

 private:
  static constexpr size_t kMostProducts = 256;

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Bf16Product::Key, Bf16Product> products_;
};

void SetToZero(const ProductSize& size, Matrix c) {
  for (int64_t r = 0; r < size.rows; ++r) {
    std::fill_n(c.data + r * c.stride, size.columns, 0.0F);
  }
}

}  // namespace

void MultiplyTransposed(const ProductSize& size, float alpha, ConstMatrix a,
                        ConstMatrix b, Matrix c) {
  if (size.rows == 0 || size.columns == 0) return;
  if (size.inner == 0) return SetToZero(size, c);
  Gemm(size, {.product = alpha}, a, {'T', b}, c);
}

void MultiplyTransposed(const ProductSize& size, ConstBf16Matrix a,
                        ConstBf16Matrix b, Matrix c) {
  if (size.rows == 0 || size.columns == 0) return;
  if (size.inner == 0) return SetToZero(size, c);
  try {
    Bf16Products::OfThisThread().Run(size, a, b, c);
  } catch (const dnnl::error& error) {
    std::fprintf(stderr, "oneDNN has no product of BF16: %s\n", error.what());
    std::abort();
  }
}

void Multiply(const ProductSize& size, ConstMatrix a, ConstMatrix b,
              bool accumulate, Matrix c) {
  if (size.rows == 0 || size.columns == 0) return;
  if (size.inner == 0) {
    if (!accumulate) SetToZero(size, c);
    return;
  }
  Gemm(size, {.old = accumulate ? 1.0F : 0.0F}, a, {'N', b}, c);
}

NarrowProducts OneDnnNarrowProducts() {
  const unsigned isa = dnnl_get_effective_cpu_isa();
  // Each set of instructions is the bits of those that it includes.
  const auto includes = [isa](unsigned wanted) {
    return (isa & wanted) == wanted;
  };
  if (includes(dnnl_cpu_isa_avx512_core_amx)) return NarrowProducts::kTiles;
  if (includes(dnnl_cpu_isa_avx512_core_bf16)) return NarrowProducts::kDots;
  return NarrowProducts::kNone;
}

bool CapOneDnn(IsaCap cap) {
  dnnl_cpu_isa_t isa = dnnl_cpu_isa_all;
  switch (cap) {
    case IsaCap::kSse4:
      isa = dnnl_cpu_isa_sse41;
      break;
    case IsaCap::kAvx2:
      isa = dnnl_cpu_isa_avx2;
      break;
    case IsaCap::kAvx512:
      isa = dnnl_cpu_isa_avx512_core;
      break;
    case IsaCap::kNative:
      return true;
  }
  const dnnl_status_t status = dnnl_set_max_cpu_isa(isa);
  // A library built without this dispatch (Arm) has nothing to cap.
  return status == dnnl_success || status == dnnl_unimplemented;
}

std::string OneDnnLibraryVersion() {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrCat(version->major, ".", version->minor, ".", version->patch);
}

}  // namespace attn
