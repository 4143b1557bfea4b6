// Files of weights. Most changes to the length of the header only end the reading early, so the
// input is a file without it: 4 bytes for it in place of 8, the header, the elements.
#include <algorithm>
#include <cstring>
#include <string>

#include "frontend/safetensors.hpp"
#include "frontend/weights.hpp"
#include "fuzz.hpp"

namespace braid::fuzz {
namespace {

/// Tensors fill the file from the header's end on, without holes, and their elements convert.
void check_file(const Safetensors& file, uint64_t start, uint64_t size) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const Safetensors::Tensor& t : file.tensors()) {
    const HostTensor value = file.read(t);
    if (value.type != t.type || static_cast<int64_t>(value.bytes.size()) != t.type.bytes()) {
      fail("tensor " + t.name + " has other bytes than its type");
    }
    ranges.emplace_back(t.offset, t.offset + value.bytes.size());
    if (t.type.dtype == DType::b1) continue;
    std::string why;
    const DType to = is_float(t.type.dtype) ? DType::f16 : DType::i8;
    if (convert_elements(value, to, why).has_value() != why.empty()) {
      fail("a conversion without an answer");
    }
  }
  std::sort(ranges.begin(), ranges.end());
  for (const auto& [from, to] : ranges) {
    if (from != start) fail("tensors overlap or leave a hole");
    start = to;
  }
  if (start != size) fail("tensors do not end with the file");
}

}  // namespace
}  // namespace braid::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  uint32_t header = 0;
  if (size < sizeof header) return 0;
  std::memcpy(&header, data, sizeof header);
  std::string file(8, '\0');
  std::memcpy(file.data(), &header, sizeof header);
  file.append(reinterpret_cast<const char*>(data) + sizeof header, size - sizeof header);
  try {
    const Safetensors weights(
        fuzz::memory_file(reinterpret_cast<const uint8_t*>(file.data()), file.size()));
    fuzz::check_file(weights, 8 + uint64_t{header}, file.size());
  } catch (const Error&) {
  }
  return 0;
}
