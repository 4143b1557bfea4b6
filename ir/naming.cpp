#include "ir/naming.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "ir/mailbox.hpp"

namespace braid {

std::string name_of_body(const Program& p, size_t body) {
  return fmt::format("{}{}", p.bodies[body].stream ? 's' : 'g', body);
}

std::string name_of_node(const Program& p, size_t body, size_t node) {
  return fmt::format("{}.n{}", name_of_body(p, body), node);
}

std::string name_of_region(const Program& p, const Region& r) {
  const bool two = p.views[r.flag].type.dtype == DType::b1;
  switch (r.kind) {
    case Region::Kind::node:
      return r.loop ? "WHILE" : two ? "IF" : "SWITCH";
    case Region::Kind::predicate:
      return two ? "predicated if" : "predicated switch";
    case Region::Kind::host:
      break;
  }
  return fmt::format("{} by the host", r.loop ? "while" : two ? "if" : "switch");
}

std::string name_of_side(const Program& p, const Region& r, uint32_t side) {
  if (p.views[r.flag].type.dtype != DType::b1) return fmt::format("{}", side);
  return r.loop || side == 1 ? "true" : "false";
}

const Exchange* exchange_of(const Program& p, const Node& node) {
  if (node.kernel == kNoKernel || !p.kernels[node.kernel].exchanges || node.args.size() < 2) {
    return nullptr;
  }
  const int64_t offset = p.views[node.args[node.args.size() - 2]].offset;
  if (offset < kMailboxPartBytes || offset >= mailbox_slot_offset(p.exchanges.size())) {
    return nullptr;
  }
  return &p.exchanges[mailbox_exchange_at(offset)];
}

std::string_view op_name(std::string_view label) {
  const size_t at = label.rfind(" (");
  return at == label.npos ? label : label.substr(0, at);
}

std::string counted(size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string human_bytes(int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (bytes < 10 * 1024) return fmt::format("{} B", bytes);
  if (bytes < 10 * 1024 * 1024) return fmt::format("{:.1f} KiB", b / 1024);
  return fmt::format("{:.1f} MiB", b / (1024 * 1024));
}

std::string human_count(int64_t n) {
  const auto x = static_cast<double>(n);
  if (n < 10'000) return fmt::format("{} ", n);
  if (n < 10'000'000) return fmt::format("{:.1f} k", x / 1e3);
  if (n < 10'000'000'000) return fmt::format("{:.1f} M", x / 1e6);
  return fmt::format("{:.1f} G", x / 1e9);
}

std::string TextTable::str() const {
  std::vector<size_t> width;
  for (const auto& r : rows_) {
    width.resize(std::max(width.size(), r.size()));
    for (size_t c = 0; c + 1 < r.size(); ++c) width[c] = std::max(width[c], r[c].size());
  }
  std::string out;
  for (const auto& r : rows_) {
    std::string line = " ";
    for (size_t c = 0; c < r.size(); ++c) {
      line += c + 1 < r.size() ? fmt::format(" {:<{}} ", r[c], width[c]) : " " + r[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

Repeats::Repeats(const std::vector<ir::Repeat>& repeats) {
  for (const ir::Repeat& r : repeats) {
    if (r.count > 1) count_of_[r.prefix] = std::max(count_of_[r.prefix], r.count);
  }
}

/// The component of `name` in [begin, end) as a copy: a known prefix, then its number.
std::optional<Repeats::Copy> Repeats::copy_at(std::string_view name, size_t begin,
                                              size_t end) const {
  size_t digits = end;
  while (digits > begin && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  for (size_t at = digits; at < end; ++at) {  // a prefix may end in digits itself
    const auto it = count_of_.find(name.substr(0, at));
    if (it == count_of_.end() || (name[at] == '0' && at + 1 < end)) continue;
    int64_t copy = 0;
    const auto parsed = std::from_chars(name.data() + at, name.data() + end, copy);
    if (parsed.ec == std::errc() && copy < it->second) return Copy{it->first, copy, end};
  }
  return std::nullopt;
}

namespace {

/// The ends of the components of a scoped name.
std::vector<size_t> ends_of(std::string_view name) {
  std::vector<size_t> ends;
  for (size_t at = name.find('/'); at != name.npos; at = name.find('/', at + 1)) ends.push_back(at);
  ends.push_back(name.size());
  return ends;
}

}  // namespace

std::optional<Repeats::Copy> Repeats::outermost(std::string_view name) const {
  if (count_of_.empty()) return std::nullopt;
  const std::string_view scoped = op_name(name);
  size_t begin = 0;
  for (size_t end : ends_of(scoped)) {
    if (auto copy = copy_at(scoped, begin, end)) return copy;
    begin = end + 1;
  }
  return std::nullopt;
}

std::string Repeats::folded(std::string_view name) const {
  if (count_of_.empty()) return std::string(name);
  const std::string_view scoped = op_name(name);
  std::string out;
  size_t begin = 0;
  for (size_t end : ends_of(scoped)) {
    if (begin > 0) out += '/';
    const auto copy = copy_at(scoped, begin, end);
    out += copy ? copy->prefix.substr(begin) + "*" : std::string(scoped.substr(begin, end - begin));
    begin = end + 1;
  }
  return out + std::string(name.substr(scoped.size()));
}

std::string Repeats::relative(std::string_view name, int64_t first) const {
  std::string out = folded(name);
  const auto copy = outermost(name);
  if (copy && copy->copy != first) {
    out.insert(copy->prefix.size() + 1, fmt::format("{:+}", copy->copy - first));
  }
  return out;
}

std::vector<std::string> Repeats::scopes(const std::vector<std::string_view>& labels) const {
  struct Item {
    std::string text;  // of what is no repeat; else its prefix
    std::set<int64_t> copies;
  };
  std::vector<Item> items;
  std::map<std::string, size_t, std::less<>> place;
  for (std::string_view label : labels) {
    const auto copy = outermost(label);
    const std::string_view name = op_name(label);
    std::string key = copy ? copy->prefix : std::string(name.substr(0, name.find('/')));
    const auto [it, added] = place.try_emplace((copy ? "*" : "") + key, items.size());
    if (added) items.push_back({std::move(key), {}});
    if (copy) items[it->second].copies.insert(copy->copy);
  }
  std::vector<std::string> out;
  for (const Item& item : items) {
    if (item.copies.empty()) {
      out.push_back(item.text);
      continue;
    }
    const int64_t low = *item.copies.begin(), high = *item.copies.rbegin();
    const auto n = static_cast<int64_t>(item.copies.size());
    if (n == 1) {
      out.push_back(fmt::format("{}{}", item.text, low));
    } else {
      out.push_back(fmt::format("{0}{1} .. {0}{2} ({3}{4})", item.text, low, high, n,
                                n == high - low + 1 ? "x" : " of them"));
    }
  }
  return out;
}

}  // namespace braid
