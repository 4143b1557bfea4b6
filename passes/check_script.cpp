// The checker's third part: the script against the runs.
#include <algorithm>
#include <array>
#include <map>

#include "passes/check_parts.hpp"

namespace braid::checking {
namespace {

constexpr size_t kKinds = 5;  // of steps
constexpr int64_t kAbsent = -1;

class Script {
 public:
  Script(const Program& p, Findings& out) : p_(p), out_(out) {}

  void run() {
    places();
    for (size_t b = 0; b < launches_.size(); ++b) {
      if (launches_[b] == kAbsent) out_.add("the script never launches body {}", b);
    }
    for (uint32_t c = 0; c < p_.calls.size(); ++c) complete(c);
    follow_runs();
    colours();
  }

 private:
  using Places = std::array<int64_t, kKinds>;
  static size_t at(Step::Kind k) { return static_cast<size_t>(k); }

  /// Where each body and each call's steps stand.
  void places() {
    launches_.assign(p_.bodies.size(), kAbsent);
    steps_.assign(p_.calls.size(), Places{kAbsent, kAbsent, kAbsent, kAbsent, kAbsent});
    for (size_t i = 0; i < p_.script.size(); ++i) {
      const Step& s = p_.script[i];
      const bool launch = s.kind == Step::Kind::launch;
      if (at(s.kind) >= kKinds || s.index >= (launch ? p_.bodies.size() : p_.calls.size())) {
        out_.add("the script {} {} {}, which does not exist", launch ? "launches" : "goes to",
                 launch ? "body" : "call", s.index);
        continue;
      }
      int64_t& place = launch ? launches_[s.index] : steps_[s.index][at(s.kind)];
      if (place != kAbsent) {
        out_.add("steps {} and {} of the script are both the {} of {} {}", place, i,
                 name_of(s.kind), launch ? "body" : "call", s.index);
      }
      place = static_cast<int64_t>(i);
    }
  }

  void complete(uint32_t c) {
    const Call& call = p_.calls[c];
    const Places& steps = steps_[c];
    const auto there = [&](Step::Kind k) { return steps[at(k)] != kAbsent; };
    const auto need = [&](Step::Kind k, bool must) {
      if (must && !there(k)) out_.add("the script has no {} of {}", name_of(k), call_name(p_, c));
    };
    need(Step::Kind::read, !call.args.empty() || there(Step::Kind::wait));
    need(Step::Kind::wait, there(Step::Kind::read));
    need(Step::Kind::call, true);
    need(Step::Kind::write, !call.results.empty());
    const Step::Kind kinds[] = {Step::Kind::read, Step::Kind::wait, Step::Kind::call,
                                Step::Kind::write};
    int64_t before = kAbsent;
    for (Step::Kind k : kinds) {
      if (!there(k)) continue;
      if (steps[at(k)] < before) {
        out_.add("the script has the {} of {} too early: read, wait, call, write is the order",
                 name_of(k), call_name(p_, c));
      }
      before = steps[at(k)];
    }
  }

  void follow_runs() {
    uint32_t now = 0;
    for (const Step& s : p_.script) {
      if (s.kind == Step::Kind::read || s.kind == Step::Kind::wait) continue;
      const bool launch = s.kind == Step::Kind::launch;
      if (at(s.kind) >= kKinds || s.index >= (launch ? p_.bodies.size() : p_.calls.size()))
        continue;
      const uint32_t run = launch ? p_.bodies[s.index].run : p_.calls[s.index].level;
      if (run < now) out_.add("the script goes from run {} back to run {}", now, run);
      now = std::max(now, run);
    }
  }

  /// Runs of graphs and of host work in turn.
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
      if (!known(body.run, fmt::format("body {}", b)) || body.nodes.empty()) continue;
      if (body.stream) found[body.run].host = true;
      if (!body.stream) ++found[body.run].graphs;
    }
    for (uint32_t c = 0; c < p_.calls.size(); ++c) {
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
  }

  const Program& p_;
  Findings& out_;
  std::vector<int64_t> launches_;  // by body
  std::vector<Places> steps_;      // by call
};

}  // namespace

void check_script(const Program& p, Findings& out) { Script(p, out).run(); }

}  // namespace braid::checking
