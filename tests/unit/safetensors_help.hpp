// safetensors files for tests, written by the format's own words and not by our reader's.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "ir/tensor.hpp"

namespace braid::testing {

/// A file of this header and these bytes of elements.
inline std::string safetensors_bytes(const std::string& header, const std::string& elements) {
  std::string out;
  for (int i = 0; i < 8; ++i) {
    out += static_cast<char>((static_cast<uint64_t>(header.size()) >> (8 * i)) & 0xff);
  }
  return out + header + elements;
}

inline void write_safetensors(const std::string& path,
                              const std::vector<std::pair<std::string, HostTensor>>& tensors) {
  constexpr const char* kNames[] = {"F32", "F16", "BF16", "F64", "I32", "I64", "I8", "U8", "BOOL"};
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}", elements;
  for (const auto& [name, t] : tensors) {
    std::string shape;
    for (int64_t n : t.type.shape.extents())
      shape += fmt::format("{}{}", shape.empty() ? "" : ",", n);
    header += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name,
                          kNames[static_cast<size_t>(t.type.dtype)], shape, elements.size(),
                          elements.size() + t.bytes.size());
    elements.append(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
  }
  header += '}';
  while (header.size() % 8 != 0) header += ' ';
  std::ofstream(path, std::ios::binary | std::ios::trunc) << safetensors_bytes(header, elements);
}

}  // namespace braid::testing
