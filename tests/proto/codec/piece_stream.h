// A stream that hands out its bytes in small pieces, as a socket does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/io/zero_copy_stream.h"

namespace attn {

// Each piece is a heap block of its own, so that the address sanitizer sees a
// read past its end. Thread-compatible.
class PieceStream : public google::protobuf::io::ZeroCopyInputStream {
 public:
  PieceStream(const std::string& bytes, size_t piece_size) {
    for (size_t i = 0; i < bytes.size(); i += piece_size) {
      const size_t size = std::min(piece_size, bytes.size() - i);
      pieces_.push_back({std::make_unique<char[]>(size), size});
      std::copy_n(bytes.data() + i, size, pieces_.back().bytes.get());
    }
  }

  bool Next(const void** data, int* size) override {
    if (next_ == pieces_.size()) return false;
    const Piece& piece = pieces_[next_++];
    *data = piece.bytes.get() +
            (piece.size - (backed_up_ ? backed_up_ : piece.size));
    *size = static_cast<int>(backed_up_ ? backed_up_ : piece.size);
    count_ += *size;
    backed_up_ = 0;
    return true;
  }
  void BackUp(int count) override {
    if (count == 0) return;
    --next_;
    backed_up_ = static_cast<size_t>(count);
    count_ -= count;
  }
  bool Skip(int count) override {
    const void* data = nullptr;
    int size = 0;
    while (count > 0 && Next(&data, &size)) {
      if (size > count) BackUp(size - count);
      count -= std::min(size, count);
    }
    return count == 0;
  }
  int64_t ByteCount() const override { return count_; }

 private:
  struct Piece {
    std::unique_ptr<char[]> bytes;
    size_t size;
  };
  std::vector<Piece> pieces_;
  size_t next_ = 0;
  size_t backed_up_ = 0;
  int64_t count_ = 0;
};

}  // namespace attn
