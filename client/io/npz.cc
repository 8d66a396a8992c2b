#include "client/io/npz.h"

#include <zip.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/io/file.h"
#include "client/io/npy.h"

namespace attn {
namespace {

constexpr zip_int64_t kMaxMembers = 4096;
// Deflate cannot expand further than 1032 : 1; a member that says it does lies
// about its size.
constexpr uint64_t kMaxExpansion = 1032;
constexpr uint64_t kExpansionSlack = 4096;
constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE |
                                 ZIP_STAT_COMP_SIZE |
                                 ZIP_STAT_ENCRYPTION_METHOD;

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct Close {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Archive = std::unique_ptr<zip_t, Discard>;

absl::Status Bad(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

std::string MessageOf(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string message = zip_error_strerror(&error);
  zip_error_fini(&error);
  return message;
}

absl::StatusOr<Archive> Open(const std::string& path, int flags) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), flags, &code));
  if (archive != nullptr) return archive;
  return Bad(path, MessageOf(code));
}

// Whether `stat` can be believed and afforded.
absl::Status CheckMember(const zip_stat_t& stat, uint64_t budget) {
  if ((stat.valid & kNeeded) != kNeeded) {
    return absl::InvalidArgumentError("its size is not known");
  }
  if (stat.encryption_method != ZIP_EM_NONE) {
    return absl::InvalidArgumentError("it is encrypted");
  }
  if (stat.size > budget) {
    return absl::InvalidArgumentError(absl::StrCat(
        stat.size, " bytes, more than the ", budget, " that may be read"));
  }
  if (stat.size / kMaxExpansion > stat.comp_size + kExpansionSlack) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it claims ", stat.size, " bytes out of ", stat.comp_size));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadMember(zip_t* archive, zip_uint64_t index,
                                       uint64_t size) {
  std::unique_ptr<zip_file_t, Close> file(zip_fopen_index(archive, index, 0));
  if (file == nullptr) {
    return absl::InvalidArgumentError(zip_strerror(archive));
  }
  std::string bytes(size, '\0');
  uint64_t done = 0;
  while (done < size) {
    const zip_int64_t got =
        zip_fread(file.get(), bytes.data() + done, size - done);
    if (got <= 0) return absl::InvalidArgumentError("it is damaged");
    done += static_cast<uint64_t>(got);
  }
  char beyond = 0;  // The check sum is looked at when the end is read.
  if (zip_fread(file.get(), &beyond, 1) != 0) {
    return absl::InvalidArgumentError("it is damaged");
  }
  return bytes;
}

absl::Status AddMember(zip_t* archive, zip_uint64_t index, uint64_t& budget,
                       const ReadOptions& options, TensorMap& tensors) {
  zip_stat_t stat;
  zip_stat_init(&stat);
  if (zip_stat_index(archive, index, 0, &stat) != 0 || stat.name == nullptr) {
    return absl::InvalidArgumentError(zip_strerror(archive));
  }
  const std::string member = absl::CHexEscape(stat.name);
  const auto bad = [&member](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(member, ": ", what));
  };
  absl::Status status = CheckMember(stat, budget);
  if (!status.ok()) return bad(status.message());
  budget -= stat.size;
  const auto bytes = ReadMember(archive, index, stat.size);
  if (!bytes.ok()) return bad(bytes.status().message());
  auto tensor = ParseNpy(*bytes, member, options);
  if (!tensor.ok()) return tensor.status();
  std::string name(absl::StripSuffix(stat.name, ".npy"));
  if (!tensors.emplace(std::move(name), *std::move(tensor)).second) {
    return bad("comes twice");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TensorMap> ReadNpz(const std::string& path,
                                  const ReadOptions& options) {
  if (absl::Status status = CheckReadable(path); !status.ok()) return status;
  auto archive = Open(path, ZIP_RDONLY | ZIP_CHECKCONS);
  if (!archive.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(archive.status().message(),
                     "; expected a whole .npz file as numpy.savez makes them"));
  }
  const zip_int64_t members = zip_get_num_entries(archive->get(), 0);
  if (members > kMaxMembers) {
    return Bad(path, absl::StrCat(members, " members; at most ", kMaxMembers,
                                  " are read"));
  }
  TensorMap tensors;
  auto budget = static_cast<uint64_t>(options.max_bytes);
  for (zip_int64_t i = 0; i < members; ++i) {
    absl::Status status = AddMember(
        archive->get(), static_cast<zip_uint64_t>(i), budget, options, tensors);
    if (!status.ok()) return Bad(path, status.message());
  }
  return tensors;
}

absl::Status WriteNpz(const std::string& path, const TensorMap& tensors) {
  if (absl::Status status = CheckWritable(path); !status.ok()) return status;
  // libzip writes beside the file and puts that in its place.
  std::error_code error;
  if (std::filesystem::exists(path, error) &&
      !std::filesystem::is_regular_file(path, error)) {
    return Bad(path, "a .npz file is written to regular files only");
  }
  // libzip would remove the file rather than write one without members.
  if (tensors.empty()) return Bad(path, "no tensors to write");
  auto archive = Open(path, ZIP_CREATE | ZIP_TRUNCATE);
  if (!archive.ok()) return archive.status();
  std::vector<std::string> kept;  // libzip reads the buffers when it closes.
  kept.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    // libzip would take it for the end of the name.
    if (name.find('\0') != std::string::npos) {
      return Bad(path, absl::StrCat("\"", absl::CHexEscape(name),
                                    "\" cannot be the name of a member"));
    }
    const std::string& bytes = kept.emplace_back(SerializeNpy(tensor));
    zip_source_t* source =
        zip_source_buffer(archive->get(), bytes.data(), bytes.size(), 0);
    if (zip_file_add(archive->get(), absl::StrCat(name, ".npy").c_str(), source,
                     ZIP_FL_ENC_UTF_8) < 0) {
      zip_source_free(source);
      return Bad(path, zip_strerror(archive->get()));
    }
  }
  if (zip_close(archive->get()) != 0) {
    return Bad(path, zip_strerror(archive->get()));
  }
  static_cast<void>(archive->release());
  return absl::OkStatus();
}

}  // namespace attn
