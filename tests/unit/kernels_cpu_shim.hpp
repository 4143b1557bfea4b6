// What kernel text finds on a CPU in place of the compiler's CUDA built-ins and the prelude's PTX.
#pragma once

#include <string_view>

namespace braid::test {

/// C++ text. The library built from it exports threadIdx, blockIdx, braid_host (the functions that
/// the runner supplies) and braid_begin_block(), to be called before every block.
std::string_view cpu_shim();

}  // namespace braid::test
