#include "passes/kernels/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/mailbox.hpp"
#include "ir/text.hpp"
#include "passes/kernels/cuda_text.hpp"

namespace braid::kernels {
namespace {

using ir::OpKind;
using ir::ValueId;

/// The one host op of a body, and where its operands and results lie in the mailbox.
struct Call {
  const ir::Op* op = nullptr;
  std::vector<int64_t> offsets;  // as mailbox_offsets gives them
  int64_t taken = 0, given = 0;  // bytes

  explicit Call(const ir::Graph& body) {
    for (const ir::Op& o : body.ops()) {
      if (o.kind != OpKind::host) continue;
      if (op) throw Refusal{"it calls two host functions"};
      op = &o;
    }
    if (!op) throw Refusal{"it calls no host function"};
    const std::vector<TensorType> arguments = operand_types(body, *op);
    const std::vector<TensorType> results = result_types(body, *op);
    offsets = mailbox_offsets(arguments, results);
    for (const TensorType& t : arguments) taken += t.bytes();
    for (const TensorType& t : results) given += t.bytes();
  }
  int64_t result_offset(uint32_t r) const { return offsets[op->operands.size() + r]; }
};

/// More threads where more packs of 16 bytes can be under way at once.
uint32_t threads_for(int64_t bytes) {
  constexpr int64_t kPerThread = 64;
  if (bytes <= 512) return 32;  // a barrier of one warp costs nothing
  return bytes <= 256 * kPerThread ? 256 : bytes <= 512 * kPerThread ? 512 : 1024;
}

/// The argument that holds an operand as a whole.
std::string argument_of(const ir::Graph& body, const Signature& signature, ValueId v) {
  while (body.def(v).kind == OpKind::view) {
    if (std::get<ir::ViewAttr>(body.def(v).attrs).kind != ir::ViewKind::reshape) {
      throw Refusal{"a host function takes a view that is no memory"};
    }
    v = body.def(v).operands[0];
  }
  if (body.def(v).kind != OpKind::input) {
    throw Refusal{"a host function takes what the kernel would have to compute"};
  }
  return signature.args[signature.arg_of(v)].name;
}

std::vector<std::string> put_lines(const ir::Graph& body, const Signature& signature,
                                   const Call& call, uint32_t threads) {
  std::vector<std::string> lines;
  for (size_t k = 0; k < call.op->operands.size(); ++k) {
    const ValueId v = call.op->operands[k];
    const std::string name = argument_of(body, signature, v);
    if (body.type(v).bytes() == 0) continue;
    lines.push_back(fmt::format("braid_mailbox_put(data + {}, {}, {}, thread, {});",
                                call.offsets[k], name, body.type(v).bytes(), threads));
  }
  if (lines.empty()) return lines;
  lines.insert(lines.begin(), "if (!braid_mailbox_dead(mailbox)) {");
  lines.emplace_back("}");
  lines.emplace_back("__syncthreads();");
  return lines;
}

std::vector<std::string> take_lines(const ir::Graph& body, const Signature& signature,
                                    const Call& call, uint32_t threads) {
  std::vector<std::string> lines;
  for (size_t i = signature.leading; i < signature.args.size(); ++i) {
    const Argument& a = signature.args[i];
    const uint32_t r = a.value.index - call.op->result.index;
    if (a.value < call.op->result || r >= call.op->results) {
      throw Refusal{"it gives out what no host function gave"};
    }
    const int64_t bytes = body.type(a.value).bytes();
    if (bytes == 0) continue;
    lines.push_back(fmt::format("braid_mailbox_take({}, data + {}, {}, good, thread, {});", a.name,
                                call.result_offset(r), bytes, threads));
  }
  return lines;
}

/// The kernel's arguments: the body's, then the slot and the header.
Signature signature_of(const ir::Graph& body) {
  Signature signature(body);
  signature.trailing = {"braid_mailbox_slot* slot", "braid_mailbox* mailbox"};
  return signature;
}

Emitted text_of(const ir::Graph& body, std::string_view symbol, const Signature& signature,
                uint32_t threads, const std::vector<std::string>& lines) {
  return {kernel_text(body, signature, symbol, std::to_string(threads), lines),
          launch_of(signature, 1, threads)};
}

void require_plain(const Use& use) {
  ensure(use.parts == 1 && !use.guard && !use.waits,
         "a kernel that calls a host function has parts, a guard, or waits for others by itself");
}

std::vector<std::string> head_lines() {
  return {"const unsigned thread = threadIdx.x;", "unsigned char* const data = slot->data;"};
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

Emitted exchange_emit(const ir::Graph& body, std::string_view symbol, const Target&,
                      const Use& use) {
  require_plain(use);
  const Signature signature = signature_of(body);
  const Call call(body);
  const uint32_t threads = threads_for(std::max(call.taken, call.given));
  std::vector<std::string> lines = head_lines();
  append(lines, put_lines(body, signature, call, threads));
  const std::vector<std::string> take = take_lines(body, signature, call, threads);
  const std::string wait = "braid_mailbox_wait(slot, mailbox, braid_mailbox_ask(slot, mailbox));";
  if (take.empty()) {
    lines.push_back("if (thread == 0) " + wait);
  } else {
    append(lines, {"__shared__ bool good;", "if (thread == 0) good = " + wait, "__syncthreads();"});
    append(lines, take);
  }
  return text_of(body, symbol, signature, threads, lines);
}

Emitted post_emit(const ir::Graph& body, std::string_view symbol, const Target&, const Use& use) {
  require_plain(use);
  const Signature signature = signature_of(body);
  if (signature.args.size() != signature.leading) throw Refusal{"it gives out results"};
  const Call call(body);
  const uint32_t threads = threads_for(call.taken);
  std::vector<std::string> lines = head_lines();
  append(lines, put_lines(body, signature, call, threads));
  lines.emplace_back("if (thread == 0) braid_mailbox_ask(slot, mailbox);");
  return text_of(body, symbol, signature, threads, lines);
}

Emitted fetch_emit(const ir::Graph& body, std::string_view symbol, const Target&, const Use& use) {
  require_plain(use);
  const Signature signature = signature_of(body);
  if (signature.leading != 0) throw Refusal{"it takes arguments"};
  const Call call(body);
  const uint32_t threads = threads_for(call.given);
  std::vector<std::string> lines = head_lines();
  append(lines,
         {"__shared__ bool good;", "if (thread == 0) good = braid_mailbox_answered(slot, mailbox);",
          "__syncthreads();"});
  append(lines, take_lines(body, signature, call, threads));
  return text_of(body, symbol, signature, threads, lines);
}

namespace {

std::string refuses(const ir::Graph& body, bool puts) {
  try {
    const Call call(body);
    const Signature signature = signature_of(body);
    if (puts) put_lines(body, signature, call, 1);
    take_lines(body, signature, call, 1);
  } catch (const Refusal& refusal) {
    return refusal.reason;
  }
  return {};
}

}  // namespace

std::string exchange_refuses(const ir::Graph& body) { return refuses(body, true); }
std::string fetch_refuses(const ir::Graph& body) { return refuses(body, false); }

Work exchange_work(const ir::Graph& body, const Target&, uint32_t) {
  const Call call(body);
  return {.blocks = 1, .threads = threads_for(std::max(call.taken, call.given))};
}

}  // namespace braid::kernels
