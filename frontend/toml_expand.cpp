// From the checked model to calls of the builder, which checks types. A mistake inside a block is
// reported once, with notes that say where the block is used.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <tuple>

#include "frontend/builder_impl.hpp"
#include "frontend/toml_internal.hpp"

namespace braid::toml_reader {
namespace {

/// What a name stands for inside one graph or one copy of a block.
struct Env {
  std::map<std::string, Tensor, std::less<>> values;
  std::map<std::string, Tensor, std::less<>> params;  // the targets of assign and update
  uint32_t copy = 0;                                  // counts graphs and copies
};

class Expander {
 public:
  Expander(const Model& model, Graph& graph)
      : model_(model), graph_(graph), poison_(graph.wrap({})) {}

  std::vector<Diagnostic> run() {
    Env env;
    for (const Declaration& d : model_.inputs) {
      env.values[d.name.text] =
          d.type ? graph_.input(d.name.text, *d.type, Where(d.name.place)) : poison_;
    }
    for (const ScalarDeclaration& d : model_.scalars) {
      if (env.values.count(d.name.text) > 0) continue;  // reported as defined twice
      env.values[d.name.text] =
          d.dtype ? graph_.scalar(d.name.text, *d.dtype, d.value, Where(d.name.place)) : poison_;
    }
    for (const Declaration& d : model_.params) add_param(env, d, make_param(d), model_.graph);
    nodes(model_.graph, env);
    for (const auto& [name, value] : model_.outputs) {
      graph_.output(name.text, In(find(env, value.text), Where(value.place)));
    }
    return std::move(warnings_);
  }

 private:
  Tensor make_param(const Declaration& d) {
    return d.type ? graph_.param(d.name.text, *d.type, d.options, Where(d.name.place)) : poison_;
  }

  /// The name of a param that the list changes means the value from before, wherever it is used.
  void add_param(Env& env, const Declaration& d, Tensor param, const NodeList& list) {
    const bool changes = list.assigned.count(d.name.text) > 0;
    if (changes) env.params[d.name.text] = param;
    env.values[d.name.text] = changes ? graph_.read(param, Where(d.name.place)) : param;
  }

  Tensor find(const Env& env, std::string_view name) const {
    const auto it = env.values.find(name);
    return it == env.values.end() ? poison_ : it->second;
  }

  void nodes(const NodeList& list, Env& env) {
    for (size_t i : list.order) {
      const Node& n = list.nodes[i];
      for (const Text& t : n.out) env.values.emplace(t.text, poison_);
      if (n.bad) continue;
      const Outside outside = graph_.outside_graphs(n.outside);
      const size_t ops = graph_.ir_graph().ops().size();
      if (n.kind == Node::Kind::block) {
        block_node(n, env);
      } else {
        size_t before = graph_.diagnostics().size();
        try {
          if (is_region(n.kind)) {
            region_node(n, env, before);
          } else {
            simple_node(n, env);
          }
        } catch (const Error& e) {  // an overflow deep in a shape rule, which knows no place
          for (Diagnostic d : e.diagnostics()) {
            if (!d.place.known()) d.place = n.place;
            graph_.diagnostics().push_back(std::move(d));
          }
        }
        drop_repeated(before, env.copy);
      }
      if (n.outside && !is_region(n.kind)) check_mark(n, ops);
    }
  }

  /// Warns once of a mark that none of the node's ops, `first` and later ones, can carry.
  void check_mark(const Node& n, size_t first) {
    const std::vector<ir::Op>& all = graph_.ir_graph().ops();
    const bool carried =
        std::any_of(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(),
                    [](const ir::Op& op) { return op.outside || op.kind == ir::OpKind::host; });
    if (carried || n.kind == Node::Kind::host || !warned_.insert(&n).second) return;
    Diagnostic d;
    d.severity = Severity::warning;
    d.code = "E0509";
    d.place = n.place;
    d.message = fmt::format(
        "'graph = false' has no effect: '{}' needs no kernel of its own, so there is nothing to "
        "keep "
        "out of graphs",
        n.target);
    d.suggestion = "remove it, or mark the op that uses the result";
    warnings_.push_back(std::move(d));
  }

  void set(Env& env, const Node& n, size_t i, Tensor value) {
    if (i < n.out.size()) env.values[n.out[i].text] = value;
  }

  std::vector<In> operands(const std::vector<Operand>& list, const Node& n, const Env& env) const {
    std::vector<In> in;
    for (const Operand& o : list) {
      if (o.name.empty()) {
        in.emplace_back(o.number, Where(n.place));
      } else {
        in.emplace_back(find(env, o.name), Where(n.place));
      }
    }
    return in;
  }

  void simple_node(const Node& n, Env& env) {
    const Where where(n.place);
    const std::vector<In> in = operands(n.in, n, env);
    if (n.kind == Node::Kind::op && n.op->build_all) {
      std::vector<Tensor> results = build_all(n, in);
      results.resize(n.out.size());
      // One op may have made several: it is called as the first of them.
      for (size_t i = results.size(); i-- > 0;) results[i].named(n.out[i].text);
      for (size_t i = 0; i < results.size(); ++i) set(env, n, i, results[i]);
      return;
    }
    if (n.kind == Node::Kind::op) {
      const Tensor result = build(n, in);
      // An op that changes nothing hands back its operand, which keeps its own name.
      if (!is_operand(result, in)) result.named(n.out[0].text);
      set(env, n, 0, result);
      return;
    }
    if (n.kind == Node::Kind::host) {
      const std::vector<Tensor> results =
          graph_.host(n.target, in, n.results, {n.pure, n.way}, where);
      for (size_t i = 0; i < results.size(); ++i) set(env, n, i, results[i]);
      if (!results.empty()) results[0].named(n.out[0].text);
      return;
    }
    if (n.kind == Node::Kind::library) return library(n, in, env);
    if (n.kind == Node::Kind::kernel) return kernel(n, env, where);
    if (is_message(n.kind)) return message(n, in[0]);
    const Tensor param = env.params.at(n.target);
    const size_t ops = graph_.ir_graph().ops().size();
    if (n.kind == Node::Kind::assign) {
      graph_.assign(param, in[0]);
    } else {
      graph_.update(param, in[0], operands(n.at, n, env));
    }
    // After a mistake a read would be that of the value before, and must not take this name.
    const bool changed =
        graph_.ir_graph().ops().size() > ops && is_change(graph_.ir_graph().ops().back());
    if (changed && !n.out.empty()) {
      set(env, n, 0, graph_.read(param, where).named(n.out[0].text));
    }
  }

  void library(const Node& n, const std::vector<In>& in, Env& env) {
    const size_t arguments = in.size() - n.inout;
    const Where where(n.place);
    std::vector<In> changed;
    for (size_t i = arguments; i < in.size(); ++i) {
      const auto param = env.params.find(n.in[i].name);
      changed.push_back(param == env.params.end() ? in[i] : In(param->second, where));
    }
    const std::vector<Tensor> results = graph_.library(
        n.target, {in.begin(), in.begin() + static_cast<std::ptrdiff_t>(arguments)}, n.results,
        {.workspace = n.workspace, .reference = n.reference, .inout = std::move(changed)}, where);
    for (size_t i = 0; i < n.out.size(); ++i) set(env, n, i, results[i]);
    if (!n.results.empty()) results[0].named(n.out[0].text);
  }

  void kernel(const Node& n, Env& env, const Where& where) {
    const KernelDeclaration& k = model_.kernels.at(n.target);
    std::vector<In> in;
    for (const KernelParameter& p : k.parameters) {
      if (!p.is_operand()) continue;
      const std::string& name = n.in[in.size()].name;
      const bool changed = p.role == KernelParameter::Role::inout &&
                           std::any_of(n.changes.begin(), n.changes.end(),
                                       [&](const auto& c) { return c.param == name; });
      in.emplace_back(changed ? env.params.at(name) : find(env, name), where);
    }
    const std::vector<Tensor> results = graph_.kernel(k.spec, std::move(in), where);
    for (size_t i = 0; i < results.size(); ++i) set(env, n, i, results[i]);
    if (!results.empty() && !n.out.empty()) results[0].named(n.out[0].text);
  }

  void message(const Node& n, const In& x) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    // The name as the file has it: that of the op may be another result's.
    const std::string label = n.label.empty() ? graph_.impl().scoped(n.in[0].name) : n.label;
    if (n.kind == Node::Kind::print) {
      graph_.print(x, label);
    } else if (n.kind == Node::Kind::item) {
      graph_.item(x, label);
    } else if (n.target == "finite") {
      graph_.check(x, Check::finite, n.label.empty() ? n.in[0].name : n.label);
    } else {
      graph_.check_range(x, n.low.value_or(-kInf), n.high.value_or(kInf),
                         n.label.empty() ? n.in[0].name : n.label);
    }
  }

  /// `own`: where the mistakes begin that are not those of the bodies.
  void region_node(const Node& n, Env& env, size_t& own) {
    const Where where(n.place);
    std::vector<Tensor> values;
    for (const Operand& o : n.in) values.push_back(find(env, o.name));
    const auto run = [&](const BodyUse& body, std::vector<Tensor> in) {
      const Block& block = model_.blocks.at(body.block.text);
      if (block.in.size() < in.size()) in.resize(block.in.size());
      drop_repeated(own, env.copy);
      const size_t before = graph_.diagnostics().size();
      const std::string name = fmt::format("{}/{}", n.scope, body.scope);
      std::vector<Tensor> results;
      {
        const Scope scope = graph_.scope(name);
        results = copy(block, in, {});
      }
      add_note(before, {body.block.text, body.block.place}, name, 0, 1, {});
      own = graph_.diagnostics().size();
      return results;
    };
    std::vector<Tensor> results;
    if (n.kind == Node::Kind::branch_if || n.kind == Node::Kind::branch_switch) {
      std::vector<std::function<std::vector<Tensor>()>> sides;
      for (const BodyUse& b : n.bodies) sides.emplace_back([&] { return run(b, values); });
      const In decides(find(env, n.at[0].name), where);
      if (n.kind == Node::Kind::branch_switch) {
        results = graph_.switch_(decides, std::move(sides), {n.lowering});
      } else if (sides.size() > 1) {
        results = graph_.if_(decides, sides[0], sides[1], {n.lowering});
      } else {
        results = graph_.if_(decides, sides[0], [] { return std::vector<Tensor>(); }, {n.lowering});
      }
    } else {
      results = loop_node(n, values, run, where);
    }
    for (size_t i = 0; i < results.size(); ++i) set(env, n, i, results[i]);
    if (!results.empty()) results[0].named(n.out[0].text);
  }

  template <class Run>
  std::vector<Tensor> loop_node(const Node& n, const std::vector<Tensor>& values, const Run& run,
                                const Where& where) {
    const size_t carried = n.out.size() - n.stacked;
    std::vector<In> first;
    for (size_t i = 0; i < carried; ++i) first.emplace_back(values[i], where);
    const auto iteration = [&](const BodyUse& body, Tensor i, const std::vector<Tensor>& now) {
      std::vector<Tensor> in = values;
      std::copy(now.begin(), now.end(), in.begin());
      if (model_.blocks.at(body.block.text).in.size() > in.size()) in.insert(in.begin(), i);
      return run(body, in);
    };
    const LoopBody body = [&](Tensor i, const std::vector<Tensor>& now) {
      const std::vector<Tensor> all = iteration(n.bodies[0], i, now);
      const auto rows = all.begin() + static_cast<std::ptrdiff_t>(carried);
      return LoopValues{{all.begin(), rows}, {rows, all.end()}};
    };
    LoopValues results;
    if (n.kind == Node::Kind::loop_while) {
      const LoopCondition condition = [&](Tensor i, const std::vector<Tensor>& now) {
        return iteration(n.bodies[1], i, now).at(0);
      };
      results =
          graph_.while_(std::move(first), condition, body, {n.limit, n.lowering, n.unroll}, where);
    } else {
      results = graph_.loop(*n.limit, std::move(first), body, {n.lowering, n.unroll}, where);
    }
    std::vector<Tensor> all = std::move(results.carried);
    all.insert(all.end(), results.stacked.begin(), results.stacked.end());
    return all;
  }

  static bool is_change(const ir::Op& op) {
    return op.kind == ir::OpKind::assign || op.kind == ir::OpKind::update;
  }

  /// The ops of a composite are named below the node: "block0/n1/rsqrt".
  Tensor build(const Node& n, const std::vector<In>& in) {
    const Scope scope = graph_.scope(n.out[0].text);
    const Calling calling(graph_.impl(), n.op->name);
    return n.op->build({graph_, in, n.attrs, Where(n.place)});
  }

  std::vector<Tensor> build_all(const Node& n, const std::vector<In>& in) {
    const Scope scope = graph_.scope(n.out[0].text);
    const Calling calling(graph_.impl(), n.op->name);
    return n.op->build_all({graph_, in, n.attrs, Where(n.place)});
  }

  bool is_operand(Tensor result, const std::vector<In>& in) {
    const ir::ValueId id = graph_.unwrap(In(result, Where()));
    return std::any_of(in.begin(), in.end(), [&](const In& o) {
      return std::holds_alternative<Tensor>(o.value) && graph_.unwrap(o) == id;
    });
  }

  void block_node(const Node& n, Env& env) {
    const Block& block = model_.blocks.at(n.target);
    if (block.bad) return;
    std::vector<Tensor> values;
    for (const Operand& o : n.in) values.push_back(find(env, o.name));
    std::map<std::string, Tensor, std::less<>> shared;
    if (!n.share.empty()) {
      const Scope scope = graph_.scope(n.scope);
      for (const Declaration& d : block.params) {
        if (n.share.count(d.name.text) > 0) shared[d.name.text] = make_param(d);
      }
    }
    const int64_t copies = std::max<int64_t>(n.repeat, 1);
    const std::vector<Tensor> first = values;
    for (int64_t i = 0; i < copies; ++i) {
      const std::string name = n.repeat > 0 ? n.scope + std::to_string(i) : n.scope;
      const size_t before = graph_.diagnostics().size();
      std::vector<Tensor> taken;
      {
        const Scope scope = graph_.scope(name);
        taken = values;
        const std::vector<Tensor> results = copy(block, values, shared);
        std::copy_n(results.begin(), std::min(results.size(), values.size()), values.begin());
        if (i + 1 == copies) {
          for (size_t r = 0; r < results.size(); ++r) set(env, n, r, results[r]);
        }
      }
      add_note(before, {n.target, n.place}, name, i, copies, changes(block, first, taken));
    }
    if (n.repeat > 0) graph_.repeat(n.scope, n.repeat);
  }

  std::vector<Tensor> copy(const Block& block, const std::vector<Tensor>& in,
                           const std::map<std::string, Tensor, std::less<>>& shared) {
    Env env;
    env.copy = ++copies_;
    for (size_t i = 0; i < block.in.size(); ++i) env.values[block.in[i].text] = in[i];
    const size_t before = graph_.diagnostics().size();
    for (const Declaration& d : block.params) {
      const auto it = shared.find(d.name.text);
      add_param(env, d, it == shared.end() ? make_param(d) : it->second, block.list);
    }
    drop_repeated(before, env.copy);
    nodes(block.list, env);
    std::vector<Tensor> results;
    for (const Text& t : block.out) results.push_back(find(env, t.text));
    return results;
  }

  /// Forgets a mistake that another copy of the block has made already.
  void drop_repeated(size_t begin, uint32_t copy) {
    std::vector<Diagnostic>& all = graph_.diagnostics();
    for (size_t i = begin; i < all.size();) {
      const auto key = std::tuple(all[i].place.line, all[i].place.column, all[i].code);
      if (seen_.emplace(key, copy).first->second == copy) {
        ++i;
      } else {
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

  /// The inputs of a copy that have other types than those of the first copy.
  std::vector<std::string> changes(const Block& block, const std::vector<Tensor>& first,
                                   const std::vector<Tensor>& now) const {
    std::vector<std::string> lines;
    for (size_t i = 0; i < first.size(); ++i) {
      if (graph_.poisoned(first[i]) || graph_.poisoned(now[i])) continue;
      const TensorType a = first[i].type(), b = now[i].type();
      if (a == b) continue;
      lines.push_back(
          fmt::format("'{}' is {} in the first copy and {} here, where it is the output "
                      "'{}' of the copy before",
                      block.in[i].text, to_string(a, &graph_.ir_graph().dims),
                      to_string(b, &graph_.ir_graph().dims), block.out[i].text));
    }
    return lines;
  }

  void add_note(size_t begin, const Text& used, const std::string& name, int64_t i, int64_t copies,
                const std::vector<std::string>& details) {
    std::vector<Diagnostic>& all = graph_.diagnostics();
    for (; begin < all.size(); ++begin) {
      Diagnostic note;
      note.severity = Severity::note;
      note.place = used.place;
      note.message = fmt::format("in block '{}', expanded as '{}'", used.text, name);
      if (i == 0 && copies > 1) {
        note.message += fmt::format(" and {} more here", copies - 1);
      } else if (i > 0) {
        note.message += fmt::format(" (copy {} of {}) here", i + 1, copies);
      } else {
        note.message += " here";
      }
      note.details = details;
      if (!details.empty() && all[begin].suggestion.empty()) {
        all[begin].suggestion = "a repeated block takes what the copy before gives: see the note";
      }
      all[begin].notes.push_back(std::move(note));
    }
  }

  const Model& model_;
  Graph& graph_;
  Tensor poison_;
  std::vector<Diagnostic> warnings_;
  std::set<const Node*> warned_;  // each stands in several copies of a block
  uint32_t copies_ = 0;
  std::map<std::tuple<uint32_t, uint32_t, std::string>, uint32_t> seen_;
};

}  // namespace

std::vector<Diagnostic> expand(const Model& model, Graph& graph) {
  return Expander(model, graph).run();
}

}  // namespace braid::toml_reader
