// NumPy's array files.
#include <unistd.h>

#include <string>

#include "frontend/npy.hpp"
#include "fuzz.hpp"
#include "ir/diagnostic.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace braid;
  try {
    const std::string& file = fuzz::memory_file(data, size);
    const HostTensor tensor = read_npy(file);
    if (npy_type(file) != tensor.type) fuzz::fail("the header alone gives another type");
    static const std::string copy = "/dev/shm/braid_npy_fuzz." + std::to_string(::getpid());
    write_npy(copy, tensor);
    const HostTensor again = read_npy(copy);
    ::unlink(copy.c_str());
    if (again.type != tensor.type || again.bytes != tensor.bytes) {
      fuzz::fail("an array changes by being written and read");
    }
  } catch (const Error&) {
  }
  return 0;
}
