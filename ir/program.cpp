#include "ir/program.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace braid {

std::optional<Target> target_from_name(std::string_view name) {
  struct Chip {
    std::string_view arch;
    int sms;  // of the usual data-centre part, or the largest of its kind
  };
  static constexpr std::array<Chip, 9> kChips{{{"sm_80", 108},
                                               {"sm_86", 84},
                                               {"sm_87", 16},
                                               {"sm_89", 142},
                                               {"sm_90", 132},
                                               {"sm_100", 148},
                                               {"sm_103", 160},
                                               {"sm_120", 188},
                                               {"sm_121", 48}}};
  for (const Chip& c : kChips) {
    if (c.arch == name) {
      Target t;
      t.arch = std::string(name);
      t.sms = c.sms;
      return t;
    }
  }
  return std::nullopt;
}

namespace {

/// 90 for sm_90.
int number_of(const Target& target) {
  constexpr size_t kPrefix = 3;  // "sm_"
  int number = 0;
  if (target.arch.size() <= kPrefix) return 0;
  std::from_chars(target.arch.data() + kPrefix, target.arch.data() + target.arch.size(), number);
  return number;
}

}  // namespace

bool has_programmatic_edges(const Target& target) { return number_of(target) >= 90; }
int64_t shared_bytes_per_sm(const Target& target) {
  constexpr int64_t kKib = 1024;
  if (target.arch == "sm_80" || target.arch == "sm_87") return 164 * kKib;
  if (target.arch == "sm_90" || target.arch == "sm_100" || target.arch == "sm_103") {
    return 228 * kKib;
  }
  return 100 * kKib;
}

bool has_clusters(const Target& target) { return number_of(target) >= 90; }

std::string_view name_of(Segment s) {
  switch (s) {
    case Segment::param:
      return "param";
    case Segment::constant:
      return "constant";
    case Segment::input:
      return "input";
    case Segment::output:
      return "output";
    case Segment::temp:
      return "temp";
    case Segment::scalar:
      return "scalar";
    case Segment::handle:
      return "handle";
    case Segment::ring:
      return "ring";
    case Segment::mailbox:
      return "mailbox";
  }
  return "?";
}

std::string_view name_of(Code c) {
  constexpr std::array<std::string_view, 4> kNames{"generated", "user", "host", "library"};
  return kNames[static_cast<size_t>(c)];
}

std::string_view name_of(Role r) { return r == Role::in ? "in" : r == Role::out ? "out" : "inout"; }

std::vector<InPlace> in_place_of_parts(const Kernel& k) {
  std::vector<InPlace> pairs;
  const auto slots = static_cast<uint32_t>(k.args.size()) / std::max(k.parts, 1u);
  for (uint32_t part = 0; part < k.parts; ++part) {
    for (const InPlace& i : k.in_place)
      pairs.push_back({part * slots + i.out, part * slots + i.in});
  }
  return pairs;
}

std::string_view name_of(Step::Kind k) {
  constexpr std::array<std::string_view, 6> kNames{"launch", "read",  "wait",
                                                   "call",   "write", "region"};
  return kNames[static_cast<size_t>(k)];
}

std::string_view name_of(Region::Kind k) {
  constexpr std::array<std::string_view, 3> kNames{"node", "predicate", "host"};
  return kNames[static_cast<size_t>(k)];
}

std::string_view name_of(EdgeReason r) {
  switch (r) {
    case EdgeReason::raw:
      return "raw";
    case EdgeReason::war:
      return "war";
    case EdgeReason::waw:
      return "waw";
    case EdgeReason::lane:
      return "lane";
  }
  return "?";
}

}  // namespace braid
