#include "passes/kernels/messages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/ring.hpp"

namespace braid::kernels {
namespace {

constexpr uint32_t kThreads = 256;

const ir::SendAttr& attr_of(const ir::Graph& body, const Sink& send) {
  return std::get<ir::SendAttr>(body.op(send.op).attrs);
}

uint32_t loops_of(const ir::Graph& body, const Sink& send) {
  return static_cast<uint32_t>(body.op(send.op).operands.size()) - 2;
}

/// "braid_send_begin(s0, 64, 2)".
std::string begin_text(const ir::Graph& body, const Sink& send, const Signature& signature) {
  const auto bytes = static_cast<uint64_t>(body.type(send.value).bytes());
  return fmt::format("braid_send_begin({}, {}ull, {})", signature.args[send.arg].name,
                     record_bytes(loops_of(body, send), bytes),
                     kSpareEighths[static_cast<size_t>(attr_of(body, send).kind)]);
}

std::vector<std::string> put_numbers(const std::vector<std::string>& numbers) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < numbers.size(); ++i) {
    lines.push_back(
        fmt::format("braid_at<int>(record, {}) = {};", sizeof(RecordHeader) + 4 * i, numbers[i]));
  }
  return lines;
}

std::string element_text(const ir::Graph& body, const Sink& send, std::string_view index,
                         std::string_view value) {
  const DType t = body.type(send.value).dtype;
  return fmt::format("(&braid_at<{}>(record, {}))[{}] = {};", storage_type(t),
                     value_offset(loops_of(body, send)), index, store_text(t, value));
}

std::string end_text(const ir::Graph& body, const Sink& send, const Signature& signature) {
  const auto bytes = static_cast<uint64_t>(body.type(send.value).bytes());
  return fmt::format("braid_send_end({}, record, {}, {}ull);", signature.args[send.arg].name,
                     attr_of(body, send).id, record_bytes(loops_of(body, send), bytes));
}

std::string count_launch(const Sink& send, const Signature& signature) {
  return fmt::format("braid_end_launch({});", signature.args[send.arg].name);
}

std::vector<std::string> numbers_of(ExprWriter& writer, const Sink& send) {
  std::vector<std::string> numbers;
  const std::vector<ir::ValueId>& operands = writer.body().op(send.op).operands;
  for (size_t i = 2; i < operands.size(); ++i) numbers.push_back(writer.value(operands[i], {}));
  return numbers;
}

/// What thread 0 does alone.
template <class Lines>
void by_one_thread(ExprWriter& writer, const Lines& lines) {
  writer.open_branch();
  lines();
  const std::vector<std::string> inner = writer.close();
  writer.block("if (thread == 0)", inner);
}

void write_tensor(ExprWriter& writer, const Sink& send) {
  const ir::Graph& body = writer.body();
  const Signature& signature = writer.signature();
  const TensorType& type = body.type(send.value);
  const int64_t numel = type.shape.numel();
  const auto begin = [&] {
    writer.line(fmt::format("record = {};", begin_text(body, send, signature)));
    const std::vector<std::string> numbers = numbers_of(writer, send);
    if (!numbers.empty()) writer.block("if (record)", put_numbers(numbers));
  };
  const auto end = [&] {
    writer.line("if (record) " + end_text(body, send, signature));
    if (attr_of(body, send).ends_launch) writer.line(count_launch(send, signature));
  };
  if (numel == 0) {
    // No other thread looks at the record, not even ahead of its test for being the one.
    by_one_thread(writer, [&] {
      begin();
      end();
    });
    return;
  }
  by_one_thread(writer, begin);
  writer.line("__syncthreads();");
  writer.open_branch();
  const std::string e = writer.fresh("e");
  const Index variable = writer.pool().variable(e, numel);
  writer.open_loop({variable});
  const std::string value =
      writer.value(send.value, delinearize(writer.pool(), variable, type.shape.extents()));
  writer.line(element_text(body, send, e, value));
  const std::vector<std::string> loop = writer.close();
  writer.block(fmt::format("for ({} {} = thread; {} < {}; {} += {})", index_type(numel), e, e,
                           numel, e, kThreads),
               loop);
  const std::vector<std::string> inner = writer.close();
  writer.block("if (record)", inner);
  writer.line("__syncthreads();");
  by_one_thread(writer, end);
}

}  // namespace

std::vector<std::string> handle_lines(const Argument& handle, std::string_view value) {
  return {fmt::format("cudaGraphSetConditional({}, (unsigned){});", handle.name, value)};
}

std::vector<std::string> send_lines(const ir::Graph& body, const Sink& send,
                                    const Signature& signature, std::string_view value,
                                    const std::vector<std::string>& numbers) {
  ensure(signature.parts == 1, "messages of several parts are in no order");
  const ir::SendAttr& attr = attr_of(body, send);
  const std::string holds =
      attr.kind == ir::MessageKind::check ? fmt::format("if ({} != 0) ", value) : "";
  std::vector<std::string> lines{fmt::format("{}if (unsigned char* const record = {}) {{", holds,
                                             begin_text(body, send, signature))};
  const std::vector<std::string> put = put_numbers(numbers);
  lines.insert(lines.end(), put.begin(), put.end());
  lines.push_back(element_text(body, send, "0", value));
  lines.push_back(end_text(body, send, signature));
  lines.push_back("}");
  if (attr.ends_launch) lines.push_back(count_launch(send, signature));
  return lines;
}

bool sends_tensors(const ir::Graph& body, const std::vector<Sink>& sinks) {
  return std::any_of(sinks.begin(), sinks.end(), [&](const Sink& s) {
    return s.kind == Sink::Kind::send && body.type(s.value).shape.numel() != 1;
  });
}

Emitted emit_messages(const ir::Graph& body, const Signature& signature,
                      const std::vector<Sink>& sinks, std::string_view symbol) {
  ensure(signature.parts == 1, "messages of several parts are in no order");
  IndexPool pool;
  ExprWriter writer(body, signature, pool);
  writer.line("const int thread = threadIdx.x;");
  writer.line("__shared__ unsigned char* record;");
  for (const Sink& s : sinks) {
    if (s.stores()) throw Refusal{"it sends a tensor, and does more than sending"};
    const TensorType& type = body.type(s.value);
    if (s.kind == Sink::Kind::send && type.shape.numel() != 1) {
      write_tensor(writer, s);
      continue;
    }
    by_one_thread(writer, [&] {
      write_sinks(writer, {{s, delinearize(pool, pool.constant(0), type.shape.extents())}});
    });
  }
  return {kernel_text(body, signature, symbol, std::to_string(kThreads), writer.finish()),
          launch_of(signature, 1, kThreads)};
}

/// A block writes to the host's memory about as fast as one SM reads from L2: the bus comes after.
Work messages_work(const ir::Graph& body, const std::vector<Sink>& sinks) {
  constexpr double kCyclesPerByte = 0.1;
  Work work{.blocks = 1, .threads = kThreads};
  for (const Sink& s : sinks) {
    if (s.kind != Sink::Kind::send) continue;
    work.cycles += kCyclesPerByte * static_cast<double>(body.type(s.value).bytes());
  }
  work.cycles += cycles_to_send(sinks);
  return work;
}

double cycles_to_send(const std::vector<Sink>& sinks) {
  constexpr double kCyclesPerMessage = 2000;  // about 1.1 us
  const auto sends = [](const Sink& s) { return s.kind == Sink::Kind::send; };
  return kCyclesPerMessage * static_cast<double>(std::count_if(sinks.begin(), sinks.end(), sends));
}

}  // namespace braid::kernels
