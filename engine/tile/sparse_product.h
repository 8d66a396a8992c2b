// The product of tile_products.h for a left operand that is mostly 0, as the
// weights of sparse normalizers and sparsifiers are.
//
// The widest vectors of this machine, chosen once at run time. Bits are those
// of the dense product where b is finite. Thread-safe: pure.
#pragma once

#include "engine/tile/tile_products.h"

namespace attn {

// c += a b, passing over the elements of a that are 0.
void AddSparseProduct(const TileProduct& product);

// Whether that is the faster way: at most a quarter of a is not 0.
bool IsSparse(const TileProduct& product);

// c += a b, the faster way.
void AddProduct(const TileProduct& product);

}  // namespace attn
