// Sinks that are no memory: values of conditional nodes, and messages to the host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "passes/kernels/sinks.hpp"

namespace braid::kernels {

/// The statements of a sink of kind handle or send, for one thread that has its value, a register
/// of the value's dtype. `numbers` are those of a send's iterations.
std::vector<std::string> handle_lines(const Argument& handle, std::string_view value);
std::vector<std::string> send_lines(const ir::Graph& body, const Sink& send,
                                    const Signature& signature, std::string_view value,
                                    const std::vector<std::string>& numbers);

/// Whether some send's value is no single element. Such a kernel sends and sets handles, and does
/// nothing else.
bool sends_tensors(const ir::Graph& body, const std::vector<Sink>& sinks);
/// One block, which writes one message after the other, its elements side by side.
Emitted emit_messages(const ir::Graph& body, const Signature& signature,
                      const std::vector<Sink>& sinks, std::string_view symbol);
Work messages_work(const ir::Graph& body, const std::vector<Sink>& sinks);
/// What sending takes of one thread: each message waits until the host's memory has it.
double cycles_to_send(const std::vector<Sink>& sinks);

}  // namespace braid::kernels
