// Compiled programs. A wrong checksum would refuse nearly every input, so the input is a file
// without its head: 4 bytes that say how long the header is, the header, the blob.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "frontend/compile.hpp"
#include "frontend/report/diff.hpp"
#include "frontend/report/explain.hpp"
#include "frontend/report/report.hpp"
#include "fuzz.hpp"
#include "ir/diagnostic.hpp"
#include "ir/program.hpp"
#include "passes/check.hpp"

namespace braid::fuzz {
namespace {

std::vector<std::byte> file_of(const uint8_t* data, size_t size) {
  uint32_t header = 0;
  if (size < sizeof header) return {};
  std::memcpy(&header, data, sizeof header);
  data += sizeof header;
  size -= sizeof header;
  const uint64_t header_bytes = std::min<uint64_t>(header, size);
  const uint64_t fields[] = {header_bytes, size - header_bytes, XXH3_64bits(data, size)};
  std::vector<std::byte> file = write_program(Program{});
  file.resize(16);  // the magic and the version
  const auto append = [&](const void* from, size_t bytes) {
    const auto* p = static_cast<const std::byte*>(from);
    file.insert(file.end(), p, p + bytes);
  };
  append(fields, sizeof fields);
  append(data, size);
  return file;
}

/// What `braid run --device=sim` does short of a launch.
void build_small(const Program& program) {
  int64_t bytes = program.arena_bytes;
  for (const Buffer& b : program.buffers) {
    if (__builtin_add_overflow(bytes, b.bytes, &bytes)) return;
  }
  if (bytes > (int64_t{1} << 16)) return;
  try {
    const Executable built(program, Store(Device::open("sim")));
  } catch (const Error&) {
  } catch (const CudaError&) {
  }
}

/// What `braid inspect`, `explain` and `diff` do.
void show(const Program& program) {
  const report::Report r = report::make_report(program);
  report::to_text(r, program, report::sections_from("all"));
  report::to_json(r, program, report::sections_from("all"));
  report::to_text(report::diff(program, Program{}));
  for (const char* what : {"n0", "c0", "r0", "x"}) {
    try {
      report::explain(program, what);
    } catch (const std::invalid_argument&) {
    }
  }
}

}  // namespace
}  // namespace braid::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  const std::vector<std::byte> file = fuzz::file_of(data, size);
  try {
    const Program program = read_program(file, "fuzz.braid");
    if (!check(program).empty()) return 0;
    fuzz::show(program);
    const std::vector<std::byte> written = write_program(program);
    if (write_program(read_program(written, "again.braid")) != written) {
      fuzz::fail("written, read and written again differ");
    }
    to_text(program);
    to_json(program, true);
    to_dot(program);
    fuzz::build_small(program);
  } catch (const Error&) {
  }
  return 0;
}
