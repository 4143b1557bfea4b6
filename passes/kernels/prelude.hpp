// The parts of prelude(): what only a GPU compiler takes, and plain C++ on top of it.
#pragma once

#include <string_view>

namespace braid::kernels {

/// PTX conversions, warp intrinsics and accesses to the memory of the host. A CPU replaces these to
/// run the kernel text in tests.
std::string_view prelude_intrinsics();
/// At its end: early starts, clusters, asynchronous copies and tensor cores.
std::string_view prelude_blocks();
/// Everything else: storage types, the functions that the scalar table calls, reductions.
std::string_view prelude_portable();
/// At its end: what a send calls.
std::string_view prelude_messages();
/// And what a kernel calls that calls a host function.
std::string_view prelude_mailbox();

}  // namespace braid::kernels
