#include "runtime/library_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/diagnostic.hpp"
#include "ir/region.hpp"
#include "runtime/user_kernels.hpp"

namespace braid::runtime {
namespace {

using ir::OpKind;

[[noreturn]] void refuse_missing(const Program& program, const Kernel& kernel,
                                 const LibraryFunctions& given) {
  Diagnostic d;
  d.code = "E0892";
  d.message = fmt::format("program '{}' needs the library function '{}', which is not given",
                          program.name, kernel.function);
  std::vector<std::string> known;
  for (const auto& [name, function] : given) known.push_back(name);
  d.suggestion = known.empty() ? "give it to build() or the Executable, by that name"
                               : suggest_or_list(kernel.function, known);
  throw Error(std::move(d));
}

}  // namespace

LibraryCalls::LibraryCalls(const ContextPtr& context, const Program& program,
                           const LibraryFunctions& given, const std::vector<CUfunction>& functions)
    : context_(context), program_(&program), entries_(program.kernels.size()) {
  std::map<std::string, std::shared_ptr<const LibraryFunction>> own;
  std::shared_ptr<const LtLibrary> cublaslt;
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    const Kernel& kernel = program.kernels[k];
    if (kernel.code != Code::library) continue;
    Entry& entry = entries_[k];
    if (context->driver->simulated()) {
      entry.simulated = functions[k];
    } else if (kernel.function == kCublasLtMatmul) {
      if (!cublaslt) cublaslt = std::make_shared<const LtLibrary>();
      entry.matmul = std::make_shared<const LtMatmul>(cublaslt, kernel);
    } else {
      const auto found = given.find(kernel.function);
      if (found == given.end() || !found->second) refuse_missing(program, kernel, given);
      auto& function = own[kernel.function];
      if (!function) function = std::make_shared<const LibraryFunction>(found->second);
      entry.function = function;
      find_places(kernel, entry);
    }
  }
}

void LibraryCalls::find_places(const Kernel& kernel, Entry& entry) {
  const ir::Graph& body = kernel.body;
  std::map<uint32_t, size_t> slot_of;  // by value: an input or a param
  size_t slots = 0;
  for (const ir::Op& op : body.ops()) {
    if (op.kind == OpKind::input || op.kind == OpKind::param) slot_of[op.result.index] = slots++;
  }
  const auto op = std::find_if(body.ops().begin(), body.ops().end(),
                               [](const ir::Op& o) { return o.kind == OpKind::library; });
  ensure(op != body.ops().end(), "a library kernel without a library op");
  for (const ir::ValueId v : op->operands) {
    ir::ValueId root = v;
    while (body.def(root).kind == OpKind::view || body.def(root).kind == OpKind::read) {
      root = body.def(root).operands[0];
    }
    if (body.value(root).state) root = body.op(ir::param_of(body, root)).result;
    entry.arguments.push_back({body.type(v), slot_of.at(root.index)});
  }
  for (const ir::Output& output : body.outputs) {
    entry.results.push_back({body.type(output.value), slots++});
  }
  for (auto [before, after] : ir::versions_made(body, *op)) {
    const ir::ValueId param = body.op(ir::param_of(body, before)).result;
    entry.results.push_back({body.type(after), slot_of.at(param.index)});
  }
}

void LibraryCalls::enqueue(uint32_t kernel, const std::vector<CUdeviceptr>& args,
                           CUstream stream) const {
  const Entry& entry = entries_[kernel];
  const Kernel& k = program_->kernels[kernel];
  const CUdeviceptr workspace = k.workspace != 0 ? args.back() : 0;
  if (entry.simulated) {
    KernelArguments pointers(k, args);
    context_->check(context_->driver->cuLaunchKernel(entry.simulated, 1, 1, 1, 1, 1, 1, 0, stream,
                                                     pointers.data(), nullptr),
                    "cuLaunchKernel", k.symbol);
    return;
  }
  if (entry.matmul) return entry.matmul->enqueue(args, workspace, stream);
  LibraryCall call;
  call.stream = stream;
  const auto tensor = [&](const Place& p) { return LibraryTensor{p.type, args[p.slot]}; };
  for (const Place& p : entry.arguments) call.arguments.push_back(tensor(p));
  for (const Place& p : entry.results) call.results.push_back(tensor(p));
  call.workspace = workspace;
  call.workspace_bytes = k.workspace;
  (*entry.function)(call);
}

}  // namespace braid::runtime
