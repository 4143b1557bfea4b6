#include "frontend/byte_count.hpp"

#include <charconv>

namespace braid {

std::optional<int64_t> byte_count(std::string_view text) {
  int64_t n = 0;
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, n);
  const std::string_view unit(end, static_cast<size_t>(stop - end));
  const int shift = unit.empty()    ? 0
                    : unit == "KiB" ? 10
                    : unit == "MiB" ? 20
                    : unit == "GiB" ? 30
                                    : -1;
  if (error != std::errc() || shift < 0 || n < 1 || n > INT64_MAX >> shift) return std::nullopt;
  return n << shift;
}

}  // namespace braid
