// A Program as a C++ program of its own: the literal driver calls that the runtime makes for it,
// with the cubins in the text.
#pragma once

#include <string>

#include "ir/program.hpp"

namespace braid {

/// C++20 that needs cuda.h (CUDA 12.8 or newer) and libcuda alone, printable ASCII in lines of any
/// length. It reads inputs, params and scalars from .npy files or fills them as `braid run` does
/// with its seed 1, launches the script once, writes and prints the outputs, and times launches;
/// its first lines say how. Host functions other than the tool's `identity` and `print` are left to
/// its reader: they end the program with a message. Prints and items go to stderr, and a check that
/// fails ends the program with exit code 1. Throws Error E0813 if a module is not compiled, and
/// E0879 if graphs call host functions: a program would need a thread that answers them.
std::string to_cpp(const Program& p);

}  // namespace braid
