// Inside the runtime: compiling kernels of the user's, whose mistakes are told with his files and
// lines.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.hpp"
#include "ir/program.hpp"
#include "runtime/cache.hpp"

namespace braid::runtime {

/// Fills the image of a module of the user's code, and the symbols of its kernels. True if it came
/// from the cache; `not_kept` as of Cache::put. Throws Error: E0880 for what the compiler says of
/// the code, E0881 where a function's parameters are not what the model passes, E0882 where there
/// is no such function; CudaError for all else.
bool compile_user_module(Program& program, uint32_t module, const Cache& cache,
                         std::string* not_kept);

/// The mistakes in a log of NVRTC's, as diagnostics: `module` is what was compiled, `functions` the
/// kernels that were asked for. Empty if there is none that is understood.
std::vector<Diagnostic> mistakes_in(std::string_view log, const Module& module,
                                    const std::vector<std::string>& functions);

/// The texts of the headers that a source includes from these folders, and that those include, each
/// with its file's name. Nothing if what is included is not to be told from the text.
std::optional<std::string> included_texts(std::string_view source,
                                          const std::vector<std::string>& folders);

}  // namespace braid::runtime
