// The family of kernels that come with the model, in CUDA C++: what is known of one, and the text
// that makes NVRTC compare its parameters with the model.
#pragma once

#include <string>
#include <string_view>

#include "passes/kernels/family.hpp"

namespace braid::kernels {

std::string user_refuses(const ir::Graph& body);
/// The text is no kernel: static_asserts on the function's parameters, to stand behind the user's
/// code. Their sentences are for the user.
Emitted user_emit(const ir::Graph& body, std::string_view symbol, const Target& target,
                  const Use& use);
Work user_work(const ir::Graph& body, const Target& target, uint32_t parts);

/// The attributes of the one kernel op of such a body.
const ir::KernelAttr& user_attr(const ir::Graph& body);
/// Fills what the record says of code: function, parameters, launch.
void describe_user_kernel(Kernel& k);
/// The module of the kernel's code alone: its text begins with a #line.
Module user_module(const ir::Graph& body, std::string_view arch);
/// What the texts of user_emit need, once behind the code.
std::string_view user_helpers();
/// What of the attributes depends on where the model lies, or on what else its file holds, is
/// dropped from a body: folders, and the line.
void drop_folders(ir::Graph& body);
/// The same, and the text of the code, which the module has.
void drop_code(ir::Graph& body);

/// Throws Error E0324 for every kernel of a static graph that the target cannot launch.
void check_launches(const ir::Graph& graph, const Target& target);

}  // namespace braid::kernels
