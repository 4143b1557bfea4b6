// What a model needs of the host's memory, said before it is too late: where memory is promised
// freely, a process that uses too much is killed without a word.
#include <fmt/format.h>
#include <unistd.h>

#include "frontend/cli/cli.hpp"

namespace braid::cli {
namespace {

std::string size_text(double bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

}  // namespace

HostNeeds host_needs(const Program& p) {
  HostNeeds needs;
  needs.bytes = static_cast<double>(p.arena_bytes);
  const Buffer* largest = nullptr;
  for (const Buffer& b : p.buffers) {
    if (b.segment != Segment::temp) needs.bytes += static_cast<double>(b.bytes);
    if (!largest || b.bytes > largest->bytes) largest = &b;
  }
  needs.text = fmt::format("'{}' needs {}", p.name, size_text(needs.bytes));
  if (largest) {
    needs.text +=
        fmt::format("; its largest tensor is '{}', {}, of {}", largest->name,
                    to_string(largest->type), size_text(static_cast<double>(largest->bytes)));
  }
  return needs;
}

void require_host_memory(const HostNeeds& needs) {
  const auto memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  if (needs.bytes > memory) out_of_memory(needs);
}

void out_of_memory(const HostNeeds& needs) {
  Diagnostic d;
  d.code = "E0804";
  d.message = fmt::format("out of memory on the host: {}", needs.text);
  throw Error(std::move(d));
}

}  // namespace braid::cli
