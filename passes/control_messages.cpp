#include "passes/control_messages.hpp"

#include <algorithm>
#include <map>

#include "ir/region.hpp"

namespace braid {
namespace {

using ir::OpKind;
using ir::ValueId;

template <class Visit>
void for_each_send(ir::Graph& graph, const Visit& visit) {
  ir::for_each_graph(graph, [&](ir::Graph& g) {
    for (ir::Op& op : g.ops()) {
      if (auto* send = std::get_if<ir::SendAttr>(&op.attrs)) visit(*send);
    }
  });
}

}  // namespace

void number_sends(ir::Graph& graph) {
  uint32_t next = 0;
  for_each_send(graph, [&](ir::SendAttr& send) { send.id = next++; });
}

void finish_sends(ir::Graph& graph) {
  std::map<uint32_t, uint32_t> numbers;
  for_each_send(graph, [&](ir::SendAttr& send) { numbers.emplace(send.id, 0); });
  if (numbers.empty()) return;
  uint32_t next = 0;
  for (auto& [before, now] : numbers) now = next++;
  for_each_send(graph, [&](ir::SendAttr& send) {
    send.id = numbers.at(send.id);
    send.ends_launch = false;
  });

  ValueId newest;  // of the ring
  for (const ir::Op& op : graph.ops()) {
    if (std::holds_alternative<ir::RingAttr>(op.attrs)) newest = op.result;
    if (op.kind == OpKind::send && op.operands[0] == newest) newest = op.result;
    for (size_t k = ir::first_argument(op); k < op.operands.size(); ++k) {
      if (op.operands[k] == newest && ir::is_region(op.kind)) {
        newest = ir::next_version(graph, op, k);
        break;
      }
    }
  }
  if (graph.def(newest).kind != OpKind::send) {
    const ValueId none = graph.splat({DType::i32, {}}, 0);
    const ir::SendAttr end{ir::MessageKind::check, graph.strings.intern(""), next, true};
    newest = graph.add({OpKind::send, end, {newest, none}});
  }
  std::get<ir::SendAttr>(graph.op(graph.value(newest).def).attrs).ends_launch = true;
}

}  // namespace braid
