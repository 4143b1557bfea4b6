// Functions of the user's that enqueue work of a library, as part of a graph. This header does not
// include cuda.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/type.hpp"
#include "runtime/device.hpp"

namespace braid {

/// A tensor in device memory, row-major.
struct LibraryTensor {
  TensorType type;
  DevicePtr address = 0;
};

/// What a library op asks for. The device's context is current. A state operand, which is changed
/// in place, is among the arguments and, after the results that the op declares, among the results
/// as well, with one address.
struct LibraryCall {
  Stream stream = nullptr;  // where all work must go, or to streams that fork from it and join it
  std::vector<LibraryTensor> arguments, results;
  DevicePtr workspace = 0;  // memory of this call alone, on 256 bytes; 0 if it asks for none
  int64_t workspace_bytes = 0;
};

/// Enqueues, and nothing else: it may not wait for the stream, allocate device memory or look at
/// results, and uses no devices, stores and executables of Braid. Its work is captured into graphs
/// when an executable is built, once as a trial and once for the graph, and again when an input or
/// output that it uses is bound anew; outside graphs it is called at each launch. If it throws, or
/// does what cannot be captured, its op becomes a break. The simulator does not call it: there the
/// op's reference computes the results.
using LibraryFunction = std::function<void(const LibraryCall&)>;
using LibraryFunctions = std::map<std::string, LibraryFunction, std::less<>>;

}  // namespace braid
