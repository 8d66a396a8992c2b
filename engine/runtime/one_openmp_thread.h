// Holds OpenMP to one thread where we compute.
#pragma once

namespace attn {

// For its lifetime a parallel region of the calling thread has one thread, and
// afterwards as many as before. A library that runs on OpenMP would otherwise
// start a team for every thread that calls it. Nothing where there is no OpenMP
// to hold. Not thread-safe: of the thread that makes it.
class OneOpenMpThread {
 public:
  OneOpenMpThread();
  ~OneOpenMpThread();
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  int before_ = 1;
};

}  // namespace attn
