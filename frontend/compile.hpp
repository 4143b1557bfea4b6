// The facade: from a graph to a Program, and from a Program to something that runs.
#pragma once

#include "frontend/builder.hpp"
#include "passes/options.hpp"
#include "runtime/device.hpp"
#include "runtime/executable.hpp"

namespace braid {

/// All passes. Needs no GPU and no NVRTC: kernels are text in the Program. Throws Error, E0502 for
/// a graph without outputs that changes no param, sends no message and calls no host function.
Program compile(const Graph& graph, const Options& options = {});
Program compile(ir::Graph graph, const Options& options = {});

/// compile() for the device's target, NVRTC (with the disk cache) unless simulated, instantiate.
/// `functions` are those that the graph's host ops name, and references of its library ops on the
/// simulator; `messages` says where prints and checks go; `host` says how long graphs wait for
/// functions; `libraries` are those of its library ops. With Dots::automatic
/// products are Braid's own where cuBLASLt is not found.
Executable build(const Graph& graph, Store store, Options options = {},
                 const HostFunctions& functions = {}, MessageOptions messages = {},
                 const HostOptions& host = {}, const LibraryFunctions& libraries = {});

}  // namespace braid
