// Numbers of bytes as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace braid {

/// "1000000", "64KiB", "3MiB", "2GiB": nothing for anything else, or below 1.
std::optional<int64_t> byte_count(std::string_view text);

}  // namespace braid
