#include "client/draw/png_writer.h"

#include <png.h>

#include <csetjmp>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attn {

struct PngWriter::State {
  Format format;
  ByteSink sink;
  bool sink_failed = false;
  std::string error;
  png_structp png = nullptr;
  png_infop info = nullptr;

  // libpng goes on after a failed sink, to nowhere: its own way out of a
  // callback is longjmp(), which would leave the sink's objects behind.
  void Take(const png_byte* data, size_t size) {
    if (!sink_failed) sink_failed = !sink({data, size});
  }

  absl::Status Result(bool done) const {
    if (sink_failed) return absl::DataLossError("the image was not written");
    if (done) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("libpng: ", error));
  }
};

namespace {

template <typename T>
T* StateOf(png_voidp state) {
  return static_cast<T*>(state);
}

void Ignore(png_structp /*png*/, png_const_charp /*message*/) {}

}  // namespace

PngWriter::PngWriter(const Format& format, ByteSink sink)
    : state_(std::make_unique<State>()) {
  state_->format = format;
  state_->sink = std::move(sink);
}

PngWriter::~PngWriter() {
  png_destroy_write_struct(&state_->png, &state_->info);
}

// Between setjmp() and the end of each function below there is no object with
// a destructor.
absl::Status PngWriter::Begin() {
  State& state = *state_;
  state.png = png_create_write_struct(
      PNG_LIBPNG_VER_STRING, &state,
      [](png_structp png, png_const_charp message) {
        StateOf<State>(png_get_error_ptr(png))->error = message;
        png_longjmp(png, 1);
      },
      Ignore);
  if (state.png != nullptr) state.info = png_create_info_struct(state.png);
  if (state.info == nullptr) return state.Result(false);
  png_set_write_fn(
      state.png, &state,
      [](png_structp png, png_bytep data, size_t size) {
        StateOf<State>(png_get_io_ptr(png))->Take(data, size);
      },
      [](png_structp /*png*/) {});
  if (setjmp(png_jmpbuf(state.png)) != 0) return state.Result(false);
  png_set_IHDR(
      state.png, state.info, static_cast<png_uint_32>(state.format.width),
      static_cast<png_uint_32>(state.format.height), 8,
      state.format.has_alpha ? PNG_COLOR_TYPE_RGBA : PNG_COLOR_TYPE_RGB,
      PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
      PNG_FILTER_TYPE_DEFAULT);
  png_set_sRGB(state.png, state.info, PNG_sRGB_INTENT_PERCEPTUAL);
  png_write_info(state.png, state.info);
  return state.Result(true);
}

absl::Status PngWriter::Row(absl::Span<const uint8_t> pixels) {
  State& state = *state_;
  if (setjmp(png_jmpbuf(state.png)) != 0) return state.Result(false);
  png_write_row(state.png, pixels.data());
  return state.Result(true);
}

absl::Status PngWriter::End() {
  State& state = *state_;
  if (setjmp(png_jmpbuf(state.png)) != 0) return state.Result(false);
  png_write_end(state.png, state.info);
  return state.Result(true);
}

}  // namespace attn
