// What is kept of a token: enough to know it again, too little to show it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace attn {

using TokenDigest = std::array<uint8_t, 32>;

// SHA-256 (FIPS 180-4).
TokenDigest DigestOf(absl::string_view token);

// In a time that does not depend on where they differ.
bool SameDigest(const TokenDigest& a, const TokenDigest& b);

// Overwrites what a string holds; the compiler cannot leave it out.
void Wipe(std::string& secret);

}  // namespace attn
