// safetensors files: 8 bytes with the length of the header (little endian), the header as JSON
// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..}, the elements. The
// elements of all tensors fill the rest of the file without holes.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "ir/tensor.hpp"

namespace braid {

/// An open file whose header was read and checked. Elements are read tensor by tensor, so that a
/// large file never stands in memory as a whole.
class Safetensors {
 public:
  struct Tensor {
    std::string name;
    TensorType type;
    uint64_t offset = 0;  // of the first element, in bytes from the file's start
  };

  /// Throws Error: E0100 if the file cannot be read; E0111 if it is cut short, is another format,
  /// or its header does not describe it exactly. Known dtypes: F32 F16 BF16 F64 I64 I32 I8 U8 BOOL.
  explicit Safetensors(std::string path);

  const std::vector<Tensor>& tensors() const { return tensors_; }  // by name
  /// The elements. Throws as the constructor does, also if the file has changed since.
  HostTensor read(const Tensor& tensor) const;

 private:
  void read_bytes(uint64_t offset, void* to, uint64_t bytes, std::string_view what) const;

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::vector<Tensor> tensors_;
};

}  // namespace braid
