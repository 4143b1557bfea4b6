#include "passes/kernels/expr.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ir/text.hpp"

namespace braid::kernels {
namespace {

using ir::OpKind;

bool is_name(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  });
}

std::string parenthesised(const std::string& text) {
  return is_name(text) ? text : "(" + text + ")";
}

}  // namespace

ExprWriter::ExprWriter(const ir::Graph& body, const Signature& signature, IndexPool& pool)
    : body_(body), signature_(signature), pool_(pool) {
  scopes_.push_back(std::make_unique<Scope>());
  scope_ = scopes_.back().get();
}

size_t ExprWriter::KeyHash::operator()(const Key& key) const {
  uint64_t hash = key.value.index;
  for (const Index i : key.at) hash = (hash ^ i.id) * 1099511628211u;
  return static_cast<size_t>(hash ^ hash >> 32);
}

void ExprWriter::lines(const std::vector<std::string>& texts) {
  scope_->lines.insert(scope_->lines.end(), texts.begin(), texts.end());
}

void ExprWriter::line_before_loop(std::string text) {
  Scope* s = scope_;
  while (!s->is_loop) s = s->parent;
  s->parent->lines.push_back(std::move(text));
}

std::string ExprWriter::fresh(const std::string& name) {
  std::string candidate = prefix_ + name;
  for (int i = 2; !names_.insert(candidate).second; ++i) {
    candidate = fmt::format("{}{}_{}", prefix_, name, i);
  }
  return candidate;
}

void ExprWriter::open_loop(std::vector<Index> variables) {
  open_branch();
  scope_->is_loop = true;
  scope_->variables = std::move(variables);
}

void ExprWriter::open_branch() {
  scopes_.push_back(std::make_unique<Scope>());
  scopes_.back()->parent = scope_;
  scope_ = scopes_.back().get();
}

std::vector<std::string> ExprWriter::close() {
  ensure(scope_->parent != nullptr, "a scope is closed twice");
  for (const Key& k : scope_->known) known_.erase(k);
  std::vector<std::string> body = std::move(scope_->lines);
  scope_ = scope_->parent;
  return body;
}

std::vector<std::string> ExprWriter::finish() {
  ensure(scope_->parent == nullptr, "a scope is left open");
  return std::move(scope_->lines);
}

void ExprWriter::block(const std::string& head, const std::vector<std::string>& body) {
  line(head + " {");
  lines(body);
  line("}");
}

void ExprWriter::define(ir::ValueId v, const At& at, std::string text) {
  if (known_.insert_or_assign({v, at}, std::move(text)).second) scope_->known.push_back({v, at});
}

bool ExprWriter::moves_out(const At& at) const {
  if (!scope_->is_loop) return false;
  for (const Index variable : scope_->variables) {
    for (const Index i : at) {
      if (pool_.depends_on(i, variable)) return false;
    }
  }
  return true;
}

std::string ExprWriter::value(ir::ValueId v, const At& at) {
  if (const auto it = known_.find({v, at}); it != known_.end()) return it->second;
  Scope* const here = scope_;
  while (moves_out(at)) scope_ = scope_->parent;
  std::string text = compute(v, at);
  if (!writes_) text.clear();
  define(v, at, text);
  scope_ = here;
  return text;
}

std::string ExprWriter::compute(ir::ValueId v, const At& at) {
  if (kept_) {
    if (std::optional<std::string> text = kept_(v, at)) return *std::move(text);
  }
  const ir::Op& op = body_.def(v);
  const TensorType& type = body_.type(v);
  switch (op.kind) {
    case OpKind::input:
      return load(v, at);
    case OpKind::read:
      return read(op, at);
    case OpKind::constant:
      if (!writes_) return {};
      return literal_text(body_.literals[std::get<ir::ConstAttr>(op.attrs).literal]);
    case OpKind::iota: {
      const auto axis = static_cast<size_t>(std::get<ir::AxisAttr>(op.attrs).axis);
      if (!writes_) return {};
      const std::string index = pool_.text(at[axis]);
      return fmt::format("(({}){})", register_type(type.dtype), parenthesised(index));
    }
    case OpKind::map:
      return map(op, at);
    case OpKind::view:
      return value(op.operands[0], through_view(pool_, std::get<ir::ViewAttr>(op.attrs),
                                                body_.type(op.operands[0]), type, at));
    case OpKind::concat:
      return concat(op, at);
    case OpKind::gather:
      return gather(op, at);
    case OpKind::scatter:
      return scatter(op, at);
    case OpKind::reduce:
    case OpKind::dot:
      throw Refusal{
          fmt::format("'{}' is needed at other elements than the one that the thread has computed",
                      ir::print_op(body_, body_.value(v).def))};
    case OpKind::param:
    case OpKind::assign:
    case OpKind::update:
    case OpKind::host:
    case OpKind::branch:
    case OpKind::loop:
    case OpKind::send:
    case OpKind::kernel:
    case OpKind::library:
    case OpKind::compact:
      break;
  }
  throw InternalError("a state version is used as a tensor");
}

std::string ExprWriter::name_value(std::string_view what, ir::ValueId v, const std::string& text) {
  const std::string name = fresh(fmt::format("{}_{}", what, v.index));
  line(fmt::format("const {} {} = {};", register_type(body_.type(v).dtype), name, text));
  return name;
}

std::string ExprWriter::element(size_t arg, Index linear) const {
  return fmt::format("{}[{}]", signature_.args[arg].name, pool_.text(linear));
}

std::string ExprWriter::load(ir::ValueId v, const At& at) {
  const size_t arg = signature_.arg_of(v);
  const TensorType& type = body_.type(v);
  const Index linear = linearize(pool_, at, type.shape.extents());
  loads_.push_back({arg, linear});
  if (!writes_) return {};
  const std::string memory = memory_ ? memory_(arg, linear) : element(arg, linear);
  const std::string name = fresh("x_" + signature_.args[arg].name);
  line(fmt::format("const {} {} = {};", register_type(type.dtype), name,
                   load_text(type.dtype, memory)));
  return name;
}

std::optional<ExprWriter::Load> ExprWriter::in_memory(ir::ValueId v, const At& at) {
  const ir::Op& op = body_.def(v);
  if (op.kind == OpKind::view) {
    return in_memory(op.operands[0], through_view(pool_, std::get<ir::ViewAttr>(op.attrs),
                                                  body_.type(op.operands[0]), body_.type(v), at));
  }
  const bool reads_param =
      op.kind == OpKind::read && body_.def(op.operands[0]).kind == OpKind::param;
  if (op.kind != OpKind::input && !reads_param) return std::nullopt;
  const ir::ValueId memory = reads_param ? op.operands[0] : v;
  loads_.push_back(
      {signature_.arg_of(memory), linearize(pool_, at, body_.type(v).shape.extents())});
  return loads_.back();
}

std::string ExprWriter::map(const ir::Op& op, const At& at) {
  const Fn fn = std::get<ir::MapAttr>(op.attrs).fn;
  std::vector<std::string> operands;
  for (const ir::ValueId v : op.operands) operands.push_back(value(v, at));
  if (!writes_) return {};
  const DType from = body_.type(op.operands.back()).dtype;
  const std::string text = fn == Fn::cast
                               ? cast_text(from, body_.type(op.result).dtype, operands[0])
                               : function_text(fn, from, operands);
  return name_value(info(fn).name, op.result, text);
}

std::string ExprWriter::read(const ir::Op& op, const At& at) {
  const ir::Op& version = body_.def(op.operands[0]);
  if (version.kind == OpKind::param) return load(version.result, at);
  if (version.kind == OpKind::assign) return value(version.operands[1], at);
  throw Refusal{"it reads a state right after it updates a part of it"};
}

std::string ExprWriter::concat(const ir::Op& op, const At& at) {
  const auto axis = static_cast<size_t>(std::get<ir::AxisAttr>(op.attrs).axis);
  const DType dtype = body_.type(op.result).dtype;
  struct Part {
    ir::ValueId value;
    int64_t begin, extent;
  };
  std::vector<Part> parts;  // those that the index can reach
  int64_t begin = 0;
  for (const ir::ValueId v : op.operands) {
    const int64_t extent = body_.type(v).shape[static_cast<int>(axis)].value();
    const bool reached = pool_.max(at[axis]) >= begin && pool_.min(at[axis]) < begin + extent;
    if (extent > 0 && reached) parts.push_back({v, begin, extent});
    begin += extent;
  }
  ensure(!parts.empty(), "no operand of a concat holds the element");
  if (parts.size() == 1) {
    At inner = at;
    inner[axis] = pool_.add(at[axis], pool_.constant(-parts[0].begin));
    return value(parts[0].value, inner);
  }
  const std::string index = pool_.text(at[axis]);
  const std::string name = fresh(fmt::format("concat_{}", op.result.index));
  line(fmt::format("{} {};", register_type(dtype), name));
  for (size_t p = 0; p < parts.size(); ++p) {
    open_branch();
    // A variable of its own carries the operand's range into further index arithmetic.
    At inner = at;
    if (parts[p].extent > 1) {
      const std::string local = fresh(fmt::format("at_{}", op.result.index));
      line(fmt::format("const {} {} = {};", index_type(parts[p].extent), local,
                       pool_.text(pool_.add(at[axis], pool_.constant(-parts[p].begin)))));
      inner[axis] = pool_.variable(local, parts[p].extent);
    } else {
      inner[axis] = pool_.constant(0);
    }
    const std::string text = value(parts[p].value, inner);
    line(fmt::format("{} = {};", name, text));
    const std::vector<std::string> body = close();
    const std::string test = fmt::format("if ({} < {})", index, parts[p].begin + parts[p].extent);
    if (p == 0) {
      line(test + " {");
    } else {
      line(p + 1 < parts.size() ? "} else " + test + " {" : "} else {");
    }
    lines(body);
  }
  line("}");
  return name;
}

Index ExprWriter::clamped_index(const std::string& text, int64_t extent, const At& at) {
  if (extent <= 1) return pool_.constant(0);
  Scope* const here = scope_;
  while (moves_out(at)) scope_ = scope_->parent;
  const std::string name = fresh("index");
  const std::string_view type = index_type(extent);
  line(fmt::format("const {} {} = braid_clamp_index({}, {}{});", type, name, text, extent,
                   type == "int" ? "" : "LL"));
  const Index variable = pool_.variable(name, extent);
  scope_->variables.push_back(variable);  // what depends on it must not move in front of it
  scope_ = here;
  return variable;
}

std::string ExprWriter::gather(const ir::Op& op, const At& at) {
  const auto axis = static_cast<size_t>(std::get<ir::AxisAttr>(op.attrs).axis);
  const ir::ValueId table = op.operands[0], indices = op.operands[1];
  const auto rank = static_cast<size_t>(body_.type(indices).shape.rank());
  const int64_t extent = body_.type(table).shape[static_cast<int>(axis)].value();
  const auto split = at.begin() + static_cast<std::ptrdiff_t>(axis);
  const At where(split, split + static_cast<std::ptrdiff_t>(rank));
  if (extent == 0) throw Refusal{"it gathers from an axis without elements"};
  At inner(at.begin(), split);
  inner.push_back(clamped_index(value(indices, where), extent, where));
  inner.insert(inner.end(), split + static_cast<std::ptrdiff_t>(rank), at.end());
  return value(table, inner);
}

std::string ExprWriter::scatter(const ir::Op& op, const At& at) {
  const auto& attr = std::get<ir::ScatterAttr>(op.attrs);
  const auto axis = static_cast<std::ptrdiff_t>(attr.axis);
  const ir::ValueId indices = op.operands[1], updates = op.operands[2];
  const std::vector<int64_t> extents = body_.type(indices).shape.extents();
  const int64_t count = body_.type(indices).shape.numel();
  const DType dtype = body_.type(op.result).dtype;
  const std::string base = value(op.operands[0], at);
  if (count == 0) return base;
  const std::string name = fresh(fmt::format("scatter_{}", op.result.index));
  line(fmt::format("{} {} = {};", register_type(dtype), name, base));
  // Branches, not loops: nothing in them moves, and a family's own loop keeps its packs.
  open_branch();
  const std::string local = fresh(fmt::format("row_{}", op.result.index));
  const At row = delinearize(pool_, pool_.variable(local, count), extents);
  const std::string index = value(indices, row);
  open_branch();
  At inner(at.begin(), at.begin() + axis);
  inner.insert(inner.end(), row.begin(), row.end());
  inner.insert(inner.end(), at.begin() + axis + 1, at.end());
  const std::string update = value(updates, inner);
  line(fmt::format("{} = {};", name,
                   attr.fn ? function_text(*attr.fn, dtype, {name, update}) : update));
  const std::vector<std::string> combine = close();
  block(fmt::format("if ({} == {})", index, pool_.text(at[static_cast<size_t>(axis)])), combine);
  const std::vector<std::string> loop = close();
  block(
      fmt::format("for ({} {} = 0; {} < {}; ++{})", index_type(count), local, local, count, local),
      loop);
  return name;
}

}  // namespace braid::kernels
