#include "engine/runtime/one_openmp_thread.h"

#if ATTN_HAVE_GOMP
// NOLINTBEGIN(readability-identifier-naming): OpenMP's own names.
extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int threads);
// NOLINTEND(readability-identifier-naming)
#endif

namespace attn {

OneOpenMpThread::OneOpenMpThread() {
#if ATTN_HAVE_GOMP
  before_ = omp_get_max_threads();
  if (before_ != 1) omp_set_num_threads(1);
#endif
}

OneOpenMpThread::~OneOpenMpThread() {
#if ATTN_HAVE_GOMP
  if (before_ != 1) omp_set_num_threads(before_);
#endif
}

}  // namespace attn
