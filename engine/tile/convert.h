// Bulk conversion of tensor elements to and from the types that are computed
// in. Bits are those of engine/core/half.h. Thread-safe: pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/core/dtype.h"

namespace attn {

void BF16ToFloat(const uint16_t* from, float* to, int64_t count);
void F16ToFloat(const uint16_t* from, float* to, int64_t count);
// To nearest even.
void FloatToBF16(const float* from, uint16_t* to, int64_t count);
void FloatToF16(const float* from, uint16_t* to, int64_t count);

// Elements from a tensor: `count` of them, `stride` elements apart (0: all the
// same one). `dtype` is F32, F16, BF16, F64 or I8. A finite double that no
// float can hold becomes the largest float, so that it does not turn into an
// infinity.
void LoadElements(const std::byte* from, DType dtype, int64_t stride,
                  int64_t count, float* to);
void LoadElements(const std::byte* from, DType dtype, int64_t stride,
                  int64_t count, double* to);

// Elements into a tensor of contiguous elements: F32, F16, BF16 or F64 from
// float; F64 or a narrower type (rounded to float first) from double.
void StoreElements(const float* from, int64_t count, DType dtype,
                   std::byte* to);
void StoreElements(const double* from, int64_t count, DType dtype,
                   std::byte* to);

}  // namespace attn
