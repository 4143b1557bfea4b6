#include "frontend/report/explain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>

#include "frontend/report/explain_node.hpp"
#include "ir/naming.hpp"

namespace braid::report {
namespace {

constexpr size_t kRows = 24;

class Finder {
 public:
  Finder(const Program& p, const WhyApart& why) : p_(p), index_(p), why_(why) {}

  std::string answer(const std::string& what) const {
    const std::string part = explain_part(p_, index_, what, why_);
    if (part.empty()) return other(what);
    const auto named = [&](Ref r) {
      const std::vector<std::string> ops = index_.ops(r);
      return std::any_of(ops.begin(), ops.end(),
                         [&](const std::string& op) { return op_name(op) == what; });
    };
    if (std::none_of(index_.order().begin(), index_.order().end(), named)) return part;
    return fmt::format("'{}' is a part of the plan, and an op; the part:\n{}the op:\n{}", what,
                       part, by_name(what));
  }

 private:
  std::string other(const std::string& what) const {
    if (const auto r = by_number(what)) return explain_node(p_, index_, *r, why_);
    if (const std::string region = explain_region(p_, index_, what); !region.empty()) return region;
    return by_name(what);
  }

  std::string by_name(const std::string& what) const {
    std::vector<Ref> exact, inside, kernel;
    for (Ref r : index_.order()) {
      bool is = false, in = false;
      for (const std::string& op : index_.ops(r)) {
        const std::string_view name = op_name(op);
        is = is || name == what || op == what;
        in = in || (name.size() > what.size() && name[what.size()] == '/' &&
                    name.substr(0, what.size()) == what);
      }
      if (is) exact.push_back(r);
      if (is || in) inside.push_back(r);
      if (!r.call && index_.symbol(r) == what) kernel.push_back(r);
    }
    // An op that a node ends with is what the node is known by.
    const auto known_by =
        std::find_if(exact.begin(), exact.end(), [&](Ref r) { return index_.title(r) == what; });
    if (exact.size() == 1 && inside.size() == 1) {
      return explain_node(p_, index_, exact[0], why_);
    }
    if (known_by != exact.end() && exact.size() == 1) {
      return explain_node(p_, index_, *known_by, why_);
    }
    const std::string regions = regions_named(what);
    if (!inside.empty()) return list(what, "ops", inside) + regions;
    if (!regions.empty()) return regions;
    if (!kernel.empty()) return of_kernel(kernel);
    std::string buffers;
    for (uint32_t b = 0; b < p_.buffers.size(); ++b) {
      if (p_.buffers[b].name == what || op_name(p_.buffers[b].name) == what) {
        buffers += (buffers.empty() ? "" : "\n") + explain_buffer(p_, index_, b);
      }
    }
    if (!buffers.empty()) return buffers;
    refuse(what);
  }

  /// The regions of an op that no node stands for, or that several do.
  std::string regions_named(const std::string& what) const {
    std::string out;
    for (size_t i = 0; i < p_.regions.size(); ++i) {
      if (op_name(p_.regions[i].op) != what && p_.regions[i].op != what) continue;
      out += explain_region(p_, index_, fmt::format("r{}", i));
    }
    return out;
  }

  const Node& node(Ref r) const { return p_.bodies[r.body].nodes[r.node]; }

  /// "n3", "g0.n3", "c0".
  std::optional<Ref> by_number(const std::string& what) const {
    for (Ref r : index_.order()) {
      if (index_.name(r) == what) return r;
    }
    const bool bare = what.size() > 1 && what[0] == 'n' &&
                      what.find_first_not_of("0123456789", 1) == std::string::npos;
    if (!bare) return std::nullopt;
    std::vector<Ref> found;
    std::vector<std::string> names;
    for (Ref r : index_.order()) {
      if (r.call || fmt::format("n{}", r.node) != what) continue;
      found.push_back(r);
      names.push_back(fmt::format("'{}'", index_.name(r)));
    }
    if (found.size() > 1) {
      throw std::invalid_argument(
          fmt::format("there are {} nodes '{}': {}", found.size(), what, fmt::join(names, ", ")));
    }
    if (found.empty()) return std::nullopt;
    return found[0];
  }

  std::string table(const std::vector<Ref>& refs) const {
    TextTable t;
    for (size_t i = 0; i < refs.size() && i < kRows; ++i) {
      const Ref r = refs[i];
      const std::vector<std::string> ops = index_.ops(r);
      t.row({index_.name(r), r.call ? "host" : fmt::format("stream {}", node(r).lane),
             index_.symbol(r), r.call ? "" : fmt::format("{:.2f} us", node(r).estimate_us),
             index_.place(r), fmt::format("{}", fmt::join(ops, ", "))});
    }
    std::string out = t.str();
    if (refs.size() > kRows) out += fmt::format("  and {} more\n", refs.size() - kRows);
    return out;
  }

  std::string list(const std::string& what, std::string_view of,
                   const std::vector<Ref>& refs) const {
    const auto calls = std::count_if(refs.begin(), refs.end(), [](Ref r) { return r.call; });
    const size_t kernels = refs.size() - static_cast<size_t>(calls);
    std::string in = kernels > 0 ? counted(kernels, "kernel") : "";
    if (calls > 0) {
      in += (kernels > 0 ? " and " : "") + counted(static_cast<size_t>(calls), "host call");
    }
    return fmt::format("'{}': {} in {}\n{}ask for one of them, as in 'braid explain {} MODEL'\n",
                       what, of, in, table(refs), index_.name(refs[0]));
  }

  std::string of_kernel(const std::vector<Ref>& refs) const {
    const Kernel& k = p_.kernels[node(refs[0]).kernel];
    std::string out =
        fmt::format("{}: a {} kernel, {}\n", k.symbol, k.family, counted(refs.size(), "node"));
    out += kernel_text(p_, node(refs[0]));
    return out + table(refs);
  }

  /// The op that ends the last copy of the last repeated block.
  std::string last_of_copies() const {
    const Repeats repeats(p_.repeats);
    const std::vector<Ref>& order = index_.order();
    for (auto r = order.rbegin(); r != order.rend(); ++r) {
      if (repeats.outermost(index_.title(*r))) return index_.title(*r);
    }
    return {};
  }

  [[noreturn]] void refuse(const std::string& what) const {
    std::set<std::string> known;
    for (Ref r : index_.order()) {
      known.insert(index_.name(r));
      for (const std::string& op : index_.ops(r)) known.emplace(op_name(op));
    }
    for (const Kernel& k : p_.kernels) known.insert(k.symbol);
    for (const Buffer& b : p_.buffers) known.emplace(op_name(b.name));
    for (size_t b = 0; b < p_.bodies.size(); ++b) known.insert(name_of_body(p_, b));
    for (size_t i = 0; i < p_.regions.size(); ++i) {
      known.insert(fmt::format("r{}", i));
      known.emplace(op_name(p_.regions[i].op));
    }
    std::string hint = suggest(what, {known.begin(), known.end()});
    if (const std::string last = last_of_copies(); !last.empty()) {
      hint += fmt::format("{}what a block gives goes by the op that makes it, as '{}' does",
                          hint.empty() ? "" : " ", last);
    }
    throw std::invalid_argument(fmt::format(
        "the plan has no part, node, region, op, kernel or buffer '{}'; {}", what,
        hint.empty() ? "'braid inspect --show all' lists them, and views and constants have none: "
                       "they are computed where they are read"
                     : hint));
  }

  const Program& p_;
  const PlanIndex index_;
  const WhyApart& why_;
};

}  // namespace

std::string explain(const Program& p, std::string_view what, const WhyApart& why) {
  return Finder(p, why).answer(std::string(what));
}

}  // namespace braid::report
