// The house's rooms and what each may include: one row a room.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/layering/include_scanner.h"

namespace attn {

struct Room {
  // The folder; a file belongs to the longest name that fits.
  std::string name;
  // Rooms, or single headers of them, that it may include besides itself.
  std::vector<std::string> may_include;
  // Libraries that it may include besides the standard one: kLibraries names.
  std::vector<std::string> libraries;
};

// A library that only files of one place may include, whatever their room.
struct Confinement {
  std::string library;
  // A prefix of the path of those files.
  std::string files;
};

// A header that files of one place may include although their room may not.
struct Grant {
  std::string header;
  // A prefix of the path of those files.
  std::string files;
};

const std::vector<Room>& Rooms();
const std::vector<Confinement>& Confinements();
const std::vector<Grant>& Grants();

// The room of a file or of an include of ours; null if there is none.
const Room* RoomOf(const std::string& path);

// What is wrong with one include, in one line that names file, include and
// rule; empty if nothing is.
std::string ViolationOf(const Include& include);

// All violations below `root`, and cycles between rooms or between headers.
std::vector<std::string> Violations(const std::filesystem::path& root);

}  // namespace attn
