#include "server/http/explorer_files.h"

#include <cstddef>
#include <cstdint>
#include <new>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "openssl/sha.h"
#include "zlib.h"
// Made by CMakeLists.txt: X(symbol, name, path) for each file.
#include "server/http/explorer_list.h"

// The assembler copies the file, which costs the compiler nothing.
#define ATTN_EMBED(symbol, name, path)                               \
  asm(".pushsection .rodata\n"                                       \
      ".hidden " #symbol "\n.global " #symbol "\n" #symbol           \
      ":\n"                                                          \
      "771: .incbin \"" path                                         \
      "\"\n"                                                         \
      "772: .balign 8\n"                                             \
      ".hidden " #symbol "_size\n.global " #symbol "_size\n" #symbol \
      "_size: .quad 772b - 771b\n"                                   \
      ".popsection\n");
ATTN_EXPLORER_FILES(ATTN_EMBED)

#define ATTN_DECLARE(symbol, name, path) \
  extern "C" const char symbol[];        \
  extern "C" const uint64_t symbol##_size;
ATTN_EXPLORER_FILES(ATTN_DECLARE)

namespace attn {
namespace {

std::string ContentType(absl::string_view name) {
  if (absl::EndsWith(name, ".html")) return "text/html; charset=utf-8";
  if (absl::EndsWith(name, ".css")) return "text/css; charset=utf-8";
  return "text/javascript; charset=utf-8";
}

std::string Digest(absl::string_view bytes) {
  constexpr size_t kShown = 16;
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         digest);
  return absl::BytesToHexString(
      {reinterpret_cast<const char*>(digest), kShown});
}

std::string Gzip(absl::string_view bytes) {
  // A gzip header and the largest window.
  constexpr int kWindowBits = 16 + MAX_WBITS;
  constexpr int kMemoryLevel = 8;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kWindowBits,
                   kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  // Into memory that holds it whole: it cannot stop before the end.
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

ExplorerFile MakeFile(const char* name, const char* data, uint64_t size) {
  const absl::string_view bytes(data, static_cast<size_t>(size));
  return {name, ContentType(name), bytes, Gzip(bytes),
          absl::StrCat("W/\"", Digest(bytes), "\"")};
}

}  // namespace

const std::vector<ExplorerFile>& ExplorerFiles() {
#define ATTN_MAKE(symbol, name, path) MakeFile(name, symbol, symbol##_size),
  static const auto* const kFiles =
      new std::vector<ExplorerFile>{ATTN_EXPLORER_FILES(ATTN_MAKE)};
  return *kFiles;
}

const ExplorerFile* FindExplorerFile(absl::string_view name) {
  for (const ExplorerFile& file : ExplorerFiles()) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

}  // namespace attn
