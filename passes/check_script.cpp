// The checker's part on the script, and those of regions that the host drives, against the runs.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "passes/check_parts.hpp"

namespace braid::checking {
namespace {

constexpr size_t kKinds = 6;  // of steps

class Scripts {
 public:
  Scripts(const Program& p, Findings& out) : p_(p), out_(out) {}

  void run() {
    launches_.resize(p_.bodies.size());
    regions_.resize(p_.regions.size());
    calls_.resize(p_.calls.size());
    script(p_.script, kNone, 0, "the script");
    for (uint32_t r = 0; r < p_.regions.size(); ++r) {
      for (uint32_t s = 0; s < p_.regions[r].scripts.size(); ++s) {
        script(p_.regions[r].scripts[s], r, s,
               fmt::format("the script of side {} of {}", s, region_name(p_, r)));
      }
    }
    for (size_t b = 0; b < p_.bodies.size(); ++b) {
      const uint32_t r = p_.bodies[b].region;
      const bool by_node = r != kNone && p_.regions[r].kind == Region::Kind::node;
      if (!by_node && !launches_[b]) out_.add("the script never launches body {}", b);
    }
    for (uint32_t r = 0; r < p_.regions.size(); ++r) {
      if (p_.regions[r].kind == Region::Kind::host && !regions_[r]) {
        out_.add("no script goes to {}", region_name(p_, r));
      }
    }
    for (uint32_t c = 0; c < p_.calls.size(); ++c) complete(c);
    colours();
  }

 private:
  /// A place in one of the scripts.
  struct Place {
    size_t script = 0, step = 0;
  };
  using Places = std::array<std::optional<Place>, kKinds>;
  static size_t at(Step::Kind k) { return static_cast<size_t>(k); }
  size_t many(Step::Kind k) const {
    if (at(k) >= kKinds) return 0;
    return k == Step::Kind::launch   ? p_.bodies.size()
           : k == Step::Kind::region ? p_.regions.size()
                                     : p_.calls.size();
  }
  static const char* what(Step::Kind k) {
    return k == Step::Kind::launch ? "body" : k == Step::Kind::region ? "region" : "call";
  }

  /// Where each body, each region and each call's steps stand; runs follow one another.
  void script(const std::vector<Step>& steps, uint32_t region, uint32_t side,
              const std::string& name) {
    uint32_t now = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& s = steps[i];
      if (s.index >= many(s.kind)) {
        out_.add("{} {} {} {}, which does not exist", name,
                 s.kind == Step::Kind::launch ? "launches" : "goes to", what(s.kind), s.index);
        continue;
      }
      std::optional<Place>& place = s.kind == Step::Kind::launch   ? launches_[s.index]
                                    : s.kind == Step::Kind::region ? regions_[s.index]
                                                                   : calls_[s.index][at(s.kind)];
      if (place && place->script == scripts_) {
        out_.add("steps {} and {} of {} are both the {} of {} {}", place->step, i, name,
                 name_of(s.kind), what(s.kind), s.index);
      } else if (place) {
        out_.add("{} has the {} of {} {}, and so has another script", name, name_of(s.kind),
                 what(s.kind), s.index);
      }
      place = {scripts_, i};
      if (s.kind == Step::Kind::region) {
        const Region& r = p_.regions[s.index];
        if (r.kind != Region::Kind::host) {
          out_.add("{} goes to {}, which the host does not drive", name, region_name(p_, s.index));
        } else if (r.region != region || r.branch != side) {
          out_.add("{} goes to {}, which belongs elsewhere", name, region_name(p_, s.index));
        }
        continue;
      }
      if (s.kind == Step::Kind::launch &&
          (p_.bodies[s.index].region != region || p_.bodies[s.index].branch != side)) {
        out_.add("{} launches body {}, which belongs elsewhere", name, s.index);
      }
      if (s.kind == Step::Kind::read || s.kind == Step::Kind::wait) continue;
      const uint32_t run =
          s.kind == Step::Kind::launch ? p_.bodies[s.index].run : p_.calls[s.index].level;
      if (run < now) out_.add("{} goes from run {} back to run {}", name, now, run);
      now = std::max(now, run);
    }
    ++scripts_;
  }

  void complete(uint32_t c) {
    const Call& call = p_.calls[c];
    const Places& steps = calls_[c];
    const auto there = [&](Step::Kind k) { return steps[at(k)].has_value(); };
    const auto need = [&](Step::Kind k, bool must) {
      if (must && !there(k)) out_.add("the script has no {} of {}", name_of(k), call_name(p_, c));
    };
    need(Step::Kind::read, !call.args.empty() || there(Step::Kind::wait));
    need(Step::Kind::wait, there(Step::Kind::read));
    need(Step::Kind::call, true);
    need(Step::Kind::write, !call.results.empty());
    const Step::Kind kinds[] = {Step::Kind::read, Step::Kind::wait, Step::Kind::call,
                                Step::Kind::write};
    std::optional<Place> before;
    for (Step::Kind k : kinds) {
      if (!there(k)) continue;
      const Place& place = *steps[at(k)];
      if (before && before->script != place.script) {
        out_.add("the {} of {} stands in another script than what comes before it", name_of(k),
                 call_name(p_, c));
      } else if (before && place.step < before->step) {
        out_.add("the script has the {} of {} too early: read, wait, call, write is the order",
                 name_of(k), call_name(p_, c));
      }
      before = place;
    }
  }

  /// In the outermost script runs of graphs and of host work take turns; a region that the host
  /// drives is host work.
  void colours() {
    const uint32_t runs = std::max(p_.runs, 1u);
    struct Run {
      uint32_t graphs = 0;
      bool host = false;
    };
    std::map<uint32_t, Run> found;
    const auto known = [&](uint32_t run, const std::string& what) {
      if (run >= runs) out_.add("{} is in run {} of {}", what, run, runs);
      return run < runs;
    };
    for (size_t b = 0; b < p_.bodies.size(); ++b) {
      const Body& body = p_.bodies[b];
      if (body.region != kNone || !known(body.run, fmt::format("body {}", b))) continue;
      if (body.nodes.empty()) continue;
      if (body.stream) found[body.run].host = true;
      if (!body.stream) ++found[body.run].graphs;
    }
    for (uint32_t c = 0; c < p_.calls.size(); ++c) {
      const std::optional<Place>& place = calls_[c][at(Step::Kind::call)];
      if (place && place->script != 0) continue;
      if (known(p_.calls[c].level, call_name(p_, c))) found[p_.calls[c].level].host = true;
    }
    for (const auto& [run, is] : found) {
      if (is.graphs > 1) out_.add("run {} has {} graphs", run, is.graphs);
      if (is.graphs > 0 && is.host) out_.add("run {} has a graph and host work", run);
    }
    if (found.empty()) return;
    // Runs alternate, so one of them tells the colour of all.
    const auto first_graph = [](uint32_t run, const Run& is) { return (run + is.host) % 2; };
    const uint32_t parity = first_graph(found.begin()->first, found.begin()->second);
    for (const auto& [run, is] : found) {
      if (first_graph(run, is) != parity) {
        out_.add("runs {} and {} do not alternate between graphs and host work",
                 found.begin()->first, run);
      }
    }
    const uint32_t graphs = parity == 0 ? runs - runs / 2 : runs / 2;
    if (p_.graphs != graphs) {
      out_.add("the plan is said to have {} graphs, but {} of its {} runs are graphs", p_.graphs,
               graphs, runs);
    }
    regions_between_graphs(runs, parity);
  }

  /// A region that the host drives stands in a run of host work.
  void regions_between_graphs(uint32_t runs, uint32_t parity) {
    uint32_t last = 0, region = kNone;  // since a step whose run is `last`
    const auto next = [&](uint32_t run) {
      if (region != kNone && run == last && run % 2 == parity) {
        out_.add("the script goes to {} amid run {}, which is a graph", region_name(p_, region),
                 run);
      }
      last = run;
      region = kNone;
    };
    for (const Step& s : p_.script) {
      if (s.index >= many(s.kind)) continue;
      if (s.kind == Step::Kind::region) region = s.index;
      if (s.kind == Step::Kind::launch) next(p_.bodies[s.index].run);
      if (s.kind == Step::Kind::call) next(p_.calls[s.index].level);
    }
    next(runs - 1);
  }

  const Program& p_;
  Findings& out_;
  size_t scripts_ = 0;  // seen so far: the number of the one at hand
  std::vector<std::optional<Place>> launches_, regions_;
  std::vector<Places> calls_;
};

}  // namespace

void check_script(const Program& p, Findings& out) { Scripts(p, out).run(); }

}  // namespace braid::checking
