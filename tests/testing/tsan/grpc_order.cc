// Tells the thread sanitizer what gRPC's interface promises. The library is not
// built for the sanitizer, which therefore sees what our threads do before and
// after gRPC, and not that the one comes before the other:
//
//  * a batch is given to a call before its completion is reported;
//  * a server is started before its first call is handled;
//  * every call is over before the server is destroyed.
//
// Link this file into a test that serves: its functions stand before those of
// libgrpc and pass on to them. Nothing else is ordered by it: two calls, or two
// callbacks of one call, may still be found to race.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sanitizer/tsan_interface.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "grpc/grpc.h"

namespace {

using Functor = grpc_completion_queue_functor;
using Callback = void (*)(Functor* functor, int ok);

// What the three promises are remembered by, beside each batch's own tag.
char servers_started;
char calls_over;

// The same function of the library that stands behind this file.
template <typename Function>
Function Next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    std::fprintf(stderr, "%s: not in any library\n", name);
    std::abort();
  }
  return reinterpret_cast<Function>(found);
}

struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

std::vector<Range> CodeOfThisProcess() {
  std::vector<Range> ranges;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& part = info->dlpi_phdr[i];
          if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
          const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
          static_cast<std::vector<Range>*>(out)->push_back(
              {begin, begin + part.p_memsz});
        }
        return 0;
      },
      &ranges);
  return ranges;
}

// The tag of a callback queue begins with a function, that of any other queue
// with a table of virtual functions.
bool IsCallback(const void* tag) {
  static const std::vector<Range> code = CodeOfThisProcess();
  const auto first = *static_cast<const uintptr_t*>(tag);
  for (const Range& range : code) {
    if (first >= range.begin && first < range.end) return true;
  }
  return false;
}

// gRPC has two such functions: what ends a batch with and without a status.
constexpr size_t kCallbacks = 8;
std::array<std::atomic<Callback>, kCallbacks> callbacks;

template <size_t kIndex>
void AcquireAndCall(Functor* functor, int ok) {
  __tsan_acquire(functor);
  callbacks[kIndex].load(std::memory_order_relaxed)(functor, ok);
}

template <size_t... kIndices>
constexpr std::array<Callback, kCallbacks> Replacements(
    std::index_sequence<kIndices...>) {
  return {AcquireAndCall<kIndices>...};
}

constexpr std::array<Callback, kCallbacks> kReplacements =
    Replacements(std::make_index_sequence<kCallbacks>());

// Of a callback, or of its replacement.
Callback ReplacementOf(Callback callback) {
  for (size_t i = 0; i < kCallbacks; ++i) {
    if (callback == kReplacements[i]) return callback;
    Callback known = nullptr;
    if (callbacks[i].compare_exchange_strong(known, callback,
                                             std::memory_order_relaxed) ||
        known == callback) {
      return kReplacements[i];
    }
  }
  std::fprintf(stderr, "gRPC has more callbacks than grpc_order.cc knows\n");
  std::abort();
}

}  // namespace

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops,
                                      size_t nops, void* tag, void* reserved) {
  static const auto next =
      Next<decltype(&grpc_call_start_batch)>("grpc_call_start_batch");
  if (tag != nullptr && IsCallback(tag)) {
    auto* functor = static_cast<Functor*>(tag);
    functor->functor_run = ReplacementOf(functor->functor_run);
    __tsan_release(functor);
  }
  return next(call, ops, nops, tag, reserved);
}

void grpc_server_start(grpc_server* server) {
  static const auto next =
      Next<decltype(&grpc_server_start)>("grpc_server_start");
  __tsan_release(&servers_started);
  next(server);
}

// The first that a handler does.
void* grpc_call_arena_alloc(grpc_call* call, size_t size) {
  static const auto next =
      Next<decltype(&grpc_call_arena_alloc)>("grpc_call_arena_alloc");
  __tsan_acquire(&servers_started);
  return next(call, size);
}

// The last that a handler's end does.
void grpc_call_unref(grpc_call* call) {
  static const auto next = Next<decltype(&grpc_call_unref)>("grpc_call_unref");
  __tsan_release(&calls_over);
  next(call);
}

void grpc_server_destroy(grpc_server* server) {
  static const auto next =
      Next<decltype(&grpc_server_destroy)>("grpc_server_destroy");
  __tsan_acquire(&calls_over);
  next(server);
}

}  // extern "C"
