#include "ir/parse_attributes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace braid::ir {

TensorType GraphReader::type() {
  const Place place = token_.place;
  const std::string name = take(Kind::word, "a type such as f32[2,3]");
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype) {
    std::vector<std::string> known;
    for (int i = 0; i < kNumDTypes; ++i) {
      known.emplace_back(braid::name_of(static_cast<DType>(i)));
    }
    fail("E0205", fmt::format("unknown dtype '{}'", name), place, suggest(name, known));
  }
  TensorType t{*dtype, {}};
  take_symbol("[");
  while (!at_symbol("]")) {
    if (t.shape.rank() == kMaxRank) fail("E0301", "a shape has at most 8 axes");
    t.shape.push_back(dim());
    separator("]");
  }
  advance();
  return t;
}

Dim GraphReader::dim() {
  std::string text;
  const Place place = token_.place;
  int depth = 0;  // a ")" without its "(" belongs to what is around
  const auto in_extent = [&] {
    if (at_symbol("(")) ++depth;
    if (at_symbol(")") && --depth < 0) return false;
    return at(Kind::word) || at(Kind::number) ||
           (at(Kind::symbol) && std::string_view("+-*()").find(token_.text) != std::string::npos);
  };
  while (in_extent()) {
    if (at(Kind::word)) known_dim();
    text += (text.empty() ? "" : " ") + token_.text;
    advance();
  }
  const std::optional<Dim> d = graph_.dims.parse(text);
  if (!d) fail("E0101", fmt::format("'{}' is no extent", text), place);
  return *d;
}

void GraphReader::known_dim() {
  std::vector<std::string> known;
  for (const DimTable::Symbol& s : graph_.dims.symbols()) {
    if (s.name == token_.text) return;
    known.push_back(s.name);
  }
  fail("E0403", fmt::format("no line declares the dim '{0}': write 'dim {0}'", token_.text),
       token_.place, suggest(token_.text, known));
}

void GraphReader::attributes(Graph::NewOp& op, bool poisoned) {
  std::set<std::string> seen;
  while (!at_symbol("}")) {
    const Place place = token_.place;
    const std::string name = take(Kind::word, "an attribute's name");
    if (!seen.insert(name).second) {
      fail("E0201", fmt::format("the attribute '{}' stands here twice", name), place);
    }
    take_symbol("=");
    attribute(op, name, place, poisoned);
    separator("}");
  }
  advance();
}

void GraphReader::attribute(Graph::NewOp& op, const std::string& name, const Place& place,
                            bool poisoned) {
  if (auto* a = std::get_if<ReduceAttr>(&op.attrs); a && name == "axes") {
    for (int64_t axis : take_ints()) a->axes |= 1u << checked_axis(axis, place);
    return;
  }
  if (auto* a = std::get_if<DotAttr>(&op.attrs)) {
    if (name == "ta") return void(a->ta = take_bool());
    if (name == "tb") return void(a->tb = take_bool());
    if (name == "tf32") return void(a->tf32 = take_bool());
  }
  if (auto* a = std::get_if<ViewAttr>(&op.attrs)) {
    const bool slice = a->kind == ViewKind::slice;
    if (name == "axes" && !slice && a->kind != ViewKind::reshape) {
      return void(a->a = per_axis(op, poisoned));
    }
    if (name == "starts" && slice) return void(a->a = per_axis(op, poisoned));
    if (name == "steps" && slice) return void(a->b = per_axis(op, poisoned));
  }
  if (auto* a = std::get_if<AxisAttr>(&op.attrs); a && name == "axis") {
    return void(a->axis = checked_axis(take_int("the axis"), place));
  }
  if (auto* a = std::get_if<ScatterAttr>(&op.attrs); a && name == "axis") {
    return void(a->axis = checked_axis(take_int("the axis"), place));
  }
  if (auto* a = std::get_if<ParamAttr>(&op.attrs)) {
    if (name == "init") {
      a->init = static_cast<Init>(
          take_choice({kInitNames.begin(), kInitNames.end()}, "init to be normal, zeros or ones"));
      return;
    }
    if (name == "scale") return void(a->scale = take_double("the scale"));
    if (name == "sort") return sort(op, place);
  }
  if (auto* a = std::get_if<HostAttr>(&op.attrs)) {
    if (name == "function") {
      a->function = graph_.strings.intern(take(Kind::string, "the function's name in quotes"));
      return;
    }
    if (name == "pure") return void(a->pure = take_bool());
    if (name == "why") return void(a->why = string_attribute("the reason in quotes"));
    if (name == "way") {
      a->way = static_cast<HostWay>(take_choice({kHostWayNames.begin(), kHostWayNames.end()},
                                                "way to be auto, handshake, break or node"));
      return;
    }
  }
  if (auto* a = std::get_if<SendAttr>(&op.attrs); a && send_attribute(*a, name)) return;
  if (auto* a = std::get_if<KernelAttr>(&op.attrs); a && kernel_attribute(*a, name)) return;
  if (auto* a = std::get_if<LibraryAttr>(&op.attrs); a && library_attribute(*a, name)) return;
  if (region_attribute(op, name)) return;
  if (name == "graph") return void(op.outside = !take_bool());
  if (op.kind == OpKind::input && name == "scalar") {
    op.attrs = ScalarAttr{take_double("the scalar's value")};
    return;
  }
  fail("E0102", fmt::format("this op has no attribute '{}'", name), place);
}

bool GraphReader::region_attribute(Graph::NewOp& op, const std::string& name) {
  auto* branch = std::get_if<BranchAttr>(&op.attrs);
  auto* loop = std::get_if<LoopAttr>(&op.attrs);
  if (!branch && !loop) return false;
  if (name == "lowering") {
    (branch ? branch->lowering : loop->lowering) = static_cast<Lowering>(
        take_choice({kLoweringNames.begin(), kLoweringNames.end()},
                    "lowering to be auto, select, predicate, node, unroll or host"));
    return true;
  }
  if (name == "why") {
    (branch ? branch->why : loop->why) =
        graph_.strings.intern(take(Kind::string, "the reason in quotes"));
    return true;
  }
  if (!loop) return false;
  if (name == "carried") return loop->carried = take_count("the number of carried values"), true;
  if (name == "unroll") return loop->unroll = take_count("the number of copies"), true;
  if (name == "limit") return loop->limit = dim(), true;
  return false;
}

bool GraphReader::send_attribute(SendAttr& attr, const std::string& name) {
  if (name == "message") {
    attr.kind = static_cast<MessageKind>(take_choice({kMessageNames.begin(), kMessageNames.end()},
                                                     "message to be print, item or check"));
    return true;
  }
  if (name == "text") {
    attr.text = graph_.strings.intern(take(Kind::string, "the text in quotes"));
    return true;
  }
  if (name == "id") return attr.id = take_count("the id"), true;
  if (name == "ends_launch") return attr.ends_launch = take_bool(), true;
  return false;
}

void GraphReader::sort(Graph::NewOp& op, const Place& place) {
  if (std::get<ParamAttr>(op.attrs) != ParamAttr{}) {
    fail("E0102", "only a param of the Store has init and scale", place);
  }
  switch (take_choice({"local", "handle", "ring"}, "sort to be local, handle or ring")) {
    case 0:
      op.attrs = LocalAttr{};
      break;
    case 1:
      op.attrs = HandleAttr{};
      break;
    default:
      op.attrs = RingAttr{};
  }
}

uint32_t GraphReader::take_count(std::string_view what) {
  const Place place = token_.place;
  const int64_t n = take_int(what);
  if (n < 0 || n > UINT32_MAX) {
    fail("E0302", fmt::format("{} lies between 0 and 2^32 - 1", what), place);
  }
  return static_cast<uint32_t>(n);
}

int GraphReader::checked_axis(int64_t axis, const Place& place) {
  if (axis < 0 || axis >= kMaxRank) fail("E0302", "an axis lies between 0 and 7", place);
  return static_cast<int>(axis);
}

Axes GraphReader::per_axis(const Graph::NewOp& op, bool poisoned) {
  const Place place = token_.place;
  const std::vector<int64_t> xs = take_ints();
  if (!poisoned && op.operands.size() == 1) {
    const TensorType& t = graph_.type(op.operands[0]);
    if (xs.size() != static_cast<size_t>(t.shape.rank())) {
      fail("E0302",
           fmt::format("the list needs one entry per axis of {}", to_string(t, &graph_.dims)),
           place);
    }
  }
  Axes axes{};
  std::copy(xs.begin(), xs.end(), axes.begin());
  return axes;
}

}  // namespace braid::ir
